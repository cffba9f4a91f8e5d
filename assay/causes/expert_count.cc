#include "assay/causes/expert_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/count_of.h"

namespace assay::causes {
namespace {

bool holds_all(std::vector<float> more, std::vector<float> fewer) {
  std::ranges::sort(more);
  std::ranges::sort(fewer);
  return std::ranges::includes(more, fewer);
}

}  // namespace

std::optional<Cause> find_expert_count(Op op, TensorStore& store) {
  if (op.checkpoint != Checkpoint::kExperts) return std::nullopt;
  const Comparison& comparison = store.comparison();
  const std::string name = op.name();
  const int32_t id = store.checkpoint_id(name);
  Cause cause;
  cause.name = "experts_used";
  cause.explained = 1;
  int64_t tokens = 0;
  size_t n_ref = 0;
  size_t n_got = 0;
  for (const RecordResult& result : comparison.results) {
    if (result.checkpoint != id) continue;
    const Record* record = store.ref(name, result.token_idx);
    if (record == nullptr || !record->has_all_values()) return std::nullopt;
    const std::vector<float> ref = record->values;
    record = store.got(name, result.token_idx);
    if (record == nullptr || !record->has_all_values()) return std::nullopt;
    const std::vector<float>& got = record->values;
    if (tokens++ == 0) {
      n_ref = ref.size();
      n_got = got.size();
      cause.token_idx = result.token_idx;
    }
    if (ref.size() != n_ref || got.size() != n_got || n_ref == n_got) return std::nullopt;
    if (!(n_got > n_ref ? holds_all(got, ref) : holds_all(ref, got))) return std::nullopt;
  }
  if (tokens == 0) return std::nullopt;
  cause.checkpoint = parse_checkpoint_name(name);
  cause.confidence = 1 - 0.3 / static_cast<double>(tokens);
  cause.sentence = fmt::format(
      "{} has {} experts for a token in place of {}, and {} are among {} at each of {} "
      "(confidence {:.2f})",
      name, n_got, n_ref, n_got > n_ref ? "the reference's" : "they",
      n_got > n_ref ? "them" : "the reference's", count_of(tokens, "token"), cause.confidence);
  return cause;
}

}  // namespace assay::causes
