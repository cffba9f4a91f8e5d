#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/causes/chain.h"
#include "assay/causes/evidence.h"
#include "assay/causes/judgement.h"
#include "assay/causes/mistakes.h"
#include "assay/causes/search_places.h"
#include "assay/causes/trial.h"
#include "assay/mistakes/network.h"

namespace assay::causes {

inline constexpr std::string_view kTokenShift = "token_shift";

// Where a walk over several layers computes every position up to the last one that is tried.
inline constexpr int64_t kReach = 32;

// Tries known mistakes on one checkpoint.
class Search {
 public:
  using Progress = std::function<void(int64_t done, int64_t total)>;  // of mistakes to try

  // Of all tries together: about a minute of one core, and enough for what lies between two layers
  // of a model of a billion weights and a short prompt.
  static constexpr double kMaxMultiplications = 2e12;

  struct Where {
    int64_t first_token = 0;  // of the divergence
    std::optional<Tail> tail = std::nullopt;
    // Whether the judged log has checkpoints between, which the reference does not have.
    bool judged_has_more = false;
  };

  // `network` and `store` must outlive it. With a tail, only that is explained, by mistakes that
  // are made in it and not before.
  Search(const Network& network, TensorStore& store, Op target, Where where, Progress progress,
         double max_multiplications = kMaxMultiplications);

  void run();

  // Whether the checkpoint is what it should be by its logged inputs: then the error is theirs.
  bool is_inherited() const;

  // Whether it is known not to be: the error, or a part of it, is made after these.
  bool is_own() const { return can_recompute() && !is_inherited(); }

  double multiplications() const { return multiplications_; }  // that it took, about

  // The names of the mistakes that were not tried, or not in every place, as the work is bounded.
  const std::vector<std::string>& not_tried() const { return not_tried_; }

  // The cause, if there is one; if not, what more would let mistakes be tried that could not be.
  Judgement judgement() const;

 private:
  // What would be logged under a mistake, at predicted_at_.
  using Predict = Trial::Predict;
  using Kinds = std::vector<Checkpoint>;
  struct Try {
    BoundMistake mistake;
    Op op;
    std::set<int> layers = {};    // only in these; empty: in each that the chain has the op of
    std::string_view which = {};  // what several of them are, in words: "with a window"
  };

  struct Outcome {
    std::vector<Candidate> candidates;
    double work = 0;  // multiplications
    bool is_over_limit = false;
  };

  // The same computation at few positions: what does not explain these is not tried at all of them.
  struct Screen {
    Evidence evidence;
    Chain chain;
  };

  bool can_recompute() const;
  void make_screen();
  void make_neighbours();
  void make_whole(const std::vector<Try>& tries);
  void leave_out(std::span<const Try> tries);
  const Chain& chain_for(const BoundMistake& mistake) const;
  bool is_screened(const Try& one) const;
  void make_early();
  std::optional<BoundMistake> unrefuted(const Try& one, const Kinds& kinds, double most,
                                        Outcome& outcome) const;
  bool may_have_bias() const;
  bool is_settled() const;
  // Both count their work in `outcome`, and end with WorkLimitReached beyond `most`.
  Predict predictor(const Try& one, const Kinds& kinds, const Chain& chain, double most,
                    Outcome& outcome) const;
  void try_in_chain(const Try& one, const Kinds& kinds, double most, Outcome& outcome) const;
  bool is_tried_alone(const Try& one) const;
  Outcome outcome_of(const Try& one, double most) const;
  void measure_noise();
  void try_recomputed();
  std::vector<Outcome> try_at_once(std::span<const Try> group,
                                   const std::function<void()>& count) const;
  bool take(Outcome& outcome);
  std::vector<Try> to_try() const;
  void add_tries_in_all(bool generic, std::vector<Try>& tries) const;
  void add_tries_in_alike(std::vector<Try>& tries) const;
  void add_tries_in_one(bool generic, std::vector<Try>& tries) const;
  void try_on_reference();
  void try_before_bias(const BoundMistake& mistake, const Matrix& right);
  void try_sibling();
  void try_fitted();
  std::optional<Candidate> candidate(const BoundMistake& mistake, const Trial& trial, int rank,
                                     const std::string& where, const Predict& screened = {}) const;
  Kinds in_chain(const Kinds& kinds, const BoundMistake& mistake) const;
  std::set<Op> places(const Kinds& kinds, const std::set<int>& layers = {}) const;
  bool is_repeated(Checkpoint kind) const { return places({kind}).size() > 1; }
  std::string place_of(const Kinds& kinds, const Try& one) const;
  void tell_as_layer(const Kinds& kinds, const Try& one, Candidate& found) const;
  std::string hint() const;
  std::string nearly_one() const;
  std::string more_checkpoints() const;
  std::string missing_input_hint() const;

  const Network& network_;
  TensorStore& store_;
  Progress progress_;
  double max_multiplications_;
  bool judged_has_more_;
  Evidence evidence_;
  Chain chain_;
  size_t runs_at_once_;
  std::unique_ptr<Screen> screen_;
  // The first of many positions, where they are right: what changes them by more than may be left
  // (of squares) is refuted there.
  std::unique_ptr<Screen> early_;
  double most_left_ = 0;
  // The chain with the positions beside those of the evidence, whose results may be moved there.
  std::unique_ptr<Chain> neighbours_;
  std::unique_ptr<Chain> whole_;  // the same at all positions up to the last
  JudgingContext context_;
  std::vector<int64_t> predicted_at_;       // the positions of what is predicted
  std::vector<std::vector<double>> right_;  // what the checkpoint should be, in features
  std::vector<Candidate> candidates_;
  double multiplications_ = 0;
  std::string stopped_;  // "3 of 20" where not all were tried
  std::vector<std::string> not_tried_;
};

// What a search found, and its work.
struct Tried {
  Judgement judgement;
  bool is_inherited = false;
  double multiplications = 0;
  std::vector<std::string> not_tried = {};  // names
};

// Over all tokens, and, where nothing fits these and the checkpoint is right up to a token, over
// the tail that is wrong.
Tried try_mistakes(const Network& network, TensorStore& store, Op target, int64_t first_token,
                   const Search::Progress& progress,
                   double max_multiplications = Search::kMaxMultiplications);

}  // namespace assay::causes
