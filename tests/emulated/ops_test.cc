// Every op of the CUDA kernels, on a device and run by the CPU, against the CPU's own: bit for bit,
// which holds them to float64 as well, since tests/kernels holds the CPU's.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/emulated/op_test.h"

namespace assay {
namespace {

using kernel_testing::Random;
using kernel_testing::same_bits;
using kernel_testing::TestMatrix;
using Arena = testing_support::DeviceArrays;
using testing_support::nothing;
using testing_support::OpTest;

INSTANTIATE_TEST_SUITE_P(Emulated, OpTest, testing::ValuesIn(testing_support::emulated_setups()),
                         testing_support::tested_name);
INSTANTIATE_TEST_SUITE_P(Gpu, OpTest, testing::ValuesIn(testing_support::cuda_setups()),
                         testing_support::tested_name);

// A wrong code, scale or order of sums in one of the types; a row or token left out, also where
// a second tile of 32 begins, and a second chunk of a row. Rows of an even number of plain weights
// are read ahead, in rounds of up to 256.
TEST_P(OpTest, Matmul) {
  for (const TensorType type : kAllTensorTypes) {
    const int64_t block = tensor_type_info(type).block_elements;
    for (const int64_t n_tokens : {1, 2, 8, 19, 33}) {
      const std::vector<int64_t> widths =
          block == 1 ? std::vector<int64_t>{1, 277, 550}
                     : std::vector<int64_t>{block, (block + 512) / block * block};
      for (const int64_t columns : widths) {
        SCOPED_TRACE(std::string(tensor_type_info(type).name) + " " + std::to_string(columns) +
                     " columns, " + std::to_string(n_tokens) + " tokens");
        const TestMatrix w(type, n_tokens == 19 ? 35 : n_tokens == 33 ? 70 : 19, columns);
        const auto bias = Random(3).floats(n_tokens == 19 ? 0 : w.rows);
        const auto x = Random(2).floats(n_tokens * columns);
        expect_the_bits_of_the_cpu(n_tokens * w.rows, [&](Kernels& kernels, Arena& arena) {
          float* out = arena.place(nothing(n_tokens * w.rows));
          kernels.run(MatmulCall{arena.place(w), bias.empty() ? nullptr : arena.place(bias),
                                 arena.place(x), n_tokens, out});
          return out;
        });
      }
    }
  }
}

// Of many tokens the weights are packed, in parts, and multiplied by tiles of 64: a part or a tile
// that begins or ends elsewhere, a scale or a shift of another half, block, row or token.
TEST_P(OpTest, MatmulOfManyTokens) {
  // In `fast`, enough for the device to use the large tiles; `exact` packs no weights.
  const bool is_emulated = GetParam().backend == testing_support::Backend::kEmulated;
  const int64_t n_rows = is_emulated ? 130 : 1100;
  const int64_t n_tokens = GetParam().math == Math::kFast ? 8 * 64 - 3 : 33;
  for (const TensorType type : {TensorType::kQ8_0, TensorType::kQ4_1, TensorType::kQ4_K,
                                TensorType::kQ6_K, TensorType::kQ2_K, TensorType::kIQ4_XS}) {
    const int64_t block = tensor_type_info(type).block_elements;
    const int64_t columns = 256 + block;
    SCOPED_TRACE(tensor_type_info(type).name);
    const TestMatrix w(type, n_rows, columns);
    const auto bias = Random(3).floats(n_rows);
    const auto x = Random(2).floats(n_tokens * columns);
    expect_the_bits_of_the_cpu(n_tokens * n_rows, [&](Kernels& kernels, Arena& arena) {
      float* out = arena.place(nothing(n_tokens * n_rows));
      kernels.run(MatmulCall{arena.place(w), arena.place(bias), arena.place(x), n_tokens, out});
      return out;
    });
  }
}

constexpr TensorType kHalfFloats[] = {TensorType::kF16, TensorType::kBF16};
constexpr int64_t kOddWidths[] = {1, 31, 33, 100, 257, 576};

// A token of any batch whose block goes into another lane or is summed otherwise; a tail that is
// read beyond the row, or from the next one.
TEST_P(OpTest, MatmulOfHalfFloatsForEveryNumberOfTokens) {
  for (const TensorType type : kHalfFloats) {
    for (int64_t n_tokens = 1; n_tokens <= 40; ++n_tokens) {
      for (const int64_t columns : kOddWidths) {
        const bool is_short = n_tokens == 1 || n_tokens == 3 || n_tokens == 33;
        if (!is_short && columns != kOddWidths[n_tokens % 6]) continue;
        SCOPED_TRACE(std::string(tensor_type_info(type).name) + " " + std::to_string(columns) +
                     " columns, " + std::to_string(n_tokens) + " tokens");
        const TestMatrix w(type, 35, columns);
        const auto x = Random(2).floats(n_tokens * columns, 30.0F);
        expect_the_bits_of_the_cpu(n_tokens * w.rows, [&](Kernels& kernels, Arena& arena) {
          float* out = arena.place(nothing(n_tokens * w.rows));
          kernels.run(MatmulCall{arena.place(w), nullptr, arena.place(x), n_tokens, out});
          return out;
        });
      }
    }
  }
}

// Any numbers of a type but those of row 3, which has a NaN, and of row 5, whose last is infinite;
// every third run of 32 has only subnormals, or zeros, or the largest numbers.
TestMatrix any_numbers(TensorType type, int64_t rows, int64_t columns) {
  TestMatrix w(type, rows, columns);
  const uint16_t infinity = type == TensorType::kF16 ? 0x7C00U : 0x7F80U;
  const uint16_t least = type == TensorType::kF16 ? 0x0400U : 0x0080U;  // of the normal numbers
  Random random(5);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const auto bits = static_cast<uint16_t>(random.bits());
    const auto sign = static_cast<uint16_t>(bits & 0x8000U);
    auto magnitude = static_cast<uint16_t>((bits & 0x7FFFU) % infinity);
    const int64_t kind = (i % columns / 32 + i / columns) % 9;
    if (kind == 0) magnitude = static_cast<uint16_t>(magnitude % least);
    if (kind == 3) magnitude = 0;
    if (kind == 6) magnitude = static_cast<uint16_t>(infinity - 1);
    if (i == 3 * columns + columns / 2) magnitude = static_cast<uint16_t>(infinity + 1);
    if (i == 6 * columns - 1) magnitude = infinity;
    const auto value = static_cast<uint16_t>(sign | magnitude);
    std::memcpy(w.bytes.data() + 2 * i, &value, sizeof(value));
  }
  return w;
}

// A block that does not count, a scale that is no number, a unit below the least float, and a sum
// that is not exact for the largest codes.
TEST_P(OpTest, MatmulOfHalfFloatsOfAnySize) {
  for (const TensorType type : kHalfFloats) {
    for (const int64_t columns : {100, 576}) {
      for (const int64_t n_tokens : {1, 2, 11}) {
        SCOPED_TRACE(std::string(tensor_type_info(type).name) + " " + std::to_string(columns) +
                     " columns, " + std::to_string(n_tokens) + " tokens");
        const TestMatrix w = any_numbers(type, 19, columns);
        for (const float scale : {1e-30F, 1.0F, 1e30F}) {
          auto x = Random(2).floats(n_tokens * columns, scale);
          for (int64_t i = 0; i < std::ssize(x); ++i) {
            float& own = x[static_cast<size_t>(i)];
            if (i / 32 % 5 == 1) own = 0.0F;
            if (i / 32 % 5 == 2) own *= 1e-10F;
            if (i / 32 % 5 == 3) own = own < 0 ? -scale : scale;
          }
          if (n_tokens == 11) {
            x[static_cast<size_t>(4 * columns + 7)] = NAN;
            x[static_cast<size_t>(7 * columns - 1)] = -INFINITY;
          }
          expect_the_bits_of_the_cpu(n_tokens * w.rows, [&](Kernels& kernels, Arena& arena) {
            float* out = arena.place(nothing(n_tokens * w.rows));
            kernels.run(MatmulCall{arena.place(w), nullptr, arena.place(x), n_tokens, out});
            return out;
          });
        }
      }
    }
  }
}

// Blocks of 32 whose halves differ: the scale of a half alone, an infinity that only its own half
// knows of, a total of the wrong half, a block that is not quite zero.
TEST_P(OpTest, MatmulOfActivationsOfAnySize) {
  constexpr int64_t kColumns = 768;
  constexpr float kSizes[] = {1.0F, 1e-3F, 1e5F, 0.0F, 1e-31F, 2e-30F, 1e30F};
  std::vector<float> x = Random(2).floats(4 * kColumns);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= kSizes[(i / 16 * 5 + i / 512) % 7];
  x[2 * kColumns + 33] = std::nanf("");
  x[3 * kColumns + 767] = -INFINITY;
  for (const TensorType type : kAllTensorTypes) {
    for (const int64_t n_tokens : {1, 4}) {
      for (int64_t first = 0; first < 4; first += n_tokens) {
        SCOPED_TRACE(std::string(tensor_type_info(type).name) + ", token " + std::to_string(first) +
                     " and on");
        const TestMatrix w(type, 5, kColumns);
        expect_the_bits_of_the_cpu(n_tokens * w.rows, [&](Kernels& kernels, Arena& arena) {
          float* out = arena.place(nothing(n_tokens * w.rows));
          const float* input = arena.place(x) + first * kColumns;
          kernels.run(MatmulCall{arena.place(w), nullptr, input, n_tokens, out});
          return out;
        });
      }
    }
  }
}

// Vectors that are rounded for one kind of weights and multiplied with another.
TEST_P(OpTest, MatmulsOfOneInputMayHaveWeightsOfAnyTypes) {
  constexpr int64_t kColumns = 512;
  constexpr int64_t kRows = 9;
  constexpr TensorType kTypes[] = {TensorType::kF16, TensorType::kQ4_K, TensorType::kF32,
                                   TensorType::kBF16, TensorType::kQ8_0};
  for (const int64_t n_tokens : {1, 3}) {
    const auto x = Random(2).floats(n_tokens * kColumns);
    const int64_t count = n_tokens * kRows;
    expect_the_bits_of_the_cpu(std::ssize(kTypes) * count, [&](Kernels& kernels, Arena& arena) {
      float* out = arena.place(nothing(std::ssize(kTypes) * count));
      const float* input = arena.place(x);
      std::vector<MatmulCall> calls;
      for (const TensorType type : kTypes) {
        float* own = out + std::ssize(calls) * count;
        calls.push_back(
            {arena.place(TestMatrix(type, kRows, kColumns)), nullptr, input, n_tokens, own});
      }
      kernels.run(calls);
      return out;
    });
  }
}

TEST_P(OpTest, GetRows) {
  for (const TensorType type : kAllTensorTypes) {
    SCOPED_TRACE(tensor_type_info(type).name);
    const int64_t block = tensor_type_info(type).block_elements;
    const TestMatrix table(type, 9, block == 1 ? 301 : 3 * block);
    const std::vector<int32_t> ids = {8, 0, 3, 3};
    expect_the_bits_of_the_cpu(4 * table.columns, [&](Kernels& kernels, Arena& arena) {
      float* out = arena.place(nothing(4 * table.columns));
      kernels.run(GetRowsCall{arena.place(table), arena.place(ids), 4, out});
      return out;
    });
  }
}

// Widths around the 16 lanes, the runs of 512, and what a block takes in one round.
TEST_P(OpTest, Norms) {
  for (const int64_t width : {1, 15, 64, 513, 1030, 8192 + 700}) {
    SCOPED_TRACE(width);
    const auto x = Random(1).floats(3 * width, 4.0F);
    const auto weight = Random(2).floats(width);
    const auto bias = Random(3).floats(width);
    expect_the_bits_of_the_cpu(3 * width, [&](Kernels& kernels, Arena& arena) {
      float* out = arena.place(nothing(3 * width));
      kernels.run(NormCall{NormKind::kRms, arena.place(x), arena.place(weight), nullptr, 1e-5F, 3,
                           width, out});
      return out;
    });
    for (const bool with_bias : {false, true}) {
      expect_the_bits_of_the_cpu(3 * width, [&](Kernels& kernels, Arena& arena) {
        float* in_place = arena.place(x);
        kernels.run(NormCall{NormKind::kLayer, in_place, arena.place(weight),
                             with_bias ? arena.place(bias) : nullptr, 1e-5F, 3, width, in_place});
        return in_place;
      });
    }
    const auto head_weights = Random(9).floats(2 * width);
    for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
      const auto wider = Random(4).floats(3 * (width + 5));
      expect_the_bits_of_the_cpu(3 * width, [&](Kernels& kernels, Arena& arena) {
        float* out = arena.place(nothing(3 * width));
        NormCall call{kind, arena.place(wider), arena.place(weight), nullptr, 1e-5F, 3, width, out};
        call.x_width = width + 5;
        kernels.run(call);
        return out;
      });
      expect_the_bits_of_the_cpu(3 * width, [&](Kernels& kernels, Arena& arena) {
        float* out = arena.place(nothing(3 * width));
        kernels.run(NormCall{
            kind, arena.place(x), arena.place(head_weights), nullptr, 1e-5F, 3, width, out, {}, 2});
        return out;
      });
    }
  }
}

