#include <algorithm>
#include <array>
#include <cstdint>

#include "assay/mistakes/blocks.h"

// Wrong readings of the parts of blocks. As in block_mistakes.cc, they are edits of bytes that then
// are read rightly.
namespace assay::mistakes {
namespace {

using Bytes = std::span<std::byte>;

constexpr size_t kMostParts = 16;

// The codes of the scales and minimums of a block's parts.
struct Parts {
  std::array<uint8_t, kMostParts> scales = {};
  std::array<uint8_t, kMostParts> mins = {};
};

// Where a type has them.
struct Packing {
  TensorType type;
  size_t count;
  bool has_mins;
  size_t first;  // byte
  Parts (*unpack)(const uint8_t* bytes);
  void (*pack)(const Parts& parts, uint8_t* bytes);
};

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
Parts unpack_bytes(const uint8_t* bytes) {
  Parts parts;
  std::copy_n(bytes, 16, parts.scales.begin());
  return parts;
}
void pack_bytes(const Parts& parts, uint8_t* bytes) {
  std::copy_n(parts.scales.begin(), 16, bytes);
}

constexpr Packing kPackings[] = {{TensorType::kQ2_K, 16, true, 0, unpack_halves, pack_halves},
                                 {TensorType::kQ3_K, 16, false, 96, unpack_six_bits, pack_six_bits},
                                 {TensorType::kQ4_K, 8, true, 4, unpack_pairs, pack_pairs},
                                 {TensorType::kQ5_K, 8, true, 4, unpack_pairs, pack_pairs},
                                 {TensorType::kQ6_K, 16, false, 192, unpack_bytes, pack_bytes}};

// Which part another one is taken for.
size_t next(size_t part, size_t count) {
  return (part + 1) % count;
}
size_t before(size_t part, size_t count) {
  return (part + count - 1) % count;
}
size_t first_of_two(size_t part, size_t) {
  return part / 2 * 2;
}
size_t before_if_last(size_t part, size_t count) {
  return part + 1 < count ? part : part - 1;
}

struct Slip {
  size_t (*of)(size_t part, size_t count);
  const char* of_scales;  // each in the words of a cause
  const char* of_mins;
  const char* of_both;
};
constexpr Slip kSlips[] = {
    {next, "gives each part of a block the scale of the next",
     "gives each part of a block the minimum of the next",
     "gives each part of a block the scale and minimum of the next"},
    {before, "gives each part of a block the scale of the one before",
     "gives each part of a block the minimum of the one before",
     "gives each part of a block the scale and minimum of the one before"},
    {first_of_two, "gives every second part of a block the scale of the one before", nullptr,
     "gives every second part of a block the scale and minimum of the one before"},
    {before_if_last, "gives the last part of a block the scale of the one before",
     "gives the last part of a block the minimum of the one before",
     "gives the last part of a block the scale and minimum of the one before"}};

BlockEdit of_other_parts(const Packing& packing, size_t (*of)(size_t, size_t), bool scales,
                         bool mins) {
  return [=](Bytes block) {
    auto* bytes = reinterpret_cast<uint8_t*>(block.data()) + packing.first;
    const Parts own = packing.unpack(bytes);
    Parts other = own;
    for (size_t i = 0; i < packing.count; ++i) {
      const size_t from = of(i, packing.count);
      if (scales) other.scales[i] = own.scales[from];
      if (mins) other.mins[i] = own.mins[from];
    }
    packing.pack(other, bytes);
  };
}

void add_slips(const Packing& packing, std::vector<Mistake>& mistakes) {
  const auto add = [&](const char* text, const Slip& slip, bool scales, bool mins) {
    if (text == nullptr || (mins && !packing.has_mins)) return;
    // It is among those that are injected, too.
    if (packing.type == TensorType::kQ6_K && slip.of == next) return;
    mistakes.push_back(
        misread_blocks(packing.type, text, of_other_parts(packing, slip.of, scales, mins)));
  };
  for (const Slip& slip : kSlips) {
    add(slip.of_scales, slip, true, false);
    add(slip.of_mins, slip, false, true);
    add(slip.of_both, slip, true, true);
  }
}

// The upper two bits of the last four numbers of the pairs, which are beside the first four.
BlockEdit without_upper_bits(size_t first, size_t count) {
  return [=](Bytes block) {
    for (std::byte& byte : block.subspan(first, count)) byte &= std::byte{0x3F};
  };
}

// Runs of codes of four bits: the first half of a run's elements in the low half of each byte.
struct Nibbles {
  TensorType type;
  size_t first;  // byte
  size_t runs;
  size_t bytes;     // of a run
  bool has_others;  // a mistake in their order that is injected, too
};
constexpr Nibbles kNibbles[] = {
    {TensorType::kQ4_0, 2, 1, 16, true},    {TensorType::kQ4_1, 4, 1, 16, true},
    {TensorType::kQ4_K, 16, 4, 32, true},   {TensorType::kIQ4_NL, 2, 1, 16, false},
    {TensorType::kIQ4_XS, 8, 8, 16, false}, {TensorType::kMXFP4, 1, 1, 16, false}};

// What gives, read rightly, the codes in the order of the bytes, low half first.
void read_as_neighbours(std::span<std::byte> run) {
  const std::vector<std::byte> own(run.begin(), run.end());
  const auto code = [&](size_t element) {
    const std::byte byte = own[element / 2];
    return element % 2 == 0 ? byte & std::byte{0xF} : byte >> 4;
  };
  for (size_t i = 0; i < run.size(); ++i) run[i] = code(i) | code(run.size() + i) << 4;
}

void exchange_halves(std::span<std::byte> run) {
  for (std::byte& byte : run) byte = byte << 4 | byte >> 4;
}

Mistake other_codes(const Nibbles& nibbles, const char* text, void (*edit)(std::span<std::byte>)) {
  return misread_blocks(nibbles.type, text, [=](Bytes block) {
    for (size_t i = 0; i < nibbles.runs; ++i) {
      edit(block.subspan(nibbles.first + i * nibbles.bytes, nibbles.bytes));
    }
  });
}

}  // namespace

std::vector<Mistake> block_part_mistakes() {
  std::vector<Mistake> mistakes;
  for (const Packing& packing : kPackings) add_slips(packing, mistakes);
  for (const TensorType type : {TensorType::kQ4_K, TensorType::kQ5_K}) {
    mistakes.push_back(misread_blocks(type, "leaves the upper two bits of the last four scales out",
                                      without_upper_bits(4, 4)));
    mistakes.push_back(misread_blocks(
        type, "leaves the upper two bits of the last four minimums out", without_upper_bits(8, 4)));
    mistakes.push_back(
        misread_blocks(type, "leaves the upper two bits of the last four scales and minimums out",
                       without_upper_bits(4, 8)));
  }
  for (const Nibbles& nibbles : kNibbles) {
    mistakes.push_back(
        other_codes(nibbles, "takes the two codes of a byte for neighbours", read_as_neighbours));
    if (nibbles.has_others) continue;
    mistakes.push_back(
        other_codes(nibbles, "takes the codes of a byte in the other order", exchange_halves));
  }
  return mistakes;
}

}  // namespace assay::mistakes
