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
  int32_t head_dim;
  int32_t rotary_dim;
  RopePairing pairing;
  Global<const int32_t> position;
  Global<const float> cos_sin;
  int32_t n_angles;
  KvStore k_store, v_store;
  Global<float> k_rope_seen;
  int32_t units[2];  // of kQ and kK
  int32_t pairs[3];  // of kQ, kK and kV
  int32_t pairs_of_head;
};

// Where a row's product is: row `row` of rows[first] to rows[last].
struct Place {
  int first = 0;
  int last = 0;
  int32_t row = 0;
  bool inside = true;  // else it is computed again, and left

  // Of kQkv: two neighbours of a unit have the rows of a pair, which are turned together or merely
  // stand side by side.
  int32_t pair = 0;  // of the head
  bool turns = false;
  bool is_second = false;
};

__device__ Place place_in_qkv(const Step& s, int unit, int row_of_unit) {
  Place place;
  while (place.first < kV && unit >= s.units[place.first]) unit -= s.units[place.first++];
  place.last = place.first;
  const int own = (unit * kRowsOfWarp + row_of_unit) / 2;
  const int n_pairs = s.pairs[place.first];
  const int pair = own < n_pairs ? own : n_pairs - 1;
  const int head = pair / s.pairs_of_head;
  place.pair = pair - head * s.pairs_of_head;
  place.is_second = row_of_unit % 2 != 0;
  const int turned = place.first == kV ? 0 : s.rotary_dim / 2;
  place.turns = place.pair < turned;
  const bool halves = place.turns && s.pairing == RopePairing::kHalves;
  const int begin = halves ? place.pair : 2 * place.pair;
  const int element = place.is_second ? begin + (halves ? turned : 1) : begin;
  const bool is_there = element < s.head_dim;  // the last of an odd number has no partner
  place.inside = is_there && own < n_pairs;
  place.row = head * s.head_dim + (is_there ? element : begin);
  return place;
}

__device__ Place place_of(const Step& s, int unit, int row_of_unit) {
  if (s.kind == Kind::kQkv) return place_in_qkv(s, unit, row_of_unit);
  Place place;
  place.last = s.kind == Kind::kActivation ? 1 : 0;
  const auto n_rows = static_cast<int>(s.rows[place.last].n_rows);
  place.row = unit * kRowsOfWarp + row_of_unit;
  place.inside = place.row < n_rows;
  if (!place.inside) place.row = n_rows - 1;
  if (s.kind == Kind::kActivation && !s.rows[0].data) place.first = 1;
  return place;
}

// What a row's product meets, read before it is there by the thread that writes it. The launch
// before this one has written none of it, so that it may be read before that is waited for.
struct Beside {
  float residual = 0.0F;
  int32_t position = 0;
  float2 angle = {1.0F, 0.0F};  // cosine and sine, where the pair of the place is turned
};

__device__ Beside read_beside(const Step& s, const Place& place) {
  Beside beside;
  if (!place.inside || thread_of_row() != 0) return beside;
  if (s.kind == Kind::kResidual) beside.residual = load_settled<float>(s.out, place.row);
  if (s.kind != Kind::kQkv) return beside;
  beside.position = load_settled<int32_t>(s.position, 0);
  if (!place.turns) return beside;
  const auto which = static_cast<uint32_t>(beside.position) % static_cast<uint32_t>(s.n_angles);
  beside.angle =
      load_settled<float2>(s.cos_sin, static_cast<int>(which) * s.rotary_dim + 2 * place.pair);
  return beside;
}

// `own` and the other row's product of the pair, turned, and stored where it belongs.
__device__ void finish_qkv(const Step& s, const Place& place, const Beside& beside, float own,
                           float other) {
  float turned = own;
  if (place.turns) {
    const auto [cos, sin] = beside.angle;
    turned = place.is_second ? other * sin + own * cos : own * cos - other * sin;
  }
  store_if(s.seen[place.first], place.row, own);
  if (place.first == kQ) {
    s.out[place.row] = turned;
    return;
  }
  const int64_t at = beside.position * s.rows[place.first].n_rows + place.row;
  if (place.first == kV) return s.v_store.put(at, own);
  store_if(s.k_rope_seen, place.row, turned);
  s.k_store.put(at, turned);
}