TEST_P(OpTest, Rope) {
  for (const RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
    for (const int64_t rotary_dim : {2, 12, 20}) {
      const int64_t first_turned = rotary_dim == 12 ? 7 : 0;
      for (const bool in_place : {false, true}) {
        const auto x = Random(1).floats(5 * 3 * 20);
        const auto cos_sin = Random(2).floats(5 * rotary_dim);
        expect_the_bits_of_the_cpu(5 * 3 * 20, [&](Kernels& kernels, Arena& arena) {
          float* from = arena.place(x);
          float* out = in_place ? from : arena.place(nothing(5 * 3 * 20));
          kernels.run(RopeCall{
              from, arena.place(cos_sin), pairing, 5, 3, 20, rotary_dim, out, {}, first_turned});
          return out;
        });
      }
    }
  }
}

TEST_P(OpTest, Heads) {
  const auto own = Random(1).floats(5 * 3 * 20);
  const auto shared = Random(2).floats(5 * 12);
  for (const HeadParts parts : {HeadParts{20, 3, 9, 12, 8, 4}, HeadParts{20, 9, 11}}) {
    const int64_t count = 5 * 3 * parts.head_dim();
    expect_the_bits_of_the_cpu(count, [&](Kernels& kernels, Arena& arena) {
      float* out = arena.place(nothing(count));
      const bool has_end = parts.shared_count > 0;
      kernels.run(
          HeadsCall{arena.place(own), has_end ? arena.place(shared) : nullptr, parts, 5, 3, out});
      return out;
    });
  }
}

