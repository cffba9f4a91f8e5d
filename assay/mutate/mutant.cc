#include "assay/mutate/mutant.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace assay {
namespace {

SamplerOptions sampler_options(SamplerOptions options, const Injection& injection) {
  if (injection.sampler_options) injection.sampler_options(options);
  return options;
}

}  // namespace

std::unique_ptr<Tokenizer> make_faulty_tokenizer(const Gguf& gguf, const Fault* fault,
                                                 std::string* unknown) {
  if (fault == nullptr || !fault->edit_vocabulary) return Tokenizer::from_gguf(gguf, unknown);
  std::optional<Vocabulary> vocabulary = load_vocabulary(gguf);
  if (!vocabulary) return nullptr;
  fault->edit_vocabulary(*vocabulary);
  return std::make_unique<Tokenizer>(*std::move(vocabulary));
}

Mutant::Mutant(std::shared_ptr<const Gguf> gguf, Kernels& kernels, const Options& options)
    : model_(std::move(gguf)),
      injection_(inject(options)),
      network_(mistakes::Network::of_model(model_, options.n_positions)),
      kernels_(network_, kernels, injection_, options.shadow),
      session_(model_, kernels_, {.capacity = options.n_positions}),
      sampler_(sampler_options(options.sampler, injection_)) {}

Injection Mutant::inject(const Options& options) {
  const auto n_layers = static_cast<int>(model_.config().n_layers);
  const int layer = options.layer.value_or(n_layers / 2);
  if (layer < 0 || layer >= n_layers) {
    throw Error(fmt::format("the model has no layer {}", layer), "--layer",
                fmt::format("give 0 to {}", n_layers - 1));
  }
  if (options.fault == nullptr) return {};
  const Fault& fault = *options.fault;
  if (options.layer && !fault.in_one_layer) {
    throw Error(fmt::format("fault '{}' is not one of a single layer", fault.name), "--layer",
                "leave it out");
  }
  if (const std::string reason = fault.unsupported_reason(model_); !reason.empty()) {
    throw Error(fmt::format("this model cannot have the fault '{}': {}", fault.name, reason),
                model_.gguf().path(), "take another model or fault");
  }
  return fault.inject({.model = model_, .layer = layer});
}

std::span<const float> Mutant::eval(std::span<const int32_t> tokens, Probe* probe) {
  if (!injection_.tokens) return session_.eval(tokens, probe);
  std::vector<int32_t> other(tokens.begin(), tokens.end());
  injection_.tokens(other);
  return session_.eval(other, probe);
}

int32_t Mutant::sample(std::span<const float> logits, const std::vector<bool>& choosable) {
  return injection_.sample ? injection_.sample(sampler_, logits, choosable)
                           : sampler_.sample(logits, choosable);
}

}  // namespace assay
