#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "assay/mistakes/norm_edits.h"
#include "assay/mistakes/number_text.h"

namespace assay::mistakes {

KernelHooks weighted_norm(std::function<float(float weight, int64_t width)> edit) {
  return {.norm = [edit = std::move(edit)](const OpContext&, NormCall call, Kernels& kernels) {
    std::vector<float> weight(call.weight, call.weight + call.n_weights * call.width);
    for (float& each : weight) each = edit(each, call.width);
    call.weight = weight.data();
    kernels.run(call);
  }};
}

void run_without_norm(const OpContext&, const NormCall& call, Kernels&) {
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    std::copy_n(call.x + t * call.x_stride(), call.width, call.out + t * call.width);
  }
}

bool is_of_qk(const Network& network, Op op) {
  return network.model != nullptr && is_norm_of_qk(op.checkpoint);
}

namespace {

KernelHooks edited(std::function<void(NormCall&, double parameter)> edit) {
  return {
      .norm = [edit = std::move(edit)](const OpContext& context, NormCall call, Kernels& kernels) {
        edit(call, context.parameter);
        kernels.run(call);
      }};
}

// x / (root + eps) in place of x / sqrt(root² + eps), where `root` is that of the mean square or
// variance of a row: the right norm with eps² + 2 eps root.
void run_with_eps_outside(const OpContext&, const NormCall& call, Kernels& kernels) {
  const auto n = static_cast<double>(call.width);
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    NormCall row = call;
    row.x += t * call.x_stride();
    row.out += t * call.width;
    row.weight += t % call.n_weights * call.width;
    row.n_weights = 1;
    row.n_tokens = 1;
    double mean = 0.0;
    double squares = 0.0;
    for (int64_t i = 0; i < call.width && call.kind == NormKind::kLayer; ++i) mean += row.x[i] / n;
    for (int64_t i = 0; i < call.width; ++i) squares += (row.x[i] - mean) * (row.x[i] - mean);
    const double eps = call.eps;
    row.eps = static_cast<float>(eps * eps + 2.0 * eps * std::sqrt(squares / n));
    kernels.run(row);
  }
}

void run_other_kind(const OpContext&, NormCall call, Kernels& kernels) {
  const bool rms = call.kind == NormKind::kRms;
  call.kind = rms ? NormKind::kLayer : NormKind::kRms;
  kernels.run(call);
  if (rms || call.bias == nullptr) return;
  for (int64_t i = 0; i < call.n_tokens * call.width; ++i) call.out[i] += call.bias[i % call.width];
}

std::string needs_latent_norm(const Model& model) {
  return model.config().find(Checkpoint::kKvANorm) != nullptr ? ""
                                                              : "it has no norm of latent vectors";
}

// The squares divided by the width less one.
float of_unbiased_variance(float weight, int64_t width) {
  const auto n = static_cast<float>(width);
  return weight * std::sqrt((n - 1.0F) / n);
}

Injected unbiased(std::string name, UnsupportedReason reason) {
  return {std::move(name), FaultGroup::kNorm, "the squares are divided by the width less one",
          Checkpoint::kAttnNorm, std::move(reason)};
}

bool has_norm_bias(const Model& model) {
  return model.layers.front().norm(Checkpoint::kAttnNorm).bias != nullptr;
}

// Whether all norms of the model have one; Mamba's parts may have another.
bool has_one_eps(const Network& network) {
  if (network.model == nullptr) return true;
  const ModelConfig& config = network.model->config();
  return std::ranges::all_of(config.layers, [&](const LayerConfig& layer) {
    return std::ranges::all_of(layer.ops, [&](const OpSpec& op) {
      return op.kind != OpKind::kNorm || config.eps_of(op) == config.norm_eps;
    });
  });
}

