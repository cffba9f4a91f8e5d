#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "assay/mistakes/mistake.h"

// Which layer's weights a layer has, and how often it runs.
namespace assay::mistakes {
namespace {

std::string needs_like_layers(const Model& model) {
  const std::vector<LayerConfig>& layers = model.config().layers;
  if (layers.size() < 2) return {};
  const auto with_weights = [](const LayerConfig& layer) {
    std::vector<OpSpec> ops = layer.ops;
    std::erase_if(ops, [](const OpSpec& op) { return op.tensor.empty(); });
    for (OpSpec& op : ops) op.in = {};  // where a layer is not rotated, others are read
    return ops;
  };
  return with_weights(layers[0]) == with_weights(layers[1])
             ? ""
             : "its first two layers have other tensors";
}

bool has_weights(OpKind kind) {
  return kind == OpKind::kLinear || kind == OpKind::kExpertLinear || kind == OpKind::kNorm ||
         kind == OpKind::kConv || kind == OpKind::kAttention || kind == OpKind::kSelect ||
         kind == OpKind::kWeigh;
}

// What the op has in another layer: the same op, of weights in the same form.
bool has_like(const Network& network, Op op, int other) {
  if (network.model == nullptr || op.layer < 0 || other < 0 || other >= network.n_layers) {
    return false;
  }
  const OpSpec* own = find_spec(network.layer(op.layer), op.checkpoint);
  const OpSpec* like = find_spec(network.layer(other), op.checkpoint);
  if (own == nullptr || like == nullptr || own->kind != like->kind || !has_weights(own->kind)) {
    return false;
  }
  const Linear* a = network.linear(op);
  const Linear* b = network.linear({op.checkpoint, other});
  if ((a == nullptr) != (b == nullptr)) return false;
  return a == nullptr ||
         (a->weight.rows == b->weight.rows && a->weight.columns == b->weight.columns);
}

const Extra& extra_of(const Network& network, int layer) {
  return network.model->layers[static_cast<size_t>(layer)].extra;
}

// Which layer's weights a layer has, by the parameter.
using LayerMap = int (*)(int layer, int n_layers, double parameter);

int other_layer(LayerMap map, const OpContext& context) {
  return map(context.site.layer, context.network.n_layers, context.parameter);
}

// The weights of what `map` gives, where the op has its like there.
KernelHooks with_weights_of(LayerMap map) {
  const auto is_other = [map](const OpContext& context) {
    return has_like(context.network, context.op(), other_layer(map, context));
  };
  return {.matmul =
              [=](const OpContext& context, MatmulCall call, Kernels& kernels) {
                const Op op = context.op();
                if (is_other(context)) {
                  const Linear& own = *context.network.linear(op);
                  const Linear& other =
                      *context.network.linear({op.checkpoint, other_layer(map, context)});
                  // Of an expert the rows that it has in the matrix of all.
                  const int64_t first = first_row(own.weight, call.w) - own.first + other.first;
                  call.w = other.weight.slice(first, call.w.rows);
                  call.bias = other.bias == nullptr ? nullptr : other.bias + first;
                }
                kernels.run(call);
              },
          .norm =
              [=](const OpContext& context, NormCall call, Kernels& kernels) {
                if (is_other(context)) {
                  const NormCall other = context.network.norm_call(
                      {context.site.checkpoint, other_layer(map, context)});
                  call.weight = other.weight;
                  call.bias = other.bias;
                }
                kernels.run(call);
              },
          .attention =
              [=](const OpContext& context, AttentionCall call, Kernels& kernels) {
                if (is_other(context)) {
                  call.sinks = extra_of(context.network, other_layer(map, context)).sinks;
                }
                kernels.run(call);
              },
          .conv =
              [=](const OpContext& context, ConvCall call, Kernels& kernels) {
                if (is_other(context)) {
                  call.weight = extra_of(context.network, other_layer(map, context)).conv;
                }
                kernels.run(call);
              },
          .select =
              [=](const OpContext& context, SelectCall call, Kernels& kernels) {
                if (is_other(context)) {
                  call.bias = extra_of(context.network, other_layer(map, context)).choice_bias;
                }
                kernels.run(call);
              },
          .weigh =
              [=](const OpContext& context, WeighCall call, Kernels& kernels) {
                if (is_other(context) && call.scales != nullptr) {
                  call.scales = extra_of(context.network, other_layer(map, context)).expert_scales;
                }
                kernels.run(call);
              }};
}

// The op's own weights are not the numbers that it has beside products and norms.
bool has_own_weights(const Network& network, Op op) {
  if (network.model == nullptr || op.layer < 0) return false;
  const OpKind kind = network.kind_of(op);
  if (kind == OpKind::kAttention) return extra_of(network, op.layer).sinks != nullptr;
  if (kind == OpKind::kSelect) return extra_of(network, op.layer).choice_bias != nullptr;
  if (kind == OpKind::kWeigh) return network.expert_scales(op) != nullptr;
  return has_weights(kind);
}

int beside(int layer, int, double by) {
  return layer + static_cast<int>(by);
}

// The layers `first` and the one after it for each other.
int neighbours_swapped(int layer, int, double first) {
  const auto at = static_cast<int>(first);
  if (layer == at) return at + 1;
  return layer == at + 1 ? at : layer;
}

int reversed(int layer, int n_layers, double) {
  return n_layers - 1 - layer;
}

// Of engines with stages, each of which counts its layers from 0.
int in_own_stage(int layer, int n_layers, double n_stages) {
  const int count = n_layers / static_cast<int>(n_stages);
  return count > 0 ? layer % count : layer;
}

// By the numbers of layers as text: 0, 1, 10, 11, 2.
int in_order_of_text(int layer, int n_layers, double) {
  std::vector<std::string> names;
  for (int i = 0; i < n_layers; ++i) names.push_back(std::to_string(i));
  std::ranges::sort(names);
  return std::stoi(names[static_cast<size_t>(layer)]);
}

// Whether any layer has the like of this one, and another one: by that a search knows what to try.
bool has_any_like(const Network& network, Op op) {
  return has_own_weights(network, op) &&
         (has_like(network, op, op.layer - 1) || has_like(network, op, op.layer + 1));
}

std::vector<Checkpoint> all_with_weights() {
  std::vector<Checkpoint> all = {Checkpoint::kAttnNorm};
  for (int i = 0; i < kCheckpoints; ++i) {
    const auto each = static_cast<Checkpoint>(i);
    if (is_in_layer(each) && each != all.front() && has_weights(kind_of(each))) all.push_back(each);
  }
  return all;
}

Injected layer_fault(const char* name, const char* what, std::function<double(const OpContext&)> of,
                     bool in_every_layer) {
  std::vector<Checkpoint> also = all_with_weights();
  also.erase(also.begin());
  return {.name = name,
          .group = FaultGroup::kOutput,
          .what = what,
          .at = Checkpoint::kAttnNorm,
          .unsupported_reason = needs_like_layers,
          .parameter = std::move(of),
          .also = std::move(also),
          .in_every_layer = in_every_layer,
          .in_arguments = true};
}

std::vector<Mistake> layer_order_mistakes() {
  Mistake of_neighbour{.cause = "layer_order",
                       .text =
                           [](const Network&, double by) {
                             return fmt::format("has the weights of the layer {} it",
                                                by < 0 ? "before" : "after");
                           },
                       .edit = with_weights_of(beside),
                       .possible = has_any_like,
                       .grid = among({-1, 1}),
                       .faults = {layer_fault(
                           "layer-weights-of-next",
                           "a layer has the weights of the next, the last of the one before",
                           [](const OpContext& context) {
                             const int next = context.site.layer + 1;
                             return next < context.network.n_layers ? 1.0 : -1.0;
                           },
                           false)}};
  Mistake exchange{
      .cause = "layer_order",
      .text =
          [](const Network&, double first) {
            return fmt::format("has the weights of another layer: {:.0f} and {:.0f} are exchanged",
                               first, first + 1);
          },
      .edit = with_weights_of(neighbours_swapped),
      .possible = has_any_like,
      .grid =
          [](const Network& network) {
            std::vector<double> firsts;
            for (int i = 0; i + 1 < network.n_layers; ++i) firsts.push_back(i);
            return firsts;
          },
      .of_all_layers = true,
      .faults = {layer_fault("layers-swapped", "the first two layers change places", with(0),
                             true)}};
  Mistake as_text{
      .cause = "layer_order",
      .text = plainly("has the weights of another layer: they are ordered by their "
                      "numbers as text (0, 1, 10, 11, 2)"),
      .edit = with_weights_of(in_order_of_text),
      .possible = [](const Network& network,
                     Op op) { return network.n_layers > 10 && has_any_like(network, op); },
      .of_all_layers = true};
  Mistake stages{.cause = "layer_order",
                 .text =
                     [](const Network&, double count) {
                       return fmt::format(
                           "has the weights of another layer: they are counted from 0 in each of "
                           "{:.0f} stages",
                           count);
                     },
                 .edit = with_weights_of(in_own_stage),
                 .possible = has_any_like,
                 .grid = among({2, 4, 8}),
                 .of_all_layers = true};
  Mistake backwards{
      .cause = "layer_order",
      .text = plainly("has the weights of another layer: their order is reversed"),
      .edit = with_weights_of(reversed),
      .possible = [](const Network& network,
                     Op op) { return network.n_layers > 2 && has_any_like(network, op); },
      .of_all_layers = true};
  return {std::move(of_neighbour), std::move(exchange), std::move(as_text), std::move(stages),
          std::move(backwards)};
}

// What the layer gives for `x`, which is of all positions from 0 on.
std::shared_ptr<const Matrix> output_of(const Network& network, int layer, const Matrix& x) {
  std::map<Op, std::shared_ptr<const Matrix>> values;
  values[layer_input({Checkpoint::kOutput, layer})] = std::make_shared<Matrix>(x);
  for (const OpSpec& spec : network.layer(layer)) {
    const Op op{spec.out, layer};
    Inputs inputs;
    for (int64_t t = 0; t < x.rows; ++t) inputs.positions.push_back(t);
    inputs.other = [&](Op other) -> std::shared_ptr<const Matrix> {
      const auto found = values.find(other);
      return found == values.end() ? nullptr : found->second;
    };
    for (const Op input : network.inputs(op)) inputs.rows.push_back(values.at(input).get());
    values[op] = std::make_shared<Matrix>(network.compute(op, inputs));
  }
  return values.at({Checkpoint::kOutput, layer});
}

// Whether the op reads what the layer before its own gives, or the last layer.
bool reads_layer(const Network& network, Op op) {
  const std::vector<Op> inputs = network.inputs(op);
  const Checkpoint first = inputs.empty() ? op.checkpoint : inputs.front().checkpoint;
  return first == Checkpoint::kOutput || (op.layer == 0 && first == Checkpoint::kEmbedding);
}

// The layer that runs once more before the op reads what it gives: its own, or the one before.
int repeated_layer(const OpContext& context) {
  const int own = context.op().layer < 0 ? context.network.n_layers : context.op().layer;
  return own + static_cast<int>(context.parameter);
}

// Whether all that the layer computes follows from what enters it: it has no embedding of its own,
// and no keys of another.
bool follows_from_input(const Network& network, int layer) {
  std::set<Op> known = {layer_input({Checkpoint::kOutput, layer})};
  for (const OpSpec& spec : network.layer(layer)) {
    const Op op{spec.out, layer};
    const std::vector<Op> inputs = network.inputs(op);
    const auto is_known = [&](Op input) { return known.contains(input); };
    if (inputs.empty() || !std::ranges::all_of(inputs, is_known)) return false;
    known.insert(op);
  }
  return true;
}

// `x` with a layer more behind it; nothing where not all positions are at hand, or that layer reads
// more than `x`.
std::shared_ptr<const Matrix> after_repeated(const OpContext& context, const float* x,
                                             int64_t n_rows, int64_t width) {
  const int layer = repeated_layer(context);
  const std::vector<int64_t>& positions = context.inputs.positions;
  const bool is_whole =
      std::ssize(positions) == n_rows && !positions.empty() && positions.back() == n_rows - 1;
  if (!is_whole || layer < 0 || layer >= context.network.n_layers) return nullptr;
  if (!follows_from_input(context.network, layer)) return nullptr;
  Matrix rows(n_rows, width);
  std::copy_n(x, rows.values.size(), rows.values.begin());
  return output_of(context.network, layer, rows);
}

// Of an engine that runs a layer twice: what reads its result reads another one.
Mistake repeated_mistake() {
  return {
      .cause = "layer_order",
      .text =
          [](const Network&, double by) {
            return fmt::format("reads what {} gives once it has run again",
                               by < 0 ? "the layer before" : "its own layer");
          },
      .text_of_layer =
          [](double by) {
            return std::string(by < 0 ? "reads what the layer before gives once it has run again"
                                      : "runs twice");
          },
      .edit = {.matmul =
                   [](const OpContext& context, MatmulCall call, Kernels& kernels) {
                     const auto rows =
                         after_repeated(context, call.x, call.n_tokens, call.w.columns);
                     if (rows) call.x = rows->values.data();
                     kernels.run(call);
                   },
               .norm =
                   [](const OpContext& context, NormCall call, Kernels& kernels) {
                     const auto rows = after_repeated(context, call.x, call.n_tokens, call.width);
                     if (rows) call.x = rows->values.data();
                     kernels.run(call);
                   },
               .add =
                   [](const OpContext& context, AddCall call, Kernels& kernels) {
                     const int64_t n_rows = std::ssize(context.inputs.positions);
                     const auto rows = after_repeated(context, call.a, n_rows, call.count / n_rows);
                     if (rows) call.a = rows->values.data();
                     kernels.run(call);
                   }},
      .possible = [](const Network& network,
                     Op op) { return network.model != nullptr && reads_layer(network, op); },
      .grid = among({-1, 0}),
      .reads_all_positions = true};
}

}  // namespace

std::vector<Mistake> layer_mistakes() {
  std::vector<Mistake> mistakes = layer_order_mistakes();
  mistakes.push_back(repeated_mistake());
  return mistakes;
}

}  // namespace assay::mistakes
