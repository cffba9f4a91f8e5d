#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "model/hf_names.h"

namespace assay::mistakes {
namespace {

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

int64_t shifted_id(int32_t id, int64_t rows, double by) {
  return ((id + static_cast<int64_t>(by)) % rows + rows) % rows;
}

// Rows that transformers' table has in front of that of position 0, and that the model lacks.
int64_t rows_before_positions(const Network& network) {
  int64_t rows = 0;
  for (const HfModel& kind : hf_models()) {
    if (kind.architecture == network.model->config().architecture->name) {
      rows = std::max(rows, kind.first_position);
    }
  }
  return rows;
}

// Learned positions some places off. In front of the first are rows that are not known, or the last
// ones, as for an index below 0.
void run_with_shifted_positions(const OpContext& context, GetRowsCall call, Kernels& kernels) {
  std::vector<int32_t> ids(call.ids, call.ids + call.n_ids);
  const int64_t unknown = call.of_positions ? rows_before_positions(context.network) : 0;
  if (call.of_positions) {
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(shifted_id(id, call.table.rows, context.parameter));
    }
  }
  const int32_t* right = std::exchange(call.ids, ids.data());
  kernels.run(call);
  for (int64_t i = 0; i < call.n_ids; ++i) {
    const double row = right[i] + context.parameter;
    if (row >= 0 || row < static_cast<double>(-unknown)) continue;
    std::fill_n(call.out + i * call.table.columns, call.table.columns,
                std::numeric_limits<float>::quiet_NaN());
  }
}

// The embedding with another scale than its own.
Mistake scaled_otherwise(std::string text, std::function<float(float)> edit) {
  return {.cause = "embedding_scale",
          .text = plainly(std::move(text)),
          .edit = {.scale =
                       [edit = std::move(edit)](const OpContext&, AddCall call, Kernels& kernels) {
                         call.scale = edit(call.scale);
                         kernels.run(call);
                       }},
          .possible = [](const Network& network, Op op) {
            return op.checkpoint == Checkpoint::kEmbedding && network.model != nullptr &&
                   network.model->config().embedding_factor() != 1.0F;
          }};
}

// To the nearest bfloat16, ties to even. `x` is finite.
float rounded_to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U);
}

float rounded_to_two_decimals(float x) {
  return static_cast<float>(std::nearbyint(static_cast<double>(x) * 100.0) / 100.0);
}

Matrix multiplied_by_root(const Network&, const Matrix& right, double) {
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(right.columns)));
  return map(right, [root](float x) { return root * x; });
}

// Positions from 1 on that have a token of the prompt, and one before it.
std::vector<double> positions_of_prompt(const Network& network) {
  constexpr int64_t kMost = 128;
  std::vector<double> positions;
  for (int64_t at = 1; at < std::min(network.n_prompt, kMost); ++at) {
    positions.push_back(static_cast<double>(at));
  }
  return positions;
}

// An edit of the ids of two tokens beside each other, the parameter being the position of the
// later; where the call looks both up.
Mistake wrong_token(std::string (*text)(double position),
                    void (*edit)(int32_t& earlier, int32_t& later)) {
  return {.cause = "wrong_token",
          .text = [text](const Network&, double position) { return text(position); },
          .edit = {.get_rows =
                       [edit](const OpContext& context, GetRowsCall call, Kernels& kernels) {
                         std::vector<int32_t> ids(call.ids, call.ids + call.n_ids);
                         const std::vector<int64_t>& positions = context.inputs.positions;
                         const auto later = static_cast<int64_t>(context.parameter);
                         const auto a = std::ranges::find(positions, later - 1);
                         const auto b = std::ranges::find(positions, later);
                         if (!call.of_positions && a != positions.end() && b != positions.end()) {
                           edit(ids[static_cast<size_t>(a - positions.begin())],
                                ids[static_cast<size_t>(b - positions.begin())]);
                         }
                         call.ids = ids.data();
                         kernels.run(call);
                       }},
          .possible =
              [](const Network& network, Op op) {
                return op.checkpoint == Checkpoint::kEmbedding && network.n_prompt > 1;
              },
          .grid = positions_of_prompt};
}

// Padding on the left may have been counted, or positions that begin elsewhere.
std::vector<double> learned_places(const Network&) {
  std::vector<double> places;
  for (int by = -2; by <= 32; ++by) {
    if (by != 0) places.push_back(by);
  }
  return places;
}

// Ranks that share the rows evenly, and leave the rest to none.
Mistake ids_of_no_rank_mistake() {
  return {
      .cause = "weights_missing",
      .text =
          [](const Network&, double first) {
            return fmt::format(
                "has zeros for the last ids, from {:.0f} on or later, which ranks of an even share "
                "leave over",
                first);
          },
      .edit = {.get_rows =
                   [](const OpContext& context, const GetRowsCall& call, Kernels& kernels) {
                     kernels.run(call);
                     const int64_t width = call.table.columns;
                     for (int64_t i = 0; i < call.n_ids && !call.of_positions; ++i) {
                       if (call.ids[i] < context.parameter) continue;
                       std::fill_n(call.out + i * width, width, 0.0F);
                     }
                   }},
      .possible = [](const Network&, Op op) { return op.checkpoint == Checkpoint::kEmbedding; },
      .grid =
          [](const Network& network) {
            constexpr int64_t kMostRanks = 64;
            const int64_t rows = network.model == nullptr ? 0 : network.model->token_embedding.rows;
            std::vector<double> firsts;
            for (int64_t ranks = 2; ranks <= std::min(kMostRanks, rows); ++ranks) {
              if (rows % ranks != 0) firsts.push_back(static_cast<double>(rows - rows % ranks));
            }
            std::ranges::sort(firsts);
            firsts.erase(std::ranges::unique(firsts).begin(), firsts.end());
            return firsts;
          }};
}

