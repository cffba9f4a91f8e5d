#include "assay/weights/tensor_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include "assay/report/text_table.h"
#include "assay/weights/off_columns.h"
#include "assay/weights/off_rows.h"
#include "kernels/quantize/quantize.h"
#include "kernels/reference/dequantize.h"

namespace assay {
namespace {

// The largest magnitude that quantize_row() takes.
float most_of(TensorType type) {
  return type == TensorType::kBF16 ? std::numeric_limits<float>::max() : 65504.0F;
}

// Sums over some elements.
struct Sums {
  double difference = 0.0;     // of the squares of got - ref
  double storing = 0.0;        // the same that the types cost
  double of_storing = 0.0;     // of the squares of what storing each block costs
  double ref = 0.0;            // of the reference's squares
  double along = 0.0;          // of ref * (got - ref)
  double along_storing = 0.0;  // the same that the types make
  double scatter = 0.0;        // of the squares of what each element adds to that
  double max_abs = 0.0;

  void add(const Sums& other) {
    difference += other.difference;
    storing += other.storing;
    of_storing += other.of_storing;
    ref += other.ref;
    along += other.along;
    along_storing += other.along_storing;
    scatter += other.scatter;
    max_abs = std::max(max_abs, other.max_abs);
  }
};

// The factor between the two, if rounding cannot have made it; else nothing. Elements are rounded
// each its own way, so what errors have in common with the reference is far less than they are:
// what these types make of it (where the weights have few values, all are off alike), the share of
// the squares that a quantiser loses which searches for the best codes, and chance.
std::optional<double> wrong_factor(const Sums& sums, double k) {
  constexpr double kDeviations = 8.0;  // of rows of honest files, the worst is at 4
  const double most = k * std::fabs(sums.along_storing) + k * k * sums.storing +
                      kDeviations * std::sqrt(sums.scatter);
  if (sums.ref == 0.0 || std::fabs(sums.along) <= most) return std::nullopt;
  return 1.0 + sums.along / sums.ref;
}

// A block that is off by too many times of what storing it costs.
struct WorstBlock {
  double by = 0.0;  // 0: no such block
  int64_t row = -1;
  int64_t column = -1;

  void take(const WorstBlock& other) {
    if (other.by > by) *this = other;
  }
};

struct RowSums {
  Sums all;
  WorstBlock by_difference;  // the one with the greatest difference
  WorstBlock by_share;       // with the greatest, of the squares that the reference has there
  bool ref_is_finite = true;
  bool got_is_finite = true;
};

bool is_exact(TensorType type) {
  return type == TensorType::kF32;
}

bool is_block_type(TensorType type) {
  return tensor_type_info(type).block_elements > 1;
}

// Elements that are judged together: a block of the type that rounds more.
int64_t unit_of(TensorType ref, TensorType got) {
  constexpr int64_t kOfFloats = 32;
  return std::max(
      {tensor_type_info(ref).block_elements, tensor_type_info(got).block_elements, kOfFloats});
}

// Stores rows as a type and reads them again.
class Storing {
 public:
  Storing(TensorType type, int64_t columns)
      : type_(type),
        bytes_(is_exact(type) ? 0 : row_bytes(type, columns)),
        read_(static_cast<size_t>(columns)) {}

  // `row` as the type has it; itself where it cannot be stored. Blocks hold more than their scales
  // can be, 127 times as much in Q8_0, and are the same of all weights times a power of two.
  std::span<const float> stored(std::span<const float> row) {
    const auto fits = [most = most_of(type_)](float x) { return std::fabs(x) <= most; };
    if (is_exact(type_)) return row;
    if (std::ranges::all_of(row, fits)) return stored_as_is(row);
    constexpr int kDown = -10;
    small_.assign(row.begin(), row.end());
    for (float& x : small_) x = std::ldexp(x, kDown);
    if (!is_block_type(type_) || !std::ranges::all_of(small_, fits)) return row;
    stored_as_is(small_);
    for (float& x : read_) x = std::ldexp(x, -kDown);
    return read_;
  }

