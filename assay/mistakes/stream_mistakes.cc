#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "assay/mistakes/mistake.h"

// Of several residual streams (AltUp), of the branch of low rank beside attention (LAuReL) and of
// an activation's cutoff: Gemma 3n.
namespace assay::mistakes {
namespace {

Mistake mistake_at(std::string cause, Checkpoint at, const char* text, KernelHooks edit) {
  return {.cause = std::move(cause),
          .text = plainly(text),
          .edit = std::move(edit),
          .possible = [at](const Network& network, Op op) {
            return op.checkpoint == at && network.model != nullptr &&
                   network.model->config().n_streams > 1;
          }};
}

// Of one step of the streams, whatever checkpoint it computes.
Mistake mistake_of(StreamStep step, const char* text,
                   std::function<void(StreamsCall call, Kernels& kernels)> edit) {
  return {.cause = "residual_streams",
          .text = plainly(text),
          .edit = {.streams = [edit = std::move(edit)](const OpContext&, const StreamsCall& call,
                                                       Kernels& kernels) { edit(call, kernels); }},
          .possible = [step](const Network& network, Op op) {
            const OpSpec* spec = find_spec(network.layer(op.layer), op.checkpoint);
            // A copy has no mistake of its own.
            return spec != nullptr && spec->step == step &&
                   (step != StreamStep::kFirst || !spec->tensor.empty());
          }};
}

// As if they had changed nothing.
void give_streams(const StreamsCall& call, Kernels& /*kernels*/) {
  std::copy_n(call.x, call.n_tokens * call.n_streams * call.width, call.out);
}

void run_with_coefs(StreamsCall call, Kernels& kernels,
                    const std::function<float(int64_t t, int64_t i)>& of) {
  const int64_t count =
      call.step == StreamStep::kPredict ? call.n_streams * call.n_streams : call.n_streams;
  std::vector<float> coefs(static_cast<size_t>(call.n_tokens * count));
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    for (int64_t i = 0; i < count; ++i) coefs[static_cast<size_t>(t * count + i)] = of(t, i);
  }
  call.coefs = coefs.data();
  kernels.run(call);
}

void run_transposed(const StreamsCall& call, Kernels& kernels) {
  const int64_t n = call.n_streams;
  run_with_coefs(call, kernels,
                 [&](int64_t t, int64_t i) { return call.coefs[t * n * n + i % n * n + i / n]; });
}

// The sum of the streams times the coefficients, without the stream itself.
void run_without_stream(const StreamsCall& call, Kernels& kernels) {
  const int64_t n = call.n_streams;
  run_with_coefs(call, kernels, [&](int64_t t, int64_t i) {
    return call.coefs[t * n * n + i] - (i % n == i / n ? 1.0F : 0.0F);
  });
}

void run_without_one(const StreamsCall& call, Kernels& kernels) {
  run_with_coefs(call, kernels,
                 [&](int64_t t, int64_t i) { return call.coefs[t * call.n_streams + i] - 1.0F; });
}

void run_without_coefs(const StreamsCall& call, Kernels& kernels) {
  run_with_coefs(call, kernels, [](int64_t, int64_t) { return 0.0F; });
}

void run_of_first_alone(const StreamsCall& call, Kernels& kernels) {
  kernels.run(call);
  const int64_t row = call.n_streams * call.width;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    const int64_t others = t * row + call.width;
    std::copy_n(call.x + others, row - call.width, call.out + others);
  }
}

void run_of_first_too(const StreamsCall& call, Kernels& kernels) {
  kernels.run(call);
  for (int64_t i = 0; i < call.n_tokens * call.width; ++i) {
    call.out[i / call.width * call.n_streams * call.width + i % call.width] += call.y[i];
  }
}

void run_without_weight(StreamsCall call, Kernels& kernels) {
  call.weight = nullptr;
  kernels.run(call);
}

// The other streams as the products give them.
void join_unscaled(const StreamsCall& call, Kernels& /*kernels*/) {
  const int64_t rest = (call.n_streams - 1) * call.width;
  float* out = call.out;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    out = std::copy_n(call.x + t * call.width, call.width, out);
    out = std::copy_n(call.y + t * rest, rest, out);
  }
}

// Nothing in the other streams.
void join_first_alone(const StreamsCall& call, Kernels& /*kernels*/) {
  float* out = call.out;
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    out = std::copy_n(call.x + t * call.width, call.width, out);
    out = std::fill_n(out, (call.n_streams - 1) * call.width, 0.0F);
  }
}

void merge_unscaled(const StreamsCall& call, Kernels& /*kernels*/) {
  const int64_t n = call.n_streams;
  for (int64_t i = 0; i < call.n_tokens * call.width; ++i) {
    const int64_t token = i / call.width;
    const int64_t d = i % call.width;
    double sum = call.x[token * n * call.width + d];
    for (int64_t j = 0; j < n - 1; ++j) sum += call.y[(token * (n - 1) + j) * call.width + d];
    call.out[i] = static_cast<float>(sum / static_cast<double>(n));
  }
}

void give_first(const StreamsCall& call, Kernels& /*kernels*/) {
  for (int64_t t = 0; t < call.n_tokens; ++t) {
    std::copy_n(call.x + t * call.n_streams * call.width, call.width, call.out + t * call.width);
  }
}

void give_sum(const StreamsCall& call, Kernels& kernels) {
  kernels.run(call);
  for (int64_t i = 0; i < call.n_tokens * call.width; ++i) {
    call.out[i] *= static_cast<float>(call.n_streams);
  }
}