// `product`, and `before` of the matrix before it.
__device__ void finish(const Step& s, const Place& place, const Beside& beside, float before,
                       float product) {
  if (s.kind == Kind::kResidual) {
    store_if(s.seen[0], place.row, product);
    s.out[place.row] = beside.residual + product;
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
             ASSAY_CONSTANT(InputSource) source, int n_units) {
  touch(s);
  touch(source);
  ASSAY_STAGE(stage, kGroups, Input::kFactorGroups);
  const int warp = uniform(static_cast<int>(threadIdx.x) / kWarpThreads);
  const int row_of_unit = static_cast<int>(threadIdx.x) % kWarpThreads / kRowThreads;
  // Neighbouring units go to different blocks: few units, too, are spread over all.
  const auto n_blocks = static_cast<int>(gridDim.x);
  int unit = warp * n_blocks + static_cast<int>(blockIdx.x);
  const bool has_unit = unit < n_units;
  Place place;
  Beside beside;
  if (has_unit) {
    place = place_of(s, unit, row_of_unit);
    beside = read_beside(s, place);
    for (int i = place.first; i <= place.last; ++i) prefetch_row<kRowThreads>(s.rows[i], place.row);
  }
  OwnInput own(source);
  own.keep();
  wait_for_launches();
  if constexpr (Input::kTakesOwn) own.read(source);
  let_next_launch_start();
  const Input x(source, own, stage);
  while (unit < n_units) {
    float before = 0.0F;
    float product = 0.0F;
    ASSAY_NO_UNROLL
    for (int i = place.first; i <= place.last; ++i) {
      before = product;
      product = x.dot(s.rows[i], place.row, stage);
    }
    float other = 0.0F;
    if (s.kind == Kind::kQkv) other = __shfl_xor_sync(0xFFFFFFFFU, product, kRowThreads);
    if (place.inside && thread_of_row() == 0) {
      if (s.kind == Kind::kQkv) {
        finish_qkv(s, place, beside, product, other);
      } else {
        finish(s, place, beside, before, product);
      }
    }
    unit += kWarps * n_blocks;
    if (unit >= n_units) break;
    place = place_of(s, unit, row_of_unit);
    beside = read_beside(s, place);
  }
}

// What a block keeps of its input in shared memory.
size_t input_bytes(Math math, int64_t width, bool is_normed, Rounding rounding) {
  const bool keeps_floats = is_normed || (math != Math::kExact && rounding == Rounding::kNone);
  // Up to a multiple of 16 bytes: two floats may be read where only one is left.
  const size_t floats = keeps_floats ? static_cast<size_t>((width + 3) / 4) * sizeof(float4) : 0;
  return floats + vectors_bytes(width, 1, rounding);
}

// As many blocks as are at work at once, fewer where some would have no unit, and the same number
// on each multiprocessor: then all end together.
unsigned blocks_of(const Residency& room, int64_t n_units) {
  const unsigned wanted = blocks_for(n_units, int64_t{kWarps} * room.multiprocessors);
  const unsigned blocks = room.multiprocessors * std::min(wanted, room.blocks);
  return n_units < blocks ? static_cast<unsigned>(n_units) : blocks;
}

// More than half of a multiprocessor's shared memory. A launch of one block for each of them asks
// for it, so that none gets two while another, which a block of the launch before still fills, gets
// none.
constexpr size_t kBytesAlone = size_t{116} * 1024;

template <class Kernel>
void launch(Device& device, std::string_view name, Kernel kernel, const Step& step,
            const InputSource& source, size_t shared_bytes, int64_t n_units, bool spreads) {
  const Residency room = device.residency(name, kernel, kThreads, shared_bytes);
  const unsigned blocks = blocks_of(room, n_units);
  const bool is_alone = spreads && blocks <= room.multiprocessors && shared_bytes < kBytesAlone;
  const LaunchShape shape = {
      {blocks, 1, 1}, {kThreads, 1, 1}, is_alone ? kBytesAlone : shared_bytes, true};
  device.launch(name, shape, kernel, step, source, static_cast<int>(n_units));
}

void launch(Device& device, Math math, const Step& step, const InputSource& source, bool is_normed,
            int64_t n_units) {
  const Rounding rounding =
      rounding_in(math, step.rows[step.kind == Kind::kActivation ? 1 : 0].type);
  const size_t bytes = input_bytes(math, source.width, is_normed, rounding);
  const bool spreads = step.kind == Kind::kResidual &&
                       spreads_evenly(device.shared_bytes(), math, step.rows[0].type);
  const auto launch_it = [&](std::string_view name, auto kernel) {
    launch(device, name, kernel, step, source, bytes, n_units, spreads);
  };
  if (rounding == Rounding::kInt8) {
    return launch_it("product_kernel<Int8Input>", product_kernel<Int8Input>);
  }
  if (rounding == Rounding::kInt16) {
    return launch_it("product_kernel<Int16Input>", product_kernel<Int16Input>);
  }
  // A step of exact math may mix plain rows and those in blocks.
  if (math == Math::kExact && is_normed) {
    return launch_it("product_kernel<SharedInput>",
                     product_kernel<SharedInput<kPlain | kBlocks, double>>);
  }
  if (math == Math::kExact) {
    return launch_it("product_kernel<PlainInput>",
                     product_kernel<PlainInput<kPlain | kBlocks, double>>);
  }
  launch_it("product_kernel<SharedInput, fast>", product_kernel<SharedInput<kFloats, float>>);
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
          {0, 0},
          {1, 1, 1},
          1};
}

}  // namespace

