#include "assay/weights/stored_wrong.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "assay/mistakes/blocks.h"
#include "assay/weights/code_values.h"
#include "assay/weights/tensor_difference.h"
#include "kernels/quantize/quantize.h"
#include "kernels/reference/dequantize.h"

namespace assay {
namespace {

using Row = std::vector<float>;

// What a row of the judged file would hold if the tensor were stored wrongly in one way; nothing
// where there is no such row.
using Guess = std::function<std::optional<Row>(int64_t row)>;

constexpr int64_t kMostRows = 48;

Row row_of(const GgufTensor& tensor, int64_t row) {
  Row values(static_cast<size_t>(tensor.columns()));
  read_row(tensor, row, values);
  return values;
}

// Rows of the judged tensor, spread over all of it.
class Sample {
 public:
  explicit Sample(const GgufTensor& got) {
    const int64_t n = std::min(got.rows(), kMostRows);
    for (int64_t i = 0; i < n; ++i) {
      rows_.push_back(i * got.rows() / n);
      values_.push_back(row_of(got, rows_.back()));
    }
  }

  // ‖got − guess‖ / ‖guess‖ over the rows that there is a guess of, at least half of them; else
  // infinity.
  double left_by(const Guess& guess) const {
    double difference = 0.0;
    double all = 0.0;
    size_t guessed = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const std::optional<Row> row = guess(rows_[i]);
      if (!row || row->size() != values_[i].size()) continue;
      ++guessed;
      for (size_t j = 0; j < row->size(); ++j) {
        const double value = static_cast<double>((*row)[j]);
        const double error = static_cast<double>(values_[i][j]) - value;
        difference += error * error;
        all += value * value;
      }
    }
    if (2 * guessed < rows_.size() || !(all > 0.0)) return INFINITY;
    return std::sqrt(difference / all);
  }

  // The factor by which `guess` fits best.
  double factor(const Guess& guess) const {
    double with_guess = 0.0;
    double of_guess = 0.0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const std::optional<Row> row = guess(rows_[i]);
      if (!row || row->size() != values_[i].size()) continue;
      for (size_t j = 0; j < row->size(); ++j) {
        const double value = static_cast<double>((*row)[j]);
        with_guess += value * static_cast<double>(values_[i][j]);
        of_guess += value * value;
      }
    }
    return of_guess > 0.0 ? with_guess / of_guess : 0.0;
  }

  bool is_zero() const {
    return std::ranges::all_of(values_, [](const Row& row) {
      return std::ranges::all_of(row, [](float x) { return x == 0.0F; });
    });
  }

 private:
  std::vector<int64_t> rows_;
  std::vector<Row> values_;
};

// The reference's own rows, each changed.
Guess changed(const GgufTensor& ref, std::function<void(Row&)> change) {
  return [&ref, change = std::move(change)](int64_t row) -> std::optional<Row> {
    if (row >= ref.rows()) return std::nullopt;
    Row values = row_of(ref, row);
    change(values);
    return values;
  };
}

Guess multiplied(const GgufTensor& ref, double factor) {
  return changed(ref, [factor](Row& row) {
    for (float& x : row) x = static_cast<float>(static_cast<double>(x) * factor);
  });
}

// Other rows of the reference.
Guess moved(const GgufTensor& ref, std::function<int64_t(int64_t row)> from) {
  return [&ref, from = std::move(from)](int64_t row) -> std::optional<Row> {
    const int64_t source = from(row);
    if (source < 0 || source >= ref.rows()) return std::nullopt;
    return row_of(ref, source);
  };
}

Guess column_of(const GgufTensor& ref) {
  return [&ref](int64_t column) -> std::optional<Row> {
    if (column >= ref.columns()) return std::nullopt;
    Row values;
    for (int64_t row = 0; row < ref.rows(); ++row) {
      values.push_back(row_of(ref, row)[static_cast<size_t>(column)]);
    }
    return values;
  };
}

