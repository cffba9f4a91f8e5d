#include "assay/weights/weights_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "assay/report/text_table.h"
#include "base/count_of.h"

namespace assay {

std::string_view status_name(TensorStatus status) {
  switch (status) {
    case TensorStatus::kSame:
      return "same";
    case TensorStatus::kRounded:
      return "rounded";
    case TensorStatus::kUnjudged:
      return "unjudged";
    case TensorStatus::kWrong:
      return "wrong";
    case TensorStatus::kMissing:
      return "missing";
    case TensorStatus::kExtra:
      break;
  }
  return "extra";
}

std::string_view verdict_name(WeightsVerdict verdict) {
  switch (verdict) {
    case WeightsVerdict::kMatch:
      return "match";
    case WeightsVerdict::kMismatch:
      return "mismatch";
    case WeightsVerdict::kIncomplete:
      break;
  }
  return "incomplete";
}

std::string_view outcome_name(WeightsVerdict verdict) {
  switch (verdict) {
    case WeightsVerdict::kMatch:
      return "IN PARITY";
    case WeightsVerdict::kMismatch:
      return "DIVERGED";
    case WeightsVerdict::kIncomplete:
      break;
  }
  return "INCOMPLETE";
}

bool is_right(const TensorResult& tensor) {
  return tensor.status == TensorStatus::kSame || tensor.status == TensorStatus::kRounded;
}

std::string types_of(const TensorResult& tensor) {
  const auto name = [](TensorType type, const std::vector<int64_t>& dims) {
    return dims.empty() ? "-" : std::string(tensor_type_info(type).name);
  };
  return fmt::format("{} -> {}", name(tensor.ref_type, tensor.ref_dims),
                     name(tensor.got_type, tensor.got_dims));
}

std::string counts_text(const WeightsComparison& comparison) {
  const int64_t right =
      comparison.count(TensorStatus::kSame) + comparison.count(TensorStatus::kRounded);
  std::string text = fmt::format("{} of {} hold what their types can ({} the same values)", right,
                                 count_of(comparison.tensors.size(), "tensor"),
                                 comparison.count(TensorStatus::kSame));
  for (const TensorStatus status : {TensorStatus::kWrong, TensorStatus::kMissing,
                                    TensorStatus::kExtra, TensorStatus::kUnjudged}) {
    if (const int64_t count = comparison.count(status); count > 0) {
      text += fmt::format(", {} {}", count, status_name(status));
    }
  }
  const auto keys = std::ranges::count_if(comparison.keys, &KeyDifference::counts);
  if (keys > 0)
    text += ", " + count_of(keys, "key of the network or the tokenizer differs",
                            "keys of the network or the tokenizer differ");
  return text;
}

std::string problem_text(const TensorResult& tensor) {
  std::string text = types_of(tensor);
  const bool is_measured = std::isfinite(tensor.rel_l2) && std::isfinite(tensor.expected);
  if (!tensor.ref_dims.empty() && tensor.ref_dims == tensor.got_dims && is_measured) {
    text += fmt::format(", rel_l2 {}", short_number(tensor.rel_l2));
    if (tensor.status != TensorStatus::kUnjudged) {
      text += fmt::format(", {} expected", short_number(tensor.expected));
    }
  }
  return tensor.reason.empty() ? text : fmt::format("{}: {}", text, tensor.reason);
}

std::string stated(const std::string& value) {
  return value.empty() ? "-" : value;
}

}  // namespace assay
