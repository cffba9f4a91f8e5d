#include "assay/mistakes/block_layout.h"

#include <algorithm>
#include <iterator>

namespace assay::mistakes {
namespace {

// Eight pairs of six bits in 12 bytes.
Parts unpack_pairs(const uint8_t* bytes) {
  Parts parts;
  for (size_t i = 0; i < 4; ++i) {
    parts.scales[i] = bytes[i] & 0x3F;
    parts.mins[i] = bytes[4 + i] & 0x3F;
    parts.scales[4 + i] = static_cast<uint8_t>((bytes[8 + i] & 0xF) | bytes[i] >> 6 << 4);
    parts.mins[4 + i] = static_cast<uint8_t>(bytes[8 + i] >> 4 | bytes[4 + i] >> 6 << 4);
  }
  return parts;
}
void pack_pairs(const Parts& parts, uint8_t* bytes) {
  const auto& [scales, mins] = parts;
  for (size_t i = 0; i < 4; ++i) {
    bytes[i] = static_cast<uint8_t>(scales[i] | scales[4 + i] >> 4 << 6);
    bytes[4 + i] = static_cast<uint8_t>(mins[i] | mins[4 + i] >> 4 << 6);
    bytes[8 + i] = static_cast<uint8_t>((scales[4 + i] & 0xF) | (mins[4 + i] & 0xF) << 4);
  }
}

// Sixteen of six bits in 12 bytes: four low bits in 8 of them, two high bits in 4.
Parts unpack_six_bits(const uint8_t* bytes) {
  Parts parts;
  for (size_t i = 0; i < 16; ++i) {
    const int low = bytes[i % 8] >> (i / 8 * 4) & 0xF;
    const int high = bytes[8 + i % 4] >> (i / 4 * 2) & 3;
    parts.scales[i] = static_cast<uint8_t>(low | high << 4);
  }
  return parts;
}
void pack_six_bits(const Parts& parts, uint8_t* bytes) {
  std::fill_n(bytes, 12, uint8_t{0});
  for (size_t i = 0; i < 16; ++i) {
    const int scale = parts.scales[i];
    bytes[i % 8] = static_cast<uint8_t>(bytes[i % 8] | (scale & 0xF) << (i / 8 * 4));
    bytes[8 + i % 4] = static_cast<uint8_t>(bytes[8 + i % 4] | scale >> 4 << (i / 4 * 2));
  }
}

// Eight of six bits in 6 bytes: two high bits each in the first 2, four low bits in the others.
Parts unpack_eight(const uint8_t* bytes) {
  Parts parts;
  for (size_t i = 0; i < 8; ++i) {
    const int low = bytes[2 + i / 2] >> (i % 2 * 4) & 0xF;
    const int high = bytes[i / 4] >> (i % 4 * 2) & 3;
    parts.scales[i] = static_cast<uint8_t>(low | high << 4);
  }
  return parts;
}
void pack_eight(const Parts& parts, uint8_t* bytes) {
  std::fill_n(bytes, 6, uint8_t{0});
  for (size_t i = 0; i < 8; ++i) {
    const int scale = parts.scales[i];
    bytes[2 + i / 2] = static_cast<uint8_t>(bytes[2 + i / 2] | (scale & 0xF) << (i % 2 * 4));
    bytes[i / 4] = static_cast<uint8_t>(bytes[i / 4] | scale >> 4 << (i % 4 * 2));
  }
}

// A byte each: scale and minimum, or a scale alone.
Parts unpack_halves(const uint8_t* bytes) {
  Parts parts;
  for (size_t i = 0; i < 16; ++i) {
    parts.scales[i] = bytes[i] & 0xF;
    parts.mins[i] = bytes[i] >> 4;
  }
  return parts;
}
void pack_halves(const Parts& parts, uint8_t* bytes) {
  for (size_t i = 0; i < 16; ++i) {
    bytes[i] = static_cast<uint8_t>(parts.scales[i] | parts.mins[i] << 4);
  }
}
template <int kCount>
Parts unpack_bytes(const uint8_t* bytes) {
  Parts parts;
  std::copy_n(bytes, kCount, parts.scales.begin());
  return parts;
}
template <int kCount>
void pack_bytes(const Parts& parts, uint8_t* bytes) {
  std::copy_n(parts.scales.begin(), kCount, bytes);
}

constexpr PartsLayout kPairs{.count = 8,
                             .has_mins = true,
                             .first = 4,
                             .first_upper = 4,
                             .lower_bits = 0xF,
                             .unpack = unpack_pairs,
                             .pack = pack_pairs};

constexpr BlockLayout kLayouts[] = {
    {.type = TensorType::kQ4_0, .zero = 8, .scale = 0, .codes = {2, 16, 16, 4}},
    {.type = TensorType::kQ4_1, .scale = 0, .minimum = 2, .codes = {4, 16, 16, 4}},
    {.type = TensorType::kQ5_0,
     .zero = 16,
     .scale = 0,
     .codes = {6, 16, 16, 4},
     .high = {2, 4, 1, 1}},
    {.type = TensorType::kQ5_1,
     .scale = 0,
     .minimum = 2,
     .codes = {8, 16, 16, 4},
     .high = {4, 4, 1, 1}},
    {.type = TensorType::kQ8_0, .scale = 0, .codes = {2, 32, 32, 8}},
    {.type = TensorType::kQ2_K,
     .scale = 80,
     .minimum = 82,
     .codes = {16, 64, 32, 2},
     .parts =
         {.count = 16, .has_mins = true, .first = 0, .unpack = unpack_halves, .pack = pack_halves}},
    {.type = TensorType::kQ3_K,
     .zero = 4,
     .scale = 108,
     .codes = {32, 64, 32, 2},
     .high = {0, 32, 32, 1},
     .parts = {.count = 16,
               .first = 96,
               .lower_bits = 0xF,
               .unpack = unpack_six_bits,
               .pack = pack_six_bits}},
    {.type = TensorType::kQ4_K,
     .scale = 0,
     .minimum = 2,
     .codes = {16, 128, 32, 4},
     .parts = kPairs},
    {.type = TensorType::kQ5_K,
     .scale = 0,
     .minimum = 2,
     .codes = {48, 128, 32, 4},
     .high = {16, 32, 32, 1},
     .parts = kPairs},
    {.type = TensorType::kQ6_K,
     .zero = 32,
     .scale = 208,
     .codes = {0, 128, 64, 4},
     .high = {128, 64, 32, 2},
     .parts = {.count = 16, .first = 192, .unpack = unpack_bytes<16>, .pack = pack_bytes<16>}},
    {.type = TensorType::kIQ4_NL, .table = kUnevenSteps, .scale = 0, .codes = {2, 16, 16, 4}},
    {.type = TensorType::kIQ4_XS,
     .table = kUnevenSteps,
     .scale = 0,
     .codes = {8, 128, 16, 4},
     .parts =
         {.count = 8, .first = 2, .lower_bits = 0xF, .unpack = unpack_eight, .pack = pack_eight}},
    {.type = TensorType::kMXFP4, .table = kFloats4, .codes = {1, 16, 16, 4}},
    {.type = TensorType::kNVFP4,
     .table = kFloats4,
     .codes = {4, 32, 8, 4},
     .parts = {.count = 4, .first = 0, .unpack = unpack_bytes<4>, .pack = pack_bytes<4>}}};

struct Place {
  size_t byte;
  size_t shift;
};

Place place_of(const BitField& field, size_t element) {
  const size_t of_run = field.run * 8 / static_cast<size_t>(field.bits);
  const size_t i = element % of_run;
  return {field.first + element / of_run * field.run + i % field.run,
          i / field.run * static_cast<size_t>(field.bits)};
}

}  // namespace

std::vector<uint8_t> numbers_of(const BitField& field, Bytes block) {
  std::vector<uint8_t> numbers(field.count * 8 / static_cast<size_t>(field.bits));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto [byte, shift] = place_of(field, i);
    numbers[i] = static_cast<uint8_t>(std::to_integer<unsigned>(block[byte]) >> shift &
                                      ((1U << field.bits) - 1U));
  }
  return numbers;
}

