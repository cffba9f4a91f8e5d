#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "assay/mistakes/norm_edits.h"
#include "assay/mistakes/rotation.h"

// Of the norms of q and k: which elements are normalised together, and whether before or after the
// rotation.
namespace assay::mistakes {
namespace {

constexpr float kOfNoise = 1e-3F;  // of numbers that are computed alike

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

// The heads of each of so many ranks together, or each by itself where there are fewer.
void run_over_ranks(const OpContext& context, NormCall call, Kernels& kernels) {
  const auto ranks = static_cast<int64_t>(context.parameter);
  const int64_t heads = call.width / context.network.head_dim;
  call.n_weights = std::min(ranks, heads);
  call.n_tokens *= call.n_weights;
  call.width /= call.n_weights;
  call.x_width = 0;
  kernels.run(call);
}

// Numbers of ranks that share the heads, and have several of them each.
std::vector<double> rank_counts(const Network& network) {
  std::vector<double> counts;
  for (int64_t ranks = 2; ranks < network.n_heads; ranks *= 2) {
    const bool share = network.n_heads % ranks == 0 &&
                       network.n_kv_heads % std::min(ranks, network.n_kv_heads) == 0;
    if (share) counts.push_back(static_cast<double>(ranks));
  }
  return counts;
}

bool is_of_all_heads(const Network& network, Op op) {
  return is_of_qk(network, op) && !is_of_heads(network.norm_call(op), network, op) &&
         network.width(op) > network.head_dim;
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

Injected of_ranks() {
  Injected fault =
      of_qk("qk-norm-of-each-rank", "the norm of q and k is over the heads of each of two ranks",
            [](const Model& model) -> std::string {
              if (std::string reason = needs_qk_norm_of(model, false); !reason.empty())
                return reason;
              return model.config().n_heads % 2 == 0 && model.config().n_heads > 2
                         ? ""
                         : "two ranks have no several heads each";
            });
  fault.parameter = with(2);
  return fault;
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

}  // namespace

std::vector<Mistake> qk_norm_mistakes() {
  return {
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
      // As a log shows it that has what is rotated; others show it at the norm
      // (norm_weight_mistakes()).
      {.cause = "norm_order",
       .text = plainly("is normalised before the rotation, not after it"),
       .edit = {.rope = normalise_then_rotate},
       .possible = is_rotation_to_be_normed},
      {.cause = "qk_norm",
       .text = plainly("leaves the norm of q and k out"),
       .edit = {.norm = run_without_norm},
       .possible = is_of_qk,
       .faults = {of_qk("qk-norm-missing", "q and k are not normalised", needs_qk_norm)}},
      {.cause = "qk_norm",
       .text = plainly("leaves the weights of the norm of q and k out"),
       .edit = weighted_norm([](float, int64_t) { return 1.0F; }),
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
       .possible = is_of_all_heads,
       .faults = {of_qk("qk-norm-of-each-head",
                        "the norm of q and k is over each head, not over all",
                        [](const Model& model) { return needs_qk_norm_of(model, false); })}},
      {.cause = "qk_norm",
       .text =
           [](const Network&, double ranks) {
             return fmt::format(
                 "normalises the heads of each of {:.0f} ranks by themselves, not "
                 "all together",
                 ranks);
           },
       .edit = {.norm = run_over_ranks},
       .possible = is_of_all_heads,
       .grid = rank_counts,
       .faults = {of_ranks()}}};
}

}  // namespace assay::mistakes