TEST_P(OpTest, Conv) {
  const auto x = Random(1).floats(5 * 12);
  const auto k = Random(2).floats(9 * 12);
  const auto v = Random(3).floats(9 * 12);
  const auto weight = Random(4).floats(12 * 3);
  for (const int64_t first : {0, 1, 4}) {
    expect_the_bits_of_the_cpu(5 * 12, [&](Kernels& kernels, Arena& arena) {
      float* out = arena.place(nothing(5 * 12));
      kernels.run(ConvCall{arena.place(x),
                           {KvType::kF32, arena.place(k), arena.place(v)},
                           arena.place(weight),
                           3,
                           first,
                           5,
                           12,
                           out});
      return out;
    });
  }
}

TEST_P(OpTest, StoreKv) {
  auto x = Random(1).floats(301, 100.0F);
  x[7] = 65520.0F;  // infinity as binary16
  x[8] = 3e-8F;     // a subnormal
  expect_the_bits_of_the_cpu(301, [&](Kernels& kernels, Arena& arena) {
    float* out = arena.place(nothing(301));
    kernels.run(StoreKvCall{arena.place(x), KvType::kF32, 301, out});
    return out;
  });
  expect_the_bits_of_the_cpu(301, [&](Kernels& kernels, Arena& arena) {
    uint16_t* out = arena.place(std::vector<uint16_t>(301));
    kernels.run(StoreKvCall{arena.place(x), KvType::kF16, 301, out});
    return out;
  });
}

