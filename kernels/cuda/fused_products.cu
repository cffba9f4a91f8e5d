#include <algorithm>
#include <iterator>

#include "kernels/cuda/elementary.h"
#include "kernels/cuda/fused_input.h"
#include "kernels/cuda/ops.h"

// The products of a decoded token, each with what comes before and after it. A warp computes two
// rows at a time, a block sixteen; blocks go through all rows in steps, so that each normalises its
// input once.
namespace assay::ASSAY_DEVICE {
namespace {

// Enough for every multiprocessor to have a few.
constexpr int64_t kMostBlocks = 512;

// Blocks that a multiprocessor must have room for, which bounds the registers of a thread.
constexpr int kBlocksAtOnce = 3;

// Beside the stage, of the 48 KiB that every device gives a block.
constexpr size_t kMostSharedBytes = size_t{34} * 1024;

LaunchShape shape_for(int64_t n_units, size_t shared_bytes) {
  const unsigned blocks = blocks_for(n_units, kGroups);
  const unsigned most = static_cast<unsigned>(kMostBlocks);
  return {{blocks < most ? blocks : most, 1, 1}, {kThreads, 1, 1}, shared_bytes};
}

// Calls work(unit, inside) for this group's units of [0, n_units): both groups of a warp each time,
// `inside` false where one has none left and computes unit 0 again.
template <class Work>
__device__ void for_units(int64_t n_units, const Work& work) {
  const int64_t group = threadIdx.x / kLanes;
  const int64_t step = int64_t{gridDim.x} * kGroups;
  for (int64_t first = int64_t{blockIdx.x} * kGroups; first < n_units; first += step) {
    const int64_t warp_unit = first + group / 2 * 2;
    if (warp_unit >= n_units) break;  // the whole warp
    const bool inside = first + group < n_units;
    work(inside ? first + group : warp_unit, inside);
  }
}

template <class Input>
__device__ float biased_dot(const Rows& rows, int64_t row, Stage& stage, const Input& x) {
  const float sum = x.dot(rows, row, stage);
  return rows.bias ? sum + rows.bias[row] : sum;
}

__device__ void store_if(const Global<float>& out, int64_t i, float value) {
  if (out) out[i] = value;
}

enum : int { kQ, kK, kV };

struct Qkv {
  Rows rows[3];  // of kQ, kK, kV
  int64_t head_dim;
  int64_t rotary_dim;
  RopePairing pairing;
  Global<const int32_t> position;
  Global<const float> cos_sin;
  Global<float> q_out;
  KvStore k_store, v_store;
  Global<float> q_seen, k_seen, v_seen, k_rope_seen;
};

// Two rows of a head that are turned together, or that merely stand side by side: element first
// and second of pair `pair`; second may be head_dim, which is none.
struct Pair {
  int64_t first;
  int64_t second;
  bool turns;
};

__device__ Pair pair_of(const Qkv& p, int64_t pair, bool rotates) {
  const int64_t turned = rotates ? p.rotary_dim / 2 : 0;
  if (pair >= turned) return {2 * pair, 2 * pair + 1, false};
  if (p.pairing == RopePairing::kAdjacent) return {2 * pair, 2 * pair + 1, true};
  return {pair, pair + turned, true};
}

// What becomes of element `row` of a matrix, once it is multiplied: `before` and `after` turning.
__device__ void store_q(const Qkv& p, int64_t row, float before, float after) {
  store_if(p.q_seen, row, before);
  p.q_out[row] = after;
}

__device__ void store_k(const Qkv& p, int64_t row, float before, float after) {
  store_if(p.k_seen, row, before);
  store_if(p.k_rope_seen, row, after);
  p.k_store.put(p.position[0] * p.rows[kK].n_rows + row, after);
}

__device__ void store_v(const Qkv& p, int64_t row, float value) {
  store_if(p.v_seen, row, value);
  p.v_store.put(p.position[0] * p.rows[kV].n_rows + row, value);
}

// A unit of two groups is a pair of rows: the first group has one, the second the other.
template <class Input>
ASSAY_KERNEL(kThreads, kBlocksAtOnce)
qkv_kernel(ASSAY_CONSTANT(Qkv) p, ASSAY_CONSTANT(InputSource) source) {
  ASSAY_STAGE(stage);
  const Input x(source);
  const int64_t pairs = (p.head_dim + 1) / 2;  // of a head
  const int64_t q_pairs = p.rows[kQ].n_rows / p.head_dim * pairs;
  const int64_t k_pairs = p.rows[kK].n_rows / p.head_dim * pairs;
  for_units(2 * (q_pairs + 2 * k_pairs), [&](int64_t unit, bool) {
    int64_t pair = unit / 2;
    const bool second = unit % 2 != 0;
    const int which = pair < q_pairs ? kQ : pair < q_pairs + k_pairs ? kK : kV;
    pair -= which == kQ ? 0 : which == kK ? q_pairs : q_pairs + k_pairs;
    const int64_t head = pair / pairs;
    const Pair elements = pair_of(p, pair % pairs, which != kV);
    const int64_t element = second ? elements.second : elements.first;
    const bool inside = element < p.head_dim;
    const int64_t row = head * p.head_dim + (inside ? element : elements.first);
    const float own = biased_dot(p.rows[which], row, stage, x);
    const float other = __shfl_xor_sync(0xFFFFFFFFU, own, kLanes);
    if (!inside || lane_of_group() != 0) return;
    float after = own;
    if (elements.turns) {
      const int64_t angle = 2 * (pair % pairs);
      const float cos = p.cos_sin[angle];
      const float sin = p.cos_sin[angle + 1];
      after = second ? other * sin + own * cos : own * cos - other * sin;
    }
    if (which == kQ) {
      store_q(p, row, own, after);
    } else if (which == kK) {
      store_k(p, row, own, after);
    } else {
      store_v(p, row, own);
    }
  });
}

template <class Input>
ASSAY_KERNEL(kThreads, kBlocksAtOnce)
residual_kernel(ASSAY_CONSTANT(Rows) w, ASSAY_CONSTANT(InputSource) source, Global<float> residual,
                Global<float> product_seen) {
  ASSAY_STAGE(stage);
  const Input x(source);
  for_units(w.n_rows, [&](int64_t row, bool inside) {
    const float product = biased_dot(w, row, stage, x);
    if (!inside || lane_of_group() != 0) return;
    store_if(product_seen, row, product);
    residual[row] = residual[row] + product;
  });
}

struct Activation {
  Rows rows[2];  // the gate and up; the gate without data: GELU
  Global<float> act, gate_seen, up_seen;
};

template <class Input>
ASSAY_KERNEL(kThreads, kBlocksAtOnce)
activation_kernel(ASSAY_CONSTANT(Activation) p, ASSAY_CONSTANT(InputSource) source) {
  ASSAY_STAGE(stage);
  const Input x(source);
  const bool gated = static_cast<bool>(p.rows[0].data);
  for_units(p.rows[1].n_rows, [&](int64_t row, bool inside) {
    float gate = 0.0F;
    float up = 0.0F;
    ASSAY_NO_UNROLL
    for (int i = gated ? 0 : 1; i < 2; ++i) {
      gate = up;
      up = biased_dot(p.rows[i], row, stage, x);
    }
    if (!inside || lane_of_group() != 0) return;
    if (gated) store_if(p.gate_seen, row, gate);
    store_if(p.up_seen, row, up);
    p.act[row] = gated ? silu(gate) * up : gelu_tanh_of(up);
  });
}

template <class Input>
ASSAY_KERNEL(kThreads, kBlocksAtOnce)
logits_kernel(ASSAY_CONSTANT(Rows) w, ASSAY_CONSTANT(InputSource) source, Global<float> logits) {
  ASSAY_STAGE(stage);
  const Input x(source);
  for_units(w.n_rows, [&](int64_t row, bool inside) {
    const float logit = biased_dot(w, row, stage, x);
    if (inside && lane_of_group() == 0) logits[row] = logit;
  });
}

Rows rows_in(const FusedLinear& linear) {
  return rows_of(linear.weight, linear.bias);
}

// What a block keeps of its input in shared memory.
size_t input_bytes(int64_t width, bool is_normed, bool int8) {
  if (int8) return static_cast<size_t>(width) / kHalf * sizeof(QuantizedHalf);
  return is_normed ? static_cast<size_t>(width) * sizeof(float) : 0;
}

}  // namespace

bool fused_takes(Math math, int64_t width, bool is_normed, std::span<const TensorType> types) {
  const auto int8 = [&](TensorType type) { return is_int8(math, type); };
  const auto count = std::count_if(types.begin(), types.end(), int8);
  if (count != 0 && count != std::ssize(types)) return false;
  return input_bytes(width, is_normed, count > 0) <= kMostSharedBytes;
}

void fused_qkv(Device& device, Math math, const FusedQkv& step) {
  const Qkv p = {{rows_in(step.q), rows_in(step.k), rows_in(step.v)},
                 step.head_dim,
                 step.rotary_dim,
                 step.pairing,
                 step.token.position,
                 step.token.cos_sin,
                 step.q_out,
                 kv_store(step.kv_type, step.k_cache),
                 kv_store(step.kv_type, step.v_cache),
                 step.q_seen,
                 step.k_seen,
                 step.v_seen,
                 step.k_rope_seen};
  const int64_t pairs = (step.head_dim + 1) / 2;
  const int64_t heads = (step.q.weight.rows + 2 * step.k.weight.rows) / step.head_dim;
  const InputSource source =
      normed_source(step.x, step.norm, step.q.weight.columns, step.normed_seen);
  const bool int8 = is_int8(math, step.q.weight.type);
  const LaunchShape shape = shape_for(2 * pairs * heads, input_bytes(source.width, true, int8));
  if (int8) {
    ASSAY_LAUNCH(device, shape, (qkv_kernel<Int8Input<true>>), p, source);
  } else {
    ASSAY_LAUNCH(device, shape, (qkv_kernel<NormedInput>), p, source);
  }
}

void fused_residual(Device& device, Math math, const FusedResidual& step) {
  const InputSource source = plain_source(step.x, step.w.weight.columns);
  const bool int8 = is_int8(math, step.w.weight.type);
  const LaunchShape shape = shape_for(step.w.weight.rows, input_bytes(source.width, false, int8));
  if (int8) {
    ASSAY_LAUNCH(device, shape, (residual_kernel<Int8Input<false>>), rows_in(step.w), source,
                 step.residual, step.product_seen);
  } else {
    ASSAY_LAUNCH(device, shape, (residual_kernel<PlainInput>), rows_in(step.w), source,
                 step.residual, step.product_seen);
  }
}

void fused_activation(Device& device, Math math, const FusedActivation& step) {
  const Activation p = {
      {rows_in(step.gate), rows_in(step.up)}, step.act, step.gate_seen, step.up_seen};
  const InputSource source =
      normed_source(step.x, step.norm, step.up.weight.columns, step.normed_seen);
  const bool int8 = is_int8(math, step.up.weight.type);
  const LaunchShape shape = shape_for(step.up.weight.rows, input_bytes(source.width, true, int8));
  if (int8) {
    ASSAY_LAUNCH(device, shape, (activation_kernel<Int8Input<true>>), p, source);
  } else {
    ASSAY_LAUNCH(device, shape, (activation_kernel<NormedInput>), p, source);
  }
}

void fused_logits(Device& device, Math math, const FusedLogits& step) {
  const InputSource source = normed_source(step.x, step.norm, step.w.columns, step.normed_seen);
  const bool int8 = is_int8(math, step.w.type);
  const LaunchShape shape = shape_for(step.w.rows, input_bytes(source.width, true, int8));
  const Rows rows = rows_of(step.w, nullptr);
  if (int8) {
    ASSAY_LAUNCH(device, shape, (logits_kernel<Int8Input<true>>), rows, source, step.logits);
  } else {
    ASSAY_LAUNCH(device, shape, (logits_kernel<NormedInput>), rows, source, step.logits);
  }
}

}  // namespace assay::ASSAY_DEVICE
