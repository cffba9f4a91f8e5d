#include "assay/compare/index_scores.h"

#include <algorithm>
#include <span>

#include "model/checkpoint.h"

namespace assay {
namespace {

// All values of a record; empty where the log has not all of them.
std::vector<float> values_of(const LogIndex& log, IndexLoader& loader, Checkpoint checkpoint,
                             int layer, int64_t token_idx) {
  const int32_t id = log.names().find(checkpoint_name(checkpoint, layer));
  const int64_t place = id < 0 ? -1 : log.find(id, token_idx);
  if (place < 0) return {};
  const Record& record = log.load(log.entry(place), loader);
  return record.has_all_values() ? record.values : std::vector<float>();
}

}  // namespace

std::optional<std::vector<float>> index_scores(const LogIndex& log, int layer, int64_t token_idx) {
  IndexLoader loader = log.loader();
  const std::vector<float> q = values_of(log, loader, Checkpoint::kIndexQRope, layer, token_idx);
  const std::vector<float> weights =
      values_of(log, loader, Checkpoint::kIndexWeights, layer, token_idx);
  if (weights.empty() || q.empty() || q.size() % weights.size() != 0) return std::nullopt;
  const size_t head_dim = q.size() / weights.size();
  std::vector<float> scores;
  for (int64_t position = 0; position <= token_idx; ++position) {
    const std::vector<float> k = values_of(log, loader, Checkpoint::kIndexKRope, layer, position);
    if (k.size() != head_dim) return std::nullopt;
    double score = 0.0;
    for (size_t head = 0; head < weights.size(); ++head) {
      double product = 0.0;
      for (size_t i = 0; i < head_dim; ++i) {
        product += static_cast<double>(q[head * head_dim + i]) * static_cast<double>(k[i]);
      }
      // NaN stays.
      score += static_cast<double>(weights[head]) * (product < 0.0 ? 0.0 : product);
    }
    scores.push_back(static_cast<float>(score));
  }
  return scores;
}

}  // namespace assay
