#include <algorithm>
#include <cctype>
#include <utility>

#include "assay/mistakes/mistake.h"

// Wrong readings of quantised blocks, written as edits of the bytes that then are read rightly. The
// layouts are those of the GGUF format (kernels/reference/dequantize.cc).
namespace assay::mistakes {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 28;  // of a matrix that is recomputed with

using Bytes = std::span<std::byte>;
using BlockEdit = std::function<void(Bytes block)>;
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
          {kQ4_1, exchanged, exchange(0, 2, 2)},
          {kQ5_0, nibbles, each(6, 16, halves)},
          {kQ5_0, no_high, zero(2, 4)},
          {kQ5_1, nibbles, each(8, 16, halves)},
          {kQ5_1, no_min, zero(2, 2)},
          {kQ5_1, no_high, zero(4, 4)},
          {kQ5_1, {for_each_other, nullptr, nullptr}, exchange(0, 2, 2)},
          {kQ8_0,
           {"takes the halves of a block for each other", "halves",
            "the two halves of a block's codes change places"},
           exchange(2, 18, 16)},
          {kQ2_K, codes, each(16, 64, quarters)},
          {kQ2_K, all_exchanged, each(0, 16, halves)},
          {kQ2_K, {no_min.text, nullptr, nullptr}, zero(82, 2)},
          {kQ3_K, codes, each(32, 64, quarters)},
          {kQ3_K, no_high, zero(0, 32)},
          {kQ3_K, packing, zero(104, 4)},
          {kQ4_K, nibbles, each(16, 128, halves)},
          {kQ4_K, no_min, zero(2, 2)},
          {kQ4_K, exchanged, exchange(0, 2, 2)},
          {kQ4_K, packing, each(4, 8, low_six)},
          {kQ5_K, nibbles, each(48, 128, halves)},
          {kQ5_K, no_min, zero(2, 2)},
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

}  // namespace

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
  return mistakes;
}

}  // namespace assay::mistakes
