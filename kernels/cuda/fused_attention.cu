#include "kernels/cuda/attention.h"
#include "kernels/cuda/ops.h"

// Attention of one token, whose position stands in device memory. A block does all of a head's few
// keys at once; many keys, and the few of a head too wide for a block's shared memory, are split
// over blocks, in runs of 256 that are combined in ascending order. Both give the bits of
// kernels/cuda/attention.cu.
namespace assay::ASSAY_DEVICE {
namespace {

constexpr int64_t kFewKeys = 1024;
constexpr int kKeysPerBlock = 64;

// Of dynamic shared memory: all of the 48 KiB that every device gives a block, but 256 bytes for
// what the softmax keeps besides.
constexpr int64_t kMaxFloats = 12 * 1024 - 64;

struct Decode {
  Global<const float> q;
  Keys keys;
  Global<const int32_t> position;
  int64_t most_keys;
  int64_t most_runs;
  Global<float> scores;   // [head, most_keys]
  Global<float> weights;  // [head, most_keys]
  Global<float> runs;     // [head, most_runs, head_dim]
  Global<float> out;
};

// Which keys a token sees: [first, position], in n_runs runs from `run` on.
struct Seen {
  int64_t position;
  int64_t first;
  int64_t run;
  int64_t n_runs;

  __device__ explicit Seen(const Decode& a)
      : position(a.position[0]),
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

// out = the sum of the runs in ascending order, divided by the sum of the weights. runs[n_runs,
// head_dim].
template <class Array>
__device__ void combine(const Decode& a, const Seen& seen, const Array& runs, float weight_sum) {
  const int64_t head_dim = a.keys.shape.head_dim;
  for (int64_t d = threadIdx.x; d < head_dim; d += blockDim.x) {
    float total = 0.0F;
    for (int64_t i = 0; i < seen.n_runs; ++i) total = total + runs[i * head_dim + d];
    a.out[blockIdx.y * head_dim + d] = total / weight_sum;
  }
}

template <class T>
struct Offset {
  const T& array;
  int64_t first;
  __device__ decltype(auto) operator[](int64_t i) const { return array[first + i]; }
};

// Few keys: a block for each head.
template <class Kv>
__global__ void few_keys_kernel(Decode a) {
  ASSAY_DYNAMIC_SHARED(float, floats);  // weights[most_keys], runs[most_runs, head_dim]
  const int64_t head = blockIdx.y;
  const int64_t kv_head = a.keys.kv_head(head);
  const int64_t head_dim = a.keys.shape.head_dim;
  const Seen seen(a);
  const Global<const float> q = a.q.from(head * head_dim);
  for (int64_t i = threadIdx.x / kLanes; i < seen.n_keys(); i += kMaxGroups) {
    const float value = score<Kv>(a.keys, q, kv_head, seen.first + i);
    if (lane_of_group() == 0) floats[i] = value;
  }
  __syncthreads();
  const Offset<decltype(floats)> weights = {floats, 0};
  const Offset<decltype(floats)> runs = {floats, a.most_keys};
  const float weight_sum = softmax_in_block(weights, seen.n_keys());
  for (int64_t i = threadIdx.x; i < seen.n_runs * head_dim; i += blockDim.x) {
    const int64_t run = i / head_dim;
    floats[a.most_keys + i] = sum_of_run<Kv>(a.keys, weights, kv_head, seen.first, seen.begin(run),
                                             seen.end(run), i % head_dim);
  }
  __syncthreads();
  combine(a, seen, runs, weight_sum);
}

template <class Kv>
__global__ void split_score_kernel(Decode a) {
  const int64_t head = blockIdx.y;
  const int64_t kv_head = a.keys.kv_head(head);
  const Seen seen(a);
  const Global<const float> q = a.q.from(head * a.keys.shape.head_dim);
  const int64_t first = int64_t{blockIdx.x} * kKeysPerBlock;
  for (int64_t i = first + threadIdx.x / kLanes; i < first + kKeysPerBlock; i += kMaxGroups) {
    if (i >= seen.n_keys()) return;  // the whole group
    const float value = score<Kv>(a.keys, q, kv_head, seen.first + i);
    if (lane_of_group() == 0) a.scores[head * a.most_keys + i] = value;
  }
}

// The weights of a run and the sum of its values, by a block.
template <class Kv>
__global__ void split_value_kernel(Decode a) {
  ASSAY_SHARED(float, weights, kKeyRun);
  const int64_t head = blockIdx.y;
  const int64_t kv_head = a.keys.kv_head(head);
  const int64_t run = blockIdx.x;
  const int64_t head_dim = a.keys.shape.head_dim;
  const Seen seen(a);
  if (run >= seen.n_runs) return;  // the whole block
  const Global<float> scores = a.scores.from(head * a.most_keys);
  const float greatest = greatest_of(scores, seen.n_keys());
  const int64_t begin = seen.begin(run);
  for (int64_t key = begin + threadIdx.x; key < seen.end(run); key += blockDim.x) {
    const float weight = exp_of(scores[key - seen.first] - greatest);
    weights[key - begin] = weight;
    a.weights[head * a.most_keys + key - seen.first] = weight;
  }
  __syncthreads();
  for (int64_t d = threadIdx.x; d < head_dim; d += blockDim.x) {
    a.runs[(head * a.most_runs + run) * head_dim + d] =
        sum_of_run<Kv>(a.keys, weights, kv_head, begin, begin, seen.end(run), d);
  }
}

__global__ void split_combine_kernel(Decode a) {
  const int64_t head = blockIdx.y;
  const Seen seen(a);
  const Global<float> weights = a.weights.from(head * a.most_keys);
  const auto weight_sum = static_cast<float>(
      sum_in_block(seen.n_keys(), [&](float lane, int64_t i) { return lane + weights[i]; }));
  combine(a, seen, a.runs.from(head * a.most_runs * a.keys.shape.head_dim), weight_sum);
}

template <class Kv>
void attend(Device& device, const Decode& a) {
  const auto heads = static_cast<unsigned>(a.keys.shape.n_heads);
  const auto shape = [&](int64_t blocks, int64_t floats) {
    return LaunchShape{{static_cast<unsigned>(blocks), heads, 1},
                       {kAttentionThreads, 1, 1},
                       static_cast<size_t>(floats) * sizeof(float)};
  };
  const int64_t floats = a.most_keys + a.most_runs * a.keys.shape.head_dim;
  if (a.most_keys <= kFewKeys && floats <= kMaxFloats) {
    ASSAY_LAUNCH(device, shape(1, floats), (few_keys_kernel<Kv>), a);
    return;
  }
  ASSAY_LAUNCH(device, shape(blocks_for(a.most_keys, kKeysPerBlock), 0), (split_score_kernel<Kv>),
               a);
  ASSAY_LAUNCH(device, shape(a.most_runs, 0), (split_value_kernel<Kv>), a);
  ASSAY_LAUNCH(device, shape(1, 0), split_combine_kernel, a);
}

// Runs that so many keys may lie in, wherever the first is.
int64_t runs_of(int64_t keys) {
  return (keys + kKeyRun - 1) / kKeyRun + 1;
}

}  // namespace

size_t fused_attention_scratch(const AttentionShape& shape, int64_t most_keys) {
  return static_cast<size_t>(shape.n_heads * (2 * most_keys + runs_of(most_keys) * shape.head_dim));
}

void fused_attention(Device& device, const FusedAttention& step) {
  float* scores = step.scratch;
  float* weights = scores + step.shape.n_heads * step.most_keys;
  float* runs = weights + step.shape.n_heads * step.most_keys;
  const Decode a = {step.q,
                    keys_of(step.kv, step.shape),
                    step.token.position,
                    step.most_keys,
                    runs_of(step.most_keys),
                    scores,
                    weights,
                    runs,
                    step.out};
  if (step.kv.type == KvType::kF32) {
    attend<F32>(device, a);
  } else {
    attend<F16>(device, a);
  }
}

}  // namespace assay::ASSAY_DEVICE
