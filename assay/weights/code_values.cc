#include "assay/weights/code_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "assay/mistakes/block_layout.h"
#include "assay/weights/tensor_difference.h"
#include "kernels/reference/dequantize.h"

namespace assay {
namespace {

using mistakes::BlockLayout;
using Table = std::vector<double>;

// What each code stands for, in the type's own scale.
Table own_table(const BlockLayout& layout) {
  if (!layout.has_equal_steps()) return {layout.table.begin(), layout.table.end()};
  Table table;
  for (int code = 0; code < 1 << layout.code_bits(); ++code) table.push_back(code - layout.zero);
  return table;
}

// Reads a row in its parts: weight i is base[i] + scale[i] * table[code[i]].
class RowParts {
 public:
  RowParts(const BlockLayout& layout, const Table& table) : layout_(layout), table_(table) {}

  void read(const GgufTensor& tensor, int64_t row) {
    const size_t stride = row_bytes(tensor.type, tensor.columns());
    const auto own = tensor.data.subspan(static_cast<size_t>(row) * stride, stride);
    bytes_.assign(own.begin(), own.end());
    codes.clear();
    each_block([&](mistakes::Bytes block) {
      const std::vector<uint8_t> all = codes_of(layout_, block);
      codes.insert(codes.end(), all.begin(), all.end());
    });
    base = read_with(tensor, 0);
    const std::vector<float> of_one = read_with(tensor, 1);
    scale.resize(base.size());
    for (size_t i = 0; i < base.size(); ++i) {
      scale[i] = (of_one[i] - base[i]) / static_cast<float>(table_[1] - table_[0]);
      base[i] -= scale[i] * static_cast<float>(table_[0]);
    }
  }

  std::vector<uint8_t> codes;
  std::vector<float> base;
  std::vector<float> scale;

 private:
  void each_block(const std::function<void(mistakes::Bytes block)>& act) {
    const size_t size = tensor_type_info(layout_.type).block_bytes;
    for (size_t at = 0; at < bytes_.size(); at += size) act({bytes_.data() + at, size});
  }

  // The row if all codes were this one.
  std::vector<float> read_with(const GgufTensor& tensor, uint8_t code) {
    const std::vector<uint8_t> all(tensor_type_info(layout_.type).block_elements, code);
    each_block([&](mistakes::Bytes block) { put_codes(layout_, all, block); });
    std::vector<float> values(static_cast<size_t>(tensor.columns()));
    dequantize_row(tensor.type, bytes_.data(), tensor.columns(), values.data());
    return values;
  }

