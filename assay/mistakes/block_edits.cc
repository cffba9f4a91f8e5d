#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "assay/mistakes/blocks.h"

// Wrong readings and packings of blocks, as edits of the bytes that then are read rightly.
namespace assay::mistakes {
namespace {

using Numbers = std::vector<uint8_t>;

BlockEdit of_numbers(const BitField& field, std::function<void(Numbers&)> change) {
  return [=, change = std::move(change)](Bytes block) {
    Numbers numbers = numbers_of(field, block);
    change(numbers);
    put_numbers(field, numbers, block);
  };
}

BlockEdit of_codes(const BlockLayout& layout, std::function<int(int code)> change) {
  return [&layout, change = std::move(change)](Bytes block) {
    Numbers codes = codes_of(layout, block);
    for (uint8_t& code : codes) code = static_cast<uint8_t>(change(code));
    put_codes(layout, codes, block);
  };
}

BlockEdit of_parts(const PartsLayout& layout, std::function<void(Parts&)> change) {
  return [&layout, change = std::move(change)](Bytes block) {
    auto* bytes = reinterpret_cast<uint8_t*>(block.data()) + layout.first;
    Parts parts = layout.unpack(bytes);
    change(parts);
    layout.pack(parts, bytes);
  };
}

// Numbers that are read as `from` has them, where they are packed as `to` has them; or packed as
// `to`, where the type has them as `from`.
BlockEdit repacked(const BitField& from, const BitField& to) {
  return [=](Bytes block) { put_numbers(to, numbers_of(from, block), block); };
}

BitField with_run(BitField field, size_t run) {
  field.run = run;
  return field;
}

BlockEdit zero(size_t first, size_t count) {
  return [=](Bytes block) { std::ranges::fill(block.subspan(first, count), std::byte{0}); };
}

// A float16 that begins at `first`.
BlockEdit negate(size_t first) {
  return [=](Bytes block) { block[first + 1] ^= std::byte{0x80}; };
}

BlockEdit exchange(size_t a, size_t b, size_t count) {
  return [=](Bytes block) {
    std::swap_ranges(block.data() + a, block.data() + a + count, block.data() + b);
  };
}

// The numbers of each byte in the other order.
BlockEdit turn_bytes(const BitField& field) {
  return [=](Bytes block) {
    for (std::byte& byte : block.subspan(field.first, field.count)) {
      const std::byte own = byte;
      const std::byte mask{static_cast<unsigned char>((1U << field.bits) - 1U)};
      byte = std::byte{0};
      for (int shift = 0; shift < 8; shift += field.bits) {
        byte |= (own >> shift & mask) << (8 - field.bits - shift);
      }
    }
  };
}

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
  const char* which;
  const char* other;
  bool of_mins_alone = true;
};
constexpr Slip kSlips[] = {{next, "each part", "next"},
                           {before, "each part", "one before"},
                           {first_of_two, "every second part", "one before", false},
                           {before_if_last, "the last part", "one before"}};

// Whether a mistake that has a name among faults is injected in blocks of this type: of types of
// which files have goldens, but for some whose like others have.
bool is_injected(const BlockLayout& layout, const char* fault) {
  if (fault == nullptr) return false;
  constexpr std::pair<TensorType, const char*> kLeftOut[] = {{TensorType::kQ2_K, "min"},
                                                             {TensorType::kQ5_1, "scale-for-min"},
                                                             {TensorType::kQ5_K, "scale-for-min"}};
  return layout.has_equal_steps() && std::ranges::none_of(kLeftOut, [&](const auto& one) {
           return one.first == layout.type && std::string_view(one.second) == fault;
         });
}

// Takes in the mistakes of one type.
struct Adder {
  const BlockLayout& layout;
  std::vector<BlockMistake>& mistakes;

