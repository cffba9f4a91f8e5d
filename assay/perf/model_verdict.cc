#include "assay/perf/model_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
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

constexpr double kOfText = 1e-6;  // rounding of numbers that were written as text

bool is_same(double a, double b) {
  return std::abs(a - b) <= kOfText * std::max(std::abs(a), std::abs(b));
}

bool is_same(std::optional<double> a, std::optional<double> b) {
  return a && b ? is_same(*a, *b) : !a && !b;
}

std::string number_text(std::optional<double> number) {
  return number ? fmt::format("{:.4g}", *number) : "not stated";
}

// How the records of one checkpoint are held to less, or to something else, in the head; empty
// where they are not.
std::string unlike(const std::map<int64_t, HeldRecord>& base,
                   const std::map<int64_t, HeldRecord>& head, const std::string& checkpoint,
                   const std::string& prompt) {
  const auto other = [&](const char* what, std::optional<double> a, std::optional<double> b) {
    return fmt::format(
        "its {} at {} of the prompt {} is {} in the base and {} in the head: both are to be held "
        "to the same",
        what, checkpoint, prompt, number_text(a), number_text(b));
  };
  int64_t records = 0;
  int64_t kept = 0;
  for (const auto& [token, before] : base) {
    records += before.count;
    const auto after = head.find(token);
    if (after == head.end()) continue;
    kept += std::min(before.count, after->second.count);
    if (!is_same(before.floor, after->second.floor)) {
      return other("floor", before.floor, after->second.floor);
    }
    if (!is_same(before.tolerance, after->second.tolerance)) {
      return other("tolerance", before.tolerance, after->second.tolerance);
    }
  }
  if (kept == records) return {};
  return fmt::format(
      "of {} of {} that {} compared with its golden of the prompt {} in the base, {} {} compared "
      "in the head",
      count_of(records, "record"), checkpoint, records == 1 ? "is" : "are", prompt, kept,
      kept == 1 ? "is" : "are");
}

std::string unlike(const HeldPrompt& base, const HeldPrompt& head, const std::string& prompt) {
  for (const auto& [checkpoint, records] : base.records) {
    const auto now = head.records.find(checkpoint);
    static const std::map<int64_t, HeldRecord> kNone;
    std::string difference =
        unlike(records, now == head.records.end() ? kNone : now->second, checkpoint, prompt);
    if (!difference.empty()) return difference;
  }
  return {};
}

// What the base was held to and the head was not: a prompt, or records of its golden, or the same
// floors; empty where there is nothing.
std::string lost(const ModelVerdict& model) {
  if (!model.base) return {};
  for (const auto& [prompt, base] : model.base->prompts) {
    const auto now = model.head->prompts.find(prompt);
    if (now == model.head->prompts.end()) {
      return fmt::format(
          "it was held to its golden of the prompt {} in the base and not in the head", prompt);
    }
    const HeldPrompt& head = now->second;
    if (head.missing > base.missing) {
      return fmt::format("the head's log lacks {} of its golden of the prompt {}, the base's {}",
                         count_of(head.missing, "record"), prompt, base.missing);
    }
    std::string difference = unlike(base, head, prompt);
    if (!difference.empty()) return difference;
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
