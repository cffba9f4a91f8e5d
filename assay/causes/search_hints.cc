#include <fmt/format.h>

#include <algorithm>

#include "assay/causes/fitted_mistakes.h"
#include "assay/causes/search.h"
#include "assay/mistakes/number_text.h"

// What a search that found no cause says instead.
namespace assay::causes {

std::string Search::hint() const {
  const std::string name = context_.target.name();
  if (evidence_.tokens().empty()) {
    return fmt::format("the logs have no values of {} in common; log them with --values all", name);
  }
  if (!chain_.size_mismatch().empty()) {
    return fmt::format("no scale, sign or shift of {} explains the difference; {}", name,
                       chain_.size_mismatch());
  }
  if (!chain_.complete()) return missing_input_hint() + nearly_one();
  if (!stopped_.empty()) {
    return fmt::format(
        "none of the mistakes tried explains {}; {} were tried, because what lies between the "
        "logged checkpoints is large: {}",
        name, stopped_, more_checkpoints());
  }
  if (chain_.ops().size() > 1) {
    return fmt::format(
        "no known mistake in what lies between the checkpoints that both logs have explains {}: {}",
        name, more_checkpoints() + nearly_one());
  }
  return fmt::format("no known mistake explains {}, whose logged inputs are right{}", name,
                     nearly_one());
}

// That the checkpoint is what it should be times a factor which is no mistake's, where it is.
std::string Search::nearly_one() const {
  double product = 0;
  double square = 0;
  for (size_t t = 0; t < right_.size(); ++t) {
    const std::vector<double>& got = evidence_.tokens()[t].got;
    for (size_t i = 0; i < std::min(right_[t].size(), got.size()); ++i) {
      product += right_[t][i] * got[i];
      square += right_[t][i] * right_[t][i];
    }
  }
  const double factor = square > 0 ? product / square : 0;
  if (!is_nearly_one(factor)) return {};
  std::vector<std::vector<double>> scaled = right_;
  for (std::vector<double>& row : scaled) {
    for (double& value : row) value *= factor;
  }
  constexpr double kMostLeft = 0.01;  // as of a mistake that is named
  const Fit fit = evidence_.fit(scaled);
  if (!(fit.ratio() <= kMostLeft) || !(fit.difference > 0)) return {};
  return fmt::format(
      "; all of it is {} times what it should be ({:.2f} % of the difference): no constant of a "
      "network is wrong by so little, and whether a small error before it or its own arithmetic "
      "makes that is not known",
      mistakes::number_unlike(factor, 1), 100 * fit.explained());
}

// What tells where between the checkpoints that both logs have the error is made.
std::string Search::more_checkpoints() const {
  if (network_.model == nullptr) {
    return "a log of both with --checkpoints ops would tell where it starts";
  }
  return std::string(judged_has_more_
                         ? "the judged log has more there, and the reference does not have these"
                         : "log the judged engine with --checkpoints ops --values all") +
         "; --own-error 1e-6 then holds each op of it to the model, and 'assay run MODEL --follow "
         "REF --checkpoints ops --values all --log OPS' gives a reference of them";
}

// What would let the checkpoint be computed: values before a model, which alone would not do.
std::string Search::missing_input_hint() const {
  const std::string name = context_.target.name();
  if (!chain_.lacks_weights()) {
    return fmt::format(
        "no scale, sign or shift of {} explains the difference; to try its computation under known "
        "mistakes, all values of {} are needed: log with --checkpoints ops --values all{}",
        name, chain_.missing(),
        store_.tokens().empty() ? ", or give the prompt's ids as 'tokens' in a log's header"
        : network_.model == nullptr
            ? ", or give --model: with its weights the network is computed from its tokens"
            : "");
  }
  const std::string looked =
      fmt::format("no scale, sign, shift, order or rounding of {} explains the difference", name);
  const std::string input = chain_.missing_input();
  if (input.empty()) {
    return fmt::format(
        "{}; give --model to look further: it has the weights that {} is computed with", looked,
        name);
  }
  return fmt::format(
      "{}; to look further, log all values of what it is computed from, such as {}, with "
      "--checkpoints ops --values all, and then give --model, which has its weights",
      looked, input);
}

}  // namespace assay::causes
