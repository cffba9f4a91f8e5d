#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/fault_builders.h"

// Wrong readings of quantised blocks, written as edits of the bytes that then are read rightly. The
// layouts are those of the GGUF format; `d`, `m` and `dmin` are binary16.

namespace assay::mutate {
namespace {

using Bytes = std::span<std::byte>;
using Misread = std::function<void(Bytes block)>;

std::byte nibbles_swapped(std::byte byte) {
  return byte << 4 | byte >> 4;
}

// The four pairs of bits of a byte in the other order.
std::byte pairs_reversed(std::byte byte) {
  const std::byte swapped = nibbles_swapped(byte);
  return (swapped & std::byte{0x33}) << 2 | (swapped & std::byte{0xCC}) >> 2;
}

Misread on_bytes(size_t first, size_t count, std::byte (*edit)(std::byte)) {
  return [=](Bytes block) {
    const Bytes part = block.subspan(first, count);
    std::transform(part.begin(), part.end(), part.begin(), edit);
  };
}

Misread cleared(size_t first, size_t count) {
  return on_bytes(first, count, [](std::byte) { return std::byte{0}; });
}

Misread swapped(size_t a, size_t b, size_t count) {
  return [=](Bytes block) {
    const auto begin = block.begin();
    std::swap_ranges(begin + static_cast<std::ptrdiff_t>(a),
                     begin + static_cast<std::ptrdiff_t>(a + count),
                     begin + static_cast<std::ptrdiff_t>(b));
  };
}

Misread rotated(size_t first, size_t count) {
  return [=](Bytes block) {
    const Bytes part = block.subspan(first, count);
    std::rotate(part.begin(), part.begin() + 1, part.end());
  };
}

// The upper two bits of the 6-bit scales and mins are left out for the sub-blocks 4 to 7.
std::byte without_upper_bits(std::byte byte) {
  return byte & std::byte{0x3F};
}

struct Misreading {
  TensorType type;
  const char* name;
  const char* what;
  Misread block;
};

std::vector<Misreading> misreadings() {
  using enum TensorType;
  const char* nibbles = "the two codes of a byte are taken in the other order";
  const char* no_min = "the minimum of a block is taken for 0";
  const char* no_high = "the high bits of the codes are taken for 0";
  const char* packing = "the upper bits of the packed scales are left out";
  return {
      {kQ4_0, "nibbles", nibbles, on_bytes(2, 16, nibbles_swapped)},
      {kQ4_1, "nibbles", nibbles, on_bytes(4, 16, nibbles_swapped)},
      {kQ4_1, "min", no_min, cleared(2, 2)},
      {kQ4_1, "scale-for-min", "scale and minimum are taken for each other", swapped(0, 2, 2)},
      {kQ5_0, "nibbles", nibbles, on_bytes(6, 16, nibbles_swapped)},
      {kQ5_0, "high-bits", no_high, cleared(2, 4)},
      {kQ5_1, "nibbles", nibbles, on_bytes(8, 16, nibbles_swapped)},
      {kQ5_1, "min", no_min, cleared(2, 2)},
      {kQ5_1, "high-bits", no_high, cleared(4, 4)},
      {kQ8_0, "halves", "the two halves of a block's codes change places", swapped(2, 18, 16)},
      {kQ2_K, "code-order", "the four codes of a byte are taken in the other order",
       on_bytes(16, 64, pairs_reversed)},
      {kQ2_K, "scale-for-min", "scales and mins are taken for each other",
       on_bytes(0, 16, nibbles_swapped)},
      {kQ3_K, "code-order", "the four codes of a byte are taken in the other order",
       on_bytes(32, 64, pairs_reversed)},
      {kQ3_K, "high-bits", no_high, cleared(0, 32)},
      {kQ3_K, "scale-packing", packing, cleared(104, 4)},
      {kQ4_K, "nibbles", nibbles, on_bytes(16, 128, nibbles_swapped)},
      {kQ4_K, "min", no_min, cleared(2, 2)},
      {kQ4_K, "scale-for-min", "scale and minimum are taken for each other", swapped(0, 2, 2)},
      {kQ4_K, "scale-packing", packing, on_bytes(4, 8, without_upper_bits)},
      {kQ5_K, "nibbles", nibbles, on_bytes(48, 128, nibbles_swapped)},
      {kQ5_K, "min", no_min, cleared(2, 2)},
      {kQ5_K, "high-bits", no_high, cleared(16, 32)},
      {kQ5_K, "scale-packing", packing, on_bytes(4, 8, without_upper_bits)},
      {kQ6_K, "nibbles", nibbles, on_bytes(0, 128, nibbles_swapped)},
      {kQ6_K, "high-bits", no_high, cleared(128, 64)},
      {kQ6_K, "scales", "each sub-block has the scale of the next", rotated(192, 16)},
  };
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the functions free what they hold
}

// Where the first matrix of a type is that is multiplied with: in `layer`, or in the first layer
// that has one, or the output matrix.
struct MatrixPlace {
  FaultPlace place;
  const WeightMatrix* matrix = nullptr;  // null: there is none
};

MatrixPlace find_in_layer(const Model& model, int layer, TensorType type) {
  const Layer& weights = model.layers[static_cast<size_t>(layer)];
  for (const OpSpec& op : model.config().architecture->layer) {
    const WeightMatrix& weight = weights.linear(op.out).weight;
    if (weight.data == nullptr || weight.type != type) continue;
    return {{.checkpoint = op.out, .layer = layer}, &weight};
  }
  return {};
}

MatrixPlace find_matrix(const Model& model, int layer, TensorType type) {
  MatrixPlace found = find_in_layer(model, layer, type);
  for (int i = 0; found.matrix == nullptr && i < model.config().n_layers; ++i) {
    found = find_in_layer(model, i, type);
  }
  if (found.matrix == nullptr && model.output.type == type) {
    found = {{.checkpoint = Checkpoint::kLogits}, &model.output};
  }
  return found;
}

Fault in_blocks(TensorType type, const std::string& name, const std::string& what,
                const std::function<void(Bytes matrix)>& misread) {
  const std::string type_name(tensor_type_info(type).name);
  std::string lower = type_name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  Fault fault{.name = lower + "-" + name,
              .group = FaultGroup::kQuantised,
              .what = type_name + ": " + what,
              .cause = "quant_block",
              .type = type,
              .misread = misread};
  fault.unsupported_reason = [type, type_name](const Model& model) {
    return find_matrix(model, 0, type).matrix == nullptr ? "no product of it has " + type_name : "";
  };
  fault.inject = [type, misread](const FaultSite& site) {
    const auto [place, matrix] = find_matrix(site.model, site.layer, type);
    const auto* bytes = static_cast<const std::byte*>(matrix->data);
    std::vector<std::byte> copy(
        bytes, bytes + static_cast<size_t>(matrix->rows) * row_bytes(type, matrix->columns));
    misread(copy);
    Injection injection;
    injection.found_at = place;
    const void* data = keep(injection, std::move(copy));
    injection.hooks.matmul = [data](const OpContext&, MatmulCall call, Kernels& kernels) {
      call.w.data = data;
      kernels.run(call);
    };
    injection.applies = [at = place](const OpSite& call) {
      return call.checkpoint == at.checkpoint && call.layer == at.layer;
    };
    return injection;
  };
  return fault;
}

}  // namespace

std::vector<Fault> quantised_faults() {
  std::vector<Fault> faults;
  TensorType last = TensorType::kF32;
  const auto end_type = [&faults](TensorType type) {
    if (type == TensorType::kF32) return;
    const size_t size = tensor_type_info(type).block_bytes;
    faults.push_back(
        in_blocks(type, "block", "each block is taken for the one before", [size](Bytes matrix) {
          std::copy(matrix.begin() + static_cast<std::ptrdiff_t>(size), matrix.end(),
                    matrix.begin());
        }));
    faults.push_back(in_blocks(
        type, "tail", "the last block of the matrix is not read: zeros", [size](Bytes matrix) {
          std::fill(matrix.end() - static_cast<std::ptrdiff_t>(size), matrix.end(), std::byte{0});
        }));
  };
  for (const Misreading& each : misreadings()) {
    if (each.type != last) end_type(last);
    last = each.type;
    const size_t size = tensor_type_info(each.type).block_bytes;
    faults.push_back(
        in_blocks(each.type, each.name, each.what, [size, block = each.block](Bytes matrix) {
          for (size_t i = 0; i < matrix.size(); i += size) {
            block(matrix.subspan(i, size));
          }
        }));
  }
  end_type(last);
  return faults;
}

}  // namespace assay::mutate