// With weights that are not divided by their number.
void route_undivided(const OpContext&, NormCall call, Kernels& kernels) {
  std::vector<float> weights(call.weight, call.weight + call.width);
  for (float& weight : weights) weight *= static_cast<float>(call.width);
  call.weight = weights.data();
  kernels.run(call);
}

KernelHooks keeping_input(const float* AddCall::*kept) {
  return {.add = [kept](const OpContext&, const AddCall& call, Kernels&) {
    std::copy_n(call.*kept, call.count, call.out);
  }};
}

void leave_sum_unscaled(const OpContext&, AddCall call, Kernels& kernels) {
  call.scale = 1.0F;
  kernels.run(call);
}

KernelHooks cut(std::function<void(CutoffCall call, Kernels& kernels)> edit) {
  return {.cutoff = [edit = std::move(edit)](const OpContext&, const CutoffCall& call,
                                             Kernels& kernels) { edit(call, kernels); }};
}

void give_gate(const CutoffCall& call, Kernels& /*kernels*/) {
  std::copy_n(call.x, call.n_tokens * call.width, call.out);
}

void cut_by_sample(CutoffCall call, Kernels& kernels) {
  const auto count = static_cast<double>(call.width);
  call.factor = static_cast<float>(call.factor * std::sqrt(count / (count - 1.0)));
  kernels.run(call);
}

void cut_at_mean(CutoffCall call, Kernels& kernels) {
  call.factor = 0.0F;
  kernels.run(call);
}

// What passes keeps its value.
void keep_what_passes(const CutoffCall& call, Kernels& kernels) {
  kernels.run(call);
  for (int64_t i = 0; i < call.n_tokens * call.width; ++i) {
    if (call.out[i] > 0.0F) call.out[i] = call.x[i];
  }
}

std::vector<Mistake> cutoff_mistakes() {
  constexpr Checkpoint kAt = Checkpoint::kFfnCutoff;
  constexpr char kCause[] = "activation_cutoff";
  return {mistake_at(kCause, kAt, "leaves the cutoff of the activation out", cut(give_gate)),
          mistake_at(kCause, kAt, "divides by n - 1 for the deviation of the cutoff, in place of n",
                     cut(cut_by_sample)),
          mistake_at(kCause, kAt, "does not subtract the cutoff from what passes it",
                     cut(keep_what_passes)),
          mistake_at(kCause, kAt, "takes the mean for the cutoff, without the deviations",
                     cut(cut_at_mean))};
}

std::vector<Mistake> laurel_mistakes() {
  return {mistake_at("laurel", Checkpoint::kAttnLaurel, "leaves LAuReL's branch out",
                     keeping_input(&AddCall::a)),
          mistake_at("laurel", Checkpoint::kAttnLaurel,
                     "does not divide the sum of attention and LAuReL by the root of 2",
                     {.scale = leave_sum_unscaled}),
          mistake_at("laurel", Checkpoint::kLaurelOut,
                     "does not add LAuReL's input to its products", keeping_input(&AddCall::b)),
          mistake_at("laurel", Checkpoint::kLaurelOut, "leaves LAuReL's products out",
                     keeping_input(&AddCall::a))};
}

}  // namespace

std::vector<Mistake> stream_mistakes() {
  std::vector<Mistake> mistakes = {
      mistake_of(StreamStep::kJoin,
                 "does not scale further residual streams to the magnitude of the embedding",
                 join_unscaled),
      mistake_of(StreamStep::kJoin, "begins with one residual stream, and zeros in the others",
                 join_first_alone),
      mistake_of(StreamStep::kPredict, "does not predict the residual streams", give_streams),
      mistake_of(StreamStep::kPredict, "takes the coefficients of the prediction transposed",
                 run_transposed),
      mistake_of(StreamStep::kPredict, "leaves each stream itself out of its prediction",
                 run_without_stream),
      mistake_of(StreamStep::kCorrect, "does not correct the residual streams", give_streams),
      mistake_of(StreamStep::kCorrect, "does not add 1 to the coefficients of the correction",
                 run_without_one),
      mistake_of(StreamStep::kCorrect, "corrects all residual streams alike, without coefficients",
                 run_without_coefs),
      mistake_of(StreamStep::kCorrect, "corrects the first residual stream alone",
                 run_of_first_alone),
      mistake_of(StreamStep::kFirst, "leaves the scale of the corrected stream out",
                 run_without_weight),
      mistake_of(StreamStep::kSpread, "adds the layer's own embedding to the first stream, too",
                 run_of_first_too),
      mistake_of(StreamStep::kMerge,
                 "does not scale the last residual streams to the magnitude of the first",
                 merge_unscaled),
      mistake_of(StreamStep::kMerge, "takes the first residual stream alone at the end",
                 give_first),
      mistake_of(StreamStep::kMerge, "takes the sum of the residual streams for their mean",
                 give_sum)};
  // This one is of the layer's own embedding, which networks of one stream add otherwise.
  mistakes.push_back(mistake_of(StreamStep::kSpread,
                                "leaves the layer's own embedding of the token out", give_streams));
  mistakes.back().cause = "layer_embedding";
  for (const Checkpoint at : {Checkpoint::kAltupNorm, Checkpoint::kCorrectNorm}) {
    mistakes.push_back(mistake_at("residual_streams", at,
                                  "does not divide what the router of the streams reads by its "
                                  "width",
                                  {.norm = route_undivided}));
  }
  for (Mistake& mistake : laurel_mistakes()) mistakes.push_back(std::move(mistake));
  for (Mistake& mistake : cutoff_mistakes()) mistakes.push_back(std::move(mistake));
  return mistakes;
}

}  // namespace assay::mistakes
