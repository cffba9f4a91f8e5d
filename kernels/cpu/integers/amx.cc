// integer_functions() for AVX-512 with VNNI and AMX: products of whole tiles of tokens by tiles.h,
// all others as without AMX.
#include "kernels/cpu/integers/functions.h"
#include "kernels/cpu/integers/tiles.h"

namespace assay::amx {
namespace {

int64_t n_tiles(const MatmulCall& m) {
  return (m.n_tokens + kTileSide - 1) / kTileSide;
}

// Tiles of which less than three quarters are tokens take longer than these do without them.
bool uses_tiles(const MatmulCall& m) {
  return rounding_of(m.w.type) == Rounding::kInt8 && 4 * m.n_tokens >= 3 * n_tiles(m) * kTileSide;
}

const cpu::IntegerFunctions& others() {
  return avx512vnni::integer_functions();
}

int64_t tile_bytes(const MatmulCall& m) {
  return kTileSide * quantized_row_bytes(m.w.columns);
}

int64_t activation_bytes(const MatmulCall& m) {
  return uses_tiles(m) ? n_tiles(m) * tile_bytes(m) : others().activation_bytes(m);
}

int64_t activation_pieces(const MatmulCall& m) {
  return uses_tiles(m) ? n_tiles(m) : others().activation_pieces(m);
}

void round_activations(const MatmulCall& m, int64_t first, int64_t last, uint8_t* out) {
  if (!uses_tiles(m)) return others().round_activations(m, first, last, out);
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t t = tile * kTileSide;
    const int64_t n = m.n_tokens - t < kTileSide ? m.n_tokens - t : kTileSide;
    quantize_tile<kTileSide>(m.x + t * m.w.columns, n, m.w.columns, out + tile * tile_bytes(m));
  }
}

// Calls body(TileProducts of this type of weights).
template <class Body>
void with_products(TensorType type, const Body& body) {
  with_weights(type, [&]<class Type>(Type) {
    if constexpr (requires { typename Type::Traits; })
      body.template operator()<TileProducts<Type>>();
  });
}

int64_t matmul_scratch(const MatmulCall& m) {
  if (!uses_tiles(m)) return others().scratch(m);
  int64_t floats = 0;
  with_products(m.w.type,
                [&]<class Products>() { floats = scratch_floats<Products>(m.w.columns); });
  return floats;
}

void matmul_rows(const MatmulCall& m, const uint8_t* activations, int64_t first, int64_t last,
                 float* scratch) {
  if (!uses_tiles(m)) return others().matmul_rows(m, activations, first, last, scratch);
  with_products(m.w.type, [&]<class Products>() {
    multiply_panels<Products>(m, activations, first, last, scratch);
  });
}

}  // namespace

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

}  // namespace assay::amx