// Weights on what goes into experts, and on what they give, or none.
TEST_P(OpTest, ExpertsAreSpreadAndMixed) {
  constexpr int64_t kTokens = 5;
  constexpr int64_t kUsed = 3;
  constexpr int64_t kWidth = 37;
  const auto x = Random(1).floats(kTokens * kWidth);
  const auto parts = Random(2).floats(kTokens * kUsed * kWidth);
  const auto weights = Random(3).floats(kTokens * kUsed);
  expect_the_bits_of_the_cpu(kTokens * kUsed * kWidth, [&](Kernels& kernels, Arena& arena) {
    float* out = arena.place(nothing(kTokens * kUsed * kWidth));
    kernels.run(SpreadCall{arena.place(x), arena.place(weights), kTokens, kUsed, kWidth, out});
    return out;
  });
  for (const bool weighs : {true, false}) {
    expect_the_bits_of_the_cpu(kTokens * kWidth, [&](Kernels& kernels, Arena& arena) {
      float* out = arena.place(nothing(kTokens * kWidth));
      kernels.run(MixCall{arena.place(parts), weighs ? arena.place(weights) : nullptr, kTokens,
                          kUsed, kWidth, out});
      return out;
    });
  }
}

constexpr Xielu kXielu = {.alpha_p = 0.7F, .alpha_n = 1.3F, .beta = 0.45F, .eps = -0.01F};

