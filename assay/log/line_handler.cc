#include "assay/log/line_handler.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

#include "assay/log/line_reader.h"
#include "assay/log/number_array.h"
#include "assay/log/number_text.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr int kMaxDepth = 64;

// What to do about a line.
constexpr const char* kOneObject = "each line of a log is one JSON object";
constexpr const char* kOnce = "write each key once";
constexpr const char* kSummaryHint = "write a number, or leave the key out";

// What the elements of an array of such numbers may be.
template <typename Number>
constexpr const char* kElements = "numbers are decimal, or \"NaN\", \"Infinity\", \"-Infinity\"";
template <>
constexpr const char* kElements<float> =
    "values are 32-bit floats, or \"NaN\", \"Infinity\", \"-Infinity\"";
template <>
constexpr const char* kElements<int64_t> = "give whole numbers";

constexpr std::string_view kFieldNames[] = {
    "assay", "model", "tokens", "prompt", "engine",  "backend", "math", "checkpoint", "token_idx",
    "dtype", "shape", "values", "n",      "summary", "sketch",  "top",  "sequence",   "step",
    "phase", "rank",  "dims",   "ts",     "team",    "source",  "file", "line"};

Field field_of(std::string_view name) {
  const auto* found = std::find(std::begin(kFieldNames), std::end(kFieldNames), name);
  return static_cast<Field>(found - std::begin(kFieldNames));
}

// The keys of the objects within a line. Those of `model` are texts, the others numbers and `top`.
struct InnerKey {
  std::string_view name;
  Field object;
};
constexpr InnerKey kInnerKeys[] = {
    {"name", Field::kModel},        {"sha256", Field::kModel}, {"arch", Field::kModel},
    {"type", Field::kModel},        {"min", Field::kSummary},  {"max", Field::kSummary},
    {"mean", Field::kSummary},      {"l2", Field::kSummary},   {"argmax", Field::kSummary},
    {"nonfinite", Field::kSummary}, {"nan", Field::kSummary},  {"top", Field::kSummary},
    {"tp", Field::kRank},           {"pp", Field::kRank},      {"ep", Field::kRank}};

size_t inner_of(std::string_view name) {
  return static_cast<size_t>(std::ranges::find(kInnerKeys, name, &InnerKey::name) - kInnerKeys);
}

bool is_summary_number(std::string_view name) {
  const size_t inner = inner_of(name);
  return inner < std::size(kInnerKeys) && kInnerKeys[inner].object == Field::kSummary &&
         name != "top";
}

// An id and what it is given: the numbers [index, value] of a pair. False where they are none.
bool read_pair(const double* pair, TopValue& read) {
  if (!(pair[0] >= 0 && pair[0] < 9e15 && pair[0] == std::floor(pair[0]))) return false;
  read.index = static_cast<int64_t>(pair[0]);
  read.value = static_cast<float>(pair[1]);
  return true;
}

// Whether one of the numbers in `text`, which became `values`, is not 0 and its value is.
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

std::string_view field_name(Field field) {
  return kFieldNames[static_cast<size_t>(field)];
}

bool LineHandler::fail(const std::string& what, const std::string& hint, bool syntax) {
  problem_ = {what, hint, syntax};
  return false;
}

// The key that was just read, where nothing holds its value.
void LineHandler::note_key() {
  if (depth_ == 1 && field_ == Field::kUnknown) skipped_.insert(name_);
  if (depth_ != 2) return;
  inner_name_ = name_;
  if (!is_inner(inner_of(name_))) note_inner();
}

// Whether the object at depth 1 has that key.
bool LineHandler::is_inner(size_t inner) const {
  return inner < std::size(kInnerKeys) && field_ == kInnerKeys[inner].object;
}

// The last key in `model`, `summary` or `rank`.
void LineHandler::note_inner() {
  const bool has_keys =
      field_ == Field::kModel || field_ == Field::kSummary || field_ == Field::kRank;
  if (!note_skipped_ || !has_keys) return;
  skipped_.insert(fmt::format("{}.{}", field_name(field_), inner_name_));
}

// That key, where a text, or else a number or a truth value, is not what it holds.
void LineHandler::note_scalar(bool is_text) {
  const bool is_wrong =
      field_ == Field::kModel ? !is_text : field_ == Field::kSummary && name_ == "top";
  if (depth_ == 3 || (depth_ == 2 && is_wrong)) note_inner();
}

