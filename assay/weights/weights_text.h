#pragma once

#include <string>
#include <string_view>

#include "assay/weights/weights_comparison.h"

// What the reports of a comparison of two model files say in the same words.
namespace assay {

std::string_view status_name(TensorStatus status);      // "rounded"
std::string_view verdict_name(WeightsVerdict verdict);  // "mismatch"
std::string_view outcome_name(WeightsVerdict verdict);  // "DIVERGED"

bool is_right(const TensorResult& tensor);

// "F32 -> Q4_0"; "-" for the type of a file that lacks it.
std::string types_of(const TensorResult& tensor);

// How many tensors have each status, and how many keys differ that count.
std::string counts_text(const WeightsComparison& comparison);

// What is wrong with a tensor: its types, its error and the reason.
std::string problem_text(const TensorResult& tensor);

// The value of a key; "-" where it is not stated.
std::string stated(const std::string& value);

}  // namespace assay
