#include "assay/mutate/compare_lane.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "assay/compare/compare_logs.h"
#include "assay/mutate/mutant.h"
#include "assay/record/log_header.h"
#include "assay/record/log_probe.h"
#include "base/error.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::string make_folder() {
  std::string name = (fs::temp_directory_path() / "assay-mutate-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Error("no folder can be made there", name, "set TMPDIR to one with room");
  }
  return name;
}

// Tokens that differ make two logs no pair to compare, which is an Error.
bool has_other_tokens(const GoldenCase& golden, const Fault* fault) {
  if (fault == nullptr || !fault->edit_vocabulary) return false;
  return make_faulty_tokenizer(*golden.gguf, fault)->encode(golden.prompt_text, true) !=
         golden.tokens;
}

LaneResult result_of(const Comparison& comparison) {
  LaneResult result{.caught = !comparison.pass};
  for (const RecordResult& each : comparison.results) {
    const double ratio = each.metrics.rel_l2 / each.tolerance;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    result.worst_ratio = std::max(result.worst_ratio, ratio >= 0.0 ? ratio : kInfinity);
  }
  if (comparison.first_divergence) {
    const FirstDivergence& first = *comparison.first_divergence;
    result.place = first.checkpoint.name;
    result.token_idx = first.token_idx;
    const double ratio = first.value / first.tolerance;
    result.ratio = first.metric == Metric::kRelL2 && ratio >= 0.0
                       ? ratio
                       : std::numeric_limits<double>::infinity();
  }
  return result;
}

}  // namespace

CompareLane::CompareLane(Kernels& kernels) : kernels_(kernels), folder_(make_folder()) {}

CompareLane::~CompareLane() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void CompareLane::write_log(const GoldenCase& golden, const Fault* fault, const std::string& path) {
  const auto n_positions = static_cast<int64_t>(golden.tokens.size() + golden.greedy.size());
  Mutant mutant(golden.gguf, kernels_, {.fault = fault, .n_positions = n_positions});
  LogOptions options;
  options.head_values = kAllValues;
  const CheckpointSet ops("ops");
  LogProbe probe({path, options, ops}, mutant.model().config());
  probe.write_header(log_header_of(mutant.model(), golden.tokens));
  mutant.eval(golden.tokens, &probe);
  for (size_t i = 0; i < std::min<size_t>(2, golden.greedy.size()); ++i) {
    mutant.eval({&golden.greedy[i], 1}, &probe);
  }
  probe.writer().close();
}

LaneResult CompareLane::run(const GoldenCase& golden, const Fault* fault) {
  if (has_other_tokens(golden, fault)) {
    const double infinite = std::numeric_limits<double>::infinity();
    return {.caught = true, .place = "prompt tokens", .ratio = infinite, .worst_ratio = infinite};
  }
  std::string& reference = reference_[golden.name()];
  if (reference.empty()) {
    reference = fmt::format("{}/{}.jsonl", folder_, reference_.size());
    write_log(golden, nullptr, reference);
  }
  const std::string got = folder_ + "/fault.jsonl";
  write_log(golden, fault, got);
  CompareOptions options;
  options.align = AlignMode::kIndex;
  return result_of(compare_logs(reference, got, options));
}

}  // namespace assay
