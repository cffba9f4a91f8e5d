#include "assay/weights/packing_mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace assay {
namespace {

// Where a type has what, in bytes from the beginning of a block.
struct Layout {
  TensorType type;
  // Codes, of which each `chunk` bytes hold first the low and then the high four bits of elements.
  int codes = -1;
  int chunk = 0;
  int n_codes = 0;  // in bytes
  // The high bits of codes of more than four.
  int high = -1;
  int n_high = 0;
  uint8_t sign = 0;      // in each of these bytes, or without any of the codes: the code's top bit
  int scale = -1;        // of a block, in binary16
  int minimum = -1;      // likewise
  int sub_scales = -1;   // of sub-blocks, a byte each
  int n_sub_scales = 0;  // in bytes
  int scales_of_6 = -1;  // of sub-blocks, scales and minimums of six bits, in 12 bytes
};

constexpr std::array kLayouts{
    Layout{.type = TensorType::kQ4_0, .codes = 2, .chunk = 16, .n_codes = 16, .sign = 0x88},
    Layout{.type = TensorType::kQ4_1,
           .codes = 4,
           .chunk = 16,
           .n_codes = 16,
           .scale = 0,
           .minimum = 2},
    Layout{.type = TensorType::kQ5_0,
           .codes = 6,
           .chunk = 16,
           .n_codes = 16,
           .high = 2,
           .n_high = 4,
           .sign = 0xFF},
    Layout{.type = TensorType::kQ5_1,
           .codes = 8,
           .chunk = 16,
           .n_codes = 16,
           .high = 4,
           .n_high = 4,
           .scale = 0,
           .minimum = 2},
    Layout{.type = TensorType::kIQ4_NL, .codes = 2, .chunk = 16, .n_codes = 16},
    Layout{.type = TensorType::kIQ4_XS, .codes = 8, .chunk = 16, .n_codes = 128},
    Layout{.type = TensorType::kMXFP4, .codes = 1, .chunk = 16, .n_codes = 16},
    Layout{
        .type = TensorType::kQ2_K, .scale = 80, .minimum = 82, .sub_scales = 0, .n_sub_scales = 16},
    Layout{.type = TensorType::kQ4_K,
           .codes = 16,
           .chunk = 32,
           .n_codes = 128,
           .scale = 0,
           .minimum = 2,
           .scales_of_6 = 4},
    Layout{.type = TensorType::kQ5_K,
           .codes = 48,
           .chunk = 32,
           .n_codes = 128,
           .high = 16,
           .n_high = 32,
           .scale = 0,
           .minimum = 2,
           .scales_of_6 = 4},
    Layout{.type = TensorType::kQ6_K,
           .high = 128,
           .n_high = 64,
           .sign = 0xAA,
           .sub_scales = 192,
           .n_sub_scales = 16},
};

void exchange_nibbles(uint8_t* begin, int n) {
  for (int i = 0; i < n; ++i) {
    begin[i] = static_cast<uint8_t>(begin[i] << 4 | begin[i] >> 4);
  }
}

// Codes that lie as low halves and then high halves, two neighbours to a byte.
void put_neighbours_together(uint8_t* begin, int n) {
  std::vector<uint8_t> codes;
  for (int i = 0; i < n; ++i) codes.push_back(begin[i] & 15);
  for (int i = 0; i < n; ++i) codes.push_back(begin[i] >> 4);
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(2 * i);
    begin[i] = static_cast<uint8_t>(codes[at] | codes[at + 1] << 4);
  }
}

void reverse_bits(uint8_t* begin, int n) {
  std::reverse(begin, begin + n);
  for (int i = 0; i < n; ++i) {
    uint8_t turned = 0;
    for (int bit = 0; bit < 8; ++bit) turned |= ((begin[i] >> bit) & 1) << (7 - bit);
    begin[i] = turned;
  }
}

using SubBlocks = std::array<uint8_t, 8>;

// The scales and minimums of Q4_K and Q5_K.
struct ScalesOf6 {
  SubBlocks scales;
  SubBlocks minimums;

  explicit ScalesOf6(const uint8_t* in) {
    for (size_t i = 0; i < 4; ++i) {
      scales[i] = in[i] & 63;
      minimums[i] = in[i + 4] & 63;
      scales[i + 4] = static_cast<uint8_t>((in[i + 8] & 15) | in[i] >> 6 << 4);
      minimums[i + 4] = static_cast<uint8_t>(in[i + 8] >> 4 | in[i + 4] >> 6 << 4);
    }
  }

  void put(uint8_t* out) const {
    for (size_t i = 0; i < 4; ++i) {
      out[i] = static_cast<uint8_t>(scales[i] | scales[i + 4] >> 4 << 6);
      out[i + 4] = static_cast<uint8_t>(minimums[i] | minimums[i + 4] >> 4 << 6);
      out[i + 8] = static_cast<uint8_t>((scales[i + 4] & 15) | (minimums[i + 4] & 15) << 4);
    }
  }
};

