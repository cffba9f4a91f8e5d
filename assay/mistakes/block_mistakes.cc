#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "assay/mistakes/blocks.h"
#include "kernels/reference/dequantize.h"

// Wrong readings of quantised blocks, written as edits of the bytes that then are read rightly. The
// layouts are those of the GGUF format (kernels/reference/dequantize.cc).
namespace assay::mistakes {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 28;  // of a matrix that is recomputed with

using Bytes = std::span<std::byte>;
using MatrixEdit = std::function<void(Bytes matrix, size_t block_bytes)>;

BlockEdit each(size_t first, size_t count, std::byte (*change)(std::byte)) {
  return [=](Bytes block) {
    const Bytes part = block.subspan(first, count);
    std::transform(part.begin(), part.end(), part.begin(), change);
  };
}

BlockEdit zero(size_t first, size_t count) {
  return each(first, count, [](std::byte) { return std::byte{0}; });
}

// A float16 that begins at `first`.
BlockEdit negate(size_t first) {
  return each(first + 1, 1, [](std::byte high) { return high ^ std::byte{0x80}; });
}

BlockEdit exchange(size_t a, size_t b, size_t count) {
  return [=](Bytes block) {
    std::swap_ranges(block.data() + a, block.data() + a + count, block.data() + b);
  };
}

BlockEdit rotate(size_t first, size_t count) {
  return [=](Bytes block) {
    const Bytes part = block.subspan(first, count);
    std::rotate(part.begin(), part.begin() + 1, part.end());
  };
}

std::byte halves(std::byte byte) {
  return byte << 4 | byte >> 4;
}
// The four pairs of bits of a byte in the other order.
std::byte quarters(std::byte byte) {
  const std::byte swapped = halves(byte);
  return (swapped & std::byte{0x33}) << 2 | (swapped & std::byte{0xCC}) >> 2;
}
std::byte low_six(std::byte byte) {
  return byte & std::byte{0x3F};
}

// A way to misread blocks: in the words of a cause, and of a fault with its name.
struct Words {
  const char* text;
  const char* name;
  const char* what;
};

struct Misreading {
  TensorType type;
  Words words;
  BlockEdit edit;
};

std::vector<Misreading> misreadings() {
  using enum TensorType;
  const char* other_order = "takes the codes of a byte in the other order";
  const Words nibbles{other_order, "nibbles",
                      "the two codes of a byte are taken in the other order"};
  const Words codes{other_order, "code-order",
                    "the four codes of a byte are taken in the other order"};
  const Words no_min{"takes the minimum of each block for 0", "min",
                     "the minimum of a block is taken for 0"};
  const Words min_sign{"takes the minimum of each block with the other sign", nullptr, nullptr};
  const char* for_each_other = "takes scale and minimum of each block for each other";
  const Words exchanged{for_each_other, "scale-for-min",
                        "scale and minimum are taken for each other"};
  const Words all_exchanged{for_each_other, "scale-for-min",
                            "scales and mins are taken for each other"};
  const Words no_high{"leaves the high bits of the codes out", "high-bits",
                      "the high bits of the codes are taken for 0"};
  const Words packing{"leaves the upper bits of the packed scales out", "scale-packing",
                      "the upper bits of the packed scales are left out"};
  return {{kQ4_0, nibbles, each(2, 16, halves)},
          {kQ4_1, nibbles, each(4, 16, halves)},
          {kQ4_1, no_min, zero(2, 2)},
          {kQ4_1, min_sign, negate(2)},
          {kQ4_1, exchanged, exchange(0, 2, 2)},
          {kQ5_0, nibbles, each(6, 16, halves)},
          {kQ5_0, no_high, zero(2, 4)},
          {kQ5_1, nibbles, each(8, 16, halves)},
          {kQ5_1, no_min, zero(2, 2)},
          {kQ5_1, min_sign, negate(2)},
          {kQ5_1, no_high, zero(4, 4)},
          {kQ5_1, {for_each_other, nullptr, nullptr}, exchange(0, 2, 2)},
          {kQ8_0,
           {"takes the halves of a block for each other", "halves",
            "the two halves of a block's codes change places"},
           exchange(2, 18, 16)},
          {kQ2_K, codes, each(16, 64, quarters)},
          {kQ2_K, all_exchanged, each(0, 16, halves)},
          {kQ2_K, {no_min.text, nullptr, nullptr}, zero(82, 2)},
          {kQ2_K, min_sign, negate(82)},
          {kQ3_K, codes, each(32, 64, quarters)},
          {kQ3_K, no_high, zero(0, 32)},
          {kQ3_K, packing, zero(104, 4)},
          {kQ4_K, nibbles, each(16, 128, halves)},
          {kQ4_K, no_min, zero(2, 2)},
          {kQ4_K, min_sign, negate(2)},
          {kQ4_K, exchanged, exchange(0, 2, 2)},
          {kQ4_K, packing, each(4, 8, low_six)},
          {kQ5_K, nibbles, each(48, 128, halves)},
          {kQ5_K, no_min, zero(2, 2)},
          {kQ5_K, min_sign, negate(2)},
          {kQ5_K, no_high, zero(16, 32)},
          {kQ5_K, {for_each_other, nullptr, nullptr}, exchange(0, 2, 2)},
          {kQ5_K, packing, each(4, 8, low_six)},
          {kQ6_K, nibbles, each(0, 128, halves)},
          {kQ6_K, no_high, zero(128, 64)},
          {kQ6_K,
           {"gives each part of a block the scale of the next", "scales",
            "each sub-block has the scale of the next"},
           rotate(192, 16)}};
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): the functions free what they hold
}

