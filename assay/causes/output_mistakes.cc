#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "assay/causes/mistakes.h"
#include "kernels/half.h"

namespace assay::causes {
namespace {

float cut_bf16(float x) {
  return float_from_bits(float_bits(x) & 0xFFFF0000U);
}
float cut_f16(float x) {
  return std::abs(x) < 0x1p-14F ? kF16Rounding.round(x)
                                : float_from_bits(float_bits(x) & 0xFFFFE000U);
}
// 8-bit floats of Micikevicius et al., "FP8 formats for deep learning", 2022.
float round_fp8(float x, int mantissa_bits, int least_exponent, float largest) {
  if (x == 0) return 0;
  const int exponent = std::max(std::ilogb(x), least_exponent);
  const float unit = std::ldexp(1.0F, exponent - mantissa_bits);
  return std::clamp(std::nearbyint(x / unit) * unit, -largest, largest);
}

// Eight bits for each of `block` elements, scaled by the largest of them.
// `stored`: the factor is rounded to f16 before it is divided by.
Matrix round_blocks(const Matrix& x, int64_t block, bool stored) {
  Matrix out = x;
  for (int64_t first = 0; first < std::ssize(x.values); first += block) {
    const auto begin = out.values.begin() + first;
    const auto end = out.values.begin() + std::min<int64_t>(first + block, std::ssize(out.values));
    float largest = 0;
    for (auto at = begin; at != end; ++at) largest = std::max(largest, std::abs(*at));
    if (largest == 0) continue;
    const float d = kF16Rounding.round(largest / 127);
    for (auto at = begin; at != end; ++at) {
      *at = d == 0 ? 0 : std::round(*at / (stored ? d : largest / 127)) * d;
    }
  }
  return out;
}

struct ResultRounding {
  const char* text;
  std::function<Matrix(const Matrix&)> round;
};

std::vector<ResultRounding> result_roundings() {
  const auto each = [](float (*f)(float)) { return [f](const Matrix& x) { return map(x, f); }; };
  return {
      {"f16", each(kF16Rounding.round)},
      {"bf16", each(kBf16Rounding.round)},
      {"bf16, cutting the low half off", each(cut_bf16)},
      {"f16's mantissa, cutting the low bits off", each(cut_f16)},
      {"8-bit floats (e4m3)", each([](float x) { return round_fp8(x, 3, -6, 448); })},
      {"8-bit floats (e5m2)", each([](float x) { return round_fp8(x, 2, -14, 57344); })},
      {"8 bits in blocks of 32 (Q8_0)", [](const Matrix& x) { return round_blocks(x, 32, false); }},
      {"8 bits in blocks of 32 (Q8_0)", [](const Matrix& x) { return round_blocks(x, 32, true); }},
      {"8 bits in blocks of 256 (Q8_K)",
       [](const Matrix& x) { return round_blocks(x, 256, false); }},
      {"8 bits a token", [](const Matrix& x) { return round_blocks(x, x.columns, false); }}};
}

void add_roundings(const Network& network, Checkpoint kind, std::vector<BoundMistake>& mistakes) {
  for (const ResultRounding& rounding : result_roundings()) {
    mistakes.push_back(output_mistake(
        network, "rounding",
        [text = rounding.text](double) { return fmt::format("rounds its result to {}", text); }, {},
        false, [round = rounding.round](const Matrix& right, double) { return round(right); }));
    if (kind_of(kind) != OpKind::kLinear) continue;
    BoundMistake of_input =
        plain_mistake("rounding", fmt::format("rounds its input to {}", rounding.text),
                      [&network, round = rounding.round](Op op, const Inputs& in) {
                        const Matrix rounded = round(*in.rows[0]);
                        return network.compute(op, {.positions = in.positions,
                                                    .rows = {&rounded},
                                                    .held = {},
                                                    .tokens = {},
                                                    .wanted = {},
                                                    .other = {}});
                      });
    of_input.generic = true;
    mistakes.push_back(std::move(of_input));
  }
}

enum class Edge : uint8_t { kWrap, kZero, kKeep };

void add_shifts(const Network& network, std::vector<BoundMistake>& mistakes) {
  for (const Edge edge : {Edge::kWrap, Edge::kZero, Edge::kKeep}) {
    mistakes.push_back(output_mistake(
        network, "row_shift",
        [](double by) { return fmt::format("writes element i to element i{:+.0f}", by); },
        {-32, -16, -8, -4, -3, -2, -1, 1, 2, 3, 4, 8, 16, 32}, false,
        [edge](const Matrix& right, double by) {
          const auto shift = static_cast<int64_t>(by);
          if (std::abs(shift) >= right.columns) return Matrix();
          Matrix out = right;
          for (int64_t t = 0; t < out.rows; ++t) {
            for (int64_t i = 0; i < out.columns; ++i) {
              const int64_t from = i - shift;
              const bool inside = from >= 0 && from < out.columns;
              if (!inside && edge == Edge::kKeep) continue;
              const int64_t wrapped = (from + out.columns) % out.columns;
              out.row(t)[i] = inside || edge == Edge::kWrap ? right.row(t)[wrapped] : 0;
            }
          }
          return out;
        }));
  }
  BoundMistake token;
  token.name = "token_shift";
  token.text = [](double by) {
    return fmt::format("gives the result of the token {:.0f} position{} {}", std::abs(by),
                       std::abs(by) > 1 ? "s" : "", by > 0 ? "before" : "after");
  };
  token.grid = {-3, -2, -1, 1, 2, 3};
  token.generic = true;
  token.compute = [&network](Op op, const Inputs& in, double by) {
    const Matrix right = network.compute(op, in);
    Matrix out = right;
    for (int64_t t = 0; t < out.rows; ++t) {
      const int64_t here = in.positions[static_cast<size_t>(t)];
      const auto from = std::find_if(
          in.positions.begin(), in.positions.end(),
          [&](int64_t position) { return here - position == static_cast<int64_t>(by); });
      if (from == in.positions.end()) continue;
      const float* row = right.row(from - in.positions.begin());
      std::copy(row, row + right.columns, out.row(t));
    }
    return out;
  };
  mistakes.push_back(std::move(token));
}

// out[i * b + j] = right[j * a + i]: [b, a] written as [a, b].
Matrix turned(const Matrix& right, int64_t a, int64_t b) {
  Matrix out(right.rows, right.columns);
  for (int64_t t = 0; t < out.rows; ++t) {
    for (int64_t i = 0; i < a; ++i) {
      for (int64_t j = 0; j < b; ++j) out.row(t)[i * b + j] = right.row(t)[j * a + i];
    }
  }
  return out;
}

// Within each head, [pairs, 2] written as [2, pairs] or the other way round.
Matrix turned_heads(const Matrix& right, int64_t head_dim, bool to_halves) {
  Matrix out = right;
  const int64_t pairs = head_dim / 2;
  for (int64_t t = 0; t < out.rows; ++t) {
    for (int64_t head = 0; head + head_dim <= out.columns; head += head_dim) {
      for (int64_t p = 0; p < pairs; ++p) {
        for (int64_t part = 0; part < 2; ++part) {
          const int64_t adjacent = head + 2 * p + part;
          const int64_t halves = head + part * pairs + p;
          out.row(t)[to_halves ? halves : adjacent] = right.row(t)[to_halves ? adjacent : halves];
        }
      }
    }
  }
  return out;
}

void add_layouts(const Network& network, Checkpoint kind, std::vector<BoundMistake>& mistakes) {
  const int64_t dim = network.head_dim;
  const bool has_heads = kind == Checkpoint::kQ || kind == Checkpoint::kK ||
                         kind == Checkpoint::kV || kind == Checkpoint::kQRope ||
                         kind == Checkpoint::kKRope || kind == Checkpoint::kAttn;
  const auto add = [&](const char* name, const char* text, Change change) {
    mistakes.push_back(output_mistake(
        network, name, [text](double) { return std::string(text); }, {}, false, std::move(change)));
  };
  if (dim > 1 && has_heads) {
    add("head_order", "lays heads and their elements out the other way round ([dim, heads])",
        [dim](const Matrix& right, double) { return turned(right, dim, right.columns / dim); });
    add("head_order", "takes [dim, heads] for [heads, dim]",
        [dim](const Matrix& right, double) { return turned(right, right.columns / dim, dim); });
    add("head_order", "puts the heads in reverse order", [dim](const Matrix& right, double) {
      Matrix out = right;
      for (int64_t t = 0; t < out.rows; ++t) {
        for (int64_t head = 0; head + dim <= out.columns; head += dim) {
          const float* from = right.row(t) + out.columns - dim - head;
          std::copy(from, from + dim, out.row(t) + head);
        }
      }
      return out;
    });
    mistakes.push_back(output_mistake(
        network, "head_order",
        [](double by) { return fmt::format("puts head h at the place of head h{:+.0f}", by); },
        {-2, -1, 1, 2}, false,
        [dim](const Matrix& right, double by) {
          Matrix out = right;
          const int64_t shift =
              (static_cast<int64_t>(by) * dim % right.columns + right.columns) % right.columns;
          for (int64_t t = 0; t < out.rows; ++t) {
            std::rotate_copy(right.row(t), right.row(t) + right.columns - shift,
                             right.row(t) + right.columns, out.row(t));
          }
          return out;
        }));
  }
  if ((kind == Checkpoint::kQ || kind == Checkpoint::kK) && dim > 2 && network.rotary()) {
    add("rope_pairing", "has the rows in the order of rotary halves, not of adjacent pairs",
        [dim](const Matrix& right, double) { return turned_heads(right, dim, true); });
    add("rope_pairing", "has the rows in the order of adjacent pairs, not of rotary halves",
        [dim](const Matrix& right, double) { return turned_heads(right, dim, false); });
  }
}

void add_scales(const Network& network, std::vector<BoundMistake>& mistakes) {
  mistakes.push_back(output_mistake(
      network, "sign", [](double) { return std::string("has the opposite sign"); }, {}, false,
      [](const Matrix& right, double) { return map(right, [](float x) { return -x; }); }));
  BoundMistake scale = output_mistake(
      network, "scale", [](double by) { return fmt::format("is multiplied by {:.5g}", by); },
      ratios(1e-3, 1e3, 31), true,
      [](const Matrix& right, double by) {
        const auto f = static_cast<float>(by);
        return map(right, [f](float x) { return f * x; });
      });
  mistakes.push_back(std::move(scale));
}

}  // namespace

void add_output_mistakes(const Network& network, Checkpoint kind,
                         std::vector<BoundMistake>& mistakes) {
  add_scales(network, mistakes);
  add_layouts(network, kind, mistakes);
  add_shifts(network, mistakes);
  add_roundings(network, kind, mistakes);
}

}  // namespace assay::causes
