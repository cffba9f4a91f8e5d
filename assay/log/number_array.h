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

// The same for an array whose elements may be arrays of numbers in turn, of equal lengths, read in
// row order. `lengths`: the elements at each depth, the outermost first; one for an array of
// numbers.
const char* read_rows(const char* at, const char* end, std::vector<float>& values,
                      std::vector<int64_t>& lengths, std::string& problem);
const char* read_rows(const char* at, const char* end, std::vector<double>& values,
                      std::vector<int64_t>& lengths, std::string& problem);

// Where the array ends that begins before `at`: its ']', or nullptr if it has no end. Brackets
// within it and within its strings are not taken for it; nothing else is checked.
const char* find_array_end(const char* at, const char* end);

// What a string stands for where a number is meant. False if it is none of the words above.
bool read_nonfinite(const std::string& word, double& value);

}  // namespace assay