// The product with the bytes of its weights edited.
KernelHooks misread(MatrixEdit edit) {
  return {.matmul = [edit = std::move(edit)](const OpContext&, MatmulCall call, Kernels& kernels) {
    const auto* stored = static_cast<const std::byte*>(call.w.data);
    std::vector<std::byte> bytes(
        stored, stored + static_cast<size_t>(call.w.rows) * row_bytes(call.w.type, call.w.columns));
    edit(bytes, tensor_type_info(call.w.type).block_bytes);
    call.w.data = bytes.data();
    kernels.run(call);
  }};
}

// The matrix that an op reads in blocks; of the embedding, the table.
const WeightMatrix* matrix_of(const Network& network, Op op) {
  if (network.model == nullptr) return nullptr;
  if (op.checkpoint == Checkpoint::kEmbedding) return &network.model->token_embedding;
  return &network.linear(op)->weight;
}

// The rows of the embedding that are read, with the bytes of each block edited.
Hook<GetRowsCall> misread_rows(TensorType type, MatrixEdit edit) {
  return [=](const OpContext&, GetRowsCall call, Kernels& kernels) {
    if (call.of_positions || call.table.type != type) return kernels.run(call);
    const size_t stride = row_bytes(type, call.table.columns);
    std::vector<std::byte> rows(static_cast<size_t>(call.n_ids) * stride);
    std::vector<int32_t> ids(static_cast<size_t>(call.n_ids));
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto* row = static_cast<const std::byte*>(call.table.slice(call.ids[i], 1).data);
      std::copy_n(row, stride, rows.data() + i * stride);
      ids[i] = static_cast<int32_t>(i);
    }
    edit(rows, tensor_type_info(type).block_bytes);
    call.table.data = rows.data();
    call.table.rows = call.n_ids;
    call.ids = ids.data();
    kernels.run(call);
  };
}

