#include <algorithm>
#include <cstring>

#include "assay/causes/mistakes.h"

// The layouts are those of the GGUF format; see kernels/reference/dequantize.cc.
namespace assay::causes {
namespace {

using Block = std::span<unsigned char>;
using Edit = std::function<void(Block)>;  // so that reading it rightly then gives wrong weights

constexpr size_t kMaxBytes = size_t{1} << 28;  // of a matrix that is read wrongly

struct Misreading {
  TensorType type;
  const char* text;
  Edit edit;
};

Edit each(size_t first, size_t count, unsigned char (*change)(unsigned char)) {
  return [=](Block block) {
    for (size_t i = first; i < first + count; ++i) block[i] = change(block[i]);
  };
}

Edit zero(size_t first, size_t count) {
  return each(first, count, [](unsigned char) -> unsigned char { return 0; });
}

Edit exchange(size_t a, size_t b, size_t count) {
  return [=](Block block) {
    for (size_t i = 0; i < count; ++i) std::swap(block[a + i], block[b + i]);
  };
}

Edit rotate(size_t first, size_t count) {
  return [=](Block block) {
    const auto begin = block.begin() + static_cast<std::ptrdiff_t>(first);
    std::rotate(begin, begin + 1, begin + static_cast<std::ptrdiff_t>(count));
  };
}

unsigned char halves(unsigned char byte) {
  return static_cast<unsigned char>(byte << 4 | byte >> 4);
}
unsigned char quarters(unsigned char byte) {
  const unsigned char swapped = halves(byte);
  return static_cast<unsigned char>((swapped & 0x33) << 2 | (swapped & 0xCC) >> 2);
}
unsigned char low_six(unsigned char byte) {
  return byte & 0x3F;
}

std::vector<Misreading> misreadings() {
  using enum TensorType;
  const char* order = "takes the codes of a byte in the other order";
  const char* no_min = "takes the minimum of each block for 0";
  const char* exchanged = "takes scale and minimum of each block for each other";
  const char* no_high = "leaves the high bits of the codes out";
  const char* packing = "leaves the upper bits of the packed scales out";
  return {{kQ4_0, order, each(2, 16, halves)},
          {kQ4_1, order, each(4, 16, halves)},
          {kQ4_1, no_min, zero(2, 2)},
          {kQ4_1, exchanged, exchange(0, 2, 2)},
          {kQ5_0, order, each(6, 16, halves)},
          {kQ5_0, no_high, zero(2, 4)},
          {kQ5_1, order, each(8, 16, halves)},
          {kQ5_1, no_min, zero(2, 2)},
          {kQ5_1, no_high, zero(4, 4)},
          {kQ5_1, exchanged, exchange(0, 2, 2)},
          {kQ8_0, "takes the halves of a block for each other", exchange(2, 18, 16)},
          {kQ2_K, order, each(16, 64, quarters)},
          {kQ2_K, exchanged, each(0, 16, halves)},
          {kQ2_K, no_min, zero(82, 2)},
          {kQ3_K, order, each(32, 64, quarters)},
          {kQ3_K, no_high, zero(0, 32)},
          {kQ3_K, packing, zero(104, 4)},
          {kQ4_K, order, each(16, 128, halves)},
          {kQ4_K, no_min, zero(2, 2)},
          {kQ4_K, exchanged, exchange(0, 2, 2)},
          {kQ4_K, packing, each(4, 8, low_six)},
          {kQ5_K, order, each(48, 128, halves)},
          {kQ5_K, no_min, zero(2, 2)},
          {kQ5_K, no_high, zero(16, 32)},
          {kQ5_K, exchanged, exchange(0, 2, 2)},
          {kQ5_K, packing, each(4, 8, low_six)},
          {kQ6_K, order, each(0, 128, halves)},
          {kQ6_K, no_high, zero(128, 64)},
          {kQ6_K, "gives each part of a block the scale of the next", rotate(192, 16)}};
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the functions free what they hold
}

using Bytes = std::vector<unsigned char>;

// The product with the weights' bytes edited; nothing for types without blocks.
Matrix multiply_edited(const Network& network, Op op, const Inputs& in,
                       const std::function<void(Bytes&, const TensorTypeInfo&)>& edit) {
  Linear linear = *network.linear(op);
  const TensorTypeInfo& info = tensor_type_info(linear.weight.type);
  const size_t size = static_cast<size_t>(linear.weight.rows) *
                      row_bytes(linear.weight.type, linear.weight.columns);
  if (info.block_elements == 1 || size > kMaxBytes) return {};
  Bytes bytes(size);
  std::memcpy(bytes.data(), linear.weight.data, size);
  edit(bytes, info);
  linear.weight.data = bytes.data();
  return network.multiply(linear, *in.rows[0]);
}

void add_shift(const Network& network, bool before, std::vector<BoundMistake>& mistakes) {
  mistakes.push_back(plain_mistake(
      "quant_block",
      before ? "takes each block for the one before" : "takes each block for the one after",
      [&network, before](Op op, const Inputs& in) {
        return multiply_edited(network, op, in, [&](Bytes& bytes, const TensorTypeInfo& info) {
          const auto block = static_cast<std::ptrdiff_t>(info.block_bytes);
          if (before) {
            std::copy_backward(bytes.begin(), bytes.end() - block, bytes.end());
          } else {
            std::copy(bytes.begin() + block, bytes.end(), bytes.begin());
          }
        });
      }));
}

}  // namespace

void add_block_mistakes(const Network& network, std::vector<BoundMistake>& mistakes) {
  for (const Misreading& misreading : misreadings()) {
    mistakes.push_back(plain_mistake(
        "quant_block",
        std::string("reads ") + std::string(tensor_type_info(misreading.type).name) +
            " wrongly: " + misreading.text,
        [&network, misreading](Op op, const Inputs& in) -> Matrix {
          if (network.linear(op)->weight.type != misreading.type) return {};
          return multiply_edited(network, op, in, [&](Bytes& bytes, const TensorTypeInfo& info) {
            for (size_t at = 0; at + info.block_bytes <= bytes.size(); at += info.block_bytes) {
              misreading.edit({bytes.data() + at, info.block_bytes});
            }
          });
        }));
  }
  add_shift(network, true, mistakes);
  add_shift(network, false, mistakes);
  mistakes.push_back(plain_mistake(
      "quant_block", "does not read the last block of the weights",
      [&network](Op op, const Inputs& in) {
        return multiply_edited(network, op, in, [](Bytes& bytes, const TensorTypeInfo& info) {
          std::fill(bytes.end() - static_cast<std::ptrdiff_t>(info.block_bytes), bytes.end(), 0);
        });
      }));
}

}  // namespace assay::causes
