#include "assay/perf/speed_file.h"

#include <rapidjson/document.h>

#include <cmath>

#include "assay/perf/bench_file.h"
#include "assay/perf/median.h"
#include "base/error.h"
#include "base/json_file.h"

namespace assay {
namespace {

constexpr int64_t kMaxSpeedBytes = int64_t{256} << 20;
constexpr const char* kSpeedHint =
    "give what `assay run --json` or a benchmark with --benchmark_format=json wrote";

}  // namespace

std::vector<SpeedFigure> read_speed_file(const std::string& path) {
  const rapidjson::Document json = read_json_file(path, kMaxSpeedBytes, kSpeedHint);
  if (!json.IsObject()) throw Error("is not a JSON object", path, kSpeedHint);
  std::vector<SpeedFigure> figures;
  if (json.HasMember("benchmarks")) {
    for (const auto& [name, times] : read_bench_file(path).times) {
      figures.push_back({name, median(times) / 1e6, "ms", false});
    }
    return figures;
  }
  for (const char* name : {"prefill_tok_s", "decode_tok_s"}) {
    const auto member = json.FindMember(name);
    if (member == json.MemberEnd() || !member->value.IsNumber()) continue;
    const double value = member->value.GetDouble();
    if (!(value > 0) || !std::isfinite(value)) continue;  // nothing was decoded
    figures.push_back(
        {std::string(name) == "prefill_tok_s" ? "prefill" : "decode", value, "tokens/s", true});
  }
  if (figures.empty()) throw Error("tells no speed", path, kSpeedHint);
  return figures;
}

}  // namespace assay