void put_numbers(const BitField& field, std::span<const uint8_t> numbers, Bytes block) {
  std::ranges::fill(block.subspan(field.first, field.count), std::byte{0});
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto [byte, shift] = place_of(field, i);
    block[byte] |= std::byte(numbers[i]) << shift;
  }
}

std::span<const BlockLayout> block_layouts() {
  return kLayouts;
}

const BlockLayout* block_layout(TensorType type) {
  const auto* const found = std::ranges::find(kLayouts, type, &BlockLayout::type);
  return found == std::end(kLayouts) ? nullptr : found;
}

std::vector<uint8_t> codes_of(const BlockLayout& layout, Bytes block) {
  std::vector<uint8_t> codes = numbers_of(layout.codes, block);
  if (layout.high.empty()) return codes;
  const std::vector<uint8_t> high = numbers_of(layout.high, block);
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<uint8_t>(codes[i] | high[i] << layout.codes.bits);
  }
  return codes;
}

void put_codes(const BlockLayout& layout, std::span<const uint8_t> codes, Bytes block) {
  std::vector<uint8_t> part(codes.size());
  const auto mask = static_cast<uint8_t>((1U << layout.codes.bits) - 1U);
  std::ranges::transform(codes, part.begin(), [=](uint8_t code) { return code & mask; });
  put_numbers(layout.codes, part, block);
  if (layout.high.empty()) return;
  std::ranges::transform(codes, part.begin(),
                         [&](uint8_t code) { return code >> layout.codes.bits; });
  put_numbers(layout.high, part, block);
}

}  // namespace assay::mistakes