// Which row of a head stands at `row` if the rotary pairs, stored as halves, are stored adjacent;
// or the other way round.
int64_t with_pairs(int64_t row, int64_t head_dim, bool to_adjacent) {
  const int64_t head = row / head_dim * head_dim;
  const int64_t i = row % head_dim;
  const int64_t half = head_dim / 2;
  return head + (to_adjacent ? i / 2 + i % 2 * half : i % half * 2 + i / half);
}

// Elements of each `size` exchanged with the next `size`.
void exchange_halves(Row& row, size_t size) {
  for (size_t i = 0; i + 2 * size <= row.size(); i += 2 * size) {
    const auto at = row.begin() + static_cast<std::ptrdiff_t>(i);
    const auto middle = at + static_cast<std::ptrdiff_t>(size);
    std::swap_ranges(at, middle, middle);
  }
}

std::string by_value(const GgufTensor& ref, const Sample& sample, double limit) {
  const Guess own = multiplied(ref, 1.0);
  if (sample.left_by(multiplied(ref, -1.0)) <= limit) return "has every sign turned around";
  const double factor = sample.factor(own);
  if (factor != 0.0 && sample.left_by(multiplied(ref, factor)) <= limit) {
    return fmt::format("{} {}", kIsTimes, factor_text(factor));
  }
  for (const float offset : {1.0F, -1.0F}) {
    const Guess guess = changed(ref, [offset](Row& row) {
      for (float& x : row) x += offset;
    });
    if (sample.left_by(guess) <= limit) {
      return fmt::format("is the reference's {} 1", offset > 0.0F ? "plus" : "minus");
    }
  }
  for (const size_t size : {size_t{16}, size_t{32}, size_t{64}, size_t{128}}) {
    const Guess guess = changed(ref, [size](Row& row) { exchange_halves(row, size); });
    if (sample.left_by(guess) <= limit) {
      return fmt::format("has each {} elements exchanged with the next {}", size, size);
    }
  }
  return {};
}

std::string by_place(const GgufTensor& ref, const Sample& sample, double limit) {
  for (const int64_t step : {1, -1}) {
    if (sample.left_by(moved(ref, [step](int64_t row) { return row + step; })) <= limit) {
      return fmt::format("has the reference's rows one {}", step > 0 ? "too early" : "too late");
    }
  }
  for (const int64_t head_dim : {8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256}) {
    if (ref.rows() % head_dim != 0) continue;
    for (const bool to_adjacent : {true, false}) {
      const auto from = [=](int64_t row) { return with_pairs(row, head_dim, to_adjacent); };
      if (!(sample.left_by(moved(ref, from)) <= limit)) continue;
      return fmt::format("has the rows of each head of {} in the order of rotary {}", head_dim,
                         to_adjacent ? "pairs that are adjacent, the reference's in halves"
                                     : "halves, the reference's in pairs that are adjacent");
    }
  }
  return {};
}

std::string by_name(const Gguf& ref_file, const GgufTensor& ref, const Sample& sample,
                    double limit) {
  for (const GgufTensor& other : ref_file.tensors()) {
    if (other.name == ref.name || other.dims != ref.dims) continue;
    if (sample.left_by(multiplied(other, 1.0)) <= limit) {
      return fmt::format("is what the reference has as {}", other.name);
    }
  }
  return {};
}

// Rows of the reference as a type stores them, each stored once.
class StoredRows {
 public:
  StoredRows(const GgufTensor& ref, TensorType type) : ref_(ref), type_(type) {}

  // Empty where it cannot be stored.
  const std::vector<std::byte>& operator[](int64_t at) {
    std::vector<std::byte>& bytes = rows_[at];
    constexpr float kMost = 65504.0F;  // what quantize_row() takes
    if (!bytes.empty() || at >= ref_.rows()) return bytes;
    const Row row = row_of(ref_, at);
    if (!std::ranges::all_of(row, [](float x) { return std::fabs(x) <= kMost; })) return bytes;
    bytes.resize(row_bytes(type_, std::ssize(row)));
    quantize_row(type_, row.data(), std::ssize(row), bytes.data());
    return bytes;
  }

