#include "assay/weights/weights_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "assay/report/json_object.h"
#include "assay/report/text_table.h"
#include "assay/weights/weights_ci_reports.h"
#include "assay/weights/weights_text.h"
#include "base/error.h"

namespace assay {
namespace {

std::string verdict_line(const WeightsComparison& comparison, const TextStyle& style) {
  const auto color = [&] {
    switch (comparison.verdict) {
      case WeightsVerdict::kMatch:
        return Color::kGood;
      case WeightsVerdict::kMismatch:
        return Color::kBad;
      case WeightsVerdict::kIncomplete:
        break;
    }
    return Color::kCaution;
  };
  return fmt::format("{}  {}\n", colored(outcome_name(comparison.verdict), color(), style),
                     counts_text(comparison));
}

std::string keys_text(const WeightsComparison& comparison, const TextStyle& style) {
  if (comparison.keys.empty()) return {};
  TextTable table({"key", "reference", "file", ""}, 1);
  for (const KeyDifference& key : comparison.keys) {
    table.add({printable(key.key, 60), stated(key.ref), stated(key.got),
               key.counts ? "counts" : "describes only"},
              key.counts ? Color::kBad : Color::kDim);
  }
  return "\n" + table.text(style);
}

// Those that are not right, each with its reason.
std::string wrong_text(const WeightsComparison& comparison, const TextStyle& style) {
  std::string text;
  for (const TensorResult& tensor : comparison.tensors) {
    if (is_right(tensor)) continue;
    const bool is_bad = tensor.status != TensorStatus::kUnjudged;
    text += fmt::format("  {} {}  {}\n",
                        colored(fmt::format("{:<8}", status_name(tensor.status)),
                                is_bad ? Color::kBad : Color::kCaution, style),
                        printable(tensor.name, 60), problem_text(tensor));
  }
  return text.empty() ? text : "\n" + text;
}

// A line for each pair of types.
std::string types_text(const WeightsComparison& comparison, const TextStyle& style) {
  std::map<std::string, std::vector<const TensorResult*>> groups;
  for (const TensorResult& tensor : comparison.tensors) {
    if (!tensor.ref_dims.empty() && tensor.ref_dims == tensor.got_dims) {
      groups[types_of(tensor)].push_back(&tensor);
    }
  }
  TextTable table({"types", "tensors", "the same", "median rel l2", "expected", "largest", "of"});
  for (auto& [types, tensors] : groups) {
    std::ranges::sort(tensors, {}, &TensorResult::rel_l2);
    const TensorResult& median = *tensors[tensors.size() / 2];
    const TensorResult& largest = *tensors.back();
    const auto same = std::ranges::count(tensors, TensorStatus::kSame, &TensorResult::status);
    table.add({types, std::to_string(tensors.size()), std::to_string(same),
               short_number(median.rel_l2), short_number(median.expected),
               short_number(largest.rel_l2), printable(largest.name, 60)});
  }
  return groups.empty() ? "" : "\n" + table.text(style);
}

class WeightsTable : public Report<WeightsComparison> {
 public:
  std::string_view name() const override { return "table"; }

  void write(const WeightsComparison& comparison, const ReportContext& context,
             const TextSink& sink) const override {
    const TextStyle& style = context.style;
    sink(verdict_line(comparison, style));
    sink(fmt::format("  reference  {}, {} {}\n  file       {}, {}\n",
                     printable(comparison.ref_path, 4096), printable(comparison.architecture),
                     comparison.ref_type, printable(comparison.got_path, 4096),
                     comparison.got_type));
    sink(wrong_text(comparison, style));
    sink(types_text(comparison, style));
    sink(keys_text(comparison, style));
  }
};

void append_tensor(JsonObject& object, const TensorResult& tensor) {
  const auto type = [](TensorType of, const std::vector<int64_t>& dims) {
    return dims.empty() ? std::nullopt : std::optional(std::string(tensor_type_info(of).name));
  };
  const bool is_compared = !tensor.ref_dims.empty() && tensor.ref_dims == tensor.got_dims;
  const auto if_compared = [&](double value) {
    return is_compared ? std::optional(value) : std::nullopt;
  };
  object.member("tensor", printable(tensor.name, 4096));
  object.member("status", status_name(tensor.status));
  object.member("ref_type", type(tensor.ref_type, tensor.ref_dims));
  object.member("got_type", type(tensor.got_type, tensor.got_dims));
  object.array("ref_shape", tensor.ref_dims);
  object.array("got_shape", tensor.got_dims);
  object.member("rel_l2", if_compared(tensor.rel_l2));
  object.member("expected", if_compared(tensor.expected));
  object.member("max_abs", if_compared(tensor.max_abs));
  object.member("row", tensor.row < 0 ? std::nullopt : std::optional(tensor.row));
  object.member("column", tensor.column < 0 ? std::nullopt : std::optional(tensor.column));
  object.member("reason", tensor.reason.empty() ? std::nullopt : std::optional(tensor.reason));
}

class WeightsJson : public Report<WeightsComparison> {
 public:
  std::string_view name() const override { return "json"; }

  void write(const WeightsComparison& comparison, const ReportContext&,
             const TextSink& sink) const override {
    write_json_line(sink, [&](JsonObject& object) {
      object.member("verdict", verdict_name(comparison.verdict));
      object.member("pass", comparison.verdict == WeightsVerdict::kMatch);
      object.member("ref", printable(comparison.ref_path, 4096));
      object.member("got", printable(comparison.got_path, 4096));
      object.member("architecture", printable(comparison.architecture));
      object.object("summary", [&](JsonObject& summary) {
        summary.member("tensors", comparison.tensors.size());
        for (const TensorStatus status :
             {TensorStatus::kSame, TensorStatus::kRounded, TensorStatus::kUnjudged,
              TensorStatus::kWrong, TensorStatus::kMissing, TensorStatus::kExtra}) {
          summary.member(status_name(status), comparison.count(status));
        }
        summary.member("keys", std::ranges::count_if(comparison.keys, &KeyDifference::counts));
      });
      object.array("tensors", comparison.tensors, append_tensor);
      object.array("keys", comparison.keys, [](JsonObject& inner, const KeyDifference& key) {
        const auto stated = [](const std::string& value) {
          return value.empty() ? std::nullopt : std::optional(value);
        };
        inner.member("key", printable(key.key, 4096));
        inner.member("ref", stated(key.ref));
        inner.member("got", stated(key.got));
        inner.member("counts", key.counts);
      });
    });
  }
};

}  // namespace

Reports<WeightsComparison> weights_reports() {
  return reports_of<WeightsComparison, WeightsTable, WeightsJson, WeightsJunit, WeightsGithub>();
}

}  // namespace assay