std::vector<Mistake> wrong_token_mistakes() {
  return {wrong_token(
              [](double position) {
                return fmt::format("evaluates the token of position {:.0f} at position {:.0f}, too",
                                   position - 1, position);
              },
              [](int32_t& earlier, int32_t& later) { later = earlier; }),
          wrong_token(
              [](double position) {
                return fmt::format("evaluates the token of position {:.0f} at position {:.0f}, too",
                                   position, position - 1);
              },
              [](int32_t& earlier, int32_t& later) { earlier = later; }),
          wrong_token(
              [](double position) {
                return fmt::format("exchanges the tokens of positions {:.0f} and {:.0f}",
                                   position - 1, position);
              },
              [](int32_t& earlier, int32_t& later) { std::swap(earlier, later); })};
}

}  // namespace

std::vector<Mistake> embedding_mistakes() {
  const auto has_factor = [](const ModelConfig& config) {
    return config.embedding_factor() != 1.0F;
  };
  const auto has_positions = [](const Network& network, Op op) {
    return op.checkpoint == Checkpoint::kEmbedding && network.model != nullptr &&
           needs_learned_positions(*network.model).empty();
  };
  const auto has_none = [](const ModelConfig& config) { return config.embedding_factor() == 1.0F; };
  Mistake without_scale =
      scaled_otherwise("leaves the scale of the embedding out", [](float) { return 1.0F; });
  without_scale.faults = {{.name = "embedding-scale-missing",
                           .group = FaultGroup::kEmbedding,
                           .what = "embeddings are not multiplied by their scale",
                           .at = Checkpoint::kEmbedding,
                           .unsupported_reason = needs("scale of its embedding", has_factor),
                           .in_arguments = true}};
  std::vector<Mistake> mistakes = {
      std::move(without_scale),
      scaled_otherwise("divides the embedding by its scale where it multiplies, or the reverse",
                       [](float scale) { return 1.0F / scale; }),
      scaled_otherwise("applies the scale of the embedding twice",
                       [](float scale) { return scale * scale; }),
      scaled_otherwise("rounds the scale of the embedding to bfloat16", rounded_to_bfloat16),
      scaled_otherwise("rounds the scale of the embedding to two decimals",
                       rounded_to_two_decimals),
      {.cause = "embedding_scale",
       .text = plainly("is multiplied by the root of its width"),
       .change = multiplied_by_root,
       .possible =
           [=](const Network& network, Op op) {
             return op.checkpoint == Checkpoint::kEmbedding &&
                    (network.model == nullptr || has_none(network.model->config()));
           },
       .faults = {{"embedding-scaled", FaultGroup::kEmbedding,
                   "embeddings are multiplied by the root of the width, as Gemma's are",
                   Checkpoint::kEmbedding, needs("embedding without a scale", has_none)}}},
      {.cause = "row_shift",
       .text = [](const Network&,
                  double by) { return fmt::format("looks up the row of token id {:+.0f}", by); },
       .edit = with_ids(false, shifted_id),
       .grid = among({-3, -2, -1, 1, 2, 3}),
       .faults = {{"embedding-row-off-by-one", FaultGroup::kEmbedding,
                   "each token has the embedding of the next id", Checkpoint::kEmbedding, any_model,
                   with(1)}}},
      {.cause = "rope_position",
       .text =
           [](const Network& network, double by) {
             const auto before = static_cast<double>(rows_before_positions(network));
             const std::string text =
                 fmt::format("takes the learned position {:+.0f} places off", by);
             if (before == 0 || by != -before) return text;
             return text + fmt::format(
                               ", as if row 0 of the table and not row {:.0f} were that of "
                               "position 0",
                               before);
           },
       .edit = {.get_rows = run_with_shifted_positions},
       .possible = has_positions,
       .grid = learned_places,
       .faults = {{"position-off-by-one", FaultGroup::kEmbedding,
                   "each token has the learned position after its own", Checkpoint::kEmbedding,
                   needs_learned_positions, with(1)}}},
      {.cause = "rope_position",
       .text = plainly("takes the first learned position for every token"),
       .edit = with_ids(true, [](int32_t, int64_t, double) { return int64_t{0}; }),
       .possible = has_positions,
       .faults = {{"position-missing", FaultGroup::kEmbedding, "every token has learned position 0",
                   Checkpoint::kEmbedding, needs_learned_positions}}},
      {.cause = "rope_position",
       .text = plainly("leaves the learned positions out"),
       .edit = {.get_rows =
                    [](const OpContext&, const GetRowsCall& call, Kernels& kernels) {
                      kernels.run(call);
                      if (call.of_positions)
                        std::fill_n(call.out, call.n_ids * call.table.columns, 0.0F);
                    }},
       .possible = has_positions,
       .faults = {{"positions-left-out", FaultGroup::kEmbedding, "learned positions are not added",
                   Checkpoint::kEmbedding, needs_learned_positions}}}};
  for (Mistake& mistake : wrong_token_mistakes()) mistakes.push_back(std::move(mistake));
  mistakes.push_back(ids_of_no_rank_mistake());
  return mistakes;
}

}  // namespace assay::mistakes
