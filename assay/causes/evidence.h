#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/causes/tensor_store.h"
#include "assay/mistakes/matrix.h"

namespace assay::causes {

// Sums of the squares of a and of a - b, which are of one length.
double square_sum(const std::vector<double>& a);
double square_sum(const std::vector<double>& a, const std::vector<double>& b);

// A log-probability of a token.
struct Stated {
  int64_t id = 0;
  double value = 0;
};

// How well a prediction of the judged log's tensor fits.
struct Fit {
  double residual = 0;    // sum of (got - predicted)²
  double difference = 0;  // sum of (got - ref)²
  double norm = 0;        // sum of got²
  double scale = 0;       // sum of ref²
  int64_t features = 0;   // numbers that were compared
  int tokens = 0;         // where the two logs differ
  int held = 0;           // of these, where the prediction fits by itself
  int unpredicted = 0;    // of these, where there was no prediction
  double first_left = 0;  // of the difference where the record fails first, what is left
  int64_t nearer = 0;     // values (of the sketch where no others are) nearer to it than to ref
  int64_t farther = 0;    // and farther from it
  double ratio() const;   // residual / min(difference, norm)
  double explained() const { return 1 - residual / difference; }
};

// The judged log's tensor at one checkpoint and some positions, seen through what both logs hold of
// it: all values, else the sketch, else the head. Each is linear in the tensor, so that scales,
// signs and constants can be fitted in any of them. Logits of which one log holds
// log-probabilities, of all tokens or the most probable ones, are seen through those.
class Evidence {
 public:
  enum class Form : uint8_t { kAll, kSketch, kHead, kLogProbabilities };
  struct Token {
    int64_t token_idx = 0;
    Form form = Form::kAll;
    bool differs = false;
    bool fails_first = false;  // the first position at which the record fails
    // Values at the tensor's beginning that both logs hold, or that the ids below are among.
    size_t head = 0;
    // Of log-probabilities: whose they are, what the reference states, and what of the judged log
    // the reference does not tell.
    std::vector<int64_t> ids;
    std::vector<Stated> stated;
    std::vector<Stated> untold;
    // The tensor seen so; after a sketch the head, too light for sums, which alone votes.
    std::vector<double> ref;
    std::vector<double> got;
    std::vector<size_t> holes;  // elements that are not finite in one of the logs; 0 in both
  };

  // Positions that are not in both logs are left out.
  Evidence(TensorStore& store, const std::string& checkpoint,
           const std::vector<int64_t>& positions);

  const std::vector<Token>& tokens() const { return tokens_; }
  bool has_all_values() const;
  // Whether it is not linear in the tensor.
  bool is_of_log_probabilities() const;

  // Where the reference lists other tokens than the judged log does: `right`, rows for `positions`,
  // tells these, if it agrees with what the reference does list.
  void complete(const Matrix& right, const std::vector<int64_t>& positions);

  // `predicted` has a row for each of `positions`; a row whose first element is NaN predicts
  // nothing.
  Fit fit(const Matrix& predicted, const std::vector<int64_t>& positions) const;
  // The same of predictions in features, one vector for each of tokens(), empty where there is
  // none.
  Fit fit(const std::vector<std::vector<double>>& predicted) const;
  std::vector<std::vector<double>> features(const Matrix& values,
                                            const std::vector<int64_t>& positions) const;

 private:
  void mark_differing();
  void mark_first_failure(const Comparison& comparison, const std::string& checkpoint);

  std::vector<Token> tokens_;
};

}  // namespace assay::causes