std::string eps_text(const Network& network, double value) {
  if (!network.eps_known) {
    return fmt::format("normalises with eps {:.3g} in place of a smaller one", value);
  }
  const double right = network.eps;
  if (!has_one_eps(network)) {
    return fmt::format("normalises with eps {:.3g} in place of its own", value);
  }
  return fmt::format("normalises with eps {} in place of {}", number_unlike(value, right, 3),
                     number_unlike(right, value, 3));
}

// Of what is normalised as it is.
bool has_plain_eps(const Network& network, Op op) {
  const OpSpec* spec = op.layer < 0 ? nullptr : find_spec(network.layer(op.layer), op.checkpoint);
  return spec == nullptr || !spec->input_over_root;
}

// No engine takes more for an eps: what is nearer to a larger one is a norm times a factor.
std::vector<double> eps_grid(const Network&) {
  std::vector<double> grid = {0};
  for (const double value : ratios(1e-12, 0.1, 45)) grid.push_back(value);
  return grid;
}

std::string kind_text(const Network& network, double) {
  return network.norm == NormKind::kRms
             ? "subtracts the mean: LayerNorm in place of RMSNorm"
             : "does not subtract the mean: RMSNorm in place of LayerNorm";
}

double other_eps(const OpContext& context) {
  return static_cast<float>(context.network.eps) == 1e-5F ? 1e-6 : 1e-5;
}

// As engines that compute in half precision: what is normalised goes back to it before the weight.
Mistake rounded_before_weight(Rounding rounding) {
  return {.cause = "rounding",
          .text = plainly(std::string("rounds what is normalised to ") + rounding.type +
                          " before it multiplies by the weight"),
          .edit = {.norm = [rounding](const OpContext&, NormCall call, Kernels& kernels) {
            const float* weight = call.weight;
            const std::vector<float> ones(static_cast<size_t>(call.n_weights * call.width), 1.0F);
            const float* bias = std::exchange(call.bias, nullptr);
            call.weight = ones.data();
            kernels.run(call);
            for (int64_t t = 0; t < call.n_tokens; ++t) {
              for (int64_t i = 0; i < call.width; ++i) {
                float& out = call.out[t * call.width + i];
                out = rounding.round(out) * weight[t % call.n_weights * call.width + i];
                if (bias != nullptr) out += bias[i];
              }
            }
          }}};
}

}  // namespace