std::set<std::string> LineHandler::skipped_keys(bool is_header) const {
  std::set<std::string> keys = skipped_;
  for (int i = 0; i < static_cast<int>(Field::kUnknown); ++i) {
    const auto field = static_cast<Field>(i);
    const bool of_record = field >= Field::kCheckpoint;
    if (field != Field::kAssay && has(field) && of_record == is_header) {
      keys.emplace(field_name(field));
    }
  }
  return keys;
}

bool LineHandler::wrong_type(std::string_view found) {
  struct Wanted {
    std::string_view type;
    std::string_view example;
  };
  static constexpr Wanted kWanted[] = {{"the number 1", "1"},
                                       {"an object", R"({"name":"SmolLM2"})"},
                                       {"an array of integers", "[1,9707]"},
                                       {"a string", R"("Hello")"},
                                       {"a string", R"("mine")"},
                                       {"a string", R"("cpu")"},
                                       {"a string", R"("exact")"},
                                       {"a string", R"("logits")"},
                                       {"an integer", "0"},
                                       {"a string", R"("f32")"},
                                       {"an array of integers", "[1,576]"},
                                       {"an array of numbers", R"([0.5,"NaN"])"},
                                       {"an integer", "576"},
                                       {"an object", R"({"l2":2.5})"},
                                       {"an array of 64 numbers", "[0.5,-1.25,...]"},
                                       {"an array of [id, logprob]", "[[464,-0.25],[13,-2.5]]"},
                                       {"a string or an integer", R"("chat-7")"},
                                       {"an integer", "0"},
                                       {"a string", R"("decode")"},
                                       {"an object", R"({"tp":0,"pp":0,"ep":0})"},
                                       {"a string", R"("t h[tp]")"}};
  const auto index = static_cast<size_t>(field_);
  if (index >= std::size(kWanted)) {  // ts, team, source, file, line: only told along
    if (note_skipped_ && field_ != Field::kUnknown) skipped_.emplace(field_name(field_));
    return true;
  }
  return fail(fmt::format("'{}' is {}, not {}", field_name(field_), found, kWanted[index].type),
              fmt::format(R"(write it as in "{}":{})", field_name(field_), kWanted[index].example));
}

bool LineHandler::StartObject() {
  if (depth_ == 2 || depth_ == 3) note_inner();
  if (depth_ == 2 && field_ == Field::kRank && !rank_number("an object", -1)) return false;
  if (++depth_ > kMaxDepth) return fail("nested too deeply", kOneObject);
  if (depth_ != 2) return true;
  if (field_ == Field::kSummary) {
    // What a summary leaves out is not known.
    Summary& summary = record_.summary.emplace();
    summary.min = summary.max = summary.mean = summary.l2 = std::nan("");
    return true;
  }
  if (field_ == Field::kRank) {
    record_.rank.emplace();
    return true;
  }
  return field_ == Field::kModel || wrong_type("an object");
}

bool LineHandler::EndObject(rapidjson::SizeType) {
  --depth_;
  return true;
}

void LineHandler::count_told_nonfinite() {
  if (!record_.summary || record_.n == 0) return;
  Summary& summary = *record_.summary;
  if (summary.nonfinite > 0 || !(summary_has_nan_ || summary_has_infinity_)) return;
  summary.nonfinite = 1;
  summary.nan = summary_has_nan_ ? 1 : 0;
}

bool LineHandler::StartArray() {
  if (depth_ == 2 && name_ != "top") note_inner();
  if (depth_ == 2 && field_ == Field::kRank && !rank_number("an array", -1)) return false;
  if (++depth_ > kMaxDepth) return fail("nested too deeply", kOneObject);
  if (depth_ == 1) return fail("the line is an array, not an object", kOneObject);
  if (depth_ == 2) return top_level_array();
  if (depth_ == 4 && field_ == Field::kSummary && name_ == "top") return read_top_pair();
  return true;
}

bool LineHandler::EndArray(rapidjson::SizeType) {
  --depth_;
  return true;
}

bool LineHandler::Key(const char* text, rapidjson::SizeType length, bool) {
  name_.assign(text, length);
  if (depth_ == 1) field_ = field_of(name_);
  if (note_skipped_) note_key();
  if (depth_ == 2) return inner_key();
  if (depth_ != 1 || field_ == Field::kUnknown) return true;
  if (has(field_)) return fail(fmt::format("has the key '{}' twice", name_), kOnce);
  seen_ |= uint32_t{1} << static_cast<int>(field_);
  return true;
}

