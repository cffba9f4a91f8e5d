// Defines integer_functions() for the instruction set that the including source is compiled for.
#pragma once

#include "kernels/cpu/integers/functions.h"
#include "kernels/cpu/integers/matmul.h"

namespace assay::ASSAY_ISA {

// Below this many tokens, sorting sixteen rows into a panel costs more than it gives.
constexpr int64_t kTokensWorthPanel = 4;

// A piece is a token, or a tile of them.
static int64_t piece_tokens(const MatmulCall& m) {
  if (m.n_tokens < kTokensWorthPanel) return 1;
  return with_activations(m.w.type,
                          []<class Activations>(Activations) { return Activations::kTileTokens; });
}

static int64_t activation_pieces(const MatmulCall& m) {
  return (m.n_tokens + piece_tokens(m) - 1) / piece_tokens(m);
}

static int64_t activation_bytes(const MatmulCall& m) {
  return with_activations(m.w.type, [&]<class Activations>(Activations) {
    return m.n_tokens * Activations::token_bytes(m.w.columns);
  });
}

static void round_activations(const MatmulCall& m, int64_t first, int64_t last, uint8_t* out) {
  with_activations(m.w.type, [&]<class Activations>(Activations) {
    const int64_t columns = m.w.columns;
    const int64_t bytes = Activations::token_bytes(columns);
    const int64_t tile = piece_tokens(m);
    if (tile == 1) {
      for (int64_t t = first; t < last; ++t) {
        Activations::round_token(m.x + t * columns, columns, out + t * bytes);
      }
      return;
    }
    for (int64_t t = first * tile; t < last * tile && t < m.n_tokens; t += tile) {
      const int64_t n = m.n_tokens - t < tile ? m.n_tokens - t : tile;
      Activations::round_tile(m.x + t * columns, n, columns, out + t * bytes);
    }
  });
}

static int64_t matmul_scratch(const MatmulCall& m) {
  if (m.n_tokens < kTokensWorthPanel) return 0;
  return with_activations(m.w.type, [&]<class Activations>(Activations) {
    return scratch_floats<PanelProducts<Activations>>(m.w.columns);
  });
}

static void matmul_rows(const MatmulCall& m, const uint8_t* activations, int64_t first,
                        int64_t last, float* scratch) {
  with_weights(m.w.type, [&]<class Type>(Type) {
    using Products = typename ProductsOf<Type>::Products;
    if (m.n_tokens < kTokensWorthPanel) {
      multiply_few<Products>(m, activations, first, last);
    } else {
      multiply_panels<Products>(m, activations, first, last, scratch);
    }
  });
}

const cpu::IntegerFunctions& integer_functions() {
  static constexpr cpu::IntegerFunctions kFunctions = {
      .activation_bytes = activation_bytes,
      .activation_pieces = activation_pieces,
      .round_activations = round_activations,
      .matmul_rows = matmul_rows,
      .scratch = matmul_scratch,
  };
  return kFunctions;
}

}  // namespace assay::ASSAY_ISA
