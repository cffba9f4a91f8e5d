// What LineHandler reads itself: the arrays of numbers, which are nearly all of a log.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "assay/log/line_handler.h"
#include "assay/log/line_reader.h"
#include "assay/log/number_array.h"
#include "base/error.h"

namespace assay {
namespace {

// The allowed elements of an array of such numbers, for messages.
template <typename Number>
constexpr const char* kElements = "numbers are decimal, or \"NaN\", \"Infinity\", \"-Infinity\"";
template <>
constexpr const char* kElements<float> =
    "values are 32-bit floats, or \"NaN\", \"Infinity\", \"-Infinity\"";
template <>
constexpr const char* kElements<int64_t> = "give whole numbers";
constexpr const char* kRows = "write one array of numbers, or rows of one length";

// The numbers [index, value] of a pair. False if they are not a pair.
bool read_pair(const double* pair, TopValue& read) {
  if (!(pair[0] >= 0 && pair[0] < 9e15 && pair[0] == std::floor(pair[0]))) return false;
  read.index = static_cast<int64_t>(pair[0]);
  read.value = static_cast<float>(pair[1]);
  return true;
}

// Whether a nonzero number in `text`, which became `values`, has the value 0.
bool has_vanished_number(std::string_view text, const std::vector<float>& values) {
  size_t at = 0;
  for (const float value : values) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (value == 0) {
      std::string_view number = text.substr(at, end - at);
      number = number.substr(0, number.find_first_of("eE"));
      if (number.find_first_of("123456789") != std::string_view::npos) return true;
    }
    at = end + 1;
  }
  return false;
}

}  // namespace

// Reads the array whose '[' the parser has just passed, and leaves the parser at its ']': to it the
// array is empty.
template <typename Number>
bool LineHandler::read_numbers(std::vector<Number>& numbers) {
  std::string what;
  const char* stop = read_array(stream_.at, stream_.end, numbers, what);
  if (stop == nullptr) return fail(fmt::format("'{}': {}", name_, what), kElements<Number>, true);
  stream_.at = stop;
  return true;
}

// The same for an array that may have rows.
template <typename Number>
bool LineHandler::read_rows(std::vector<Number>& numbers, std::vector<int64_t>& lengths) {
  std::string what;
  const char* stop = assay::read_rows(stream_.at, stream_.end, numbers, lengths, what);
  if (stop == nullptr) {
    const bool of_rows = what.find(" row") != std::string::npos;
    return fail(fmt::format("'{}': {}", name_, what), of_rows ? kRows : kElements<Number>, true);
  }
  stream_.at = stop;
  return true;
}

bool LineHandler::skip_numbers() {
  const char* stop = find_array_end(stream_.at, stream_.end);
  if (stop == nullptr) return fail(fmt::format("'{}' has no end", name_), kOneObject, true);
  stream_.at = stop;
  return true;
}

bool LineHandler::read_values() {
  const char* begin = stream_.at;
  if (!read_rows(record_.values, lengths_)) return false;
  vanished_ = note_skipped_ && has_vanished_number({begin, stream_.at}, record_.values);
  return true;
}

bool LineHandler::read_sketch() {
  if (!read_numbers(numbers_)) return false;
  if (numbers_.size() != static_cast<size_t>(kSketchSize)) {
    return fail(fmt::format("'sketch' has {} numbers, not {}", numbers_.size(), kSketchSize),
                "log it as the taps do, or leave it out");
  }
  std::copy(numbers_.begin(), numbers_.end(), record_.sketch.emplace().begin());
  return true;
}

// [[id, logprob], ...] of the record. Ids are checked against its size when the line has been read.
bool LineHandler::read_top() {
  std::vector<int64_t> lengths;
  if (!read_rows(numbers_, lengths)) return false;
  constexpr const char* kPairs = R"(write it as in "top":[[464,-0.25],[13,-2.5]])";
  const bool pairs = lengths.size() == 2 && lengths[1] == 2;
  if (!pairs && !numbers_.empty()) return fail("'top' is not an array of [id, logprob]", kPairs);
  float least = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < numbers_.size(); i += 2) {
    TopValue entry;
    if (!read_pair(&numbers_[i], entry)) {
      return fail(fmt::format("'top' has the id {}", numbers_[i]), kPairs);
    }
    if (std::isfinite(numbers_[i + 1]) && !std::isfinite(entry.value)) {
      return fail(fmt::format("'top': {} is beyond the range of a 32-bit float", numbers_[i + 1]),
                  kElements<float>);
    }
    if (entry.value > least) {
      return fail(fmt::format("'top' is not in descending order: {} after {} (element {})",
                              entry.value, least, i / 2),
                  "log the most probable id first");
    }
    if (!std::isnan(entry.value)) least = entry.value;
    record_.top.push_back(entry);
  }
  return true;
}

