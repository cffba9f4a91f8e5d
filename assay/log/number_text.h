#pragma once

namespace assay {

enum class NumberError {
  kNone,
  kNotANumber,
  kTooLarge,  // beyond the range of the type
};

struct NumberEnd {
  const char* at;  // one past the number; unchanged if there is none
  NumberError error;
};

// Reads the JSON number at `at`, the float or double nearest to it; below the smallest one, zero.
// At least kLinePadding bytes after `end` must be readable.
NumberEnd read_number(const char* at, const char* end, float& value);
NumberEnd read_number(const char* at, const char* end, double& value);

}  // namespace assay
