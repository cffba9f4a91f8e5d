#include "assay/log/number_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>

#include "assay/log/float_run.h"
#include "assay/log/number_text.h"
#include "base/error.h"

namespace assay {
namespace {

const char* skip_space(const char* at, const char* end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) ++at;
  return at;
}

// The text of an element for a message: up to the next comma or bracket.
std::string element_text(const char* at, const char* end) {
  const char* stop = std::find_if(at, end, [](char c) { return c == ',' || c == ']'; });
  return printable({at, static_cast<size_t>(stop - at)}, 40);
}

template <typename Float>
const char* read_word(const char* at, const char* end, Float& value, std::string& problem) {
  const bool quoted = at < end && *at == '"';
  const char* word = quoted ? at + 1 : at;
  const char* stop = word;
  while (stop < end && (std::isalpha(static_cast<unsigned char>(*stop)) != 0 || *stop == '-')) {
    ++stop;
  }
  double nonfinite = 0;
  const bool closed = !quoted || (stop < end && *stop == '"');
  if (closed && read_nonfinite(std::string(word, stop), nonfinite)) {
    value = static_cast<Float>(nonfinite);
    return quoted ? stop + 1 : stop;
  }
  if (at == end) {
    problem = "the array has no end";
  } else if (std::string_view(word, static_cast<size_t>(stop - word)) == "null") {
    problem = "null is not a value: what is not a number is written as \"NaN\"";
  } else {
    problem = fmt::format("'{}' is not a number", element_text(at, end));
  }
  return nullptr;
}

template <typename Float>
const char* read_element(const char* at, const char* end, Float& value, std::string& problem) {
  const NumberEnd number = read_number(at, end, value);
  if (number.error == NumberError::kNone) return number.at;
  if (number.error == NumberError::kTooLarge) {
    problem = fmt::format("{} is beyond the range of a {}-bit float", element_text(at, end),
                          8 * sizeof(Float));
    return nullptr;
  }
  return read_word(at, end, value, problem);
}

const char* read_element(const char* at, const char* end, int64_t& value, std::string& problem) {
  const auto [stop, error] = std::from_chars(at, end, value);
  if (error == std::errc()) return stop;
  problem = fmt::format("'{}' is not a 64-bit integer", element_text(at, end));
  return nullptr;
}

// Appends the floats that are of the usual form. `begin`: of the array.
const char* read_run(const char* begin, const char* at, const char* end,
                     std::vector<float>& values) {
  if (at - begin < static_cast<ptrdiff_t>(kFloatRunBefore)) return at;
  std::array<float, 8 * kFloatRunRoom> run;
  for (size_t count = run.size(); count > run.size() - kFloatRunRoom;) {
    const FloatRun read = read_usual_floats(at, end, run);
    at = read.at;
    count = read.count;
    values.insert(values.end(), run.begin(), run.begin() + static_cast<ptrdiff_t>(count));
  }
  return skip_space(at, end);
}

template <typename Number>
const char* read_run(const char*, const char* at, const char*, std::vector<Number>&) {
  return at;
}

template <typename Number>
const char* read_numbers(const char* at, const char* end, std::vector<Number>& values,
                         std::string& problem) {
  const char* begin = at;
  values.clear();
  at = skip_space(at, end);
  if (at < end && *at == ']') return at;
  for (;;) {
    at = read_run(begin, at, end, values);
    Number value;
    at = read_element(at, end, value, problem);
    if (at == nullptr) {
      problem += fmt::format(" (element {})", values.size());
      return nullptr;
    }
    values.push_back(value);
    at = skip_space(at, end);
    if (at < end && *at == ']') return at;
    if (at == end || *at != ',') {
      problem = fmt::format("no comma or ] after element {}", values.size() - 1);
      return nullptr;
    }
    at = skip_space(at + 1, end);
  }
}

}  // namespace

bool read_nonfinite(const std::string& word, double& value) {
  std::string lower;
  for (const char c : word) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const bool negative = lower.starts_with('-');
  if (negative) lower.erase(0, 1);
  if (lower == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (lower == "inf" || lower == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else {
    return false;
  }
  if (negative) value = -value;
  return true;
}

const char* read_array(const char* at, const char* end, std::vector<float>& values,
                       std::string& problem) {
  return read_numbers(at, end, values, problem);
}

const char* read_array(const char* at, const char* end, std::vector<double>& values,
                       std::string& problem) {
  return read_numbers(at, end, values, problem);
}

const char* read_array(const char* at, const char* end, std::vector<int64_t>& values,
                       std::string& problem) {
  return read_numbers(at, end, values, problem);
}

}  // namespace assay
