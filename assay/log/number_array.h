#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay {

// The rest of a JSON array of numbers, from after its '[' to before its ']'. NaN and infinities
// may be strings ("NaN", "Infinity", "-Infinity") or bare, in any case, and as printf writes them
// (nan, inf); null is rejected. Returns the position of the ']', or nullptr with the reason in
// `problem`. At least kLinePadding bytes after `end` must be readable.
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

// The ']' that ends the array which begins before `at`, or nullptr if there is none. Skips brackets
// within the array and its strings; checks nothing else.
const char* find_array_end(const char* at, const char* end);

// The number that a string represents. False if it is not one of the words above.
bool read_nonfinite(const std::string& word, double& value);

}  // namespace assay