// Exponentials from 0 to infinity, both zeros, infinities and NaN.
TEST_P(OpTest, Activations) {
  std::vector<float> x;
  for (int i = -324; i < 324; ++i) x.push_back(0.37F * static_cast<float>(i));
  for (const float value : {0.0F, -0.0F, -4e-3F, INFINITY, -INFINITY, 1e-30F, 3e38F})
    x.push_back(value);
  const auto count = static_cast<int64_t>(x.size());
  const auto up = Random(2).floats(count);
  for (int number = 0; number <= static_cast<int>(ActivationKind::kClip); ++number) {
    SCOPED_TRACE(number);
    const auto kind = static_cast<ActivationKind>(number);
    expect_the_bits_of_the_cpu(count, [&](Kernels& kernels, Arena& arena) {
      float* out = arena.place(nothing(count));
      kernels.run(
          ActivateCall{kind, arena.place(x), arena.place(up), count, out, {}, 3.0F, kXielu});
      return out;
    });
    expect_the_bits_of_the_cpu(count, [&](Kernels& kernels, Arena& arena) {
      float* in_place = arena.place(x);
      kernels.run(ActivateCall{kind, in_place, nullptr, count, in_place, {}, 3.0F, kXielu});
      return in_place;
    });
  }
  for (const bool sum : {true, false}) {
    expect_the_bits_of_the_cpu(count, [&](Kernels& kernels, Arena& arena) {
      float* out = arena.place(x);
      kernels.run(AddCall{sum ? out : nullptr, sum ? arena.place(up) : out, count, out, {}, 0.3F});
      return out;
    });
  }
}

struct AttentionCase {
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
  int64_t window;
  int64_t first_position;
  int64_t n_tokens;
  float soft_cap = 0.0F;
  bool sinks = false;
  int64_t value_dim = 0;
  float temperature = 0.0F;
  int64_t offset = 0;
  bool chunked = false;
  AlibiSlopes alibi = {};
};

