#include <cmath>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/fault_builders.h"
#include "engine/rope_table.h"
#include "kernels/half.h"

namespace assay::mutate {
namespace {

using Table = std::vector<float>;  // [n_tokens, rotary_dim / 2, 2]: cos, sin

size_t table_size(const RopeCall& call) {
  return static_cast<size_t>(call.n_tokens * call.rotary_dim);
}

Table table_of(const RopeCall& call) {
  return {call.cos_sin, call.cos_sin + table_size(call)};
}

// A fault in how Q and K of one layer are turned; found at Q, which is turned first.
Fault in_rotation(FaultText text, Hook<RopeCall> hook) {
  Fault fault = in_op<RopeCall>(std::move(text), Checkpoint::kQRope, needs_rotary,
                                &KernelHooks::rope, std::move(hook));
  fault.inject = [inject = fault.inject](const FaultSite& site) {
    Injection injection = inject(site);
    injection.applies = [layer = site.layer](const OpSite& call) {
      return kind_of(call.checkpoint) == OpKind::kRope && call.layer == layer;
    };
    return injection;
  };
  return fault;
}

// A fault in the table of angles, which all layers share: `edit` is done to the hyperparameters or
// the factors.
Fault in_angles(FaultText text, UnsupportedReason unsupported_reason,
                std::function<void(Model&)> edit) {
  return {.name = std::move(text.name),
          .group = FaultGroup::kRotary,
          .what = std::move(text.what),
          .cause = std::move(text.cause),
          .in_one_layer = false,
          .unsupported_reason = std::move(unsupported_reason),
          .inject = [edit = std::move(edit)](const FaultSite& site) {
            edit(site.model);
            return Injection{.found_at = {.checkpoint = Checkpoint::kQRope}};
          }};
}

// The rotation with another table: `edit` changes it in place.
Hook<RopeCall> with_table(std::function<void(const RopeCall&, Table&)> edit) {
  return [edit = std::move(edit)](const OpContext&, RopeCall call, Kernels& kernels) {
    Table table = table_of(call);
    edit(call, table);
    call.cos_sin = table.data();
    kernels.run(call);
  };
}

// The table `shift` positions later.
Fault shifted(FaultText text, int64_t shift, bool only_k) {
  Fault fault = in_rotation(std::move(text), {});
  fault.inject = [inject = fault.inject, shift, only_k](const FaultSite& site) {
    Injection injection = inject(site);
    if (only_k) injection.found_at.checkpoint = Checkpoint::kKRope;
    injection.hooks.rope = [&model = site.model, n_positions = site.n_positions, shift, only_k](
                               const OpContext& context, RopeCall call, Kernels& kernels) {
      const Table table = rope_table(model.config(), rope_factors_for(model, n_positions),
                                     context.site.first_position + shift, call.n_tokens);
      if (!only_k || context.site.checkpoint == Checkpoint::kKRope) call.cos_sin = table.data();
      kernels.run(call);
    };
    return injection;
  };
  return fault;
}

std::string needs_factors(const Model& model) {
  return model.rope_factors_short.empty() ? "its frequencies have no factors" : "";
}

std::string needs_two_factors(const Model& model) {
  return model.rope_factors_short == model.rope_factors_long
             ? "it has no short and long frequency factors"
             : "";
}

std::string needs_attention_factor(const Model& model) {
  if (std::string reason = needs_rotary(model); !reason.empty()) return reason;
  return model.config().rope_attn_factor == 1.0 ? "its rotation has no attention factor" : "";
}

constexpr FaultGroup kGroup = FaultGroup::kRotary;

std::vector<Fault> rotation_faults() {
  std::vector<Fault> faults;
  faults.push_back(
      in_rotation({"rope-pairing", kGroup,
                   "rotary pairs adjacent where they are halves, and the reverse", "rope_pairing"},
                  [](const OpContext&, RopeCall call, Kernels& kernels) {
                    call.pairing = call.pairing == RopePairing::kAdjacent ? RopePairing::kHalves
                                                                          : RopePairing::kAdjacent;
                    kernels.run(call);
                  }));
  faults.push_back(
      shifted({"rope-position-off-by-one", kGroup,
               "Q and K are turned by the angles of the next position", "rope_position"},
              1, false));
  faults.push_back(
      shifted({"rope-k-position-off-by-one", kGroup,
               "K alone is turned by the angles of the next position", "rope_position"},
              1, true));
  faults.push_back(in_rotation({"rope-missing", kGroup, "Q and K are not turned", "rope_position"},
                               with_table([](const RopeCall&, Table& table) {
                                 for (size_t i = 0; i < table.size(); i += 2) {
                                   table[i] = 1.0F;
                                   table[i + 1] = 0.0F;
                                 }
                               })));
  faults.push_back(in_rotation({"rope-twice", kGroup, "Q and K are turned twice", "rope_position"},
                               [](const OpContext&, RopeCall call, Kernels& kernels) {
                                 kernels.run(call);
                                 call.x = call.out;
                                 kernels.run(call);
                               }));
  faults.push_back(in_rotation(
      {"rope-backwards", kGroup, "sines have the wrong sign: turned back", "rope_position"},
      with_table([](const RopeCall&, Table& table) {
        for (size_t i = 1; i < table.size(); i += 2) table[i] = -table[i];
      })));
  faults.push_back(
      in_rotation({"rope-sin-for-cos", kGroup, "sine and cosine are swapped", "rope_position"},
                  with_table([](const RopeCall&, Table& table) {
                    for (size_t i = 0; i < table.size(); i += 2) {
                      std::swap(table[i], table[i + 1]);
                    }
                  })));
  faults.push_back(in_rotation({"rope-half-the-dimensions", kGroup,
                                "only the first half of the rotary dimensions is turned"},
                               with_table([](const RopeCall& call, Table& table) {
                                 const auto width = static_cast<size_t>(call.rotary_dim);
                                 for (size_t i = 0; i < table.size(); i += 2) {
                                   if (i % width < width / 2) continue;
                                   table[i] = 1.0F;
                                   table[i + 1] = 0.0F;
                                 }
                               })));
  faults.push_back(in_rotation(
      {"rope-f16-table", kGroup, "cosines and sines are rounded to float16", "rounding"},
      with_table([](const RopeCall&, Table& table) {
        for (float& value : table) value = float_from_f16(f16_from_float(value));
      })));
  faults.push_back(
      in_rotation({"rope-restarts-in-decode", kGroup,
                   "each batch is turned as if it began at position 0", "rope_position"},
                  {}));
  faults.back().inject = [inject = faults.back().inject](const FaultSite& site) {
    Injection injection = inject(site);
    injection.hooks.rope = [&model = site.model, n_positions = site.n_positions](
                               const OpContext&, RopeCall call, Kernels& kernels) {
      const Table table =
          rope_table(model.config(), rope_factors_for(model, n_positions), 0, call.n_tokens);
      call.cos_sin = table.data();
      kernels.run(call);
    };
    return injection;
  };
  return faults;
}

std::vector<Fault> angle_faults() {
  std::vector<Fault> faults;
  faults.push_back(in_angles(
      {"rope-base", kGroup, "frequency base 500000 for 10000, or 10000 for another", "rope_base"},
      needs_rotary, [](Model& model) {
        double& base = model.config().rope_freq_base;
        base = base == 10000.0 ? 500000.0 : 10000.0;
      }));
  faults.push_back(
      in_angles({"rope-linear-scaling", kGroup, "positions are halved", "rope_position"},
                needs_rotary, [](Model& model) { model.config().rope_freq_scale *= 0.5; }));
  faults.push_back(in_angles(
      {"rope-factors-missing", kGroup, "the factors of the frequencies are left out", "rope_base"},
      needs_factors, [](Model& model) {
        model.rope_factors_short.clear();
        model.rope_factors_long.clear();
      }));
  faults.push_back(
      in_angles({"rope-factors-multiply", kGroup,
                 "the factors multiply the frequencies in place of dividing them", "rope_base"},
                needs_factors, [](Model& model) {
                  for (float& each : model.rope_factors_short) each = 1.0F / each;
                  for (float& each : model.rope_factors_long) each = 1.0F / each;
                }));
  faults.push_back(in_angles({"rope-factors-long-for-short", kGroup,
                              "long factors for short, and the reverse", "rope_base"},
                             needs_two_factors, [](Model& model) {
                               model.rope_factors_short.swap(model.rope_factors_long);
                             }));
  faults.push_back(in_angles({"rope-attention-factor", kGroup,
                              "the attention factor of the rotation is left out", "scale"},
                             needs_attention_factor,
                             [](Model& model) { model.config().rope_attn_factor = 1.0; }));
  return faults;
}

}  // namespace

std::vector<Fault> rotary_faults() {
  std::vector<Fault> faults = rotation_faults();
  for (Fault& fault : angle_faults()) faults.push_back(std::move(fault));
  return faults;
}

}  // namespace assay::mutate