bool LineHandler::inner_key() {
  const size_t inner = inner_of(name_);
  if (!is_inner(inner)) return true;
  const uint32_t bit = uint32_t{1} << inner;
  if ((seen_inner_ & bit) != 0) {
    return fail(fmt::format("'{}' has the key '{}' twice", field_name(field_), name_), kOnce);
  }
  seen_inner_ |= bit;
  return true;
}

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
  if (stop == nullptr) return fail(fmt::format("'{}': {}", name_, what), kElements<Number>, true);
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

// [[id, logprob], ...] of the record. Ids are held against its size when the line has been read.
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
      return read_numbers(header_.tokens);
    default:
      return wrong_type("an array");
  }
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

bool LineHandler::String(const char* text, rapidjson::SizeType length, bool) {
  if (depth_ == 0) return fail("the line is a string, not an object", kOneObject);
  note_scalar(true);
  std::string value(text, length);
  if (depth_ == 1) return top_level_string(std::move(value));
  if (depth_ == 2 && field_ == Field::kModel) {
    if (name_ == "name") header_.model.name = value;
    if (name_ == "sha256") header_.model.sha256 = value;
    if (name_ == "arch") header_.model.arch = value;
    if (name_ == "type") header_.model.type = value;
  }
  if (depth_ == 2 && field_ == Field::kRank) {
    return rank_number("the string '" + printable(value, 40) + "'", -1);
  }
  double nonfinite = 0;
  if (depth_ == 2 && field_ == Field::kSummary) {
    if (read_nonfinite(value, nonfinite)) return summary_number(nonfinite, false, 0);
    return is_summary_number(name_) ? no_summary_number("the string '" + printable(value, 40) + "'")
                                    : true;
  }
  return true;
}

bool LineHandler::top_level_string(std::string text) {
  switch (field_) {
    case Field::kCheckpoint:
      record_.checkpoint = std::move(text);
      return !record_.checkpoint.empty() ||
             fail("'checkpoint' is empty", "give the tensor's name, as in logits");
    case Field::kDtype:
      record_.dtype = std::move(text);
      return true;
    case Field::kShape:
      return shape_from_string(text);
    case Field::kPrompt:
      header_.prompt = std::move(text);
      return true;
    case Field::kEngine:
      header_.engine = std::move(text);
      return true;
    case Field::kBackend:
      header_.backend = std::move(text);
      return true;
    case Field::kMath:
      header_.math = std::move(text);
      return true;
    case Field::kSequence:
      record_.sequence = std::move(text);
      return !record_.sequence.empty() ||
             fail("'sequence' is empty", "give the sequence's name or number, or leave it out");
    case Field::kPhase:
      return read_phase(text);
    case Field::kDims:
      record_.dims = std::move(text);
      return true;
    case Field::kTs:
      record_.ts = std::move(text);
      return true;
    case Field::kTeam:
      record_.team = std::move(text);
      return true;
    case Field::kSource:
      record_.source = std::move(text);
      return true;
    case Field::kFile:
      record_.file = std::move(text);
      return true;
    default:
      return wrong_type("a string");
  }
}

bool LineHandler::read_phase(const std::string& text) {
  for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    if (text == phase_name(phase)) record_.phase = phase;
  }
  return record_.phase.has_value() || fail(fmt::format("'phase' is '{}'", printable(text, 40)),
                                           "give prefill or decode, or leave it out");
}

// "[1,151936]", as the published logs have it.
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

// RapidJSON 1.1.0 shifts by undefined amounts in some long numbers, so it leaves them as text.
bool LineHandler::RawNumber(const char* text, rapidjson::SizeType length, bool) {
  note_scalar(false);
  std::string padded(text, length);
  int64_t whole = 0;
  const char* end = padded.data() + length;
  const auto [stop, error] = std::from_chars(padded.data(), end, whole);
  if (error == std::errc() && stop == end) return integer(whole);
  double value = 0;
  if (read_nonfinite(padded, value)) return real(value);
  padded.append(kLinePadding, ' ');
  const NumberEnd number = read_number(padded.data(), padded.data() + length, value);
  if (number.error == NumberError::kNone) return real(value);
  return fail(fmt::format("'{}': {} is beyond the range of a 64-bit float", printable(name_, 40),
                          printable({text, length}, 40)),
              "give a number within it, or leave the key out");
}

