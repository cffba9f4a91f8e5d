#include <fmt/format.h>

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {
namespace {

constexpr FaultGroup kGroup = FaultGroup::kEmbedding;
constexpr Checkpoint kAt = Checkpoint::kEmbedding;

// Other rows of the table of tokens, or of positions: `edit` replaces an id, which is in range and
// stays there.
KernelHooks with_ids(bool of_positions,
                     std::function<int64_t(int32_t id, int64_t rows, double parameter)> edit) {
  return {.get_rows = [of_positions, edit = std::move(edit)](const OpContext& context,
                                                             GetRowsCall call, Kernels& kernels) {
    std::vector<int32_t> ids(call.ids, call.ids + call.n_ids);
    if (call.of_positions == of_positions) {
      for (int32_t& id : ids) {
        id = static_cast<int32_t>(edit(id, call.table.rows, context.parameter));
      }
    }
    call.ids = ids.data();
    kernels.run(call);
  }};
}

int64_t shifted(int32_t id, int64_t rows, double by) {
  return ((id + static_cast<int64_t>(by)) % rows + rows) % rows;
}

}  // namespace

std::vector<Mistake> embedding_mistakes() {
  return {
      {.cause = "row_shift",
       .text = [](const Network&,
                  double by) { return fmt::format("looks up the row of token id {:+.0f}", by); },
       .edit = with_ids(false, shifted),
       .grid = among({-3, -2, -1, 1, 2, 3}),
       .faults = {{"embedding-row-off-by-one", kGroup,
                   "each token has the embedding of the next id", kAt, any_model, with(1)}}},
      {.edit = with_ids(true, shifted),
       .faults = {{"position-off-by-one", kGroup,
                   "each token has the learned position after its own", kAt,
                   needs_learned_positions, with(1)}}},
      {.edit = with_ids(true, [](int32_t, int64_t, double) { return int64_t{0}; }),
       .faults = {{"position-missing", kGroup, "every token has learned position 0", kAt,
                   needs_learned_positions}}}};
}

}  // namespace assay::mistakes
