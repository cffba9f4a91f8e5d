#include "assay/perf/bench_file.h"

#include <fmt/format.h>
#include <rapidjson/document.h>

#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/json_file.h"

namespace assay {
namespace {

constexpr int64_t kMaxBenchBytes = int64_t{256} << 20;
constexpr const char* kBenchHint =
    "make it with assay_bench --benchmark_repetitions=20 --benchmark_out=F";

using Value = rapidjson::Value;

std::string text_member(const Value& object, const char* key) {
  const auto member = object.FindMember(key);
  if (member == object.MemberEnd() || !member->value.IsString()) return {};
  return json_text_of(member->value);
}

// Of a key that is there twice one value would decide, and it is not known which. Others than
// these may be: counters have names of the user's.
void reject_twice(const Value& object, const char* key, const std::string& where) {
  int64_t count = 0;
  for (const auto& member : object.GetObject()) count += member.name == key ? 1 : 0;
  if (count > 1) throw Error(fmt::format("has the key '{}' twice", key), where, kBenchHint);
}

double nanoseconds(std::string_view unit, const std::string& where) {
  if (unit == "ns") return 1;
  if (unit == "us") return 1e3;
  if (unit == "ms") return 1e6;
  if (unit == "s") return 1e9;
  throw Error(fmt::format("the time_unit '{}' is not one of ns, us, ms, s", unit), where,
              kBenchHint);
}

bool is_true(const Value& object, const char* key, const std::string& where) {
  const auto member = object.FindMember(key);
  if (member == object.MemberEnd()) return false;
  if (!member->value.IsBool()) {
    throw Error(fmt::format("'{}' is neither true nor false", key), where, kBenchHint);
  }
  return member->value.GetBool();
}

// Members that are text or numbers.
std::map<std::string, std::string> read_context(const Value& document) {
  std::map<std::string, std::string> context;
  const auto found = document.FindMember("context");
  if (found == document.MemberEnd() || !found->value.IsObject()) return context;
  for (const auto& member : found->value.GetObject()) {
    const std::string name = json_text_of(member.name);
    if (member.value.IsString()) context[name] = json_text_of(member.value);
    if (member.value.IsInt64()) {
      context[name] = std::to_string(member.value.GetInt64());
    } else if (member.value.IsNumber()) {
      context[name] = fmt::format("{}", member.value.GetDouble());
    }
  }
  return context;
}

double time_of(const Value& entry, const std::string& where) {
  for (const char* key : {"real_time", "time_unit"}) reject_twice(entry, key, where);
  const auto time = entry.FindMember("real_time");
  if (time == entry.MemberEnd() || !time->value.IsNumber()) {
    throw Error("'real_time' is missing or not a number", where, kBenchHint);
  }
  const double value =
      time->value.GetDouble() * nanoseconds(text_member(entry, "time_unit"), where);
  if (!(value > 0) || !std::isfinite(value)) {
    throw Error(fmt::format("real_time is {}, which is not a time", value), where, kBenchHint);
  }
  return value;
}

// On how many threads it ran; 0 where it does not say.
int64_t threads_of(const Value& entry, const std::string& where) {
  const auto threads = entry.FindMember("threads");
  if (threads == entry.MemberEnd()) return 0;
  if (!threads->value.IsInt64() || threads->value.GetInt64() < 1) {
    throw Error("'threads' is not a number of threads", where, kBenchHint);
  }
  return threads->value.GetInt64();
}

// All repetitions of a benchmark run on as many threads.
void add_threads(const Value& entry, const std::string& name, bool is_first,
                 const std::string& where, BenchFile& bench) {
  const int64_t threads = threads_of(entry, where);
  const auto held = bench.threads.find(name);
  const int64_t before = held == bench.threads.end() ? 0 : held->second;
  if (!is_first && threads != before) {
    throw Error("its repetitions ran on different numbers of threads", where, kBenchHint);
  }
  if (threads > 0) bench.threads[name] = threads;
}

}  // namespace

BenchFile read_bench_file(const std::string& path) {
  const rapidjson::Document document = read_json_file(path, kMaxBenchBytes, kBenchHint);
  if (!document.IsObject() || !document.HasMember("benchmarks") ||
      !document["benchmarks"].IsArray()) {
    throw Error("'benchmarks' is missing or not an array", path, kBenchHint);
  }
  for (const char* key : {"benchmarks", "context"}) reject_twice(document, key, path);
  BenchFile bench{path, {}, read_context(document), {}, {}};
  for (const Value& entry : document["benchmarks"].GetArray()) {
    if (!entry.IsObject())
      throw Error("an item of 'benchmarks' is not an object", path, kBenchHint);
    if (text_member(entry, "run_type") == "aggregate") continue;
    std::string name = text_member(entry, "run_name");
    if (name.empty()) name = text_member(entry, "name");
    if (name.empty()) throw Error("a benchmark has no name", path, kBenchHint);
    const std::string where = fmt::format("{}: benchmark '{}'", path, printable(name));
    if (is_true(entry, "skipped", where)) {
      bench.skipped[name] = text_member(entry, "skip_message");
      continue;
    }
    if (is_true(entry, "error_occurred", where)) {
      const std::string message = text_member(entry, "error_message");
      throw Error("failed" + (message.empty() ? " and does not say why" : ": " + message), where,
                  "leave it out with --benchmark_filter, or mend it");
    }
    std::vector<double>& times = bench.times[name];
    add_threads(entry, name, times.empty(), where, bench);
    times.push_back(time_of(entry, where));
    if (times.size() > kMaxRepetitions) {
      throw Error(fmt::format("has more than {} repetitions", kMaxRepetitions), where,
                  "20 to 50 are enough");
    }
  }
  if (bench.times.empty()) throw Error("no repetition of any benchmark", path, kBenchHint);
  return bench;
}

}  // namespace assay