bool fused_takes(Math math, int64_t width, bool is_normed, std::span<const TensorType> types) {
  if (std::ranges::any_of(types, is_coded)) return false;
  const Rounding rounding = types.empty() ? Rounding::kNone : rounding_in(math, types.front());
  const auto same = [&](TensorType type) { return rounding_in(math, type) == rounding; };
  if (!std::ranges::all_of(types, same)) return false;
  const size_t factors = rounding == Rounding::kNone ? kFactorBytes : 0;
  return input_bytes(math, width, is_normed, rounding) + factors <= kMaxInputBytes;
}

void fused_qkv(Device& device, Math math, const FusedQkv& f) {
  Step step = step_of(Kind::kQkv, rows_in(f.q), rows_in(f.k), f.q_out);
  step.rows[kV] = rows_in(f.v);
  step.seen[kQ] = f.q_seen;
  step.seen[kK] = f.k_seen;
  step.seen[kV] = f.v_seen;
  step.head_dim = static_cast<int32_t>(f.head_dim);
  step.rotary_dim = static_cast<int32_t>(f.rotary_dim);
  step.pairing = f.pairing;
  step.position = f.token.position;
  step.cos_sin = f.token.cos_sin;
  step.n_angles = f.token.n_angles;
  step.k_store = kv_store(f.kv_type, f.k_cache);
  step.v_store = kv_store(f.kv_type, f.v_cache);
  step.k_rope_seen = f.k_rope_seen;
  step.pairs_of_head = (step.head_dim + 1) / 2;
  int64_t n_units = 0;
  for (const int which : {kQ, kK, kV}) {
    step.pairs[which] =
        static_cast<int32_t>(step.rows[which].n_rows / step.head_dim) * step.pairs_of_head;
    const int64_t units = units_of(2 * int64_t{step.pairs[which]});
    if (which != kV) step.units[which] = static_cast<int32_t>(units);
    n_units += units;
  }
  launch(device, math, step, normed_source(f.x, f.norm, f.q.weight.columns, f.normed_seen), true,
         n_units);
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
