#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "assay/mistakes/number_text.h"
#include "assay/mistakes/rotation.h"

namespace assay::mistakes {
namespace {

constexpr float kOfNoise = 1e-3F;  // of numbers that are computed alike

KernelHooks edited(std::function<void(NormCall&, double parameter)> edit) {
  return {
      .norm = [edit = std::move(edit)](const OpContext& context, NormCall call, Kernels& kernels) {
        edit(call, context.parameter);
        kernels.run(call);
      }};
}

// The norm with another weight for each element.
KernelHooks weighted(std::function<float(float weight, int64_t width)> edit) {
  return {.norm = [edit = std::move(edit)](const OpContext&, NormCall call, Kernels& kernels) {
    std::vector<float> weight(call.weight, call.weight + call.n_weights * call.width);
    for (float& each : weight) each = edit(each, call.width);
    call.weight = weight.data();
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

void run_without_norm(const OpContext&, const NormCall& call, Kernels&) {
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    std::copy_n(call.x + t * call.x_stride(), call.width, call.out + t * call.width);
  }
}

bool is_of_qk(const Network& network, Op op) {
  return network.model != nullptr && is_norm_of_qk(op.checkpoint);
}

// Whether the norm of q or k is one of each head.
bool is_of_heads(const NormCall& call, const Network& network, Op op) {
  return call.width < network.width(op);
}

void run_over_all_heads(const OpContext& context, NormCall call, Kernels& kernels) {
  const int64_t width = context.network.width(context.op());
  std::vector<float> weight(static_cast<size_t>(width));
  for (int64_t i = 0; i < width; ++i) {
    weight[static_cast<size_t>(i)] = call.weight[i % (call.n_weights * call.width)];
  }
  call.weight = weight.data();
  call.n_tokens = call.n_tokens * call.width / width;
  call.width = width;
  call.x_width = 0;
  call.n_weights = 1;
  kernels.run(call);
}

void run_over_each_head(const OpContext& context, NormCall call, Kernels& kernels) {
  const int64_t head_dim = context.network.head_dim;
  call.n_weights = call.width / head_dim;
  call.n_tokens *= call.n_weights;
  call.width = head_dim;
  call.x_width = 0;
  kernels.run(call);
}

std::string needs_latent_norm(const Model& model) {
  return model.config().find(Checkpoint::kKvANorm) != nullptr ? ""
                                                              : "it has no norm of latent vectors";
}

// The norm whose result a rotation of q or k takes.
Op norm_before(const OpContext& context) {
  const bool is_q = context.site.checkpoint == Checkpoint::kQRope;
  return {is_q ? Checkpoint::kQNorm : Checkpoint::kKNorm, context.site.layer};
}

bool is_rotation_of_normed(const Network& network, Op op) {
  const Checkpoint norm =
      op.checkpoint == Checkpoint::kQRope ? Checkpoint::kQNorm : Checkpoint::kKNorm;
  return (op.checkpoint == Checkpoint::kQRope || op.checkpoint == Checkpoint::kKRope) &&
         network.model != nullptr && find_spec(network.layer(op.layer), norm) != nullptr;
}

void rotate_then_normalise(const OpContext& context, RopeCall call, Kernels& kernels) {
  const Op norm = norm_before(context);
  const bool is_q = norm.checkpoint == Checkpoint::kQNorm;
  const Op product{is_q ? Checkpoint::kQ : Checkpoint::kK, norm.layer};
  const auto rows = context.inputs.other ? context.inputs.other(product) : nullptr;
  const int64_t columns = call.n_heads * call.head_dim;
  const bool known = rows && rows->rows == call.n_tokens && rows->columns == columns;
  if (known) call.x = rows->values.data();
  rotated([](Rotation&, const OpContext&) {}).rope(context, call, kernels);  // by its own angles
  if (!known) return;  // what is right, and so explains nothing
  NormCall after = context.network.norm_call(norm);
  after.x = after.out = call.out;
  after.n_tokens = call.n_tokens * (columns / after.width);
  after.site = call.site;
  kernels.run(after);
}

// The norm that takes the result of a rotation of q or k.
Op norm_behind(Op rotation) {
  const bool is_q = rotation.checkpoint == Checkpoint::kQRope;
  return {is_q ? Checkpoint::kQRopeNorm : Checkpoint::kKRopeNorm, rotation.layer};
}

void normalise_then_rotate(const OpContext& context, RopeCall call, Kernels& kernels) {
  NormCall before = context.network.norm_call(norm_behind(context.op()));
  Matrix normed(call.n_tokens, call.n_heads * call.head_dim);
  before.x = call.x;
  before.out = normed.values.data();
  before.n_tokens = std::ssize(normed.values) / before.width;
  before.site = call.site;
  kernels.run(before);
  call.x = normed.values.data();
  rotated([](Rotation&, const OpContext&) {}).rope(context, call, kernels);
}

bool is_rotation_to_be_normed(const Network& network, Op op) {
  return (op.checkpoint == Checkpoint::kQRope || op.checkpoint == Checkpoint::kKRope) &&
         network.model != nullptr &&
         find_spec(network.layer(op.layer), norm_behind(op).checkpoint) != nullptr &&
         network.has_norm_weight(norm_behind(op));  // else it is the same
}

// What is to be normalised, as where the norm is after the rotation. Only where what is logged of
// the norm is no norm of it, as an engine shows that has the norm elsewhere: one without a norm has
// another mistake.
void rotate_what_is_normalised(const OpContext& context, RopeCall call, Kernels& kernels) {
  const Op norm_op = norm_before(context);
  const bool is_q = norm_op.checkpoint == Checkpoint::kQNorm;
  const Op product{is_q ? Checkpoint::kQ : Checkpoint::kK, norm_op.layer};
  const auto rows = context.inputs.other ? context.inputs.other(product) : nullptr;
  const int64_t columns = call.n_heads * call.head_dim;
  if (rows && rows->rows == call.n_tokens && rows->columns == columns) {
    NormCall right = context.network.norm_call(norm_op);
    Matrix normed(rows->rows, rows->columns);
    right.x = rows->values.data();
    right.out = normed.values.data();
    right.n_tokens = rows->rows * (columns / right.width);
    kernels.run(right);
    const bool is_logged = std::ranges::equal(
        normed.values, std::span(call.x, normed.values.size()), [](float a, float b) {
          return std::abs(a - b) <= kOfNoise * std::max(std::abs(a), std::abs(b));
        });
    if (!is_logged) call.x = rows->values.data();
  }
  rotated([](Rotation&, const OpContext&) {}).rope(context, call, kernels);
}

// The norm of what has been rotated.
void normalise_rotated(const OpContext& context, NormCall call, Kernels& kernels) {
  const Network& network = context.network;
  const bool is_q = context.site.checkpoint == Checkpoint::kQNorm;
  const Op rotation{is_q ? Checkpoint::kQRope : Checkpoint::kKRope, context.site.layer};
  const std::vector<int64_t>& positions = context.inputs.positions;
  Matrix x(std::ssize(positions), call.n_tokens * call.width / std::ssize(positions));
  std::copy_n(call.x, x.values.size(), x.values.begin());
  x = rope(x, network.rope_at(rotation), {positions.begin(), positions.end()});
  call.x = x.values.data();
  kernels.run(call);
}

bool is_norm_of_rotated(const Network& network, Op op) {
  const bool is_q = op.checkpoint == Checkpoint::kQNorm;
  const Checkpoint rotation = is_q ? Checkpoint::kQRope : Checkpoint::kKRope;
  return network.model != nullptr && (is_q || op.checkpoint == Checkpoint::kKNorm) &&
         network.rope && find_spec(network.layer(op.layer), rotation) != nullptr;
}

const OpSpec* norm_of_q(const Model& model) {
  const OpSpec* before = model.config().find(Checkpoint::kQNorm);
  return before != nullptr ? before : model.config().find(Checkpoint::kQRopeNorm);
}

std::string needs_qk_norm(const Model& model) {
  return norm_of_q(model) != nullptr ? "" : "it has no norm of q and k";
}

std::string needs_weighted_qk_norm(const Model& model) {
  if (std::string reason = needs_qk_norm(model); !reason.empty()) return reason;
  return norm_of_q(model)->tensor.empty() ? "its norm of q and k has no weights" : "";
}

std::string needs_qk_norm_of(const Model& model, bool heads) {
  if (std::string reason = needs_qk_norm(model); !reason.empty()) return reason;
  const OpSpec& norm = *norm_of_q(model);
  if ((norm.norm_width == Width::kHead) == heads) return {};
  return heads ? "its norm of q and k is over all heads" : "its norm of q and k is over each head";
}

Injected of_qk(std::string name, std::string what, UnsupportedReason reason) {
  return {.name = std::move(name),
          .group = FaultGroup::kNorm,
          .what = std::move(what),
          .at = Checkpoint::kQNorm,
          .unsupported_reason = std::move(reason),
          .also = {Checkpoint::kKNorm, Checkpoint::kQRopeNorm, Checkpoint::kKRopeNorm},
          .in_arguments = true};
}

Injected of_rotation() {
  Injected fault = of_qk("qk-norm-after-rotation", "q and k are rotated before they are normalised",
                         [](const Model& model) {
                           return model.config().find(Checkpoint::kQNorm) != nullptr
                                      ? ""
                                      : "it has no norm of q and k before their rotation";
                         });
  fault.at = Checkpoint::kQRope;
  fault.also = {Checkpoint::kKRope};
  return fault;
}

Injected before_rotation() {
  Injected fault = of_qk("qk-norm-before-rotation",
                         "q and k are normalised before they are rotated", [](const Model& model) {
                           const OpSpec* norm = model.config().find(Checkpoint::kQRopeNorm);
                           return norm != nullptr && !norm->tensor.empty()
                                      ? ""
                                      : "it has no weighted norm of rotated q and k";
                         });
  fault.at = Checkpoint::kQRope;
  fault.also = {Checkpoint::kKRope, Checkpoint::kQRopeNorm, Checkpoint::kKRopeNorm};
  return fault;
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

std::string eps_text(const Network& network, double value) {
  if (!network.eps_known) {
    return fmt::format("normalises with eps {:.3g} in place of a smaller one", value);
  }
  const double right = network.eps;
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
  return {
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
       .edit = weighted([](float weight, int64_t) { return weight + 1.0F; }),
       .possible = &Network::has_norm_weight,
       .faults = {{"norm-weight-plus-one", FaultGroup::kNorm,
                   "1 is added to the weight, as Gemma's files want it", Checkpoint::kAttnNorm}}},
      {.cause = "norm_weight_plus_one",
       .text = plainly("multiplies by the norm's weight - 1"),
       .edit = weighted([](float weight, int64_t) { return weight - 1.0F; }),
       .possible = &Network::has_norm_weight,
       .faults = {{"norm-weight-less-one", FaultGroup::kNorm,
                   "the 1 that belongs to a weight is left out, as for a file of Gemma that is "
                   "read as it was published",
                   Checkpoint::kAttnNorm}}},
      {.cause = "norm_order",
       .text = plainly("is rotated before the norm of q and k, not after it"),
       .edit = {.rope = rotate_then_normalise},
       .possible = is_rotation_of_normed,
       .faults = {of_rotation()}},
      // The same of an engine that logs the norm's result after the rotation's, and of its
      // rotation.
      {.cause = "norm_order",
       .text = plainly("is rotated before the norm of q and k, which is after it"),
       .edit = {.rope = rotate_what_is_normalised},
       .possible = is_rotation_of_normed},
      {.cause = "norm_order",
       .text = plainly("normalises what has been rotated: the norm of q and k is after the "
                       "rotation, not before it"),
       .edit = {.norm = normalise_rotated},
       .possible = is_norm_of_rotated},
      {.cause = "norm_order",
       .text = plainly("is normalised before the rotation, not after it"),
       .edit = {.norm = run_without_norm, .rope = normalise_then_rotate},
       .possible = is_rotation_to_be_normed,
       .faults = {before_rotation()}},
      {.cause = "qk_norm",
       .text = plainly("leaves the norm of q and k out"),
       .edit = {.norm = run_without_norm},
       .possible = is_of_qk,
       .faults = {of_qk("qk-norm-missing", "q and k are not normalised", needs_qk_norm)}},
      {.cause = "qk_norm",
       .text = plainly("leaves the weights of the norm of q and k out"),
       .edit = weighted([](float, int64_t) { return 1.0F; }),
       .possible = [](const Network& network,
                      Op op) { return is_of_qk(network, op) && network.has_norm_weight(op); },
       .faults = {of_qk("qk-norm-weight-missing", "the weights of the norm of q and k are left out",
                        needs_weighted_qk_norm)}},
      {.cause = "qk_norm",
       .text = plainly("normalises all heads together, not each by itself"),
       .edit = {.norm = run_over_all_heads},
       .possible =
           [](const Network& network, Op op) {
             return is_of_qk(network, op) && is_of_heads(network.norm_call(op), network, op);
           },
       .faults = {of_qk("qk-norm-of-all-heads",
                        "the norm of q and k is over all heads, not over each",
                        [](const Model& model) { return needs_qk_norm_of(model, true); })}},
      {.cause = "qk_norm",
       .text = plainly("normalises each head by itself, not all together"),
       .edit = {.norm = run_over_each_head},
       .possible =
           [](const Network& network, Op op) {
             return is_of_qk(network, op) && !is_of_heads(network.norm_call(op), network, op) &&
                    network.width(op) > network.head_dim;
           },
       .faults = {of_qk("qk-norm-of-each-head",
                        "the norm of q and k is over each head, not over all",
                        [](const Model& model) { return needs_qk_norm_of(model, false); })}},
      {.edit = weighted([](float, int64_t) { return 1.0F; }),
       .faults = {{"norm-weight-missing", FaultGroup::kNorm, "the weight is left out",
                   Checkpoint::kAttnNorm}}},
      // Without a bias a scale like any other, as which a comparison names it.
      {.cause = "scale",
       .edit = weighted(of_unbiased_variance),
       .faults = {unbiased("norm-unbiased-variance",
                           [](const Model& model) {
                             return has_norm_bias(model) ? "its norms have a bias" : "";
                           })}},
      {.cause = "norm_kind",
       .text = plainly("divides the squares by the width less one"),
       .edit = weighted(of_unbiased_variance),
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
      std::move(bf16_before_weight),
  };
}

}  // namespace assay::mistakes
