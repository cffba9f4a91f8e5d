#include <algorithm>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/staged_keys.h"

// Attention of one token, whose position stands in device memory. Few keys take one launch: each
// block has the scores of all keys of a head, and sums some of the values' elements. Many keys are
// split over blocks, in runs of 256 that are combined in ascending order. Both give the bits of
// kernels/cuda/attention.cu.
namespace assay::ASSAY_DEVICE {
namespace {

constexpr int64_t kFewKeys = 1024;
constexpr int kFewRuns = kFewKeys / kKeyRun + 1;

// What a block of few keys has in shared memory beside the keys and values that it stages.
constexpr size_t kOtherBytes = size_t{12} * 1024;
constexpr int kKeysPerBlock = 256;

template <class Number>
struct Decode {
  Global<const float> q;
  Global<const uint8_t> q_bytes;  // the same
  Keys keys;
  Global<const int32_t> position;
  int64_t most_keys;
  int64_t most_runs;
  Global<Number> scores;   // [head, most_keys]
  Global<Number> weights;  // [head, most_keys]
  Global<Number> runs;     // [head, most_runs, head_dim]
  Global<float> out;
};

// Which keys a token sees: [first, position], in n_runs runs from `run` on.
struct Seen {
  int64_t position;
  int64_t first;
  int64_t run;
  int64_t n_runs;

  template <class Number>
  __device__ explicit Seen(const Decode<Number>& a)
      : position(load_settled<int32_t>(a.position, 0)),
        first(a.keys.first_key(position)),
        run(first / kKeyRun),
        n_runs(position / kKeyRun - run + 1) {}

