#include <algorithm>

#include "assay/mutate/catalogue.h"

namespace assay::mutate {
namespace {

struct FaultText {
  std::string name;
  FaultGroup group;
  std::string what;
};

// A fault in the tokenizer. `unsupported_reason` is asked of the vocabulary that the model's file
// holds.
Fault in_vocabulary(FaultText text,
                    std::function<std::string(const Vocabulary&)> unsupported_reason,
                    std::function<void(Vocabulary&)> edit) {
  return {.name = std::move(text.name),
          .group = text.group,
          .what = std::move(text.what),
          .in_one_layer = false,
          .unsupported_reason =
              [unsupported_reason = std::move(unsupported_reason)](const Model& model) {
                const auto vocabulary = load_vocabulary(model.gguf());
                return vocabulary ? unsupported_reason(*vocabulary) : "the file has no vocabulary";
              },
          .inject =
              [](const FaultSite&) {
                return Injection{.found_at = {.kind = FaultPlace::Kind::kPromptTokens}};
              },
          .edit_vocabulary = std::move(edit)};
}

Fault in_sampling(FaultText text, std::function<void(Injection&)> edit) {
  const auto sampling = [edit = std::move(edit)] {
    Injection injection{.found_at = {.kind = FaultPlace::Kind::kGeneratedTokens}};
    edit(injection);
    return injection;
  };
  return {.name = std::move(text.name),
          .group = text.group,
          .what = std::move(text.what),
          .in_one_layer = false,
          .unsupported_reason = mistakes::any_model,
          .inject = [sampling](const FaultSite&) { return sampling(); },
          .sampling = sampling};
}

// A fault in the options that the sampler is given.
Fault in_options(const std::string& name, const std::string& what,
                 std::function<void(SamplerOptions&)> edit) {
  return in_sampling(
      {name, FaultGroup::kSampling, what},
      [edit = std::move(edit)](Injection& injection) { injection.sampler_options = edit; });
}

// The highest logit; of equal ones the highest id, where the lowest is right.
int32_t last_argmax(std::span<const float> logits, const std::vector<bool>& choosable) {
  int32_t best = -1;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!choosable[id]) continue;
    if (best < 0 || logits[id] >= logits[static_cast<size_t>(best)])
      best = static_cast<int32_t>(id);
  }
  return best;
}

}  // namespace

std::vector<Fault> token_faults() {
  constexpr FaultGroup kGroup = FaultGroup::kTokens;
  std::vector<Fault> faults;
  faults.push_back(in_vocabulary(
      {"bos-dropped", kGroup, "the prompt has no begin-of-sequence token"},
      [](const Vocabulary& v) { return v.add_bos ? "" : "the file asks for no BOS"; },
      [](Vocabulary& v) { v.add_bos = false; }));
  faults.push_back(in_vocabulary(
      {"bos-added", kGroup,
       "the prompt has a begin-of-sequence token that the file does not ask for"},
      [](const Vocabulary& v) {
        return !v.add_bos && v.bos ? "" : "the file asks for a BOS, or has none";
      },
      [](Vocabulary& v) { v.add_bos = true; }));
  faults.push_back(in_vocabulary(
      {"merges-reversed", kGroup, "merges are done in the wrong order: the last of the list first"},
      [](const Vocabulary& v) {
        return v.model == TokenizerModel::kBytePair ? "" : "its vocabulary has no merges";
      },
      [](Vocabulary& v) { std::reverse(v.merges.begin(), v.merges.end()); }));
  faults.push_back(in_vocabulary(
      {"scores-reversed", kGroup, "the lowest score merges first"},
      [](const Vocabulary& v) {
        return v.model == TokenizerModel::kSentencePiece ? "" : "its vocabulary has no scores";
      },
      [](Vocabulary& v) {
        for (float& score : v.scores) score = -score;
      }));
  faults.push_back(in_vocabulary(
      {"space-prefix-dropped", kGroup, "the text does not begin with a space"},
      [](const Vocabulary& v) { return v.add_space_prefix ? "" : "the file asks for no prefix"; },
      [](Vocabulary& v) { v.add_space_prefix = false; }));
  return faults;
}

std::vector<Fault> sampling_faults() {
  constexpr FaultGroup kGroup = FaultGroup::kSampling;
  std::vector<Fault> faults;
  faults.push_back(in_sampling(
      {"argmax-second", kGroup, "the second best token is chosen"}, [](Injection& injection) {
        injection.sample = [](Sampler& sampler, std::span<const float> logits,
                              const std::vector<bool>& choosable) {
          std::vector<bool> rest = choosable;
          rest[static_cast<size_t>(sampler.sample(logits, choosable))] = false;
          return sampler.sample(logits, rest);
        };
      }));
  faults.push_back(in_sampling({"argmax-tie", kGroup, "of equal logits the last is chosen"},
                               [](Injection& injection) {
                                 injection.sample = [](Sampler&, std::span<const float> logits,
                                                       const std::vector<bool>& choosable) {
                                   return last_argmax(logits, choosable);
                                 };
                               }));
  faults.push_back(
      in_sampling({"argmax-padding", kGroup, "padding of the vocabulary may be chosen"},
                  [](Injection& injection) {
                    injection.sample = [](Sampler& sampler, std::span<const float> logits,
                                          const std::vector<bool>& choosable) {
                      return sampler.sample(logits, std::vector<bool>(choosable.size(), true));
                    };
                  }));
  faults.push_back(in_options("sampling-seed", "the seed is one too high",
                              [](SamplerOptions& options) { ++options.seed; }));
  faults.push_back(in_options("sampling-temperature", "the temperature is 1, unless it is 0",
                              [](SamplerOptions& options) {
                                if (options.temperature > 0.0) options.temperature = 1.0;
                              }));
  faults.push_back(
      in_options("sampling-top-k", "one candidate too many", [](SamplerOptions& options) {
        if (options.top_k > 0) ++options.top_k;
      }));
  faults.push_back(in_options("sampling-top-p", "top-p is not applied",
                              [](SamplerOptions& options) { options.top_p = 1.0; }));
  return faults;
}

}  // namespace assay::mutate
