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
  int64_t nearer = 0;     // values (of the sketch where no others are) nearer to it than to ref
  int64_t farther = 0;    // and farther from it
  double ratio() const;   // residual / min(difference, norm)
  double explained() const { return 1 - residual / difference; }
};

// The judged log's tensor at one checkpoint and some positions, seen through what both logs hold of
// it: all values, else the sketch, else the head. Each is linear in the tensor, so that scales,
// signs and constants can be fitted in any of them.
class Evidence {
 public:
  enum class Form : uint8_t { kAll, kSketch, kHead };
  struct Token {
    int64_t token_idx = 0;
    Form form = Form::kAll;
    bool differs = false;
    size_t head = 0;  // values at the tensor's beginning that both logs hold
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

  // `predicted` has a row for each of `positions`; a row whose first element is NaN predicts
  // nothing.
  Fit fit(const Matrix& predicted, const std::vector<int64_t>& positions) const;
  // The same of predictions in features, one vector for each of tokens(), empty where there is
  // none.
  Fit fit(const std::vector<std::vector<double>>& predicted) const;
  std::vector<std::vector<double>> features(const Matrix& values,
                                            const std::vector<int64_t>& positions) const;

 private:
  std::vector<Token> tokens_;
};

}  // namespace assay::causes