bool LineHandler::top_level_array() {
  const bool skipped =
      field_ == Field::kValues || field_ == Field::kSketch || field_ == Field::kTop;
  if (skim_ && skipped) return skip_numbers();
  switch (field_) {
    case Field::kValues:
      return read_values();
    case Field::kSketch:
      return read_sketch();
    case Field::kTop:
      return read_top();
    case Field::kShape:
      return read_numbers(record_.shape);
    case Field::kTokens:
      return begins_with_row() || read_numbers(header_.tokens);
    case Field::kMask:
      return begins_with_row() || read_numbers(header_.mask);
    case Field::kSequences:
      return true;
    default:
      return wrong_type("an array");
  }
}

// Whether the array whose '[' the parser has just passed has lists in it.
bool LineHandler::begins_with_row() const {
  const char* at = stream_.at;
  while (at != stream_.end && (*at == ' ' || *at == '\t')) ++at;
  return at != stream_.end && *at == '[';
}

// A list in `tokens` or `mask`.
bool LineHandler::read_row() {
  auto& rows = field_ == Field::kTokens ? token_rows_ : mask_rows_;
  return read_numbers(rows.emplace_back());
}

bool LineHandler::put_sequences_together() {
  const bool several = has(Field::kSequences) || !token_rows_.empty() || !mask_rows_.empty();
  if (several && token_rows_.empty() && !header_.tokens.empty()) {
    token_rows_.push_back(std::move(header_.tokens));
    header_.tokens.clear();
  }
  if (several && mask_rows_.empty() && !header_.mask.empty()) {
    mask_rows_.push_back(std::move(header_.mask));
    header_.mask.clear();
  }
  if (several && !has(Field::kSequences)) {
    for (size_t i = 0; i < token_rows_.size(); ++i) sequence_names_.push_back(std::to_string(i));
  }
  const size_t count = sequence_names_.size();
  const auto fits = [](const auto& tokens, const auto& mask) {
    return mask.empty() || mask.size() == tokens.size();
  };
  if (several && token_rows_.empty()) token_rows_.resize(count);
  if (several && mask_rows_.empty()) mask_rows_.resize(count);
  if (token_rows_.size() != count || mask_rows_.size() != count) {
    const bool tokens = token_rows_.size() != count;
    return fail(fmt::format("{} names of sequences, {} lists of {}", count,
                            tokens ? token_rows_.size() : mask_rows_.size(),
                            tokens ? "tokens" : "the mask"),
                "write one of each for each sequence");
  }
  const auto is_other = [](int64_t x) { return x != 0 && x != 1; };
  const auto check_mask = [&](const std::vector<int64_t>& mask) {
    const auto other = std::ranges::find_if(mask, is_other);
    return other == mask.end() || fail(fmt::format("'mask' holds {}", *other),
                                       "write 1 for each token, and 0 where it is padding");
  };
  bool good = fits(header_.tokens, header_.mask);
  if (!check_mask(header_.mask) || !std::ranges::all_of(mask_rows_, check_mask)) return false;
  for (size_t i = 0; i < count; ++i) {
    good = good && fits(token_rows_[i], mask_rows_[i]);
    header_.sequences.push_back(
        {std::move(sequence_names_[i]), std::move(token_rows_[i]), std::move(mask_rows_[i])});
  }
  if (!good)
    return fail("a mask has another length than its tokens", "write 0 or 1 for each token");
  std::vector<std::string_view> names;
  for (const LogHeader::Sequence& sequence : header_.sequences) names.push_back(sequence.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  return twice == names.end() ||
         fail(fmt::format("'sequences' has '{}' twice", printable(*twice, 40)),
              "give each sequence a name of its own");
}

// [index, value] in summary.top.
bool LineHandler::read_top_pair() {
  if (!read_numbers(numbers_)) return false;
  TopValue pair;
  const bool is_pair = numbers_.size() == 2 && read_pair(numbers_.data(), pair);
  if (!is_pair || record_.summary->top.size() == 1024) {
    return fail("'summary': 'top' is not a short array of [index, value]",
                R"(write it as in "top":[[3,1.5]])");
  }
  const auto& others = record_.summary->top;
  if (std::any_of(others.begin(), others.end(),
                  [&](const TopValue& other) { return other.index == pair.index; })) {
    return fail(fmt::format("'summary': 'top' has index {} twice", pair.index),
                "write each of the largest elements once");
  }
  if (std::isfinite(numbers_[1]) && !std::isfinite(pair.value)) {
    return fail(
        fmt::format("'summary': 'top': {} is beyond the range of a 32-bit float", numbers_[1]),
        kElements<float>);
  }
  record_.summary->top.push_back(pair);
  return true;
}

// "[1,151936]", as in the published logs.
bool LineHandler::shape_from_string(const std::string& text) {
  const std::string padded = text + std::string(kLinePadding, '\0');
  const char* end = padded.data() + text.size();
  std::string what;
  const char* stop =
      text.starts_with('[') ? read_array(padded.data() + 1, end, record_.shape, what) : nullptr;
  if (stop == nullptr || stop + 1 != end) {
    return fail(fmt::format("'shape' is the string '{}', not an array", printable(text, 40)),
                R"(write it as in "shape":[1,576])");
  }
  return true;
}

}  // namespace assay