std::vector<Mistake> norm_mistakes() {
  Mistake bf16_before_weight = rounded_before_weight(kBf16Rounding);
  bf16_before_weight.faults = {{"norm-bf16-before-weight", FaultGroup::kNorm,
                                "what is normalised is bfloat16 before the weight",
                                Checkpoint::kAttnNorm}};
  std::vector<Mistake> mistakes = {
      {.cause = "eps",
       .text = eps_text,
       .edit = edited([](NormCall& call, double eps) { call.eps = static_cast<float>(eps); }),
       .possible = has_plain_eps,
       .grid = eps_grid,
       .refine = true,
       .faults = {{"eps-wrong", FaultGroup::kNorm, "eps is 1e-6 for 1e-5, or 1e-5 for another",
                   Checkpoint::kAttnNorm, any_model, other_eps},
                  {"eps-missing", FaultGroup::kNorm, "eps is 0", Checkpoint::kAttnNorm},
                  {.name = "eps-of-latent",
                   .group = FaultGroup::kNorm,
                   .what = "eps of the norms of latent vectors is 1e-3",
                   .at = Checkpoint::kKvANorm,
                   .unsupported_reason = needs_latent_norm,
                   .parameter = with(1e-3),
                   .also = {Checkpoint::kQANorm}}}},
      {.cause = "eps",
       .text = plainly("adds eps to the root, not under it"),
       .edit = {.norm = run_with_eps_outside},
       .faults = {{"eps-outside-root", FaultGroup::kNorm, "eps is added to the root, not under it",
                   Checkpoint::kAttnNorm}}},
      {.cause = "norm_kind",
       .text = kind_text,
       .edit = {.norm = run_other_kind},
       .faults = {{"layer-norm-for-rms", FaultGroup::kNorm,
                   "the mean is subtracted as LayerNorm does", Checkpoint::kAttnNorm,
                   needs_rms_norm},
                  {"rms-for-layer-norm", FaultGroup::kNorm,
                   "the mean is not subtracted, as in RMSNorm; the bias is added",
                   Checkpoint::kAttnNorm, needs_layer_norm}}},
      {.cause = "norm_weight_plus_one",
       .text = plainly("multiplies by 1 + the norm's weight"),
       .edit = weighted_norm([](float weight, int64_t) { return weight + 1.0F; }),
       .possible = &Network::has_norm_weight,
       .faults = {{"norm-weight-plus-one", FaultGroup::kNorm,
                   "1 is added to the weight, as Gemma's files want it", Checkpoint::kAttnNorm}}},
      {.cause = "norm_weight_plus_one",
       .text = plainly("multiplies by the norm's weight - 1"),
       .edit = weighted_norm([](float weight, int64_t) { return weight - 1.0F; }),
       .possible = &Network::has_norm_weight,
       .faults = {{"norm-weight-less-one", FaultGroup::kNorm,
                   "the 1 that belongs to a weight is left out, as for a file of Gemma that is "
                   "read as it was published",
                   Checkpoint::kAttnNorm}}}};
  for (Mistake& mistake : qk_norm_mistakes()) mistakes.push_back(std::move(mistake));
  std::vector<Mistake> others = {
      {.cause = "norm_kind",
       .text = plainly("leaves out the norm's weights"),
       .edit = weighted_norm([](float, int64_t) { return 1.0F; }),
       .possible = [](const Network& network,
                      Op op) { return network.has_norm_weight(op) && !is_of_qk(network, op); },
       .faults = {{"norm-weight-missing", FaultGroup::kNorm, "the weight is left out",
                   Checkpoint::kAttnNorm}}},
      // Without a bias a scale like any other, as which a comparison names it.
      {.cause = "scale",
       .edit = weighted_norm(of_unbiased_variance),
       .faults = {unbiased("norm-unbiased-variance",
                           [](const Model& model) {
                             return has_norm_bias(model) ? "its norms have a bias" : "";
                           })}},
      {.cause = "norm_kind",
       .text = plainly("divides the squares by the width less one"),
       .edit = weighted_norm(of_unbiased_variance),
       .possible = [](const Network& network, Op op) { return network.has_bias(op); },
       .faults = {unbiased("norm-unbiased-variance-and-bias",
                           [](const Model& model) {
                             return has_norm_bias(model) ? "" : "its norms have no bias";
                           })}},
      {.cause = "norm_kind",
       .text = plainly("leaves the norm out"),
       .edit = {.norm = run_without_norm},
       .possible =
           [](const Network& network, Op op) {
             return !is_of_qk(network, op) && op.checkpoint != Checkpoint::kVNorm;
           },
       .faults = {{"norm-missing", FaultGroup::kNorm, "x goes on as it is", Checkpoint::kAttnNorm},
                  {"final-norm-missing", FaultGroup::kOutput, "the last norm is left out",
                   Checkpoint::kFinalNorm},
                  {.name = "branch-norms-missing",
                   .group = FaultGroup::kNorm,
                   .what = "experts and the feed-forward beside them are added without their norms",
                   .at = Checkpoint::kRoutedNorm,
                   .unsupported_reason = needs("norms of its experts' results",
                                               [](const ModelConfig& config) {
                                                 return config.find(Checkpoint::kRoutedNorm) !=
                                                        nullptr;
                                               }),
                   .also = {Checkpoint::kSharedNorm}}}},
      rounded_before_weight(kF16Rounding),
      std::move(bf16_before_weight)};
  for (Mistake& mistake : others) mistakes.push_back(std::move(mistake));
  return mistakes;
}

}  // namespace assay::mistakes