 private:
  std::span<const float> stored_as_is(std::span<const float> row) {
    const auto n = static_cast<int64_t>(row.size());
    quantize_row(type_, row.data(), n, bytes_.data());
    dequantize_row(type_, bytes_.data(), n, read_.data());
    return read_;
  }

  TensorType type_;
  std::vector<std::byte> bytes_;
  std::vector<float> read_;
  std::vector<float> small_;
};

// What compares rows, and its memory; one a thread.
class RowComparer {
 public:
  RowComparer(const GgufTensor& ref, const GgufTensor& got)
      : ref_(ref),
        got_(got),
        unit_(unit_of(ref.type, got.type)),
        as_got_(got.type, ref.columns()),
        as_ref_(ref.type, ref.columns()),
        ref_row_(static_cast<size_t>(ref.columns())),
        got_row_(static_cast<size_t>(ref.columns())),
        // What one type holds, the same type holds again.
        rounds_(ref.type != got.type && can_quantize(got.type) && can_quantize(ref.type)) {}

  // Adds to `columns`, too.
  RowSums compare(int64_t row, std::span<ColumnSquares> columns) {
    read_row(ref_, row, ref_row_);
    read_row(got_, row, got_row_);
    RowSums sums;
    const bool same = std::ranges::equal(ref_row_, got_row_);
    const auto stored_ref = same || !rounds_ ? ref_row_ : as_got_.stored(ref_row_);
    const auto stored_got = same || !rounds_ ? got_row_ : as_ref_.stored(got_row_);
    const auto n = static_cast<int64_t>(ref_row_.size());
    for (int64_t begin = 0; begin < n; begin += unit_) {
      const Sums unit = sums_of(begin, std::min(n, begin + unit_), stored_ref, stored_got, columns);
      sums.all.add(unit);
      if (!(unit.difference > kBlockK * kBlockK * unit.storing)) continue;
      sums.by_difference.take({unit.difference, row, begin});
      sums.by_share.take({unit.ref > 0.0 ? unit.difference / unit.ref : INFINITY, row, begin});
    }
    const auto finite = [](float x) { return std::isfinite(x); };
    sums.ref_is_finite = std::ranges::all_of(ref_row_, finite);
    sums.got_is_finite = std::ranges::all_of(got_row_, finite);
    return sums;
  }

 private:
  Sums sums_of(int64_t begin, int64_t end, std::span<const float> stored_ref,
               std::span<const float> stored_got, std::span<ColumnSquares> columns) const {
    Sums sums;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const double ref = static_cast<double>(ref_row_[i]);
      const double got = static_cast<double>(got_row_[i]);
      const double by_got = static_cast<double>(stored_ref[i]) - ref;
      const double by_ref = static_cast<double>(stored_got[i]) - got;
      const double difference = (got - ref) * (got - ref);
      const double storing = by_got * by_got + by_ref * by_ref;
      columns[i].difference += difference;
      columns[i].storing += storing;
      columns[i].ref += ref * ref;
      columns[i].along += ref * (got - ref);
      sums.difference += difference;
      sums.storing += storing;
      sums.ref += ref * ref;
      sums.along += ref * (got - ref);
      sums.along_storing += ref * (by_got - by_ref);
      sums.scatter += ref * ref * storing;
      sums.max_abs = std::max(sums.max_abs, std::fabs(got - ref));
    }
    sums.of_storing = sums.storing * sums.storing;
    return sums;
  }

