#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/tensor_type.h"

// Where the blocks of a type have what, as the GGUF format lays them out: the one place that
// mistakes in reading and in packing them are made from.
namespace assay::mistakes {

using Bytes = std::span<std::byte>;

// Numbers of one, two, four or eight bits, one for each element. Each `run` bytes hold as many
// elements in their lowest bits, then as many further ones in the next bits.
struct BitField {
  size_t first = 0;  // byte
  size_t count = 0;  // bytes
  size_t run = 0;    // bytes
  int bits = 0;

  bool empty() const { return count == 0; }
};

std::vector<uint8_t> numbers_of(const BitField& field, Bytes block);
void put_numbers(const BitField& field, std::span<const uint8_t> numbers, Bytes block);

// What the codes of four bits stand for in the IQ4 types, and twice what floats of four bits are.
inline constexpr int8_t kUnevenSteps[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr int8_t kFloats4[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline constexpr size_t kMostParts = 16;

// The scales and minimums of a block's parts.
struct Parts {
  std::array<uint8_t, kMostParts> scales = {};
  std::array<uint8_t, kMostParts> mins = {};
};

// How they are packed.
struct PartsLayout {
  size_t count = 0;
  bool has_mins = false;
  size_t first = 0;           // byte
  size_t first_upper = 0;     // of the parts that have upper bits elsewhere than their lower four
  uint8_t lower_bits = 0xFF;  // of those
  Parts (*unpack)(const uint8_t* bytes) = nullptr;
  void (*pack)(const Parts& parts, uint8_t* bytes) = nullptr;
};

struct BlockLayout {
  TensorType type;
  int zero = 0;  // the code of a weight of 0, of types without a minimum
  // What each code stands for, where these are no equal steps; else a weight is a scale times its
  // code, less the zero point or the minimum.
  std::span<const int8_t> table = {};
  std::optional<size_t> scale = {};    // a binary16
  std::optional<size_t> minimum = {};  // likewise
  BitField codes;
  BitField high = {};  // the upper bits of codes that have them apart
  PartsLayout parts = {};

  bool has_equal_steps() const { return table.empty(); }
  int code_bits() const { return codes.bits + high.bits; }
};

std::span<const BlockLayout> block_layouts();
// Null of types of which nothing is known here.
const BlockLayout* block_layout(TensorType type);

// The codes of a block's elements.
std::vector<uint8_t> codes_of(const BlockLayout& layout, Bytes block);
void put_codes(const BlockLayout& layout, std::span<const uint8_t> codes, Bytes block);

}  // namespace assay::mistakes
