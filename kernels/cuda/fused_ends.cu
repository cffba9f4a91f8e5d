#include "kernels/cuda/ops.h"
#include "kernels/cuda/products.h"

// Where a decoded token begins and ends: its embedding, and the choice of the next.
namespace assay::ASSAY_DEVICE {
namespace {

constexpr int kChoicesPerBlock = kThreads * 2;
constexpr int32_t kNone = -1;  // no id that may be chosen
constexpr int32_t kBad = -2;   // NaN or an infinity

__global__ void embed_kernel(Rows table, Rows positions, Global<const int32_t> id,
                             Global<const int32_t> position, Global<float> x) {
  let_next_launch_start();
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= table.columns) return;
  const float value = element_of(table, id[0], column);
  x[column] = positions.data ? value + element_of(positions, position[0], column) : value;
}

struct Choice {
  float logit;
  int32_t id;
};

__device__ Choice better(const Choice& a, const Choice& b) {
  if (a.id == kBad || b.id == kNone) return a;
  if (b.id == kBad || a.id == kNone) return b;
  return b.logit > a.logit || (b.logit == a.logit && b.id < a.id) ? b : a;
}

// The best of all threads of the block, in thread 0.
__device__ Choice best_in_block(Choice best) {
  ASSAY_SHARED(Choice, choices, kWarps);
  for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    const float logit = __shfl_xor_sync(0xFFFFFFFFU, best.logit, distance);
    const int32_t id = __shfl_xor_sync(0xFFFFFFFFU, best.id, distance);
    best = better(best, Choice{logit, id});
  }
  if (threadIdx.x % kWarpThreads == 0) choices[threadIdx.x / kWarpThreads] = best;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kWarps; ++warp) best = better(best, choices[warp]);
  }
  return best;
}

__global__ void choose_kernel(Global<const float> logits, Global<const uint8_t> choosable,
                              int64_t count, Global<Choice> choices) {
  wait_for_launches();
  let_next_launch_start();
  Choice best = {0.0F, kNone};
  const int64_t first = int64_t{blockIdx.x} * kChoicesPerBlock;
  ASSAY_UNROLL
  for (int i = 0; i < kChoicesPerBlock; i += kThreads) {
    const int64_t id = first + i + threadIdx.x;
    if (id >= count || choosable[id] == 0) continue;
    const float logit = logits[id];
    const bool usable = logit < INFINITY;  // and no NaN
    best = better(best, Choice{logit, usable ? static_cast<int32_t>(id) : kBad});
  }
  best = best_in_block(best);
  if (threadIdx.x == 0) choices[blockIdx.x] = best;
}

// The choice is the next token: a step that is launched before the host knows it begins with it.
__global__ void best_choice_kernel(Global<const Choice> choices, int64_t count, Global<int32_t> ids,
                                   Global<int32_t> token, Global<int32_t> position) {
  wait_for_launches();
  let_next_launch_start();
  Choice best = {0.0F, kNone};
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) best = better(best, choices[i]);
  best = best_in_block(best);
  if (threadIdx.x != 0) return;
  const int32_t at = position[0];
  ids[at % kChoices] = best.id < 0 ? -1 : best.id;
  token[0] = best.id < 0 ? 0 : best.id;
  position[0] = at + 1;
}

}  // namespace

void fused_embed(Device& device, const FusedEmbedding& step) {
  ASSAY_LAUNCH(device, one_thread_each(step.table.columns), embed_kernel,
               rows_of(step.table, nullptr), rows_of(step.positions, nullptr), step.token.id,
               step.token.position, step.x);
}

size_t fused_choice_scratch(int64_t count) {
  return blocks_for(count, kChoicesPerBlock) * sizeof(Choice);
}

void fused_choose(Device& device, const FusedChoice& step) {
  const unsigned blocks = blocks_for(step.count, kChoicesPerBlock);
  auto* choices = static_cast<Choice*>(step.scratch);
  ASSAY_LAUNCH(device, (LaunchShape{{blocks, 1, 1}, {kThreads, 1, 1}, 0, true}), choose_kernel,
               step.logits, step.choosable, step.count, choices);
  ASSAY_LAUNCH(device, (LaunchShape{{1, 1, 1}, {kThreads, 1, 1}, 0, true}), best_choice_kernel,
               choices, int64_t{blocks}, step.ids, step.id, step.position);
}

}  // namespace assay::ASSAY_DEVICE
