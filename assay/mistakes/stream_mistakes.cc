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

// As an engine has it that calls right kernels wrongly.
Injected injected_at(Checkpoint at, const char* name, const char* what, FaultGroup group) {
  return {.name = name, .group = group, .what = what, .at = at, .in_arguments = true};
}

Mistake mistake_at(std::string cause, Checkpoint at, const char* text, KernelHooks edit,
                   const char* name, const char* what, FaultGroup group) {
  return {.cause = std::move(cause),
          .text = plainly(text),
          .edit = std::move(edit),
          .possible =
              [at](const Network& network, Op op) {
                return op.checkpoint == at && network.model != nullptr &&
                       network.model->config().n_streams > 1;
              },
          .faults = {injected_at(at, name, what, group)}};
}

// Of one step of the streams, whatever checkpoint it computes; injected where a layer that is
// neither the first nor the last has it.
Mistake mistake_of(StreamStep step, const char* text,
                   std::function<void(StreamsCall call, Kernels& kernels)> edit, const char* name,
                   const char* what) {
  const Checkpoint at = step == StreamStep::kJoin      ? Checkpoint::kStreams
                        : step == StreamStep::kPredict ? Checkpoint::kPredictions
                        : step == StreamStep::kCorrect ? Checkpoint::kCorrected
                        : step == StreamStep::kFirst   ? Checkpoint::kCorrectedFirst
                                                       : Checkpoint::kOutput;
  return {.cause = "residual_streams",
          .text = plainly(text),
          .edit = {.streams = [edit = std::move(edit)](const OpContext&, const StreamsCall& call,
                                                       Kernels& kernels) { edit(call, kernels); }},
          .possible =
              [step](const Network& network, Op op) {
                const OpSpec* spec = find_spec(network.layer(op.layer), op.checkpoint);
                // A copy has no mistake of its own.
                return spec != nullptr && spec->step == step &&
                       (step != StreamStep::kFirst || !spec->tensor.empty());
              },
          .faults = {injected_at(at, name, what, FaultGroup::kResidual)}};
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
  const auto mistake = [](const char* text, KernelHooks edit, const char* name, const char* what) {
    return mistake_at("activation_cutoff", Checkpoint::kFfnCutoff, text, std::move(edit), name,
                      what, FaultGroup::kFeedForward);
  };
  return {
      mistake("leaves the cutoff of the activation out", cut(give_gate), "cutoff-missing",
              "the gate is not cut off before its activation"),
      mistake("divides by n - 1 for the deviation of the cutoff, in place of n", cut(cut_by_sample),
              "cutoff-of-sample", "the deviation of the cutoff is divided by n - 1, not by n"),
      mistake("does not subtract the cutoff from what passes it", cut(keep_what_passes),
              "cutoff-not-subtracted", "what passes the cutoff keeps its value"),
      mistake("takes the mean for the cutoff, without the deviations", cut(cut_at_mean),
              "cutoff-at-mean", "the gate is cut off at its mean")};
}

std::vector<Mistake> laurel_mistakes() {
  const auto mistake = [](Checkpoint at, const char* text, KernelHooks edit, const char* name,
                          const char* what) {
    return mistake_at("laurel", at, text, std::move(edit), name, what, FaultGroup::kResidual);
  };
  return {mistake(Checkpoint::kAttnLaurel, "leaves LAuReL's branch out", keeping_input(&AddCall::a),
                  "laurel-missing", "the branch of low rank beside attention is left out"),
          mistake(Checkpoint::kAttnLaurel,
                  "does not divide the sum of attention and LAuReL by the root of 2",
                  {.scale = leave_sum_unscaled}, "laurel-sum-unscaled",
                  "the sum of attention and LAuReL is not divided by the root of 2"),
          mistake(Checkpoint::kLaurelOut, "does not add LAuReL's input to its products",
                  keeping_input(&AddCall::b), "laurel-input-missing",
                  "LAuReL's branch is its products alone, without its input"),
          mistake(Checkpoint::kLaurelOut, "leaves LAuReL's products out",
                  keeping_input(&AddCall::a), "laurel-products-missing",
                  "LAuReL's branch is its input alone, without its products")};
}

}  // namespace

