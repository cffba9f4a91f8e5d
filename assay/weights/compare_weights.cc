#include "assay/weights/compare_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "assay/weights/key_differences.h"
#include "assay/weights/parts_of_tensors.h"
#include "assay/weights/stored_wrong.h"
#include "assay/weights/tensor_difference.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/file_type.h"

namespace assay {
namespace {

constexpr std::string_view kOutput = "output.weight";
constexpr std::string_view kEmbedding = "token_embd.weight";

// The tensor that serves as this one: a file without an output matrix uses its embedding for it,
// and a part of a tensor may be in the whole one.
const GgufTensor* serving(const Gguf& file, std::string_view name) {
  if (const GgufTensor* tensor = file.find_tensor(name)) return tensor;
  return file.find_tensor(name == kOutput ? kEmbedding : whole_of(name));
}

bool matches(const std::string& glob, const std::string& name) {
  return fnmatch(glob.c_str(), name.c_str(), 0) == 0 ||
         fnmatch(glob.c_str(), whole_of(name).c_str(), 0) == 0;
}

bool is_asked_for(const WeightsOptions& options, const std::string& name) {
  return options.tensors.empty() ||
         std::ranges::any_of(options.tensors,
                             [&](const std::string& glob) { return matches(glob, name); });
}

// A pair of tensors to compare; one of them may be null.
struct Pair {
  std::string name;
  const GgufTensor* ref;
  const GgufTensor* got;
};

std::vector<Pair> pairs_of(const Gguf& ref, const Gguf& got, const WeightsOptions& options) {
  std::vector<Pair> pairs;
  for (const GgufTensor& tensor : ref.tensors()) {
    if (!is_asked_for(options, tensor.name) || is_in_parts(got, tensor.name)) continue;
    pairs.push_back({tensor.name, &tensor, serving(got, tensor.name)});
  }
  for (const GgufTensor& tensor : got.tensors()) {
    const bool is_done = ref.find_tensor(tensor.name) != nullptr || is_in_parts(ref, tensor.name);
    if (is_done || !is_asked_for(options, tensor.name)) continue;
    pairs.push_back({tensor.name, serving(ref, tensor.name), &tensor});
  }
  return pairs;
}

std::string shape_text(const std::vector<int64_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

// A vector may be stored as a matrix of one row or column.
std::vector<int64_t> without_ones(std::vector<int64_t> dims) {
  std::erase(dims, 1);
  return dims;
}

// As far as rounding scatters: codes that are cut off were at 1.94 to 2.0 in the tensors tried.
bool is_twice(double ratio) {
  return ratio > 1.85 && ratio < 2.1;
}

// Adds what is wrong with a tensor to its reason.
void explain(const Gguf& ref, const Pair& pair, const WeightsOptions& options,
             TensorResult& result) {
  constexpr double kLeast = 1e-6;  // of what is stored without rounding
  const double limit = std::max(kLeast, options.k * result.expected);
  if (!(limit < kMeaningless)) return;
  std::string sentence;
  if (pair.got->name != pair.name) {
    sentence = fmt::format("is not in the file, so that engines use its {}", pair.got->name);
  } else if (pair.ref->name != pair.name) {
    sentence = fmt::format("is not in the reference, which uses its {}", pair.ref->name);
  } else {
    sentence = stored_wrong(ref, *pair.ref, *pair.got, limit);
  }
  const auto add = [&](const std::string& more) {
    result.reason += (result.reason.empty() ? "" : "; ") + more;
  };
  if (!sentence.empty()) add(sentence);
  // Scales that leave large weights out make all weights smaller, too.
  const bool has_cause = !sentence.empty() && !sentence.starts_with(kIsTimes);
  if (has_cause) return;
  if (result.columns.is_wide()) {
    add(fmt::format(
        "columns are off by {:.2g} to {:.2g} times what storing costs, as a quantiser makes them "
        "that weighs columns or feeds errors back: if yours does, judge what the file computes",
        result.columns.low, result.columns.high));
  } else if (result.reason.empty() && is_twice(result.ratio())) {
    add("this is twice as much, which codes make that are cut off and not rounded, or of which a "
        "bit is not used");
  }
}

TensorResult compare_pair(const Gguf& ref, const Pair& pair, const WeightsOptions& options,
                          ThreadPool& pool) {
  TensorResult result{.name = pair.name};
  if (pair.ref != nullptr) {
    result.ref_type = pair.ref->type;
    result.ref_dims = pair.ref->dims;
  }
  if (pair.got != nullptr) {
    result.got_type = pair.got->type;
    result.got_dims = pair.got->dims;
  }
  if (pair.ref == nullptr || pair.got == nullptr) {
    result.status = pair.got == nullptr ? TensorStatus::kMissing : TensorStatus::kExtra;
    result.reason = pair.got == nullptr ? "is missing" : "is not in the reference";
    return result;
  }
  if (without_ones(pair.ref->dims) != without_ones(pair.got->dims)) {
    result.status = TensorStatus::kWrong;
    result.rel_l2 = INFINITY;
    result.reason = fmt::format("has the shape {}, the reference {}", shape_text(pair.got->dims),
                                shape_text(pair.ref->dims));
  } else {
    GgufTensor got = *pair.got;
    got.dims = pair.ref->dims;
    measure_tensor(*pair.ref, got, options, pool, result);
  }
  if (result.status == TensorStatus::kWrong) explain(ref, pair, options, result);
  return result;
}

bool is_part_beside_whole(const Pair& pair) {
  if (pair.ref == nullptr || pair.got == nullptr) return false;
  const std::string whole = whole_of(pair.name);
  return !whole.empty() && (pair.ref->name == whole || pair.got->name == whole);
}

// A part of a tensor with the same rows of the whole one, which one of the files has.
TensorResult compare_part(const Gguf& ref, const Gguf& got, const Pair& pair,
                          const WeightsOptions& options, ThreadPool& pool) {
  const bool is_ref_whole = pair.ref->name != pair.name;
  const auto part =
      is_ref_whole ? part_of(ref, *pair.ref, *pair.got) : part_of(got, *pair.got, *pair.ref);
  TensorResult result{.name = pair.name};
  if (part) {
    const Pair alike = is_ref_whole ? Pair{pair.name, &part->of_whole, &part->part}
                                    : Pair{pair.name, &part->part, &part->of_whole};
    result = compare_pair(ref, alike, options, pool);
  } else {
    result.rel_l2 = INFINITY;
    result.reason = fmt::format("is not in {}, whose {} cannot be divided in two",
                                is_ref_whole ? "the reference" : "the file", whole_of(pair.name));
  }
  result.ref_type = pair.ref->type;
  result.got_type = pair.got->type;
  const bool is_certain = result.status == TensorStatus::kSame || !std::isfinite(result.rel_l2);
  if (!part || !part->both_rounded || is_certain) return result;
  if (options.max_rel_l2 > 0.0) {
    const bool is_within = result.rel_l2 <= options.max_rel_l2;
    result.status = is_within ? TensorStatus::kRounded : TensorStatus::kWrong;
    result.reason = is_within ? "" : over_limit_text(options);
  } else {
    result.status = TensorStatus::kUnjudged;
    result.reason =
        "both files have it rounded, in blocks of other weights; give the file before it was "
        "rounded";
  }
  return result;
}

// Which part of a model the file is; empty where it is all of one. A model of many gigabytes may be
// in several files, as gguf-split makes them.
std::string part_text(const Gguf& file) {
  const int64_t parts = file.get_int("split.count", 1);
  if (parts <= 1) return {};
  return fmt::format(
      "{} is part {} of {} of a model: the tensors of the other parts are not compared",
      printable(file.path(), 4096), static_cast<uint64_t>(file.get_int("split.no", 0)) + 1, parts);
}

// Two files of zeros are the same, and show nothing: single tensors may be zeros, such as biases.
void mark_zeros(std::vector<TensorResult>& tensors) {
  if (!std::ranges::all_of(tensors, &TensorResult::is_zero)) return;
  for (TensorResult& tensor : tensors) {
    tensor.status = TensorStatus::kUnjudged;
    tensor.reason = "is all zeros in both files, as all that was compared: this shows nothing";
  }
}

WeightsVerdict verdict_of(const WeightsComparison& comparison) {
  const auto any = [&](TensorStatus status) { return comparison.count(status) > 0; };
  const bool other_keys = std::ranges::any_of(comparison.keys, &KeyDifference::counts);
  if (other_keys || any(TensorStatus::kWrong) || any(TensorStatus::kMissing) ||
      any(TensorStatus::kExtra)) {
    return WeightsVerdict::kMismatch;
  }
  const bool is_whole = !any(TensorStatus::kUnjudged) && comparison.part.empty();
  return is_whole ? WeightsVerdict::kMatch : WeightsVerdict::kIncomplete;
}

void check_globs(const WeightsOptions& options, const std::vector<Pair>& pairs,
                 const std::string& path) {
  for (const std::string& glob : options.tensors) {
    const bool is_used =
        std::ranges::any_of(pairs, [&](const Pair& pair) { return matches(glob, pair.name); });
    if (is_used) continue;
    throw Error(fmt::format("--tensors {} matches no tensor", glob), path,
                "assay inspect lists them");
  }
  if (pairs.empty()) throw Error("has no tensors", path, "give a file that has weights");
}

}  // namespace

int64_t WeightsComparison::count(TensorStatus status) const {
  return std::ranges::count(tensors, status, &TensorResult::status);
}

WeightsComparison compare_weights(
    const Gguf& ref, const Gguf& got, const WeightsOptions& options,
    const std::function<void(int64_t done, int64_t total)>& progress) {
  WeightsComparison comparison;
  comparison.ref_path = ref.path();
  comparison.got_path = got.path();
  comparison.architecture = ref.get_string("general.architecture");
  const std::string_view other = got.get_string("general.architecture");
  if (other != comparison.architecture) {
    throw Error(fmt::format("is of the architecture {}, and {} of {}", printable(other), ref.path(),
                            printable(comparison.architecture)),
                got.path(), "give two files of one model");
  }
  comparison.ref_type = file_type_name(ref);
  comparison.got_type = file_type_name(got);
  for (const Gguf* file : {&ref, &got}) {
    const std::string part = part_text(*file);
    if (part.empty()) continue;
    comparison.warnings.push_back(part);
    if (options.tensors.empty()) comparison.part = part;
  }
  comparison.keys = key_differences(ref, got, comparison.warnings);
  const std::vector<Pair> pairs = pairs_of(ref, got, options);
  check_globs(options, pairs, ref.path());
  int64_t total = 0;
  const auto elements = [](const Pair& pair) {
    return pair.ref == nullptr ? 0 : pair.ref->rows() * pair.ref->columns();
  };
  for (const Pair& pair : pairs) total += elements(pair);
  ThreadPool pool(options.n_threads);
  int64_t done = 0;
  for (const Pair& pair : pairs) {
    comparison.tensors.push_back(is_part_beside_whole(pair)
                                     ? compare_part(ref, got, pair, options, pool)
                                     : compare_pair(ref, pair, options, pool));
    done += elements(pair);
    if (progress) progress(done, total);
  }
  mark_zeros(comparison.tensors);
  comparison.verdict = verdict_of(comparison);
  return comparison;
}

}  // namespace assay