  const BlockLayout& layout_;
  const Table& table_;
  std::vector<std::byte> bytes_;
};

// The table with which the codes come nearest to the reference.
struct FittedTable {
  Table values;
  Table weights;        // squares of the scales of the elements that have the code
  double before = 0.0;  // squares of what is left with the type's own table,
  double left = 0.0;    // with this one,
  double ref = 0.0;     // and of the reference
};

FittedTable fit_table(const GgufTensor& ref, const GgufTensor& got, const BlockLayout& layout,
                      const Table& own) {
  constexpr int64_t kMostRows = 48;
  FittedTable fitted{Table(own.size()), Table(own.size())};
  Table squares(own.size());  // of what is to be the scale times the code's value
  RowParts parts(layout, own);
  std::vector<float> row(static_cast<size_t>(ref.columns()));
  const int64_t n = std::min(got.rows(), kMostRows);
  for (int64_t r = 0; r < n; ++r) {
    parts.read(got, r * got.rows() / n);
    read_row(ref, r * got.rows() / n, row);
    for (size_t i = 0; i < row.size(); ++i) {
      const double scale = static_cast<double>(parts.scale[i]);
      const double wanted = static_cast<double>(row[i]) - static_cast<double>(parts.base[i]);
      const size_t code = parts.codes[i];
      const double off = wanted - scale * own[code];
      fitted.values[code] += scale * wanted;
      fitted.weights[code] += scale * scale;
      squares[code] += wanted * wanted;
      fitted.before += off * off;
      fitted.ref += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    }
  }
  for (size_t code = 0; code < own.size(); ++code) {
    if (!(fitted.weights[code] > 0.0)) continue;
    fitted.values[code] /= fitted.weights[code];
    fitted.left += squares[code] - fitted.weights[code] * fitted.values[code] * fitted.values[code];
  }
  return fitted;
}

// The share of the fitted table's squares that `table` is off by, in its best scale.
double left_by(const FittedTable& fitted, const Table& table) {
  double with_table = 0.0;
  double of_table = 0.0;
  double all = 0.0;
  for (size_t code = 0; code < table.size(); ++code) {
    with_table += fitted.weights[code] * fitted.values[code] * table[code];
    of_table += fitted.weights[code] * table[code] * table[code];
    all += fitted.weights[code] * fitted.values[code] * fitted.values[code];
  }
  if (!(of_table > 0.0)) return INFINITY;
  return 1.0 - with_table * with_table / (of_table * all);
}

struct KnownTable {
  const char* text;
  Table values;
};

// What a quantiser may take for the type's own table.
std::vector<KnownTable> known_tables(const Table& own) {
  const auto made = [&](auto value_of) {
    Table table;
    for (size_t code = 0; code < own.size(); ++code) table.push_back(value_of(code));
    return table;
  };
  const size_t last = own.size() - 1;
  std::vector<KnownTable> known{
      {"has codes that are rounded down, not to the nearest",
       made([&](size_t code) { return own[code] + 0.5; })},
      {"has codes that are rounded up, not to the nearest",
       made([&](size_t code) { return own[code] - 0.5; })},
      {"has codes that are cut off towards zero and not rounded", made([&](size_t code) {
         return own[code] + (own[code] > 0.0) * 0.5 - (own[code] < 0.0) * 0.5;
       })},
      {"has codes in the reverse order", made([&](size_t code) { return own[last - code]; })},
      {"has codes that are all one too high",
       made([&](size_t code) { return own[code > 0 ? code - 1 : 0]; })},
      {"has codes that are all one too low",
       made([&](size_t code) { return own[std::min(code + 1, last)]; })},
      {"has codes with the other top bit",
       made([&](size_t code) { return own[code ^ (last + 1) / 2]; })}};
  if (own.size() != 16) return known;
  known.push_back({"has codes of equal steps from -8 to 7, as Q4_0",
                   made([](size_t code) { return static_cast<double>(code) - 8.0; })});
  known.push_back({"has codes of whole numbers with a sign", made([](size_t code) {
                     return static_cast<double>(code) - (code < 8 ? 0.0 : 16.0);
                   })});
  known.push_back({"has codes of the table of IQ4_NL",
                   {std::begin(mistakes::kUnevenSteps), std::end(mistakes::kUnevenSteps)}});
  known.push_back({"has codes of the floats of MXFP4",
                   {std::begin(mistakes::kFloats4), std::end(mistakes::kFloats4)}});
  // QLoRA, appendix E.
  known.push_back({"has codes of the table of NF4",
                   {-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0, 0.0796, 0.1609,
                    0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0}});
  return known;
}

}  // namespace

std::string wrong_code_values(const GgufTensor& ref, const GgufTensor& got, double limit) {
  constexpr int kMostBits = 6;
  const BlockLayout* layout = mistakes::block_layout(got.type);
  if (layout == nullptr || layout->code_bits() > kMostBits) return {};
  const Table own = own_table(*layout);
  const FittedTable fitted = fit_table(ref, got, *layout, own);
  // Most of what is wrong, as honest codes leave nothing to gain by other values.
  constexpr double kMostLeft = 0.5;
  if (!(fitted.left <= kMostLeft * fitted.before && fitted.left <= limit * limit * fitted.ref)) {
    return {};
  }
  constexpr double kNearly = 0.003;  // of the squares
  const KnownTable* nearest = nullptr;
  double least = std::min(kNearly, left_by(fitted, own));
  const std::vector<KnownTable> known = known_tables(own);
  for (const KnownTable& table : known) {
    const double left = left_by(fitted, table.values);
    if (!(left < least)) continue;
    least = left;
    nearest = &table;
  }
  const std::string type(tensor_type_info(got.type).name);
  if (nearest != nullptr) return nearest->text;
  const auto off_by = [&](size_t code) {
    return fitted.weights[code] * std::pow(fitted.values[code] - own[code], 2);
  };
  size_t worst = 0;
  for (size_t code = 1; code < own.size(); ++code) {
    if (off_by(code) > off_by(worst)) worst = code;
  }
  return fmt::format(
      "has codes that stand for other values than those of {}: {} for {:.3g}, not {:g}", type,
      worst, fitted.values[worst], own[worst]);
}

}  // namespace assay