Injected block_fault(TensorType type, const char* name, const char* what, MatrixEdit edit) {
  const TensorTypeInfo& info = tensor_type_info(type);
  std::string lower(info.name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return {.name = lower + "-" + name,
          .group = FaultGroup::kQuantised,
          .what = std::string(info.name) + ": " + what,
          .type = type,
          .misread = [edit = std::move(edit), size = info.block_bytes](Bytes matrix) {
            edit(matrix, size);
          }};
}

Mistake mistake_of(const Misreading& misreading) {
  const MatrixEdit edit = [block = misreading.edit](Bytes matrix, size_t block_bytes) {
    for (size_t at = 0; at + block_bytes <= matrix.size(); at += block_bytes) {
      block(matrix.subspan(at, block_bytes));
    }
  };
  const auto [text, name, what] = misreading.words;
  Mistake mistake{
      .cause = "quant_block",
      .text = plainly("reads " + std::string(tensor_type_info(misreading.type).name) +
                      " wrongly: " + text),
      .edit = misread(edit),
      .possible = [type = misreading.type](const Network& network, Op op) {
        const WeightMatrix* weight = matrix_of(network, op);
        return weight != nullptr && weight->type == type &&
               (op.checkpoint == Checkpoint::kEmbedding ||
                static_cast<size_t>(weight->rows) * row_bytes(type, weight->columns) <= kMaxBytes);
      }};
  mistake.edit.get_rows = misread_rows(misreading.type, edit);
  if (name != nullptr) mistake.faults = {block_fault(misreading.type, name, what, edit)};
  return mistake;
}

// Of any type that stores blocks. Faults have those of which files have goldens: they are the types
// of which misreadings() has some.
Mistake mistake_of_all(const std::vector<Misreading>& all, const char* text, const MatrixEdit& edit,
                       const char* name = nullptr, const char* what = nullptr) {
  Mistake mistake{.cause = "quant_block",
                  .text = plainly(text),
                  .edit = misread(edit),
                  .possible = [](const Network& network, Op op) {
                    const WeightMatrix& weight = network.linear(op)->weight;
                    return tensor_type_info(weight.type).block_elements > 1 &&
                           static_cast<size_t>(weight.rows) *
                                   row_bytes(weight.type, weight.columns) <=
                               kMaxBytes;
                  }};
  for (const TensorType type : kAllTensorTypes) {
    const bool has_goldens = std::ranges::find(all, type, &Misreading::type) != all.end();
    if (name != nullptr && has_goldens)
      mistake.faults.push_back(block_fault(type, name, what, edit));
  }
  return mistake;
}

// Where a block's bytes have its scale, and its codes.
struct Layout {
  TensorType type;
  size_t scale;          // a float16
  size_t codes;          // so many bytes before the first of them,
  size_t code_bytes;     // and so many of them
  std::byte ones;        // a byte of codes that are 1
  size_t high_bits = 0;  // those of the upper bits of codes that have them apart
  size_t high_bytes = 0;
};

constexpr Layout kLayouts[] = {{TensorType::kQ4_0, 0, 2, 16, std::byte{0x11}},
                               {TensorType::kQ4_1, 0, 4, 16, std::byte{0x11}},
                               {TensorType::kQ5_0, 0, 6, 16, std::byte{0x11}, 2, 4},
                               {TensorType::kQ5_1, 0, 8, 16, std::byte{0x11}, 4, 4},
                               {TensorType::kQ8_0, 0, 2, 32, std::byte{0x01}},
                               {TensorType::kQ2_K, 80, 16, 64, std::byte{0x55}},
                               {TensorType::kQ3_K, 108, 32, 64, std::byte{0x55}, 0, 32},
                               {TensorType::kQ4_K, 0, 16, 128, std::byte{0x11}},
                               {TensorType::kQ5_K, 0, 48, 128, std::byte{0x11}, 16, 32},
                               {TensorType::kQ6_K, 208, 0, 128, std::byte{0x11}, 128, 64}};

const Layout* layout_of(TensorType type) {
  const auto* found = std::ranges::find(kLayouts, type, &Layout::type);
  return found == std::end(kLayouts) ? nullptr : found;
}

// What one more in each code adds to the weights of a row.
void step_of_row(const Layout& layout, const std::byte* row, int64_t columns, float* step) {
  const size_t size = row_bytes(layout.type, columns);
  const size_t block = tensor_type_info(layout.type).block_bytes;
  std::vector<std::byte> bytes(row, row + size);
  const auto set = [&](size_t first, size_t count, std::byte value) {
    for (size_t at = first; at < size; at += block) std::fill_n(bytes.begin() + at, count, value);
  };
  set(layout.high_bits, layout.high_bytes, std::byte{0});
  set(layout.codes, layout.code_bytes, std::byte{0});
  std::vector<float> of_zeros(static_cast<size_t>(columns));
  dequantize_row(layout.type, bytes.data(), columns, of_zeros.data());
  set(layout.codes, layout.code_bytes, layout.ones);
  dequantize_row(layout.type, bytes.data(), columns, step);
  for (int64_t i = 0; i < columns; ++i) step[i] -= of_zeros[static_cast<size_t>(i)];
}

// The product with weights whose codes are all off by the parameter.
void run_with_codes_off(const OpContext& context, MatmulCall call, Kernels& kernels) {
  const Layout& layout = *layout_of(call.w.type);
  const int64_t columns = call.w.columns;
  std::vector<float> weights(static_cast<size_t>(call.w.rows * columns));
  std::vector<float> step(static_cast<size_t>(columns));
  for (int64_t r = 0; r < call.w.rows; ++r) {
    const void* row = call.w.slice(r, 1).data;
    float* weight = weights.data() + r * columns;
    dequantize_row(layout.type, row, columns, weight);
    step_of_row(layout, static_cast<const std::byte*>(row), columns, step.data());
    for (int64_t i = 0; i < columns; ++i) {
      weight[i] += static_cast<float>(context.parameter) * step[static_cast<size_t>(i)];
    }
  }
  call.w = {TensorType::kF32, call.w.rows, columns, weights.data()};
  kernels.run(call);
}

bool is_of_layout(const Network& network, Op op) {
  const WeightMatrix& weight = network.linear(op)->weight;
  return layout_of(weight.type) != nullptr &&
         static_cast<size_t>(weight.rows * weight.columns) * sizeof(float) <= kMaxBytes;
}

// By one, or by the zero point of one of the types, as where it is left out.
Mistake code_mistake() {
  return {.cause = "quant_block",
          .text = [](const Network&,
                     double by) { return fmt::format("adds {:+.0f} to each code of a block", by); },
          .edit = {.matmul = run_with_codes_off},
          .possible = is_of_layout,
          .grid = among({-1, 1, 4, 8, 16, 32})};
}

// Gives each block the scale of the one beside it. `wraps`: the last one has that of the first, or
// the reverse; if not, it keeps its own.
void move_scales(Bytes blocks, size_t block, size_t scale, bool of_next, bool wraps) {
  const size_t count = blocks.size() / block;
  const auto at = [&](size_t i) {
    return blocks.begin() + static_cast<ptrdiff_t>(i * block + scale);
  };
  std::vector<std::byte> scales;
  for (size_t i = 0; i < count; ++i) scales.insert(scales.end(), at(i), at(i) + 2);
  for (size_t i = 0; i < count; ++i) {
    const bool is_end = i == (of_next ? count - 1 : 0);
    if (is_end && !wraps) continue;
    const size_t from = (i + (of_next ? 1 : count - 1)) % count;
    std::copy_n(scales.begin() + static_cast<ptrdiff_t>(2 * from), 2, at(i));
  }
}

// Each block has the scale of another one of the matrix, or of its row, whose ends are then taken
// for neighbours.
Mistake scale_mistake(const char* text, bool of_next, bool in_rows) {
  return {.cause = "quant_block",
          .text = plainly(text),
          .edit = {.matmul =
                       [=](const OpContext& context, const MatmulCall& call, Kernels& kernels) {
                         const size_t scale = layout_of(call.w.type)->scale;
                         const size_t row = row_bytes(call.w.type, call.w.columns);
                         const MatrixEdit edit = [=](Bytes matrix, size_t block) {
                           const size_t part = in_rows ? row : matrix.size();
                           for (size_t at = 0; at + part <= matrix.size(); at += part) {
                             move_scales(matrix.subspan(at, part), block, scale, of_next, in_rows);
                           }
                         };
                         misread(edit).matmul(context, call, kernels);
                       }},
          .possible = is_of_layout};
}

Mistake row_end_mistake() {
  return {.cause = "quant_block",
          .text = plainly("does not read the last block of each row"),
          .edit = {.matmul =
                       [](const OpContext&, MatmulCall call, Kernels& kernels) {
                         const int64_t columns = call.w.columns;
                         const int64_t block = tensor_type_info(call.w.type).block_elements;
                         std::vector<float> x(call.x, call.x + call.n_tokens * columns);
                         for (int64_t t = 1; t <= call.n_tokens; ++t) {
                           std::fill_n(x.begin() + t * columns - block, block, 0.0F);
                         }
                         call.x = x.data();
                         kernels.run(call);
                       }},
          .possible = [](const Network& network, Op op) {
            const WeightMatrix& weight = network.linear(op)->weight;
            const int64_t block = tensor_type_info(weight.type).block_elements;
            return block > 1 && weight.columns > block;
          }};
}

}  // namespace

