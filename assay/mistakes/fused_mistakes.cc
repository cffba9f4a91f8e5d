#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <span>
#include <utility>

#include "assay/mistakes/mistake.h"
#include "kernels/reference/dequantize.h"

// Which rows of a matrix that holds several products go to which product.
namespace assay::mistakes {
namespace {

constexpr int64_t kMaxFusedWeights = int64_t{1}
                                     << 26;  // of a product that is computed with other rows

// Products that files have in one matrix, in its order.
using Fused = std::vector<Checkpoint>;
const Fused kQkv = {Checkpoint::kQ, Checkpoint::kK, Checkpoint::kV};
const Fused kGateUp = {Checkpoint::kFfnGate, Checkpoint::kFfnUp};

const Fused& fused_with(Checkpoint checkpoint) {
  const bool of_ffn = std::ranges::find(kGateUp, checkpoint) != kGateUp.end();
  return of_ffn ? kGateUp : kQkv;
}

bool are_fused(const Network& network, Op op) {
  const Linear* own = network.linear(op);
  if (own == nullptr || own->weight.rows * own->weight.columns > kMaxFusedWeights) return false;
  const Fused& fused = fused_with(op.checkpoint);
  return std::ranges::find(fused, op.checkpoint) != fused.end() &&
         std::ranges::all_of(fused, [&](Checkpoint each) {
           const Linear* linear = network.linear({each, op.layer});
           return linear != nullptr && linear->weight.columns == own->weight.columns &&
                  network.kind_of({each, op.layer}) == network.kind_of(op);
         });
}

// The fused matrix's rows where `n_parts` of it each have their share of all products, as numbers
// of rows where the products come one after the other.
std::vector<int64_t> rows_in_parts(const std::vector<int64_t>& counts, int64_t n_parts) {
  std::vector<int64_t> rows;
  for (int64_t part = 0; part < n_parts; ++part) {
    int64_t first = 0;
    for (const int64_t count : counts) {
      for (int64_t i = 0; i < count / n_parts; ++i) {
        rows.push_back(first + part * (count / n_parts) + i);
      }
      first += count;
    }
  }
  return rows;
}

// Which row of the matrix stands where a product is read: if the matrix is taken to be in parts and
// is not (`parts` is their number), or is in parts and is not taken to be (that number, negative).
std::vector<int64_t> rows_read(const std::vector<int64_t>& counts, int64_t parts) {
  const std::vector<int64_t> rows = rows_in_parts(counts, std::abs(parts));
  if (parts < 0) return rows;
  std::vector<int64_t> inverse(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    inverse[static_cast<size_t>(rows[i])] = static_cast<int64_t>(i);
  }
  return inverse;
}

// A row of one of the products.
struct Row {
  const Linear& linear;
  int64_t number;
};

void run_with_rows(std::span<const Row> rows, MatmulCall call, Kernels& kernels) {
  const int64_t columns = call.w.columns;
  std::vector<float> weights(rows.size() * static_cast<size_t>(columns));
  std::vector<float> bias;
  for (const Row& row : rows) {
    const WeightMatrix& stored = row.linear.weight;
    dequantize_row(stored.type, stored.slice(row.number, 1).data, columns,
                   weights.data() + std::ssize(bias) * columns);
    bias.push_back(row.linear.bias == nullptr ? 0.0F : row.linear.bias[row.number]);
  }
  call.w = {TensorType::kF32, call.w.rows, columns, weights.data()};
  call.bias = bias.data();
  kernels.run(call);
}

// The product with the rows that rows_read() gives it for the parameter.
void run_with_other_rows(const OpContext& context, MatmulCall call, Kernels& kernels) {
  const Network& network = context.network;
  const Op op = context.op();
  const Linear& own = *network.linear(op);
  const bool of_expert = network.kind_of(op) == OpKind::kExpertLinear;
  const int64_t n_experts = of_expert ? network.model->config().routing.n_experts : 1;
  const int64_t expert = first_row(own.weight, call.w) / own.stride(n_experts);
  const auto parts = static_cast<int64_t>(context.parameter);
  std::vector<Row> all;
  std::vector<int64_t> counts;
  int64_t first = 0;  // of the product's own rows
  for (const Checkpoint each : fused_with(op.checkpoint)) {
    const Linear& linear = *network.linear({each, op.layer});
    const int64_t count = linear.rows_of_expert(n_experts);
    if (count % parts != 0) return kernels.run(call);
    if (each == op.checkpoint) first = std::ssize(all);
    const int64_t begin = expert * linear.stride(n_experts) + linear.first;
    for (int64_t i = 0; i < count; ++i) all.push_back({linear, begin + i});
    counts.push_back(count);
  }
  const std::vector<int64_t> read = rows_read(counts, parts);
  std::vector<Row> rows;
  for (int64_t i = first; i < first + call.w.rows; ++i) {
    rows.push_back(all[static_cast<size_t>(read[static_cast<size_t>(i)])]);
  }
  run_with_rows(rows, call, kernels);
}

// Numbers of parts that a matrix may be in: one for each of `most`, or for each rank.
std::vector<double> parts_of(int64_t most) {
  std::vector<double> counts;
  for (const int64_t count : {int64_t{2}, int64_t{4}, int64_t{8}, most}) {
    if (count < 2 || count > most || most % count != 0) continue;
    for (const double signed_count : {static_cast<double>(count), -static_cast<double>(count)}) {
      if (std::ranges::find(counts, signed_count) == counts.end()) counts.push_back(signed_count);
    }
  }
  std::ranges::sort(counts);
  return counts;
}

int64_t inner_width(const Network& network) {
  if (network.model == nullptr) return 0;
  const ModelConfig& config = network.model->config();
  return config.routing.n_experts > 0 ? config.expert_feed_forward_length
                                      : config.feed_forward_length;
}

std::string needs_groups_of_rows(const Model& model) {
  const ModelConfig& config = model.config();
  if (config.find(Checkpoint::kKvB) == nullptr && config.n_kv_heads > 1) {
    return needs_query_product(model);
  }
  return "it has a single head of keys, or latent ones";
}

Mistake fused_mistake(Checkpoint first, std::string of, std::string by,
                      std::function<int64_t(const Network&)> most, std::vector<Injected> faults) {
  const auto text = [of, by, most](const Network& network, double parts) {
    const auto count = static_cast<int64_t>(std::abs(parts));
    const std::string order =
        count == most(network) ? by : fmt::format("in {} parts, one for each rank", count);
    return parts > 0 ? fmt::format("reads the fused matrix of {} as if it held them {}", of, order)
                     : fmt::format("reads a fused matrix that holds {} {} as if it held each whole",
                                   of, order);
  };
  return {.cause = "fused_order",
          .text = text,
          .edit = {.matmul = run_with_other_rows},
          .possible =
              [first, most](const Network& network, Op op) {
                return fused_with(op.checkpoint).front() == first && are_fused(network, op) &&
                       !parts_of(most(network)).empty();
              },
          .grid = [most](const Network& network) { return parts_of(most(network)); },
          .faults = std::move(faults)};
}

// A part of a product, of which other parts are further ones.
struct Part {
  Checkpoint of;
  enum class Rows : uint8_t { kAll, kLikeGate, kAfterGate } rows = Rows::kAll;
};

// The parts of a fused matrix in the file's order, and in which order they are read.
struct PartOrder {
  std::vector<Part> parts;
  std::vector<size_t> read;  // read[0] is the part that the first rows are taken for
};

// All its rows in the file's order; none where the layer has not all the parts.
std::vector<Row> rows_of(const Part& part, const Network& network, int layer) {
  const Linear* linear = network.linear({part.of, layer});
  const Linear* gate = network.linear({Checkpoint::kLinearZ, layer});
  if (linear == nullptr || (part.rows != Part::Rows::kAll && gate == nullptr)) return {};
  const int64_t border = part.rows == Part::Rows::kAll ? 0 : gate->weight.rows;
  const int64_t first = part.rows == Part::Rows::kAfterGate ? border : 0;
  const int64_t end = part.rows == Part::Rows::kLikeGate ? border : linear->weight.rows;
  std::vector<Row> rows;
  for (int64_t i = first; i < end; ++i) rows.push_back({*linear, i});
  return rows;
}

void run_with_parts_in_order(const PartOrder& order, const OpContext& context, MatmulCall call,
                             Kernels& kernels) {
  std::vector<std::vector<Row>> parts;
  std::vector<Row> file;
  for (const Part& part : order.parts) {
    parts.push_back(rows_of(part, context.network, context.op().layer));
    std::ranges::copy(parts.back(), std::back_inserter(file));
  }
  std::vector<std::vector<Row>> read(parts.size());
  auto next = file.begin();
  for (const size_t part : order.read) {
    const auto end = next + std::ssize(parts[part]);
    read[part] = std::vector<Row>(next, end);
    next = end;
  }
  std::vector<Row> rows;  // of the product's parts, which stand in its order
  for (size_t i = 0; i < parts.size(); ++i) {
    if (order.parts[i].of != context.op().checkpoint) continue;
    std::ranges::copy(read[i], std::back_inserter(rows));
  }
  run_with_rows(rows, call, kernels);
}

// Whether another part than the file's is read for the op.
bool is_read_otherwise(const PartOrder& order, const Network& network, Op op) {
  const Linear* own = network.linear(op);
  if (own == nullptr || own->weight.rows * own->weight.columns > kMaxFusedWeights) return false;
  bool is_moved = false;
  for (size_t i = 0; i < order.parts.size(); ++i) {
    const Part& part = order.parts[i];
    if (rows_of(part, network, op.layer).empty()) return false;
    is_moved = is_moved || (part.of == op.checkpoint && order.read[i] != i);
  }
  return is_moved;
}

Mistake order_mistake(std::string cause, std::string text, PartOrder order) {
  return {.cause = std::move(cause),
          .text = plainly(std::move(text)),
          .edit = {.matmul =
                       [order](const OpContext& context, MatmulCall call, Kernels& kernels) {
                         run_with_parts_in_order(order, context, call, kernels);
                       }},
          .possible = [order](const Network& network, Op op) {
            return is_read_otherwise(order, network, op);
          }};
}

// Of what attention, a convolution or a state space model reads, which one matrix gives.
std::vector<Mistake> part_order_mistakes() {
  using Rows = Part::Rows;
  const std::vector<Part> qkv = {{Checkpoint::kQ}, {Checkpoint::kK}, {Checkpoint::kV}};
  const std::vector<Part> conv = {{Checkpoint::kConvB}, {Checkpoint::kConvC}, {Checkpoint::kConvX}};
  const std::vector<Part> mamba = {{Checkpoint::kSsmX}, {Checkpoint::kLinearZ}};
  const std::vector<Part> mamba2 = {{Checkpoint::kLinearZ},
                                    {Checkpoint::kSsmXbc, Rows::kLikeGate},
                                    {Checkpoint::kSsmXbc, Rows::kAfterGate},
                                    {Checkpoint::kSsmDt}};
  const std::vector<Part> steps = {
      {Checkpoint::kSsmDtIn}, {Checkpoint::kSsmB}, {Checkpoint::kSsmC}};
  constexpr char kXForZ[] =
      "takes x for the gate z in the product before the convolution, and z for x";
  return {order_mistake("fused_order", "takes Q, K and V from one matrix as if K were first",
                        {qkv, {1, 0, 2}}),
          order_mistake("gate_up_swapped",
                        "takes the second part of the product before a convolution for the third, "
                        "and the third for the second",
                        {conv, {0, 2, 1}}),
          order_mistake("fused_order", kXForZ, {mamba, {1, 0}}),
          order_mistake("fused_order", kXForZ, {mamba2, {1, 0, 2, 3}}),
          order_mistake("fused_order",
                        "takes the product before the convolution for x, B and C, then z, where z "
                        "is first",
                        {mamba2, {1, 2, 0, 3}}),
          order_mistake("ssm", "swaps B and C in the product that gives both", {steps, {0, 2, 1}}),
          order_mistake("fused_order",
                        "takes the product of steps, B and C for B, C and then the steps",
                        {steps, {1, 2, 0}})};
}

}  // namespace

std::vector<Mistake> fused_mistakes() {
  const auto by_kv_head = [](const Network& network) { return network.n_kv_heads; };
  const auto parts = [](std::function<int64_t(const Network&)> most, double sign) {
    return
        [=](const OpContext& context) { return sign * static_cast<double>(most(context.network)); };
  };
  const auto fault_of = [](const char* name, const char* what, const Fused& all, FaultGroup group,
                           UnsupportedReason reason,
                           std::function<double(const OpContext&)> parameter) {
    return Injected{.name = name,
                    .group = group,
                    .what = what,
                    .at = all.front(),
                    .unsupported_reason = std::move(reason),
                    .parameter = std::move(parameter),
                    .also = {all.begin() + 1, all.end()},
                    .in_arguments = true};
  };
  std::vector<Mistake> mistakes = {
      fused_mistake(
          Checkpoint::kQ, "Q, K and V", "head by head", by_kv_head,
          {fault_of("qkv-read-head-by-head",
                    "the fused matrix of Q, K and V is read as if it held them head by head", kQkv,
                    FaultGroup::kLinear, needs_groups_of_rows, parts(by_kv_head, 1)),
           fault_of(
               "qkv-read-whole",
               "a fused matrix that holds Q, K and V head by head is read as if it held each whole",
               kQkv, FaultGroup::kLinear, needs_groups_of_rows, parts(by_kv_head, -1))}),
      fused_mistake(
          Checkpoint::kFfnGate, "gate and up", "row by row", inner_width,
          {fault_of("gate-up-read-row-by-row",
                    "the fused matrix of gate and up is read as if it held them row by row",
                    kGateUp, FaultGroup::kFeedForward, needs_gate, parts(inner_width, 1)),
           fault_of("gate-up-of-ranks-read-whole",
                    "a fused matrix that holds gate and up in two parts is read as if it held each "
                    "whole",
                    kGateUp, FaultGroup::kFeedForward, needs_gate, with(-2))})};
  for (Mistake& mistake : part_order_mistakes()) mistakes.push_back(std::move(mistake));
  return mistakes;
}

}  // namespace assay::mistakes
