#include "assay/perf/model_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "assay/perf/perf_text.h"
#include "base/count_of.h"

namespace assay {
namespace {

// Of "decode/smollm2/Q4_1/fast/16/real_time" the model; nothing for benchmarks of kernels.
std::optional<ModelKey> key_of(std::string_view name, std::string_view kind) {
  if (!name.starts_with(kind)) return {};
  name.remove_prefix(kind.size());
  std::string parts[3];
  for (std::string& part : parts) {
    const size_t slash = name.find('/');
    if (slash == std::string_view::npos || slash == 0) return {};
    part = name.substr(0, slash);
    name.remove_prefix(slash + 1);
  }
  return ModelKey{parts[0], parts[1], parts[2]};
}

void keep_worse(const PerfResult& result, std::optional<PerfResult>& held) {
  if (!held || result.verdict > held->verdict ||
      (result.verdict == held->verdict && result.ratio > held->ratio)) {
    held = result;
  }
}

template <class Map>
auto find(const Map& map, const ModelKey& key) -> std::optional<typename Map::mapped_type> {
  const auto found = map.find(key);
  if (found == map.end()) return {};
  return found->second;
}

std::string speed_words(const ModelVerdict& model) {
  std::string words;
  for (const auto& [name, result] :
       {std::pair("decode", &model.decode), {"prefill", &model.prefill}}) {
    if (!*result || (*result)->verdict != PerfVerdict::kFast) continue;
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", name, change_text((*result)->ratio));
  }
  return words.empty() ? "" : "; that it is faster (" + words + ") does not count";
}

// What the base was held to and the head was not, a prompt or records of its golden; empty where
// there is nothing.
std::string lost(const ModelVerdict& model) {
  if (!model.base) return {};
  for (const auto& [prompt, missing] : model.base->prompts) {
    const auto now = model.head->prompts.find(prompt);
    if (now == model.head->prompts.end()) {
      return fmt::format(
          "it was held to its golden of the prompt {} in the base and not in the head", prompt);
    }
    if (now->second > missing) {
      return fmt::format("the head's log lacks {} of its golden of the prompt {}, the base's {}",
                         count_of(now->second, "record"), prompt, missing);
    }
  }
  return {};
}

void judge(ModelVerdict& model) {
  if (!model.head) {
    model.refused = model.base.has_value();
    if (model.refused) model.reason = "it was held to its golden in the base and not in the head";
    return;
  }
  const Accuracy& head = *model.head;
  if (head.pass) {
    model.reason = lost(model);
    model.refused = !model.reason.empty();
    return;
  }
  model.refused = true;
  const bool broken = !model.base || model.base->pass;
  if (head.x_floor <= head.allowed) {
    model.reason =
        fmt::format("it {} its golden in its tokens", broken ? "parts from" : "still parts from");
  } else {
    model.reason = fmt::format(
        "it {} its floor: {} times as far from its golden as the floor at {}, where {} are allowed",
        broken ? "breaks" : "is still beyond", times_text(head.x_floor), head.place,
        times_text(head.allowed));
  }
  if (model.base) model.reason += fmt::format(" (base: {})", times_text(model.base->x_floor));
  model.reason += speed_words(model);
}

}  // namespace

std::vector<ModelVerdict> judge_models(const PerfComparison& comparison,
                                       const std::map<ModelKey, Accuracy>& base,
                                       const std::map<ModelKey, Accuracy>& head) {
  std::map<ModelKey, ModelVerdict> models;
  for (const auto* side : {&base, &head}) {
    for (const auto& [key, accuracy] : *side) models[key].key = key;
  }
  for (const PerfResult& result : comparison.results) {
    if (const auto key = key_of(result.name, "decode/")) keep_worse(result, models[*key].decode);
    if (const auto key = key_of(result.name, "prefill/")) keep_worse(result, models[*key].prefill);
  }
  std::vector<ModelVerdict> verdicts;
  for (auto& [key, model] : models) {
    model.key = key;
    model.base = find(base, key);
    model.head = find(head, key);
    judge(model);
    verdicts.push_back(std::move(model));
  }
  return verdicts;
}

int64_t SpeedAndAccuracy::refused() const {
  return std::count_if(models.begin(), models.end(),
                       [](const ModelVerdict& model) { return model.refused; });
}

std::string_view SpeedAndAccuracy::name() const {
  return refused() > 0 ? "REFUSED" : perf_verdict_name(speed.verdict);
}

}  // namespace assay