Mistake misread_blocks(TensorType type, const char* text, const BlockEdit& edit) {
  return mistake_of({type, {text, nullptr, nullptr}, edit});
}

std::vector<Mistake> block_mistakes() {
  std::vector<Mistake> mistakes;
  const std::vector<Misreading> all = misreadings();
  for (const Misreading& misreading : all) mistakes.push_back(mistake_of(misreading));
  mistakes.push_back(
      mistake_of_all(all, "takes each block for the one before", [](Bytes matrix, size_t block) {
        std::copy_backward(matrix.begin(), matrix.end() - static_cast<std::ptrdiff_t>(block),
                           matrix.end());
      }));
  mistakes.push_back(mistake_of_all(
      all, "takes each block for the one after",
      [](Bytes matrix, size_t block) {
        std::copy(matrix.begin() + static_cast<std::ptrdiff_t>(block), matrix.end(),
                  matrix.begin());
      },
      "block", "each block is taken for the one before"));
  mistakes.push_back(mistake_of_all(
      all, "does not read the last block of the weights",
      [](Bytes matrix, size_t block) {
        std::fill(matrix.end() - static_cast<std::ptrdiff_t>(block), matrix.end(), std::byte{0});
      },
      "tail", "the last block of the matrix is not read: zeros"));
  mistakes.push_back(scale_mistake("gives each block the scale of the one after", true, false));
  mistakes.push_back(scale_mistake("gives each block the scale of the one before", false, false));
  mistakes.push_back(scale_mistake(
      "gives each block the scale of the one after in its row, and the last that of the first",
      true, true));
  mistakes.push_back(scale_mistake(
      "gives each block the scale of the one before in its row, and the first that of the last",
      false, true));
  mistakes.push_back(row_end_mistake());
  mistakes.push_back(code_mistake());
  for (Mistake& mistake : block_part_mistakes()) mistakes.push_back(std::move(mistake));
  return mistakes;
}

}  // namespace assay::mistakes