bool LineHandler::other_scalar(std::string_view found) {
  if (depth_ == 0) return fail("the line is not an object", kOneObject);
  if (found != "null" || depth_ == 3) note_scalar(false);
  // An optional key may be null, as some writers put it where they have nothing.
  const bool absent = found == "null" && field_ != Field::kCheckpoint &&
                      field_ != Field::kTokenIdx && field_ != Field::kDtype &&
                      field_ != Field::kShape && field_ != Field::kValues &&
                      field_ != Field::kAssay;
  if (depth_ == 2 && field_ == Field::kSummary && found != "null" && is_summary_number(name_)) {
    return no_summary_number(found);
  }
  if (depth_ == 2 && field_ == Field::kRank && found != "null") return rank_number(found, -1);
  return depth_ != 1 || absent || wrong_type(found);
}

bool LineHandler::no_summary_number(std::string_view found) {
  return fail(fmt::format("'summary': '{}' is {}, not a number", name_, found), kSummaryHint);
}

// A number of `rank`: `value`, or -1 and what was found in its place. Other keys are skipped.
bool LineHandler::rank_number(std::string_view found, int64_t value) {
  Rank& rank = *record_.rank;
  int64_t* number = name_ == "tp" ? &rank.tp : name_ == "pp" ? &rank.pp : nullptr;
  if (name_ == "ep") number = &rank.ep;
  if (number == nullptr) return true;
  *number = value;
  return value >= 0 ||
         fail(fmt::format("'rank': '{}' is {}, not a whole number from 0", name_, found),
              R"(write it as in "rank":{"tp":0,"pp":0,"ep":0})");
}

bool LineHandler::integer(int64_t value) {
  if (depth_ == 0) return fail("the line is a number, not an object", kOneObject);
  if (depth_ == 1) return top_level_integer(value);
  if (depth_ == 2 && field_ == Field::kSummary) {
    return summary_number(static_cast<double>(value), true, value);
  }
  if (depth_ == 2 && field_ == Field::kRank) {
    return rank_number(fmt::format("{}", value), std::max<int64_t>(value, -1));
  }
  return true;
}

bool LineHandler::top_level_integer(int64_t value) {
  switch (field_) {
    case Field::kAssay:
      if (value == 1) return true;
      return fail(fmt::format("the log is of version {}", value),
                  "this program reads version 1; use the one that wrote it");
    case Field::kTokenIdx:
      record_.token_idx = value;
      return value >= 0 ||
             fail(fmt::format("'token_idx' is {}, below 0", value), "count positions from 0");
    case Field::kN:
      record_.n = value;
      return value >= 0 || fail(fmt::format("'n' is {}, below 0", value),
                                "give the elements of the whole tensor, or leave it out");
    case Field::kSequence:
      record_.sequence = fmt::format("{}", value);
      return true;
    case Field::kStep:
      record_.step = value;
      return value >= 0 ||
             fail(fmt::format("'step' is {}, below 0", value), "count forward passes from 0");
    case Field::kLine:
      record_.line = value;
      return true;
    default:
      return wrong_type("a number");
  }
}

bool LineHandler::real(double value) {
  if (depth_ == 0) return fail("the line is a number, not an object", kOneObject);
  if (depth_ == 1) {
    std::string shown = fmt::format("{}", value);
    if (shown.find_first_not_of("-0123456789") == std::string::npos) shown += ".0";
    return wrong_type(shown);
  }
  if (depth_ == 2 && field_ == Field::kSummary) return summary_number(value, false, 0);
  if (depth_ == 2 && field_ == Field::kRank) return rank_number(fmt::format("{}", value), -1);
  return true;
}

bool LineHandler::summary_number(double value, bool is_integer, int64_t integer) {
  Summary& summary = *record_.summary;
  if (name_ == "min") summary.min = value;
  if (name_ == "max") summary.max = value;
  if (name_ == "mean") summary.mean = value;
  if (name_ == "l2") summary.l2 = value;
  if (name_ == "min" || name_ == "max" || name_ == "mean" || name_ == "l2") {
    summary_has_nan_ = summary_has_nan_ || std::isnan(value);
    summary_has_infinity_ = summary_has_infinity_ || std::isinf(value);
  }
  if (name_ != "argmax" && name_ != "nonfinite" && name_ != "nan") return true;
  if (!is_integer || integer < -1) {
    return fail(fmt::format("'summary': '{}' is {}, not a count", name_, value), kSummaryHint);
  }
  if (name_ == "argmax") summary.argmax = integer;
  if (name_ == "nonfinite") summary.nonfinite = integer;
  if (name_ == "nan") summary.nan = integer;
  return true;
}

}  // namespace assay
