#include "assay/perf/bench_file.h"

#include <fmt/format.h>
#include <rapidjson/document.h>

#include <cmath>
#include <string_view>

#include "assay/log/json_file.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr int64_t kMaxBytes = int64_t{256} << 20;
constexpr const char* kHint =
    "make it with assay_bench --benchmark_repetitions=20 --benchmark_out=F";

using Value = rapidjson::Value;

std::string text_member(const Value& object, const char* key) {
  const auto member = object.FindMember(key);
  if (member == object.MemberEnd() || !member->value.IsString()) return {};
  return json_text_of(member->value);
}

double nanoseconds(std::string_view unit, const std::string& where) {
  if (unit == "ns") return 1;
  if (unit == "us") return 1e3;
  if (unit == "ms") return 1e6;
  if (unit == "s") return 1e9;
  throw Error(fmt::format("the time_unit '{}' is none of ns, us, ms, s", unit), where, kHint);
}

double time_of(const Value& entry, const std::string& where) {
  const auto time = entry.FindMember("real_time");
  if (time == entry.MemberEnd() || !time->value.IsNumber()) {
    throw Error("no number 'real_time'", where, kHint);
  }
  const double value =
      time->value.GetDouble() * nanoseconds(text_member(entry, "time_unit"), where);
  if (!(value > 0) || !std::isfinite(value)) {
    throw Error(fmt::format("real_time is {}, which is no time", value), where, kHint);
  }
  return value;
}

}  // namespace

BenchFile read_bench_file(const std::string& path) {
  const rapidjson::Document document = read_json_file(path, kMaxBytes, kHint);
  if (!document.IsObject() || !document.HasMember("benchmarks") ||
      !document["benchmarks"].IsArray()) {
    throw Error("no array 'benchmarks'", path, kHint);
  }
  BenchFile bench{path, {}};
  for (const Value& entry : document["benchmarks"].GetArray()) {
    if (!entry.IsObject()) throw Error("an item of 'benchmarks' is not an object", path, kHint);
    if (text_member(entry, "run_type") == "aggregate") continue;
    std::string name = text_member(entry, "run_name");
    if (name.empty()) name = text_member(entry, "name");
    if (name.empty()) throw Error("a benchmark has no name", path, kHint);
    const std::string where = fmt::format("{}: benchmark '{}'", path, name);
    const auto failed = entry.FindMember("error_occurred");
    if (failed != entry.MemberEnd() && failed->value.IsBool() && failed->value.GetBool()) {
      const std::string message = text_member(entry, "error_message");
      throw Error(message.empty() ? "failed without saying why" : "failed: " + message, where);
    }
    bench.times[name].push_back(time_of(entry, where));
  }
  if (bench.times.empty()) throw Error("no repetition of any benchmark", path, kHint);
  return bench;
}

}  // namespace assay