// Grouped heads, windows, odd head sizes, decode behind a prefix, and more keys than one run of
// 256; more queries, keys and elements than a tile of each.
TEST_P(OpTest, Attention) {
  for (const AttentionCase& c :
       {AttentionCase{1, 1, 1, 0, 0, 1}, AttentionCase{4, 2, 17, 0, 0, 5},
        AttentionCase{2, 1, 40, 3, 2, 9}, AttentionCase{3, 3, 8, 300, 700, 2},
        AttentionCase{1, 1, 16, 0, 2100, 1}, AttentionCase{2, 1, 80, 0, 0, 67},
        AttentionCase{1, 1, 33, 20, 250, 70}, AttentionCase{4, 2, 24, 6, 3, 40, 2.0F},
        AttentionCase{4, 2, 24, 0, 0, 35, 1.5F, true},
        AttentionCase{2, 2, 48, 0, 3, 40, 0.0F, false, 24},
        AttentionCase{2, 1, 70, 280, 500, 34, 2.0F, true, 0, 0.75F},
        AttentionCase{2, 1, 64, 0, 600, 1, 2.0F, true},
        AttentionCase{2, 1, 17, 5, 0, 9, 0.0F, true, 67},
        AttentionCase{2, 1, 40, 3, 2, 9, 0.0F, false, 0, 0.5F, 1, true},
        AttentionCase{1, 1, 33, 20, 250, 70, 0.0F, false, 0, 0.0F, 0, true},
        AttentionCase{6, 2, 24, 0, 0, 35, 0.0F, false, 0, 0.0F, 0, false, AlibiSlopes::of(8, 6)},
        AttentionCase{4, 4, 16, 30, 600, 34, 2.0F, true, 0, 0.0F, 0, true,
                      AlibiSlopes::of(8, 4)}}) {
    for (const KvType type : {KvType::kF32, KvType::kF16}) {
      SCOPED_TRACE(testing::Message() << c.n_heads << " heads of " << c.head_dim << ", window "
                                      << c.window << ", position " << c.first_position);
      const int64_t n_keys = c.first_position + c.n_tokens;
      const AttentionShape shape{c.n_heads, c.n_kv_heads, c.head_dim,  0.7F,
                                 c.window,  c.soft_cap,   c.value_dim, c.temperature,
                                 7,         c.offset,     c.chunked,   c.alibi};
      const int64_t k_count = n_keys * c.n_kv_heads * c.head_dim;
      const int64_t v_count = n_keys * c.n_kv_heads * shape.value_dim();
      const int64_t out_count = c.n_tokens * c.n_heads * shape.value_dim();
      const auto q = Random(1).floats(c.n_tokens * c.n_heads * c.head_dim);
      const auto k = Random(2).floats(k_count, 3.0F);
      const auto v = Random(3).floats(v_count);
      const auto sinks = Random(4).floats(c.n_heads, 2.0F);
      expect_the_bits_of_the_cpu(out_count, [&](Kernels& kernels, Arena& arena) {
        void* stored_k = arena.place(nothing(k_count));
        void* stored_v = arena.place(nothing(v_count));
        kernels.run(StoreKvCall{arena.place(k), type, k_count, stored_k});
        kernels.run(StoreKvCall{arena.place(v), type, v_count, stored_v});
        float* out = arena.place(nothing(out_count));
        kernels.run(AttentionCall{arena.place(q),
                                  {type, stored_k, stored_v},
                                  shape,
                                  c.first_position,
                                  c.n_tokens,
                                  out,
                                  {},
                                  c.sinks ? arena.place(sinks) : nullptr});
        return out;
      });
    }
  }
}

// What a query does not see, a later token or one that slid out of the window, may be no number: a
// weight of 0 would not hide it.
TEST_P(OpTest, AttentionToWhatIsNoNumber) {
  constexpr int64_t kDim = 8;
  constexpr int64_t kTokens = 5;
  constexpr int64_t kFirst = 3;  // position of the first of them
  std::vector<float> k = Random(2).floats((kFirst + kTokens) * kDim);
  std::vector<float> v = Random(3).floats((kFirst + kTokens) * kDim);
  for (const int64_t key : {int64_t{0}, kFirst + kTokens - 1}) {
    for (int64_t d = 0; d < kDim; ++d) {
      k[static_cast<size_t>(key * kDim + d)] = NAN;
      v[static_cast<size_t>(key * kDim + d)] = INFINITY;
    }
  }
  const auto q = Random(1).floats(kTokens * kDim);
  const AttentionShape shape{1, 1, kDim, 0.7F, 3};
  expect_the_bits_of_the_cpu((kTokens - 1) * kDim, [&](Kernels& kernels, Arena& arena) {
    float* out = arena.place(nothing(kTokens * kDim));
    kernels.run(AttentionCall{arena.place(q),
                              {KvType::kF32, arena.place(k), arena.place(v)},
                              shape,
                              kFirst,
                              kTokens,
                              out});
    return out;
  });
}

}  // namespace
}  // namespace assay