std::vector<Mistake> stream_mistakes() {
  using Step = StreamStep;
  std::vector<Mistake> mistakes = {
      mistake_of(Step::kJoin,
                 "does not scale further residual streams to the magnitude of the embedding",
                 join_unscaled, "streams-joined-unscaled",
                 "further streams are not scaled to the magnitude of the embedding"),
      mistake_of(Step::kJoin, "begins with one residual stream, and zeros in the others",
                 join_first_alone, "streams-of-zeros",
                 "all streams but the first begin with zeros"),
      mistake_of(Step::kPredict, "does not predict the residual streams", give_streams,
                 "streams-not-predicted", "the streams are taken for their predictions"),
      mistake_of(Step::kPredict, "takes the coefficients of the prediction transposed",
                 run_transposed, "streams-predicted-transposed",
                 "the coefficients of the prediction are transposed"),
      mistake_of(Step::kPredict, "leaves each stream itself out of its prediction",
                 run_without_stream, "streams-predicted-alone",
                 "a prediction has the coefficients' part alone, not the stream itself"),
      mistake_of(Step::kCorrect, "does not correct the residual streams", give_streams,
                 "streams-not-corrected", "the predictions are taken for the corrected streams"),
      mistake_of(Step::kCorrect, "does not add 1 to the coefficients of the correction",
                 run_without_one, "streams-corrected-without-one",
                 "1 is not added to the coefficients of the correction"),
      mistake_of(Step::kCorrect, "corrects all residual streams alike, without coefficients",
                 run_without_coefs, "streams-corrected-alike",
                 "the correction has no coefficients"),
      mistake_of(Step::kCorrect, "corrects the first residual stream alone", run_of_first_alone,
                 "streams-first-corrected", "only the first stream is corrected"),
      mistake_of(Step::kFirst, "leaves the scale of the corrected stream out", run_without_weight,
                 "streams-scale-missing", "the corrected first stream is not scaled"),
      mistake_of(Step::kSpread, "adds the layer's own embedding to the first stream, too",
                 run_of_first_too, "streams-spread-to-first",
                 "the layer's own embedding is added to the first stream, too"),
      mistake_of(Step::kMerge,
                 "does not scale the last residual streams to the magnitude of the first",
                 merge_unscaled, "streams-merged-unscaled",
                 "at the end further streams are not scaled to the magnitude of the first"),
      mistake_of(Step::kMerge, "takes the first residual stream alone at the end", give_first,
                 "streams-first-alone", "the network ends with the first stream alone"),
      mistake_of(Step::kMerge, "takes the sum of the residual streams for their mean", give_sum,
                 "streams-summed", "the network ends with the sum of the streams, not their mean")};
  // This one is of the layer's own embedding, which networks of one stream add otherwise.
  mistakes.push_back(mistake_of(Step::kSpread, "leaves the layer's own embedding of the token out",
                                give_streams, "streams-ple-missing",
                                "the layer's own embedding is added to no stream"));
  mistakes.back().cause = "layer_embedding";
  const std::pair<Checkpoint, const char*> routers[] = {
      {Checkpoint::kAltupNorm, "streams-predicted-undivided"},
      {Checkpoint::kCorrectNorm, "streams-corrected-undivided"}};
  for (const auto& [at, name] : routers) {
    mistakes.push_back(mistake_at(
        "residual_streams", at,
        "does not divide what the router of the streams reads by its "
        "width",
        {.norm = route_undivided}, name,
        "what the router of the streams reads is not divided by the width", FaultGroup::kResidual));
  }
  for (Mistake& mistake : laurel_mistakes()) mistakes.push_back(std::move(mistake));
  for (Mistake& mistake : cutoff_mistakes()) mistakes.push_back(std::move(mistake));
  return mistakes;
}

}  // namespace assay::mistakes