  void operator()(std::string reading, std::string packing, BlockEdit edit) const {
    mistakes.push_back(
        {layout.type, std::move(reading), std::move(packing), std::move(edit), {}, {}});
  }
  void operator()(std::string reading, std::string packing, BlockEdit edit, const char* fault,
                  const char* what) const {
    (*this)(std::move(reading), std::move(packing), std::move(edit));
    if (!is_injected(layout, fault)) return;
    mistakes.back().fault = fault;
    mistakes.back().what = what;
  }
};

void add_orders_of_codes(const BlockLayout& layout, const Adder& add) {
  const BitField& codes = layout.codes;
  const BitField neighbours = with_run(codes, 1);
  const bool are_two = codes.bits == 4;
  add("takes the codes of a byte in the other order",
      "has the codes of each byte in the other order", turn_bytes(codes),
      are_two ? "nibbles" : "code-order",
      are_two ? "the two codes of a byte are taken in the other order"
              : "the four codes of a byte are taken in the other order");
  add(fmt::format("takes the {} codes of a byte for neighbours", are_two ? "two" : "four"),
      "has the codes of a byte at neighbours", repacked(neighbours, codes));
  add({},
      fmt::format("has the codes of neighbours in one byte, where {} has those of elements that "
                  "are {} apart",
                  tensor_type_info(layout.type).name, codes.run),
      repacked(codes, neighbours));
}

void add_high_bits(const BlockLayout& layout, const Adder& add) {
  const BitField& high = layout.high;
  add("leaves the high bits of the codes out", "lacks the high bits of the codes",
      zero(high.first, high.count), "high-bits", "the high bits of the codes are taken for 0");
  add("takes the high bits of a byte in the other order",
      "has the high bits of each byte in the other order", turn_bytes(high));
  add({}, "has the high bits of the codes in the reverse order",
      of_numbers(high, [](Numbers& bits) { std::ranges::reverse(bits); }));
  add({}, "has the high bits of each half of a block at the other half",
      of_numbers(high, [](Numbers& bits) {
        std::rotate(bits.begin(), bits.begin() + std::ssize(bits) / 2, bits.end());
      }));
  for (const size_t run : {size_t{1}, high.count}) {
    if (run == high.run) continue;
    const BitField other = with_run(high, run);
    const std::string whose =
        run == 1 ? "of neighbours" : fmt::format("of elements that are {} apart", run);
    add(fmt::format("takes the high bits of a byte for those {}", whose),
        fmt::format("has the high bits of a byte at those {}", whose), repacked(other, high));
    add({}, fmt::format("has the high bits {} in one byte", whose), repacked(high, other));
  }
}

void add_minimums(const BlockLayout& layout, const Adder& add) {
  const size_t minimum = *layout.minimum;
  add("takes the minimum of each block for 0", "lacks the minimum of each block", zero(minimum, 2),
      "min", "the minimum of a block is taken for 0");
  add("takes the minimum of each block with the other sign",
      "has the minimum of each block with the other sign", negate(minimum));
  const bool is_of_parts = layout.type == TensorType::kQ2_K;  // whose fault of this name is theirs
  add("takes scale and minimum of each block for each other",
      "has scale and minimum of each block exchanged", exchange(*layout.scale, minimum, 2),
      is_of_parts ? nullptr : "scale-for-min", "scale and minimum are taken for each other");
}

void add_slips(const BlockLayout& layout, const Adder& add) {
  const PartsLayout& parts = layout.parts;
  for (const Slip& slip : kSlips) {
    for (const auto& [scales, mins, what] : {std::tuple{true, false, "scale"},
                                             {false, true, "minimum"},
                                             {true, true, "scale and minimum"}}) {
      if (mins && (!parts.has_mins || (!scales && !slip.of_mins_alone))) continue;
      const bool is_fault = layout.type == TensorType::kQ6_K && slip.of == next;
      add(fmt::format("gives {} of a block the {} of the {}", slip.which, what, slip.other),
          fmt::format("has in {} of a block the {} of the {}", slip.which, what, slip.other),
          of_parts(parts,
                   [=, of = slip.of, n = parts.count, scales = scales, mins = mins](Parts& all) {
                     const Parts own = all;
                     for (size_t i = 0; i < n; ++i) {
                       if (scales) all.scales[i] = own.scales[of(i, n)];
                       if (mins) all.mins[i] = own.mins[of(i, n)];
                     }
                   }),
          is_fault ? "scales" : nullptr, "each sub-block has the scale of the next");
    }
  }
}

void add_parts(const BlockLayout& layout, const Adder& add) {
  const PartsLayout& parts = layout.parts;
  if (parts.has_mins) {
    add("takes scale and minimum of each part of a block for each other",
        "has scale and minimum of each part of a block exchanged",
        of_parts(parts, [](Parts& all) { std::swap(all.scales, all.mins); }),
        layout.type == TensorType::kQ2_K ? "scale-for-min" : nullptr,
        "scales and mins are taken for each other");
  }
  const auto without_upper = [&](bool scales, bool mins) {
    return of_parts(parts, [=, &parts](Parts& all) {
      for (size_t i = parts.first_upper; i < parts.count; ++i) {
        if (scales) all.scales[i] &= parts.lower_bits;
        if (mins) all.mins[i] &= parts.lower_bits;
      }
    });
  };
  if (parts.lower_bits != 0xFF) {
    add("leaves the upper bits of the packed scales out",
        "lacks the upper bits of the packed scales", without_upper(true, parts.has_mins),
        "scale-packing", "the upper bits of the packed scales are left out");
    if (parts.has_mins) {
      add("leaves the upper two bits of the last four scales out",
          "lacks the upper two bits of the last four scales", without_upper(true, false));
      add("leaves the upper two bits of the last four minimums out",
          "lacks the upper two bits of the last four minimums", without_upper(false, true));
    }
  }
  add_slips(layout, add);
}

// Of codes that stand for more or less than they should: all by the zero point, or by one.
void add_offsets(const BlockLayout& layout, const Adder& add) {
  const int most = (1 << layout.code_bits()) - 1;
  const int zero = layout.zero;
  const auto moved_by = [&](int by) {
    return of_codes(layout, [=](int code) { return std::clamp(code + by, 0, most); });
  };
  if (zero > 0) {
    add("takes the codes for numbers with a sign",
        fmt::format("has codes with a sign, where {}'s begin at 0 and stand for {} less",
                    tensor_type_info(layout.type).name, zero),
        of_codes(layout, [=](int code) { return code ^ zero; }));
    add({},
        fmt::format("has codes without the {} that is added to each, those below 0 cut off", zero),
        moved_by(-zero));
    add({}, fmt::format("has codes to which {} was added twice, cut off at {}", zero, most),
        moved_by(zero));
  }
  add({}, "has codes that are all one too high", moved_by(1));
  add({}, "has codes that are all one too low", moved_by(-1));
}

}  // namespace

std::vector<BlockMistake> block_edits() {
  std::vector<BlockMistake> mistakes;
  for (const BlockLayout& layout : block_layouts()) {
    const Adder add{layout, mistakes};
    const bool are_bytes = layout.codes.bits == 8;
    if (!are_bytes) add_orders_of_codes(layout, add);
    if (layout.minimum) add_minimums(layout, add);
    if (!layout.high.empty()) add_high_bits(layout, add);
    if (layout.type == TensorType::kQ8_0) {
      add("takes the halves of a block for each other", "has the halves of each block exchanged",
          exchange(2, 18, 16), "halves", "the two halves of a block's codes change places");
    }
    if (layout.parts.count > 0) add_parts(layout, add);
    if (layout.has_equal_steps() && !are_bytes) add_offsets(layout, add);
  }
  return mistakes;
}

}  // namespace assay::mistakes
