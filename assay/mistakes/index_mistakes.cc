#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "assay/mistakes/mistake.h"

// Of attention that sees the positions with the highest scores alone.
namespace assay::mistakes {
namespace {

constexpr char kCause[] = "attention_indexed";

Mistake choice_mistake(std::string text, Hook<IndexCall> edit) {
  return {.cause = kCause, .text = plainly(std::move(text)), .edit = {.index = std::move(edit)}};
}

void run_without_weights(const OpContext&, IndexCall call, Kernels& kernels) {
  const std::vector<float> ones(static_cast<size_t>(call.n_tokens * call.shape.n_heads), 1.0F);
  call.weights = ones.data();
  kernels.run(call);
}

// Chooses one less, whose place stays empty.
void run_with_one_less(const OpContext&, IndexCall call, Kernels& kernels) {
  const int64_t top_k = call.shape.top_k;
  int32_t* out = call.indexed;
  if (--call.shape.top_k == 0) {
    std::fill_n(out, call.n_tokens, -1);
    return;
  }
  std::vector<int32_t> fewer(static_cast<size_t>(call.n_tokens * call.shape.top_k));
  call.indexed = fewer.data();
  kernels.run(call);
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    std::copy_n(fewer.data() + t * call.shape.top_k, call.shape.top_k, out + t * top_k);
    out[(t + 1) * top_k - 1] = -1;
  }
}

}  // namespace

std::vector<Mistake> index_mistakes() {
  return {{.cause = kCause,
           .text = plainly("sees all positions up to its own"),
           .edit = called([](AttentionCall& call, double) { call.indexed = nullptr; }),
           .possible =
               [](const Network& network, Op op) {
                 return network.has(Checkpoint::kIndexed) && network.inputs(op).size() > 3;
               }},
          choice_mistake("does not bound the products of queries and keys at 0",
                         [](const OpContext&, IndexCall call, Kernels& kernels) {
                           call.relu = false;
                           kernels.run(call);
                         }),
          choice_mistake("takes 1 for the weights of its heads", run_without_weights),
          choice_mistake("chooses a position less", run_with_one_less)};
}

}  // namespace assay::mistakes
