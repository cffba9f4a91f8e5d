#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "assay/causes/fitted_mistakes.h"
#include "base/interrupt.h"

namespace assay::causes {
namespace {

using Features = std::vector<std::vector<double>>;

constexpr size_t kMostTokens = 4;      // that have another id; more are another prompt
constexpr double kMostElements = 4e9;  // of the rows that are looked through
constexpr int64_t kAtOnce = 64;

struct NearestRow {
  int64_t id = -1;
  double distance = std::numeric_limits<double>::infinity();
  std::vector<double> features;
};

// Of all rows of the embedding, the one that the judged log has at a token.
NearestRow nearest_row(const mistakes::Network& network, const Evidence& evidence, size_t token) {
  const Evidence::Token& at = evidence.tokens()[token];
  const int64_t n_ids = network.model->token_embedding.rows;
  NearestRow nearest;
  for (int64_t first = 0; first < n_ids; first += kAtOnce) {
    check_interrupted();
    mistakes::Inputs inputs;
    for (int64_t id = first; id < std::min(first + kAtOnce, n_ids); ++id) {
      inputs.tokens.push_back(static_cast<int32_t>(id));
      inputs.positions.push_back(at.token_idx);
    }
    const Matrix rows = network.compute({Checkpoint::kEmbedding, -1}, inputs);
    for (int64_t i = 0; i < rows.rows; ++i) {
      Matrix row(1, rows.columns);
      std::copy_n(rows.row(i), rows.columns, row.values.begin());
      std::vector<double> features = evidence.features(row, {at.token_idx})[token];
      if (features.size() != at.got.size()) return {};
      const double distance = square_sum(at.got, features);
      if (distance < nearest.distance) nearest = {first + i, distance, std::move(features)};
    }
  }
  return nearest;
}

}  // namespace

std::vector<Fitted> fit_tokens(const mistakes::Network& network, const Evidence& evidence,
                               const Features& right, const std::vector<int64_t>& prompt) {
  const auto n_wrong =
      static_cast<size_t>(std::ranges::count_if(evidence.tokens(), &Evidence::Token::differs));
  const WeightMatrix& table = network.model->token_embedding;
  const auto n_elements = static_cast<double>(table.rows) * static_cast<double>(table.columns);
  if (n_wrong == 0 || n_wrong > kMostTokens ||
      n_elements * static_cast<double>(n_wrong) > kMostElements) {
    return {};
  }
  Fitted fitted{"wrong_token", {}, static_cast<int64_t>(n_wrong), 0, right};
  std::vector<std::string> words;
  for (size_t t = 0; t < right.size(); ++t) {
    const Evidence::Token& at = evidence.tokens()[t];
    if (!at.differs) continue;
    // After the prompt an engine may have chosen another one.
    if (at.token_idx >= std::ssize(prompt)) return {};
    NearestRow nearest = nearest_row(network, evidence, t);
    if (nearest.id < 0) return {};
    words.push_back(fmt::format("{} in place of {} at position {}", nearest.id,
                                prompt[static_cast<size_t>(at.token_idx)], at.token_idx));
    fitted.features[t] = std::move(nearest.features);
  }
  fitted.text = fmt::format("looks up token {}", fmt::join(words, ", "));
  return {fitted};
}

}  // namespace assay::causes
