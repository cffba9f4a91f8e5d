#include <algorithm>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/fault_builders.h"

namespace assay::mutate {
namespace {

// A fault in the tokenizer. `why_not` is asked of the vocabulary that the model's file holds.
Fault in_vocabulary(FaultText text, std::function<std::string(const Vocabulary&)> why_not,
                    std::function<void(Vocabulary&)> edit) {
  return {.name = std::move(text.name),
          .group = text.group,
          .what = std::move(text.what),
          .in_one_layer = false,
          .why_not =
              [why_not = std::move(why_not)](const Model& model) {
                const auto vocabulary = load_vocabulary(model.gguf());
                return vocabulary ? why_not(*vocabulary) : "the file has no vocabulary";
              },
          .inject =
              [](const FaultSite&) {
                return Injection{.found_at = {.kind = FaultPlace::Kind::kPromptTokens}};
              },
          .edit_vocabulary = std::move(edit)};
}

Fault in_sampling(FaultText text, std::function<void(Injection&)> edit) {
  return {.name = std::move(text.name),
          .group = text.group,
          .what = std::move(text.what),
          .in_one_layer = false,
          .why_not = any_model,
          .inject = [edit = std::move(edit)](const FaultSite&) {
            Injection injection{.found_at = {.kind = FaultPlace::Kind::kGeneratedTokens}};
            edit(injection);
            return injection;
          }};
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
  return faults;
}

}  // namespace assay::mutate