  const GgufTensor& ref_;
  const GgufTensor& got_;
  int64_t unit_;
  Storing as_got_;
  Storing as_ref_;
  std::vector<float> ref_row_;
  std::vector<float> got_row_;
  bool rounds_;
};

double relative(double squares, double of) {
  if (squares == 0.0) return 0.0;
  return of > 0.0 ? std::sqrt(squares / of) : INFINITY;
}

// Why a difference cannot be judged; empty where it can. `expected`: what storing costs.
std::string unjudged_reason(TensorType ref, TensorType got, double expected) {
  for (const TensorType type : {got, ref}) {
    if (can_quantize(type)) continue;
    return fmt::format(
        "Assay has no encoder of {} that would say how near it can be; --max-rel-l2 sets a limit",
        tensor_type_info(type).name);
  }
  if (ref == got && is_block_type(ref)) {
    return fmt::format("both files have it rounded to {}; give the file before it was rounded",
                       tensor_type_info(ref).name);
  }
  if (!(expected < kMeaningless)) {
    return fmt::format(
        "storing it as such already costs a rel_l2 of {:.2g}, which zeros would not exceed by "
        "much; "
        "--max-rel-l2 sets a limit",
        expected);
  }
  return {};
}

void tell(const OffRows& off, TensorResult& result) {
  result.row = off.first;
  const std::string rows = off.first == off.last
                               ? fmt::format("row {}", off.first)
                               : fmt::format("rows {} to {}", off.first, off.last);
  result.reason = fmt::format("{}{} {} off by {}, {} expected there", rows,
                              off.is_one_of_several ? ", and others," : "",
                              off.first == off.last && !off.is_one_of_several ? "is" : "are",
                              short_number(off.rel_l2), short_number(off.expected));
}

void tell(const OffColumns& off, TensorResult& result) {
  const std::string columns = off.first == off.last
                                  ? fmt::format("column {}", off.first)
                                  : fmt::format("columns {} to {}", off.first, off.last);
  result.reason = fmt::format("{} of each {}{} {} off by {}, {} expected there", columns,
                              off.period, off.is_one_of_several ? ", and others," : "",
                              off.first == off.last && !off.is_one_of_several ? "is" : "are",
                              short_number(off.rel_l2), short_number(off.expected));
}

// Rows are compared in so many pieces whatever the number of threads is, so that sums over columns
// do not depend on it.
constexpr int64_t kPieces = 64;

}  // namespace

void read_row(const GgufTensor& tensor, int64_t row, std::span<float> out) {
  const size_t stride = row_bytes(tensor.type, tensor.columns());
  dequantize_row(tensor.type, tensor.data.data() + static_cast<size_t>(row) * stride,
                 tensor.columns(), out.data());
}

std::string factor_text(double factor) {
  constexpr int kMostDigits = 9;
  int digits = 3;
  while (digits < kMostDigits && fmt::format("{:.{}g}", factor, digits) == "1") ++digits;
  return fmt::format("{:.{}g}", factor, digits);
}

std::string over_limit_text(const WeightsOptions& options) {
  return fmt::format("rel_l2 is over --max-rel-l2 {:g}", options.max_rel_l2);
}