using Mistakes = std::vector<PackingMistake>;

void add_of_codes(const Layout& at, Mistakes& mistakes) {
  if (at.codes >= 0) {
    mistakes.push_back({"has the two codes of each byte exchanged",
                        [at](uint8_t* block) { exchange_nibbles(block + at.codes, at.n_codes); }});
    mistakes.push_back({fmt::format("has the codes of neighbours in one byte, where {} has those "
                                    "of elements that are {} apart",
                                    tensor_type_info(at.type).name, at.chunk),
                        [at](uint8_t* block) {
                          for (int i = 0; i < at.n_codes; i += at.chunk) {
                            put_neighbours_together(block + at.codes + i, at.chunk);
                          }
                        }});
  }
  if (at.high >= 0) {
    mistakes.push_back({"lacks the high bits of the codes",
                        [at](uint8_t* block) { std::fill_n(block + at.high, at.n_high, 0); }});
    mistakes.push_back({"has the high bits of the codes in the reverse order",
                        [at](uint8_t* block) { reverse_bits(block + at.high, at.n_high); }});
  }
  if (at.sign != 0) {
    const int begin = at.high >= 0 ? at.high : at.codes;
    const int n = at.high >= 0 ? at.n_high : at.n_codes;
    mistakes.push_back({"has codes with a sign, where the type's begin at 0", [=](uint8_t* block) {
                          for (int i = 0; i < n; ++i) block[begin + i] ^= at.sign;
                        }});
  }
}

void add_of_scales(const Layout& at, Mistakes& mistakes) {
  if (at.minimum >= 0) {
    mistakes.push_back({"lacks the minimum of each block",
                        [at](uint8_t* block) { std::fill_n(block + at.minimum, 2, 0); }});
    mistakes.push_back({"has the minimum of each block with the other sign",
                        [at](uint8_t* block) { block[at.minimum + 1] ^= 0x80; }});
    mistakes.push_back({"has scale and minimum of each block exchanged", [at](uint8_t* block) {
                          std::swap_ranges(block + at.scale, block + at.scale + 2,
                                           block + at.minimum);
                        }});
  }
  if (at.sub_scales >= 0) {
    for (const bool next : {true, false}) {
      mistakes.push_back(
          {fmt::format("has the scale of each sub-block at the {} one", next ? "next" : "previous"),
           [=](uint8_t* block) {
             uint8_t* begin = block + at.sub_scales;
             uint8_t* end = begin + at.n_sub_scales;
             std::rotate(begin, next ? end - 1 : begin + 1, end);
           }});
    }
  }
}

void add_of_scales_of_6(const Layout& at, Mistakes& mistakes) {
  if (at.scales_of_6 < 0) return;
  const auto add = [&](std::string sentence, std::function<void(ScalesOf6&)> change) {
    mistakes.push_back({std::move(sentence), [=](uint8_t* block) {
                          ScalesOf6 scales(block + at.scales_of_6);
                          change(scales);
                          scales.put(block + at.scales_of_6);
                        }});
  };
  const auto to_next = [](SubBlocks& all) { std::rotate(all.begin(), all.end() - 1, all.end()); };
  const auto to_previous = [](SubBlocks& all) {
    std::rotate(all.begin(), all.begin() + 1, all.end());
  };
  add("has scale and minimum of each sub-block at the next one", [=](ScalesOf6& all) {
    to_next(all.scales);
    to_next(all.minimums);
  });
  add("has scale and minimum of each sub-block at the previous one", [=](ScalesOf6& all) {
    to_previous(all.scales);
    to_previous(all.minimums);
  });
  add("has the scale of each sub-block at the next one",
      [=](ScalesOf6& all) { to_next(all.scales); });
  add("has the minimum of each sub-block at the next one",
      [=](ScalesOf6& all) { to_next(all.minimums); });
  add("has scales and minimums of the sub-blocks exchanged",
      [](ScalesOf6& all) { std::swap(all.scales, all.minimums); });
  add("lacks the high bits of the scales of sub-blocks 4 to 7", [](ScalesOf6& all) {
    for (size_t i = 4; i < 8; ++i) {
      all.scales[i] &= 15;
      all.minimums[i] &= 15;
    }
  });
}

}  // namespace

std::vector<PackingMistake> packing_mistakes(TensorType type) {
  Mistakes mistakes;
  const auto* const layout = std::ranges::find(kLayouts, type, &Layout::type);
  if (layout == kLayouts.end()) return mistakes;
  add_of_codes(*layout, mistakes);
  add_of_scales(*layout, mistakes);
  add_of_scales_of_6(*layout, mistakes);
  return mistakes;
}

std::vector<TensorType> types_as_large(TensorType type) {
  constexpr std::array kPairs{std::pair{TensorType::kF16, TensorType::kBF16},
                              std::pair{TensorType::kQ4_0, TensorType::kIQ4_NL}};
  for (const auto& [one, other] : kPairs) {
    if (type == one) return {other};
    if (type == other) return {one};
  }
  return {};
}

}  // namespace assay