 private:
  const GgufTensor& ref_;
  TensorType type_;
  std::map<int64_t, std::vector<std::byte>> rows_;
};

// These, with an edit of each block, and read as the type of `got`.
Guess packed(StoredRows& stored, const GgufTensor& got, mistakes::BlockEdit edit) {
  return [&stored, &got, edit = std::move(edit)](int64_t at) -> std::optional<Row> {
    std::vector<std::byte> bytes = stored[at];
    if (bytes.empty()) return std::nullopt;
    const auto block = static_cast<size_t>(tensor_type_info(got.type).block_bytes);
    for (size_t i = 0; edit && i < bytes.size(); i += block) edit({bytes.data() + i, block});
    Row row(static_cast<size_t>(got.columns()));
    dequantize_row(got.type, bytes.data(), got.columns(), row.data());
    return row;
  };
}

// Two quantisers choose other codes, which a mistake may pull far apart (15 and 16 without the high
// bit), so what is left may be more than rounding; the mistake that leaves least is named, if it
// explains nine tenths of the squares.
std::string by_packing(const GgufTensor& ref, const GgufTensor& got, const Sample& sample) {
  if (!can_quantize(got.type)) return {};
  constexpr double kMostLeft = 0.316;
  double least = kMostLeft * std::min(1.0, sample.left_by(multiplied(ref, 1.0)));
  std::string sentence;
  const auto attempt = [&](const Guess& guess, const std::string& said) {
    const double left = sample.left_by(guess);
    if (!(left < least)) return;
    least = left;
    sentence = said;
  };
  StoredRows as_got(ref, got.type);
  for (const mistakes::BlockMistake& mistake : mistakes::block_edits()) {
    if (mistake.type == got.type) attempt(packed(as_got, got, mistake.edit), mistake.packing);
  }
  const TensorTypeInfo& own = tensor_type_info(got.type);
  for (const TensorType type : kAllTensorTypes) {
    const TensorTypeInfo& other = tensor_type_info(type);
    const bool is_as_large = other.block_elements == own.block_elements &&
                             other.block_bytes == own.block_bytes && can_quantize(type);
    if (type == got.type || !is_as_large) continue;
    StoredRows as_other(ref, type);
    attempt(packed(as_other, got, {}),
            fmt::format("holds the bytes of {}, which are read as {}", other.name, own.name));
  }
  return sentence;
}

}  // namespace

std::string stored_wrong(const Gguf& ref_file, const GgufTensor& ref, const GgufTensor& got,
                         double limit) {
  const Sample sample(got);
  if (sample.is_zero()) return "is all zeros";
  if (got.dims == ref.dims) {
    if (sample.left_by(multiplied(ref, 1.0)) <= limit) return {};  // nothing is wrong in these rows
    std::string sentence = by_value(ref, sample, limit);
    if (sentence.empty()) sentence = by_place(ref, sample, limit);
    if (sentence.empty()) sentence = by_name(ref_file, ref, sample, limit);
    if (sentence.empty()) sentence = by_packing(ref, got, sample);
    if (sentence.empty()) sentence = wrong_code_values(ref, got, limit);
    if (!sentence.empty()) return sentence;
  }
  constexpr int64_t kMostElements = int64_t{1} << 25;  // each column reads all of them
  const bool is_turned = got.rows() == ref.columns() && got.columns() == ref.rows();
  const bool is_small = ref.rows() * ref.columns() <= kMostElements;
  if (is_turned && is_small && sample.left_by(column_of(ref)) <= limit) return "is transposed";
  return {};
}

}  // namespace assay
