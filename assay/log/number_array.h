#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay {

// The rest of a JSON array of numbers, from after its '[' to before its ']'. NaN and infinities
// may be strings ("NaN", "Infinity", "-Infinity") or bare, in any case, and as printf writes them
// (nan, inf); null is refused. Returns where the ']' is, or nullptr with what is wrong in
// `problem`. At least kLinePadding bytes may be read after `end`.
const char* read_array(const char* at, const char* end, std::vector<float>& values,
                       std::string& problem);
const char* read_array(const char* at, const char* end, std::vector<double>& values,
                       std::string& problem);
const char* read_array(const char* at, const char* end, std::vector<int64_t>& values,
                       std::string& problem);

// What a string stands for where a number is meant. False if it is none of the words above.
bool read_nonfinite(const std::string& word, double& value);

}  // namespace assay
