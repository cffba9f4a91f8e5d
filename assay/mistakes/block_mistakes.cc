#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "assay/mistakes/blocks.h"
#include "assay/mistakes/mistake.h"
#include "kernels/reference/dequantize.h"

// Wrong readings of quantised blocks: of each by itself (block_edits.cc), or of all of a matrix.
namespace assay::mistakes {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 28;  // of a matrix that is recomputed with

using MatrixEdit = std::function<void(Bytes matrix, size_t block_bytes)>;

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

bool has_equal_steps(TensorType type) {
  const BlockLayout* layout = block_layout(type);
  return layout != nullptr && layout->has_equal_steps();
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

Injected block_fault(TensorType type, const std::string& name, const std::string& what,
                     MatrixEdit edit) {
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

Mistake mistake_of(const BlockMistake& block) {
  const MatrixEdit edit = [edit = block.edit](Bytes matrix, size_t block_bytes) {
    for (size_t at = 0; at + block_bytes <= matrix.size(); at += block_bytes) {
      edit(matrix.subspan(at, block_bytes));
    }
  };
  Mistake mistake{
      .cause = "quant_block",
      .text = plainly("reads " + std::string(tensor_type_info(block.type).name) +
                      " wrongly: " + block.reading),
      .edit = misread(edit),
      .possible = [type = block.type](const Network& network, Op op) {
        const WeightMatrix* weight = matrix_of(network, op);
        return weight != nullptr && weight->type == type &&
               (op.checkpoint == Checkpoint::kEmbedding ||
                static_cast<size_t>(weight->rows) * row_bytes(type, weight->columns) <= kMaxBytes);
      }};
  mistake.edit.get_rows = misread_rows(block.type, edit);
  if (!block.fault.empty())
    mistake.faults = {block_fault(block.type, block.fault, block.what, edit)};
  return mistake;
}

// Of any type that stores blocks. Faults have those of which files have goldens: they are the types
// of equal steps.
Mistake mistake_of_all(const char* text, const MatrixEdit& edit, const char* name = nullptr,
                       const char* what = nullptr) {
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
    if (name == nullptr || !has_equal_steps(type)) continue;
    mistake.faults.push_back(block_fault(type, name, what, edit));
  }
  return mistake;
}

// What one more in each code adds to the weights of a row.
void step_of_row(const BlockLayout& layout, const std::byte* row, int64_t columns, float* step) {
  const size_t size = row_bytes(layout.type, columns);
  const size_t block = tensor_type_info(layout.type).block_bytes;
  std::vector<std::byte> bytes(row, row + size);
  const auto set = [&](const BitField& field, std::byte value) {
    for (size_t at = field.first; at < size; at += block) {
      std::fill_n(bytes.begin() + at, field.count, value);
    }
  };
  set(layout.high, std::byte{0});
  set(layout.codes, std::byte{0});
  std::vector<float> of_zeros(static_cast<size_t>(columns));
  dequantize_row(layout.type, bytes.data(), columns, of_zeros.data());
  set(layout.codes, std::byte(0xFF / ((1 << layout.codes.bits) - 1)));  // each a 1
  dequantize_row(layout.type, bytes.data(), columns, step);
  for (int64_t i = 0; i < columns; ++i) step[i] -= of_zeros[static_cast<size_t>(i)];
}

// The product with weights whose codes are all off by the parameter.
void run_with_codes_off(const OpContext& context, MatmulCall call, Kernels& kernels) {
  const BlockLayout& layout = *block_layout(call.w.type);
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

bool has_steps(const Network& network, Op op) {
  const WeightMatrix& weight = network.linear(op)->weight;
  return has_equal_steps(weight.type) &&
         static_cast<size_t>(weight.rows * weight.columns) * sizeof(float) <= kMaxBytes;
}

// By one, or by the zero point of one of the types, as where it is left out.
Mistake code_mistake() {
  return {.cause = "quant_block",
          .text = [](const Network&,
                     double by) { return fmt::format("adds {:+.0f} to each code of a block", by); },
          .edit = {.matmul = run_with_codes_off},
          .possible = has_steps,
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
                         const size_t scale = *block_layout(call.w.type)->scale;
                         const size_t row = row_bytes(call.w.type, call.w.columns);
                         const MatrixEdit edit = [=](Bytes matrix, size_t block) {
                           const size_t part = in_rows ? row : matrix.size();
                           for (size_t at = 0; at + part <= matrix.size(); at += part) {
                             move_scales(matrix.subspan(at, part), block, scale, of_next, in_rows);
                           }
                         };
                         misread(edit).matmul(context, call, kernels);
                       }},
          .possible = has_steps};
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

std::vector<Mistake> block_mistakes() {
  std::vector<Mistake> mistakes;
  for (const BlockMistake& block : block_edits()) {
    if (!block.reading.empty()) mistakes.push_back(mistake_of(block));
  }
  mistakes.push_back(
      mistake_of_all("takes each block for the one before", [](Bytes matrix, size_t block) {
        std::copy_backward(matrix.begin(), matrix.end() - static_cast<std::ptrdiff_t>(block),
                           matrix.end());
      }));
  mistakes.push_back(mistake_of_all(
      "takes each block for the one after",
      [](Bytes matrix, size_t block) {
        std::copy(matrix.begin() + static_cast<std::ptrdiff_t>(block), matrix.end(),
                  matrix.begin());
      },
      "block", "each block is taken for the one before"));
  mistakes.push_back(mistake_of_all(
      "does not read the last block of the weights",
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
  return mistakes;
}

}  // namespace assay::mistakes
