#include <algorithm>
#include <cmath>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/fault_builders.h"

namespace assay::mutate {
namespace {

constexpr FaultGroup kGroup = FaultGroup::kEmbedding;

Fault in_get_rows(FaultText text, UnsupportedReason unsupported_reason, Hook<GetRowsCall> hook) {
  return in_op<GetRowsCall>(std::move(text), Checkpoint::kEmbedding, std::move(unsupported_reason),
                            &KernelHooks::get_rows, std::move(hook));
}

// Other rows of the table of tokens, or of positions: `edit` replaces an id.
Hook<GetRowsCall> with_ids(bool of_positions, std::function<int32_t(int32_t, int64_t)> edit) {
  return
      [of_positions, edit = std::move(edit)](const OpContext&, GetRowsCall call, Kernels& kernels) {
        std::vector<int32_t> ids(call.ids, call.ids + call.n_ids);
        if (call.of_positions == of_positions) {
          for (int32_t& id : ids) id = edit(id, call.table.rows);
        }
        call.ids = ids.data();
        kernels.run(call);
      };
}

// Ids are in range, and stay there.
int32_t next_row(int32_t id, int64_t rows) {
  return id + 1 < rows ? id + 1 : 0;
}

std::string needs_own_output(const Model& model) {
  return model.output.data == model.token_embedding.data ? "its embeddings are tied" : "";
}

// A fault outside the layers.
template <class Edit>
Fault in_model(const FaultText& text, Checkpoint at, const UnsupportedReason& unsupported_reason,
               Edit edit) {
  return {.name = text.name,
          .group = text.group,
          .what = text.what,
          .cause = text.cause,
          .in_one_layer = false,
          .unsupported_reason = unsupported_reason,
          .inject = [at, edit](const FaultSite& site) {
            edit(site.model);
            return Injection{.found_at = {.checkpoint = at}};
          }};
}

}  // namespace

std::vector<Fault> embedding_faults() {
  std::vector<Fault> faults;
  faults.push_back(in_get_rows({"embedding-row-off-by-one", kGroup,
                                "each token has the embedding of the next id", "row_shift"},
                               any_model, with_ids(false, next_row)));
  faults.push_back(in_get_rows(
      {"position-off-by-one", kGroup, "each token has the learned position after its own"},
      needs_learned_positions, with_ids(true, next_row)));
  faults.push_back(in_get_rows({"position-missing", kGroup, "every token has learned position 0"},
                               needs_learned_positions,
                               with_ids(true, [](int32_t, int64_t) { return 0; })));
  faults.push_back(
      after_op({"embedding-scaled", kGroup,
                "embeddings are multiplied by the root of the width, as Gemma's are", "scale"},
               Checkpoint::kEmbedding, any_model, [](const OpContext&, OpResult result) {
                 const float root = std::sqrt(static_cast<float>(result.width));
                 for (int64_t i = 0; i < result.n_rows * result.width; ++i) {
                   result.values[i] *= root;
                 }
               }));
  return faults;
}

std::vector<Fault> output_faults() {
  constexpr FaultGroup kOutput = FaultGroup::kOutput;
  std::vector<Fault> faults;
  faults.push_back(in_model({"layers-swapped", kOutput, "the first two layers change places"},
                            Checkpoint::kAttnNorm, any_model, [](Model& model) {
                              if (model.layers.size() > 1) {
                                std::swap(model.layers[0], model.layers[1]);
                              }
                            }));
  faults.push_back(in_model(
      {"output-tied", kOutput, "the embeddings are the output matrix, where the file has one"},
      Checkpoint::kLogits, needs_own_output,
      [](Model& model) { model.output = model.token_embedding; }));
  faults.push_back(
      after_op({"logits-off-by-one", kOutput, "logits stand one id too late", "row_shift"},
               Checkpoint::kLogits, any_model, [](const OpContext&, OpResult result) {
                 for (int64_t t = 0; t < result.n_rows; ++t) {
                   const auto row = result.row(t);
                   std::rotate(row.begin(), row.end() - 1, row.end());
                 }
               }));
  faults.push_back(after_op({"logits-scaled", kOutput, "logits are divided by 2", "scale"},
                            Checkpoint::kLogits, any_model, [](const OpContext&, OpResult result) {
                              for (int64_t i = 0; i < result.n_rows * result.width; ++i) {
                                result.values[i] *= 0.5F;
                              }
                            }));
  return faults;
}

}  // namespace assay::mutate
