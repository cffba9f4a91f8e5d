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
    problem = "null is not a value: write NaN as \"NaN\"";
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

constexpr const char* kMixed = "a row among numbers";

// Appends the numbers of an array of these. `begin`: of the outermost array.
template <typename Number>
const char* append_numbers(const char* begin, const char* at, const char* end,
                           std::vector<Number>& values, std::string& problem) {
  at = skip_space(at, end);
  if (at < end && *at == ']') return at;
  for (;;) {
    at = read_run(begin, at, end, values);
    Number value;
    const bool is_row = at < end && *at == '[';
    if (is_row) problem = kMixed;
    at = is_row ? nullptr : read_element(at, end, value, problem);
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

template <typename Number>
const char* read_numbers(const char* at, const char* end, std::vector<Number>& values,
                         std::string& problem) {
  values.clear();
  return append_numbers(at, at, end, values, problem);
}

// An array of arrays, each as long as the first at its depth.
template <typename Number>
class RowReader {
 public:
  RowReader(const char* begin, const char* end, std::vector<Number>& values,
            std::vector<int64_t>& lengths, std::string& problem)
      : begin_(begin), end_(end), values_(values), lengths_(lengths), problem_(problem) {}

  // The rest of the array at `depth` after its '['. Returns its ']'.
  const char* read(const char* at, size_t depth) {
    if (depth == lengths_.size()) lengths_.push_back(kUnknown);
    const char* inner = skip_space(at, end_);
    const size_t before = values_.size();
    int64_t count = 0;
    if (inner < end_ && *inner == '[') {
      at = read_inner(inner, depth, count);
    } else if (depth + 1 < lengths_.size() && inner < end_ && *inner != ']') {
      return fail("a number among rows", before);
    } else {
      at = append_numbers(begin_, at, end_, values_, problem_);
      count = static_cast<int64_t>(values_.size() - before);
    }
    if (at == nullptr) return nullptr;
    if (lengths_[depth] == kUnknown) lengths_[depth] = count;
    if (lengths_[depth] == count) return at;
    return fail(fmt::format("a row of {} among rows of {}", count, lengths_[depth]), before);
  }

 private:
  static constexpr int64_t kUnknown = -1;
  static constexpr size_t kMaxDepth = 16;

  // The rows from `at`, the '[' of the first, to the ']' after the last.
  const char* read_inner(const char* at, size_t depth, int64_t& count) {
    if (depth + 1 == kMaxDepth) return fail("nested too deeply", values_.size());
    // There were numbers at this depth before.
    const bool holds_numbers = lengths_[depth] != kUnknown && depth + 1 == lengths_.size();
    if (holds_numbers) return fail(kMixed, values_.size());
    for (;;) {
      at = read(at + 1, depth + 1);
      if (at == nullptr) return nullptr;
      ++count;
      at = skip_space(at + 1, end_);
      if (at < end_ && *at == ']') return at;
      if (at == end_ || *at != ',') return fail("no comma or ] after a row", values_.size());
      at = skip_space(at + 1, end_);
      if (at == end_ || *at != '[') return fail("a number among rows", values_.size());
    }
  }

  // `element`: how many numbers were read before.
  const char* fail(const std::string& what, size_t element) {
    problem_ = fmt::format("{} (element {})", what, element);
    return nullptr;
  }

  const char* begin_;
  const char* end_;
  std::vector<Number>& values_;
  std::vector<int64_t>& lengths_;
  std::string& problem_;
};

template <typename Number>
const char* read_any_rows(const char* at, const char* end, std::vector<Number>& values,
                          std::vector<int64_t>& lengths, std::string& problem) {
  values.clear();
  lengths.clear();
  return RowReader<Number>(at, end, values, lengths, problem).read(at, 0);
}

const char* find_byte(const char* at, const char* end, char byte) {
  return static_cast<const char*>(std::memchr(at, byte, static_cast<size_t>(end - at)));
}

// After the string that begins before `at`.
const char* skip_string(const char* at, const char* end) {
  for (; at < end && *at != '"'; ++at) {
    if (*at == '\\') ++at;
  }
  return at < end ? at + 1 : end;
}

constexpr ptrdiff_t kMarkBlock = 64;

// Whether one of the block's bytes matters to find_matching_bracket(). Without a branch and in
// bytes, so that compilers make vectors of it.
bool has_mark(const char* block) {
  uint8_t marks = 0;
  for (ptrdiff_t i = 0; i < kMarkBlock; ++i) {
    const char byte = block[i];
    const bool is_mark = (byte == ']') | (byte == '[') | (byte == '"');
    marks = static_cast<uint8_t>(marks | static_cast<uint8_t>(is_mark));
  }
  return marks != 0;
}

const char* find_matching_bracket(const char* at, const char* end) {
  int64_t open = 1;
  while (at < end) {
    if (end - at >= kMarkBlock && !has_mark(at)) {
      at += kMarkBlock;
      continue;
    }
    const char* stop = at + std::min(end - at, kMarkBlock);
    while (at < stop) {
      const char byte = *at++;
      if (byte == '"') at = skip_string(at, end);
      if (byte == '[') ++open;
      if (byte == ']' && --open == 0) return at - 1;
    }
  }
  return nullptr;
}

}  // namespace

bool read_nonfinite(const std::string& word, double& value) {
  const size_t first = word.starts_with('-') ? 1 : 0;
  if (first == word.size() || std::isdigit(static_cast<unsigned char>(word[first])) != 0) {
    return false;
  }
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

const char* find_array_end(const char* at, const char* end) {
  const char* stop = find_byte(at, end, ']');
  // Nearly always: an array of numbers, which three searches by the C library pass fastest.
  if (stop == nullptr) return nullptr;
  const bool is_flat = !find_byte(at, stop, '[') && !find_byte(at, stop, '"');
  return is_flat ? stop : find_matching_bracket(at, end);
}

const char* read_rows(const char* at, const char* end, std::vector<float>& values,
                      std::vector<int64_t>& lengths, std::string& problem) {
  return read_any_rows(at, end, values, lengths, problem);
}

const char* read_rows(const char* at, const char* end, std::vector<double>& values,
                      std::vector<int64_t>& lengths, std::string& problem) {
  return read_any_rows(at, end, values, lengths, problem);
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
