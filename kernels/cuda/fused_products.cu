#include <algorithm>
#include <iterator>
#include <string_view>

#include "kernels/cuda/elementary.h"
#include "kernels/cuda/fused_input.h"
#include "kernels/cuda/ops.h"

// The products of a decoded token, each with what comes before and after it. A warp computes a unit
// of four rows of a matrix at a time; blocks go through all units in steps, so that each normalises
// its input once. Its first rows come to the second-level cache before that, while the launch
// before this one still runs.
namespace assay::ASSAY_DEVICE {
namespace {

// Blocks that a multiprocessor must have room for, which bounds the registers of a thread.
constexpr int kBlocksAtOnce = 2;

// Of the 99 KiB that every device gives a block, beside the stage and what norms take.
constexpr size_t kMaxInputBytes = size_t{99} * 1024 - 512 - kGroups * kGroupWords * sizeof(uint4);
constexpr size_t kFactorBytes = kGroups * kGroupFactors * sizeof(Factor);

int64_t units_of(int64_t n_rows) {
  return (n_rows + kRowsOfWarp - 1) / kRowsOfWarp;
}

__device__ void store_if(const Global<float>& out, int64_t i, float value) {
  if (out) out[i] = value;
}

enum class Kind : uint8_t { kQkv, kResidual, kActivation, kLogits };
enum : int { kQ, kK, kV };

// Any of the steps, so that one kernel has the code of all weight types for all of them.
struct Step {
  Kind kind;
  // kQ, kK, kV; gate (without data: GELU) and up; or the one there is.
  Rows rows[3];
  Global<float> out;      // queries, residual, activation or logits
  Global<float> seen[3];  // products of rows, where somebody looks

  // Of kQkv alone.
  int64_t head_dim;
  int64_t rotary_dim;
  RopePairing pairing;
  Global<const int32_t> position;
  Global<const float> cos_sin;
  int32_t n_angles;
  KvStore k_store, v_store;
  Global<float> k_rope_seen;
  int64_t units[2];  // of kQ and kK

  __device__ int64_t pairs_of_head() const { return (head_dim + 1) / 2; }
  __device__ int64_t n_pairs(int which) const {
    return rows[which].n_rows / head_dim * pairs_of_head();
  }
};

// Where a row's product is: row `row` of rows[first] to rows[last].
struct Place {
  int first = 0;
  int last = 0;
  int64_t row = 0;
  bool inside = true;  // else it is computed again, and left