  __device__ int64_t n_keys() const { return position + 1 - first; }
  __device__ int64_t begin(int64_t i) const {
    const int64_t key = (run + i) * kKeyRun;
    return key < first ? first : key;
  }
  __device__ int64_t end(int64_t i) const {
    const int64_t key = (run + i + 1) * kKeyRun;
    return key > position ? position + 1 : key;
  }
};

// out[first + d] = the sum of the runs in ascending order, divided by the sum of the weights, for d
// in [0, n). runs[n_runs, n].
template <class Number, class Array>
__device__ void combine(const Decode<Number>& a, const Seen& seen, const Array& runs,
                        Number weight_sum, int64_t first, int64_t n) {
  for (int64_t d = threadIdx.x; d < n; d += blockDim.x) {
    Number total{};
    for (int64_t i = 0; i < seen.n_runs; ++i) total = total + runs[i * n + d];
    a.out[blockIdx.y * a.keys.shape.head_dim + first + d] = static_cast<float>(total / weight_sum);
  }
}

template <class T>
struct Offset {
  const T& array;
  int first;
  __device__ decltype(auto) operator[](int64_t i) const {
    return array[first + static_cast<int>(i)];
  }
};

// store(i, score) for the keys seen.first + i, i in [begin, end), by all threads of the block.
template <class Kv, class Number, class Store>
__device__ void score_seen(const Decode<Number>& a, const Seen& seen, int64_t kv_head,
                           int64_t begin, int64_t end, const Store& store) {
  const int64_t head_dim = a.keys.shape.head_dim;
  const Global<const float> q = a.q.from(blockIdx.y * head_dim);
  if (head_dim % kPart<Kv> == 0) {
    score_keys<Kv, Number, true>(a.keys, q, kv_head, seen.first, begin, end, store);
  } else {
    score_keys<Kv, Number, false>(a.keys, q, kv_head, seen.first, begin, end, store);
  }
}

// The sum of n weights in the order of sum_in_block(), by the block's last threads, while others
// sum values. Once the block has met, it is the sum of `parts`.
constexpr int kWeightParts = kFewKeys / kSumRun;
static_assert(kWeightParts * kLanes == kWarp);

template <class Number>
__device__ void sum_weights(const Shared<Number>& weights, int n, const Shared<double>& parts) {
  const int part = kMaxGroups - 1 - static_cast<int>(threadIdx.x) / kLanes;
  if (part >= kWeightParts) return;  // the whole warp
  const int end = (part + 1) * kSumRun < n ? (part + 1) * kSumRun : n;
  const double sum = sum_lanes(sum_of_lane(
      part * kSumRun + lane_of_group(), end,
      [&](int i) -> double { return static_cast<Number>(weights[i]); }, Plus()));
  if (lane_of_group() == 0) parts[part] = sum;
}

// Few keys: of a head, a block for each kElementsPerBlock elements. Every launch waits before it
// lets the next one start: so what the launches before the last have written is there from the
// beginning, the position and the keys and values before it among that.
template <class Kv, class Number>
ASSAY_KERNEL(kAttentionThreads, 2, few_keys_kernel, ASSAY_CONSTANT(Decode<Number>) a, int room) {
  ASSAY_DYNAMIC_SHARED(uint4, words);
  ASSAY_SHARED(Number, of_keys, kFewKeys + StagedKeys<Kv>::kAtOnce);
  ASSAY_SHARED(Number, runs, kFewRuns * kElementsPerBlock);
  ASSAY_SHARED(double, parts, kWeightParts);
  static_assert((kFewKeys + StagedKeys<Kv>::kAtOnce + kFewRuns * kElementsPerBlock +
                 kAttentionWarps + kWeightParts) *
                    sizeof(double) <=
                kOtherBytes);
  touch(a);
  const Shared<Number> numbers = of_keys;
  const int64_t head_dim = a.keys.shape.head_dim;
  const int64_t first = int64_t{blockIdx.x} * kElementsPerBlock;
  const int64_t left = head_dim - first;
  const auto n = static_cast<int>(left < kElementsPerBlock ? left : kElementsPerBlock);
  const Seen seen(a);
  const auto n_keys = static_cast<int>(seen.n_keys());
  const int64_t kv_head = a.keys.kv_head(blockIdx.y);
  const StagedKeys<Kv> staged(words, head_dim, n, room);
  const int n_staged = n_keys < room ? n_keys : room;
  const int n_before = n_keys - 1 < room ? n_keys - 1 : room;
  const int64_t vector = a.keys.vector(seen.first, kv_head);
  const auto stride = static_cast<int>(a.keys.shape.n_kv_heads * head_dim) * Kv::kBytes;
  const auto k = a.keys.k.from(vector * Kv::kBytes);
  const auto v = a.keys.v.from((vector + first) * Kv::kBytes);
  staged.copy(k, v, stride, 0, n_before);
  if (room > 0) staged.end_values(n_staged, numbers, n_keys);
  const auto last =
      staged.last_copy(a.q_bytes.from(blockIdx.y * head_dim * 4), k, v, stride, n_before, n_staged);
  wait_for_launches();
  let_next_launch_start();
  if (last.to >= 0) copy_to_shared(words, last.to, last.from, 0);
  close_copies();
  wait_for_copies<0>();
  __syncthreads();
  Number greatest = -INFINITY;
  const auto store = [&](int64_t i, Number score) {
    numbers[i] = score;
    greatest = greater_of(greatest, score);
  };
  staged.template score<Number>(n_staged, a.keys.shape.scale, store);
  if (n_staged < n_keys) score_seen<Kv>(a, seen, kv_head, n_staged, n_keys, store);
  greatest = greatest_in_block(greatest);
  weigh<Number>(numbers, n_keys, greatest);
  __syncthreads();
  sum_weights<Number>(numbers, n_keys, parts);
  const auto n_sums = static_cast<int>(seen.n_runs) * kElementsPerBlock;
  for (int i = static_cast<int>(threadIdx.x); i < n_sums; i += kAttentionThreads) {
    const int run = i / kElementsPerBlock;
    const int element = i % kElementsPerBlock;
    if (element >= n) continue;
    const auto begin = static_cast<int>(seen.begin(run) - seen.first);
    const auto end = static_cast<int>(seen.end(run) - seen.first);
    const int middle = end < n_staged ? end : begin > n_staged ? begin : n_staged;
    Number sum = staged.template add_values<Number>(numbers, begin, middle, element, Number{});
    if (middle < end) {
      const Offset<Shared<Number>> of_rest = {numbers, middle};
      sum = sum_of_run<Kv, Number>(a.keys, of_rest, kv_head, seen.first + middle, end - middle,
                                   first + element, sum);
    }
    runs[run * n + element] = sum;
  }
  __syncthreads();
  const double weight_sum = parts[0] + parts[1];
  combine(a, seen, runs, static_cast<Number>(weight_sum), first, n);
}

template <class Kv, class Number>
ASSAY_KERNEL(kAttentionThreads, 2, split_score_kernel, ASSAY_CONSTANT(Decode<Number>) a) {
  touch(a);
  wait_for_launches();
  let_next_launch_start();
  const Seen seen(a);
  const int64_t kv_head = a.keys.kv_head(blockIdx.y);
  const int64_t begin = int64_t{blockIdx.x} * kKeysPerBlock;
  const int64_t end = begin + kKeysPerBlock;
  score_seen<Kv>(a, seen, kv_head, begin, end < seen.n_keys() ? end : seen.n_keys(),
                 [&](int64_t i, Number score) { a.scores[blockIdx.y * a.most_keys + i] = score; });
}

// The weights of a run and the sum of its values, by a block.
template <class Kv, class Number>
ASSAY_KERNEL(kAttentionThreads, 2, split_value_kernel, ASSAY_CONSTANT(Decode<Number>) a) {
  ASSAY_SHARED(Number, weights, kKeyRun);
  touch(a);
  wait_for_launches();
  let_next_launch_start();
  const int64_t head = blockIdx.y;
  const int64_t kv_head = a.keys.kv_head(head);
  const int64_t run = blockIdx.x;
  const int64_t head_dim = a.keys.shape.head_dim;
  const Seen seen(a);
  if (run >= seen.n_runs) return;  // the whole block
  const Global<Number> scores = a.scores.from(head * a.most_keys);
  const auto greatest = greatest_of<Number>(scores, seen.n_keys());
  const int64_t begin = seen.begin(run);
  for (int64_t key = begin + threadIdx.x; key < seen.end(run); key += blockDim.x) {
    const auto weight = weight_of<Number>(scores[key - seen.first], greatest);
    weights[key - begin] = weight;
    a.weights[head * a.most_keys + key - seen.first] = weight;
  }
  __syncthreads();
  for (int64_t d = threadIdx.x; d < head_dim; d += blockDim.x) {
    a.runs[(head * a.most_runs + run) * head_dim + d] = sum_of_run<Kv, Number>(
        a.keys, weights, kv_head, begin, static_cast<int>(seen.end(run) - begin), d);
  }
}

template <class Number>
ASSAY_KERNEL(kAttentionThreads, 2, split_combine_kernel, ASSAY_CONSTANT(Decode<Number>) a) {
  touch(a);
  wait_for_launches();
  let_next_launch_start();
  const int64_t head = blockIdx.y;
  const Seen seen(a);
  const Global<Number> weights = a.weights.from(head * a.most_keys);
  const auto weight_sum = static_cast<Number>(sum_in_block(
      seen.n_keys(), [&](int i) -> double { return static_cast<Number>(weights[i]); }));
  const int64_t head_dim = a.keys.shape.head_dim;
  combine(a, seen, a.runs.from(head * a.most_runs * head_dim), weight_sum, 0, head_dim);
}

// The dynamic shared memory of a block of few keys. Beside products that are spread evenly it
// leaves room for blocks of other launches, as long as that holds most of the keys; beside others
// it takes all, so that no other block is on its multiprocessor.
size_t shared_bytes_for(const Device& device, Math math, const FusedAttention& step) {
  constexpr int64_t kFewEnough = 256;
  constexpr size_t kBesideOthers = size_t{100} * 1024;
  const bool leaves_room = spreads_evenly(device.shared_bytes(), math, step.multiplies);
  return leaves_room && step.most_keys <= kFewEnough ? kBesideOthers
                                                     : device.shared_bytes() - kOtherBytes;
}

template <class Kv, class Number>
void attend(Device& device, const Decode<Number>& a, size_t shared_bytes) {
  const auto heads = static_cast<unsigned>(a.keys.shape.n_heads);
  const auto shape = [&](int64_t blocks, int64_t numbers) {
    return LaunchShape{{static_cast<unsigned>(blocks), heads, 1},
                       {kAttentionThreads, 1, 1},
                       static_cast<size_t>(numbers) * sizeof(Number),
                       true};
  };
  if (a.most_keys <= kFewKeys) {
    const int64_t head_dim = a.keys.shape.head_dim;
    const int room = StagedKeys<Kv>::room_for(head_dim, a.most_keys, shared_bytes);
    const bool takes_all = room > 0 && device.shared_bytes() >= kLargeSharedBytes;
    const LaunchShape few = {{blocks_for(head_dim, kElementsPerBlock), heads, 1},
                             {kAttentionThreads, 1, 1},
                             takes_all ? shared_bytes : StagedKeys<Kv>::bytes(head_dim, room),
                             true};
    ASSAY_LAUNCH(device, few, (few_keys_kernel<Kv, Number>), a, room);
    return;
  }
  ASSAY_LAUNCH(device, shape(blocks_for(a.most_keys, kKeysPerBlock), 0),
               (split_score_kernel<Kv, Number>), a);
  ASSAY_LAUNCH(device, shape(a.most_runs, 0), (split_value_kernel<Kv, Number>), a);
  ASSAY_LAUNCH(device, shape(1, 0), (split_combine_kernel<Number>), a);
}

// Runs that so many keys may lie in, wherever the first is.
int64_t runs_of(int64_t keys) {
  return (keys + kKeyRun - 1) / kKeyRun + 1;
}

template <class Number>
void attend_in(Device& device, const FusedAttention& step, Number* scratch, size_t shared_bytes) {
  Number* weights = scratch + step.shape.n_heads * step.most_keys;
  Number* runs = weights + step.shape.n_heads * step.most_keys;
  const Decode<Number> a = {step.q,
                            reinterpret_cast<const uint8_t*>(step.q),
                            keys_of(step.kv, step.shape),
                            step.token.position,
                            step.most_keys,
                            runs_of(step.most_keys),
                            scratch,
                            weights,
                            runs,
                            step.out};
  if (step.kv.type == KvType::kF32) {
    attend<F32>(device, a, shared_bytes);
  } else {
    attend<F16>(device, a, shared_bytes);
  }
}

}  // namespace

size_t fused_attention_scratch(Math math, const AttentionShape& shape, int64_t most_keys) {
  const int64_t numbers = shape.n_heads * (2 * most_keys + runs_of(most_keys) * shape.head_dim);
  return static_cast<size_t>(numbers) * score_bytes(math);
}

void fused_attention(Device& device, Math math, const FusedAttention& step) {
  const size_t shared_bytes = shared_bytes_for(device, math, step);
  if (math == Math::kExact) {
    attend_in(device, step, static_cast<double*>(step.scratch), shared_bytes);
  } else {
    attend_in(device, step, static_cast<float*>(step.scratch), shared_bytes);
  }
}

}  // namespace assay::ASSAY_DEVICE