void measure_tensor(const GgufTensor& ref, const GgufTensor& got, const WeightsOptions& options,
                    ThreadPool& pool, TensorResult& result) {
  std::vector<RowSums> rows(static_cast<size_t>(ref.rows()));
  const auto n_columns = static_cast<size_t>(ref.columns());
  std::vector<std::vector<ColumnSquares>> pieces(kPieces);
  pool.parallel_for(kPieces, 1, [&](int64_t begin, int64_t end) {
    RowComparer comparer(ref, got);
    for (int64_t piece = begin; piece < end; ++piece) {
      std::vector<ColumnSquares>& sums = pieces[static_cast<size_t>(piece)];
      sums.resize(n_columns);
      for (int64_t row = piece; row < ref.rows(); row += kPieces) {
        rows[static_cast<size_t>(row)] = comparer.compare(row, sums);
      }
    }
  });
  std::vector<ColumnSquares> columns(n_columns);
  for (const std::vector<ColumnSquares>& piece : pieces) {
    for (size_t i = 0; i < n_columns; ++i) columns[i].add(piece[i]);
  }
  Sums all;
  WorstBlock by_difference;
  WorstBlock by_share;
  int64_t infinite_row = -1;
  int64_t scaled_row = -1;
  std::vector<RowSquares> squares;
  for (int64_t row = 0; row < ref.rows(); ++row) {
    const RowSums& sums = rows[static_cast<size_t>(row)];
    all.add(sums.all);
    if (scaled_row < 0 && wrong_factor(sums.all, options.k)) scaled_row = row;
    squares.push_back({sums.all.difference, sums.all.storing, sums.all.of_storing, sums.all.ref});
    if (!(sums.ref_is_finite && sums.got_is_finite) && infinite_row < 0) infinite_row = row;
    by_difference.take(sums.by_difference);
    by_share.take(sums.by_share);
  }
  result.rel_l2 = relative(all.difference, all.ref);
  result.expected = relative(all.storing, all.ref);
  result.max_abs = all.max_abs;
  constexpr int64_t kEnoughRows = 64;  // that what is chance in a column averages out
  if (ref.rows() >= kEnoughRows) result.columns = column_spread(columns);
  if (infinite_row >= 0) {
    result.status = TensorStatus::kWrong;
    result.row = infinite_row;
    const RowSums& sums = rows[static_cast<size_t>(infinite_row)];
    result.reason = fmt::format("{} NaN or an infinity in row {}",
                                sums.ref_is_finite   ? "holds"
                                : sums.got_is_finite ? "the reference, and not the file, holds"
                                                     : "the reference, too, holds",
                                infinite_row);
    return;
  }
  if (all.difference == 0.0) {
    result.status = TensorStatus::kSame;
    result.is_zero = all.ref == 0.0;
    return;
  }
  if (all.ref == 0.0) {
    result.status = TensorStatus::kWrong;
    result.reason = "the reference's is all zeros";
    return;
  }
  result.reason = unjudged_reason(ref.type, got.type, result.expected);
  if (!result.reason.empty()) {
    const bool is_limited = options.max_rel_l2 > 0.0;
    result.status = TensorStatus::kUnjudged;
    if (is_limited) {
      const bool is_within = result.rel_l2 <= options.max_rel_l2;
      result.status = is_within ? TensorStatus::kRounded : TensorStatus::kWrong;
      result.reason = is_within ? "" : over_limit_text(options);
    }
    return;
  }
  const auto n_units =
      static_cast<double>(ref.rows()) * std::ceil(static_cast<double>(ref.columns()) /
                                                  static_cast<double>(unit_of(ref.type, got.type)));
  // Of a unit that happens to be stored without an error, the mean of all says what it may have: as
  // a difference, and as a share of what is there, without which a row of small weights could be
  // lost unseen.
  const double most = kBlockK * kBlockK * all.storing;
  const bool is_far_off = !(by_difference.by <= most / n_units);
  const WorstBlock& worst = is_far_off ? by_difference : by_share;
  const auto off = off_rows(squares, std::max(options.k, kPartsK));
  const auto off_places = off_columns(columns, std::max(options.k, kPartsK));
  if (!(all.difference <= options.k * options.k * all.storing)) {
    result.status = TensorStatus::kWrong;
    if (off) {
      tell(*off, result);
    } else if (off_places) {
      tell(*off_places, result);
    }
  } else if (!(result.rel_l2 < kMeaningless)) {
    result.status = TensorStatus::kWrong;
    result.reason =
        fmt::format("a rel_l2 of {:g} or more is never right, whatever --k", kMeaningless);
  } else if (is_far_off || !(by_share.by <= most / all.ref)) {
    result.status = TensorStatus::kWrong;
    result.row = worst.row;
    result.column = worst.column;
    result.reason = fmt::format(
        "a block of row {} from column {} on is off by {:.3g} of {}", result.row, result.column,
        is_far_off ? relative(worst.by, all.ref / n_units) : std::sqrt(worst.by),
        is_far_off ? "its tensor" : "what the reference has there");
  } else if (off) {
    result.status = TensorStatus::kWrong;
    tell(*off, result);
  } else if (off_places) {
    result.status = TensorStatus::kWrong;
    tell(*off_places, result);
  } else if (const auto factor = wrong_factor(all, options.k)) {
    result.status = TensorStatus::kWrong;
    result.reason = fmt::format("is the reference's times {}, which rounding does not make",
                                factor_text(*factor));
  } else if (scaled_row >= 0) {
    result.status = TensorStatus::kWrong;
    result.row = scaled_row;
    result.reason = fmt::format(
        "row {} is the reference's times {}, which rounding does not make", scaled_row,
        factor_text(*wrong_factor(rows[static_cast<size_t>(scaled_row)].all, options.k)));
  } else {
    result.status = TensorStatus::kRounded;
  }
}

}  // namespace assay