  // Of kQkv: two neighbours of a unit have the rows of a pair, which are turned together or merely
  // stand side by side.
  int64_t pair = 0;  // of the head
  bool turns = false;
  bool is_second = false;
};

__device__ Place place_in_qkv(const Step& s, int64_t unit, int row_of_unit) {
  Place place;
  while (place.first < kV && unit >= s.units[place.first]) unit -= s.units[place.first++];
  place.last = place.first;
  const int64_t own = (unit * kRowsOfWarp + row_of_unit) / 2;
  const int64_t n_pairs = s.n_pairs(place.first);
  const int64_t pair = own < n_pairs ? own : n_pairs - 1;
  place.pair = pair % s.pairs_of_head();
  place.is_second = row_of_unit % 2 != 0;
  const int64_t turned = place.first == kV ? 0 : s.rotary_dim / 2;
  place.turns = place.pair < turned;
  const bool halves = place.turns && s.pairing == RopePairing::kHalves;
  const int64_t begin = halves ? place.pair : 2 * place.pair;
  const int64_t element = place.is_second ? begin + (halves ? turned : 1) : begin;
  const bool is_there = element < s.head_dim;  // the last of an odd number has no partner
  place.inside = is_there && own < n_pairs;
  place.row = pair / s.pairs_of_head() * s.head_dim + (is_there ? element : begin);
  return place;
}

__device__ Place place_of(const Step& s, int64_t unit, int row_of_unit) {
  if (s.kind == Kind::kQkv) return place_in_qkv(s, unit, row_of_unit);
  Place place;
  place.last = s.kind == Kind::kActivation ? 1 : 0;
  const int64_t n_rows = s.rows[place.last].n_rows;
  place.row = unit * kRowsOfWarp + row_of_unit;
  place.inside = place.row < n_rows;
  if (!place.inside) place.row = n_rows - 1;
  if (s.kind == Kind::kActivation && !s.rows[0].data) place.first = 1;
  return place;
}

// `own` and the other row's product of the pair, turned, and stored where it belongs.
__device__ void finish_qkv(const Step& s, const Place& place, float own, float other) {
  float turned = own;
  if (place.turns) {
    const int64_t at = s.position[0] % s.n_angles * s.rotary_dim + 2 * place.pair;
    const float cos = s.cos_sin[at];
    const float sin = s.cos_sin[at + 1];
    turned = place.is_second ? other * sin + own * cos : own * cos - other * sin;
  }
  store_if(s.seen[place.first], place.row, own);
  if (place.first == kQ) {
    s.out[place.row] = turned;
    return;
  }
  const int64_t at = s.position[0] * s.rows[place.first].n_rows + place.row;
  if (place.first == kV) return s.v_store.put(at, own);
  store_if(s.k_rope_seen, place.row, turned);
  s.k_store.put(at, turned);
}

// `product`, and `before` of the matrix before it.
__device__ void finish(const Step& s, const Place& place, float before, float product) {
  if (s.kind == Kind::kResidual) {
    store_if(s.seen[0], place.row, product);
    s.out[place.row] = s.out[place.row] + product;
  } else if (s.kind == Kind::kLogits) {
    s.out[place.row] = product;
  } else {
    const bool gated = place.first == 0;
    if (gated) store_if(s.seen[0], place.row, before);
    store_if(s.seen[1], place.row, product);
    s.out[place.row] = gated ? silu(before) * product : gelu_tanh_of(product);
  }
}

template <class Input>
ASSAY_KERNEL(kThreads, kBlocksAtOnce, product_kernel, ASSAY_CONSTANT(Step) s,
             ASSAY_CONSTANT(InputSource) source, int64_t n_units) {
  ASSAY_STAGE(stage, kGroups, Input::kFactorGroups);
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int row_of_unit = static_cast<int>(threadIdx.x) % kWarpThreads / kRowThreads;
  // Neighbouring units go to different blocks: few units, too, are spread over all.
  const int64_t first_unit = int64_t{warp} * gridDim.x + blockIdx.x;
  if (first_unit < n_units) {
    const Place place = place_of(s, first_unit, row_of_unit);
    for (int i = place.first; i <= place.last; ++i) prefetch_row<kRowThreads>(s.rows[i], place.row);
  }
  prefetch_norm(source);
  wait_for_launches();
  let_next_launch_start();
  const Input x(source);
  ASSAY_NO_UNROLL
  for (int64_t unit = first_unit; unit < n_units; unit += int64_t{kWarps} * gridDim.x) {
    const Place place = place_of(s, unit, row_of_unit);
    float before = 0.0F;
    float product = 0.0F;
    ASSAY_NO_UNROLL
    for (int i = place.first; i <= place.last; ++i) {
      before = product;
      product = x.dot(s.rows[i], place.row, stage);
    }
    float other = 0.0F;
    if (s.kind == Kind::kQkv) other = __shfl_xor_sync(0xFFFFFFFFU, product, kRowThreads);
    if (!place.inside || thread_of_row() != 0) continue;
    if (s.kind == Kind::kQkv) {
      finish_qkv(s, place, product, other);
    } else {
      finish(s, place, before, product);
    }
  }
}

// What a block keeps of its input in shared memory.
size_t input_bytes(int64_t width, bool is_normed, Rounding rounding) {
  const size_t floats = is_normed ? static_cast<size_t>(width) * sizeof(float) : 0;
  return floats + vectors_bytes(width, 1, rounding);
}

// As many blocks as are at work at once, fewer where some would have no unit, and the same number
// on each multiprocessor: then all end together.
unsigned blocks_of(const Residency& room, int64_t n_units) {
  const unsigned wanted = blocks_for(n_units, int64_t{kWarps} * room.multiprocessors);
  const unsigned blocks = room.multiprocessors * std::min(wanted, room.blocks);
  return n_units < blocks ? static_cast<unsigned>(n_units) : blocks;
}

template <class Kernel>
void launch(Device& device, std::string_view name, Kernel kernel, const Step& step,
            const InputSource& source, size_t shared_bytes, int64_t n_units) {
  const Residency room = device.residency(name, kernel, kThreads, shared_bytes);
  const LaunchShape shape = {
      {blocks_of(room, n_units), 1, 1}, {kThreads, 1, 1}, shared_bytes, true};
  device.launch(name, shape, kernel, step, source, n_units);
}

void launch(Device& device, Math math, const Step& step, const InputSource& source, bool is_normed,
            int64_t n_units) {
  const Rounding rounding =
      rounding_in(math, step.rows[step.kind == Kind::kActivation ? 1 : 0].type);
  const size_t bytes = input_bytes(source.width, is_normed, rounding);
  const auto launch_it = [&](std::string_view name, auto kernel) {
    launch(device, name, kernel, step, source, bytes, n_units);
  };
  if (rounding == Rounding::kInt8) {
    return launch_it("product_kernel<Int8Input>", product_kernel<Int8Input>);
  }
  if (rounding == Rounding::kInt16) {
    return launch_it("product_kernel<Int16Input>", product_kernel<Int16Input>);
  }
  // A step of exact math may mix plain rows and those in blocks.
  if (math == Math::kExact && is_normed) {
    return launch_it("product_kernel<NormedInput>",
                     product_kernel<NormedInput<kPlain | kBlocks, double>>);
  }
  if (math == Math::kExact) {
    return launch_it("product_kernel<PlainInput>",
                     product_kernel<PlainInput<kPlain | kBlocks, double>>);
  }
  if (is_normed) {
    return launch_it("product_kernel<NormedInput, fast>",
                     product_kernel<NormedInput<kFloats, float>>);
  }
  launch_it("product_kernel<PlainInput, fast>", product_kernel<PlainInput<kFloats, float>>);
}

Rows no_rows() {
  return {nullptr, TensorType::kF32, 0, 0, 0, nullptr};
}

Rows rows_in(const FusedLinear& linear) {
  return rows_of(linear.weight, linear.bias);
}

Step step_of(Kind kind, const Rows& first, const Rows& second, float* out) {
  return {kind,
          {first, second, no_rows()},
          out,
          {nullptr, nullptr, nullptr},
          1,
          0,
          RopePairing::kAdjacent,
          nullptr,
          nullptr,
          1,
          {nullptr, nullptr},
          {nullptr, nullptr},
          nullptr,
          {0, 0}};
}

}  // namespace

bool fused_takes(Math math, int64_t width, bool is_normed, std::span<const TensorType> types) {
  if (std::ranges::any_of(types, is_coded)) return false;
  const Rounding rounding = types.empty() ? Rounding::kNone : rounding_in(math, types.front());
  const auto same = [&](TensorType type) { return rounding_in(math, type) == rounding; };
  if (!std::ranges::all_of(types, same)) return false;
  const size_t factors = rounding == Rounding::kNone ? kFactorBytes : 0;
  return input_bytes(width, is_normed, rounding) + factors <= kMaxInputBytes;
}

void fused_qkv(Device& device, Math math, const FusedQkv& f) {
  Step step = step_of(Kind::kQkv, rows_in(f.q), rows_in(f.k), f.q_out);
  step.rows[kV] = rows_in(f.v);
  step.seen[kQ] = f.q_seen;
  step.seen[kK] = f.k_seen;
  step.seen[kV] = f.v_seen;
  step.head_dim = f.head_dim;
  step.rotary_dim = f.rotary_dim;
  step.pairing = f.pairing;
  step.position = f.token.position;
  step.cos_sin = f.token.cos_sin;
  step.n_angles = f.token.n_angles;
  step.k_store = kv_store(f.kv_type, f.k_cache);
  step.v_store = kv_store(f.kv_type, f.v_cache);
  step.k_rope_seen = f.k_rope_seen;
  const auto units = [&](const FusedLinear& linear) {
    return units_of(linear.weight.rows / f.head_dim * ((f.head_dim + 1) / 2) * 2);
  };
  step.units[kQ] = units(f.q);
  step.units[kK] = units(f.k);
  launch(device, math, step, normed_source(f.x, f.norm, f.q.weight.columns, f.normed_seen), true,
         step.units[kQ] + step.units[kK] + units(f.v));
}

void fused_residual(Device& device, Math math, const FusedResidual& f) {
  Step step = step_of(Kind::kResidual, rows_in(f.w), no_rows(), f.residual);
  step.seen[0] = f.product_seen;
  launch(device, math, step, plain_source(f.x, f.w.weight.columns), false,
         units_of(f.w.weight.rows));
}

void fused_activation(Device& device, Math math, const FusedActivation& f) {
  Step step = step_of(Kind::kActivation, rows_in(f.gate), rows_in(f.up), f.act);
  step.seen[0] = f.gate_seen;
  step.seen[1] = f.up_seen;
  launch(device, math, step, normed_source(f.x, f.norm, f.up.weight.columns, f.normed_seen), true,
         units_of(f.up.weight.rows));
}

void fused_logits(Device& device, Math math, const FusedLogits& f) {
  const Step step = step_of(Kind::kLogits, rows_of(f.w, nullptr), no_rows(), f.logits);
  launch(device, math, step, normed_source(f.x, f.norm, f.w.columns, f.normed_seen), true,
         units_of(f.w.rows));
}

}  // namespace assay::ASSAY_DEVICE
