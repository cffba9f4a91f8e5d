#include "assay/log/line_handler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <system_error>
#include <utility>

#include "assay/log/line_reader.h"
#include "assay/log/number_array.h"
#include "assay/log/number_text.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr int kMaxDepth = 64;
// Along each axis of ranks: their product is still a number.
constexpr int64_t kMostRanks = int64_t{1} << 15;

// What to do about a line.
constexpr const char* kOnce = "write each key once";
constexpr const char* kSummaryHint = "write a number, or leave the key out";

constexpr std::string_view kFieldNames[] = {
    "assay",   "model",  "tokens",     "prompt",    "engine", "backend", "math",     "sequences",
    "mask",    "ranks",  "checkpoint", "token_idx", "dtype",  "shape",   "values",   "n",
    "summary", "sketch", "top",        "sequence",  "step",   "phase",   "rank",     "dims",
    "ts",      "team",   "source",     "file",      "line",   "routing", "sampling", "checkpoints"};

Field field_of(std::string_view name) {
  // Most names differ in size or in their first letter.
  const auto is_it = [name](std::string_view known) {
    return known.size() == name.size() && known.front() == name.front() && known == name;
  };
  const auto* found = std::find_if(std::begin(kFieldNames), std::end(kFieldNames), is_it);
  return static_cast<Field>(found - std::begin(kFieldNames));
}

// The keys of the objects within a line. Those of `model` are texts, the others numbers and `top`.
struct InnerKey {
  std::string_view name;
  Field object;
};
constexpr InnerKey kInnerKeys[] = {{"name", Field::kModel},     {"sha256", Field::kModel},
                                   {"arch", Field::kModel},     {"type", Field::kModel},
                                   {"min", Field::kSummary},    {"max", Field::kSummary},
                                   {"mean", Field::kSummary},   {"l2", Field::kSummary},
                                   {"argmax", Field::kSummary}, {"nonfinite", Field::kSummary},
                                   {"nan", Field::kSummary},    {"top", Field::kSummary},
                                   {"tp", Field::kRank},        {"pp", Field::kRank},
                                   {"ep", Field::kRank},        {"sp", Field::kRank}};

size_t inner_of(std::string_view name) {
  return static_cast<size_t>(std::ranges::find(kInnerKeys, name, &InnerKey::name) - kInnerKeys);
}

bool is_summary_number(std::string_view name) {
  const size_t inner = inner_of(name);
  return inner < std::size(kInnerKeys) && kInnerKeys[inner].object == Field::kSummary &&
         name != "top";
}

bool is_rank(Field field) {
  return field == Field::kRank || field == Field::kRanks;
}

bool is_list_of_header(Field field) {
  return field == Field::kTokens || field == Field::kMask || field == Field::kSequences;
}

}  // namespace

std::string_view field_name(Field field) {
  return kFieldNames[static_cast<size_t>(field)];
}

bool LineHandler::fail(const std::string& what, const std::string& hint, bool syntax) {
  problem_ = {what, hint, syntax};
  return false;
}

// The last key, if its value is not stored.
void LineHandler::note_key() {
  if (depth_ == 1 && field_ == Field::kUnknown) skipped_.insert(name_);
  if (depth_ != 2) return;
  inner_name_ = name_;
  if (!is_inner(inner_of(name_))) note_inner();
}

// Whether the object at depth 1 has that key.
bool LineHandler::is_inner(size_t inner) const {
  const Field object = field_ == Field::kRanks ? Field::kRank : field_;
  return inner < std::size(kInnerKeys) && object == kInnerKeys[inner].object;
}

// The last key in `model`, `summary` or `rank`.
void LineHandler::note_inner() {
  const bool has_keys =
      field_ == Field::kModel || field_ == Field::kSummary || field_ == Field::kRank;
  if (!note_skipped_ || !has_keys) return;
  skipped_.insert(fmt::format("{}.{}", field_name(field_), inner_name_));
}

// That key, if its value is a scalar where none is read.
void LineHandler::note_scalar() {
  if (depth_ == 3 || (depth_ == 2 && field_ == Field::kSummary && name_ == "top")) note_inner();
}

std::set<std::string> LineHandler::skipped_keys(bool is_header) const {
  std::set<std::string> keys = skipped_;
  for (int i = 0; i < static_cast<int>(Field::kUnknown); ++i) {
    const auto field = static_cast<Field>(i);
    const bool of_record = field >= Field::kCheckpoint && field <= Field::kLine;
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
                                       {"an array of names", R"(["a","b"])"},
                                       {"an array of 0 and 1", "[0,1,1]"},
                                       {"an object", R"({"tp":4})"},
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
  if (index >= std::size(kWanted)) {  // ts and those behind it: only passed on
    if (note_skipped_ && field_ != Field::kUnknown) skipped_.emplace(field_name(field_));
    return true;
  }
  return fail(fmt::format("'{}' is {}, not {}", field_name(field_), found, kWanted[index].type),
              fmt::format(R"(write it as in "{}":{})", field_name(field_), kWanted[index].example));
}

// A member of `model` that is no text: only those that Assay does not read may be.
bool LineHandler::no_model_text(std::string_view found) {
  return !is_inner(inner_of(name_)) ||
         fail(fmt::format("'model': '{}' is {}, not a string", name_, found),
              R"(write it as in "model":{"name":"SmolLM2"})");
}

bool LineHandler::StartObject() {
  if (depth_ == 2 || depth_ == 3) note_inner();
  if (depth_ == 2 && field_ == Field::kModel && !no_model_text("an object")) return false;
  if (depth_ == 2 && is_rank(field_) && !rank_number("an object", -1)) return false;
  if (++depth_ > kMaxDepth) return fail("nested too deeply", kOneObject);
  if (depth_ != 2) return true;
  if (field_ == Field::kSummary) {
    // Members that a summary omits are unknown.
    Summary& summary = record_.summary.emplace();
    summary.min = summary.max = summary.mean = summary.l2 = std::nan("");
    summary.counts_nonfinite = false;
    return true;
  }
  if (field_ == Field::kRank) {
    record_.rank.emplace();
    return true;
  }
  if (field_ == Field::kRanks) {
    header_.ranks.emplace();
    return true;
  }
  return field_ == Field::kModel || wrong_type("an object");
}

bool LineHandler::EndObject(rapidjson::SizeType) {
  --depth_;
  return true;
}

void LineHandler::count_nonfinite_of_summary() {
  if (!record_.summary || record_.n == 0) return;
  Summary& summary = *record_.summary;
  if (summary.nonfinite > 0 || !(summary_has_nan_ || summary_has_infinity_)) return;
  // A count of none beside an infinity contradicts itself: that infinity is no padding of logits.
  const bool is_denied = summary.counts_nonfinite;
  summary.nonfinite = 1;
  summary.counts_nonfinite = true;
  summary.nan = summary_has_nan_ || is_denied ? 1 : 0;
}

bool LineHandler::StartArray() {
  if (depth_ == 2 && name_ != "top") note_inner();
  if (depth_ == 2 && is_rank(field_) && !rank_number("an array", -1)) return false;
  if (depth_ == 2 && field_ == Field::kModel && !no_model_text("an array")) return false;
  if (++depth_ > kMaxDepth) return fail("nested too deeply", kOneObject);
  if (depth_ == 1) return fail("the line is an array, not an object", kOneObject);
  if (depth_ == 2) return top_level_array();
  if (depth_ == 3 && (field_ == Field::kTokens || field_ == Field::kMask)) return read_row();
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
  seen_ |= uint64_t{1} << static_cast<int>(field_);
  return true;
}

bool LineHandler::inner_key() {
  const size_t inner = inner_of(name_);
  if (!is_inner(inner)) return field_ != Field::kRanks || unknown_ranks();
  const uint32_t bit = uint32_t{1} << inner;
  if ((seen_inner_ & bit) != 0) {
    return fail(fmt::format("'{}' has the key '{}' twice", field_name(field_), name_), kOnce);
  }
  seen_inner_ |= bit;
  return true;
}

// Were a misspelt one left out, the count would be what the log itself has: a missing rank passes.
bool LineHandler::unknown_ranks() {
  std::vector<std::string_view> known;
  for (const InnerKey& key : kInnerKeys) {
    if (key.object == Field::kRank) known.push_back(key.name);
  }
  return fail(fmt::format("'ranks' has the unknown kind '{}'", printable(name_, 40)),
              fmt::format("the kinds are {}; leave any other out", fmt::join(known, ", ")));
}

bool LineHandler::String(const char* text, rapidjson::SizeType length, bool) {
  if (depth_ == 0) return fail("the line is a string, not an object", kOneObject);
  note_scalar();
  std::string value(text, length);
  if (depth_ == 1) return top_level_string(std::move(value));
  if (depth_ == 2 && field_ == Field::kModel) {
    if (name_ == "name") header_.model.name = value;
    if (name_ == "sha256") header_.model.sha256 = value;
    if (name_ == "arch") header_.model.arch = value;
    if (name_ == "type") header_.model.type = value;
  }
  if (depth_ == 2 && field_ == Field::kSequences) {
    sequence_names_.push_back(std::move(value));
    return !sequence_names_.back().empty() ||
           fail("'sequences' has an empty name", "give each sequence's name or number");
  }
  if (depth_ == 2 && is_rank(field_)) {
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
    case Field::kRouting:
      header_.routing = std::move(text);
      return true;
    case Field::kSampling:
      header_.sampling = std::move(text);
      return true;
    case Field::kCheckpoints:
      header_.checkpoints = std::move(text);
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

// RapidJSON 1.1.0 shifts by undefined amounts in some long numbers, so it leaves them as text.
bool LineHandler::RawNumber(const char* text, rapidjson::SizeType length, bool) {
  note_scalar();
  int64_t whole = 0;
  const auto [stop, error] = std::from_chars(text, text + length, whole);
  if (error == std::errc() && stop == text + length) return integer(whole);
  number_.assign(text, length);
  double value = 0;
  if (read_nonfinite(number_, value)) return real(value);
  number_.append(kLinePadding, ' ');
  const NumberEnd number = read_number(number_.data(), number_.data() + length, value);
  if (number.error == NumberError::kNone) return real(value);
  return fail(fmt::format("'{}': {} is beyond the range of a 64-bit float", printable(name_, 40),
                          printable({text, length}, 40)),
              "give a number within it, or leave the key out");
}

bool LineHandler::other_scalar(std::string_view found) {
  if (depth_ == 0) return fail("the line is not an object", kOneObject);
  if (found != "null" || depth_ == 3) note_scalar();
  // An optional key may be null, which some writers use for a missing value.
  const bool absent = found == "null" && field_ != Field::kCheckpoint &&
                      field_ != Field::kTokenIdx && field_ != Field::kDtype &&
                      field_ != Field::kShape && field_ != Field::kValues &&
                      field_ != Field::kAssay;
  if (depth_ == 2 && field_ == Field::kSummary && found != "null" && is_summary_number(name_)) {
    return no_summary_number(found);
  }
  if (depth_ == 2 && is_rank(field_) && found != "null") return rank_number(found, -1);
  if (depth_ == 2 && field_ == Field::kModel && found != "null") return no_model_text(found);
  if (depth_ == 2 && is_list_of_header(field_))
    return wrong_type("an array with " + std::string(found));
  return depth_ != 1 || absent || wrong_type(found);
}

bool LineHandler::no_summary_number(std::string_view found) {
  return fail(fmt::format("'summary': '{}' is {}, not a number", name_, found), kSummaryHint);
}

// A number of `rank` or `ranks`: `value`, or -1 and what was found in its place. Other keys are
// skipped.
bool LineHandler::rank_number(std::string_view found, int64_t value) {
  const bool is_count = field_ == Field::kRanks;
  Rank& rank = is_count ? *header_.ranks : *record_.rank;
  const auto* axis = std::ranges::find(kRankAxes, name_, rank_axis_name);
  if (axis == std::end(kRankAxes)) return true;
  along(rank, *axis) = value;
  const int64_t least = is_count ? 1 : 0;
  const int64_t most = is_count ? kMostRanks : kMostRanks - 1;
  return (value >= least && value <= most) ||
         fail(fmt::format("'{}': '{}' is {}, not a whole number from {} to {}", field_name(field_),
                          name_, found, least, most),
              is_count ? R"(write how many processes share the model: "ranks":{"tp":4})"
                       : R"(write it as in "rank":{"tp":0,"pp":0,"ep":0})");
}

bool LineHandler::integer(int64_t value) {
  if (depth_ == 0) return fail("the line is a number, not an object", kOneObject);
  if (depth_ == 1) return top_level_integer(value);
  if (depth_ == 2 && field_ == Field::kSummary) {
    return summary_number(static_cast<double>(value), true, value);
  }
  if (depth_ == 2 && is_rank(field_)) {
    return rank_number(fmt::format("{}", value), std::max<int64_t>(value, -1));
  }
  if (depth_ == 2 && field_ == Field::kModel) return no_model_text("a number");
  if (depth_ == 2 && field_ == Field::kSequences) {
    sequence_names_.push_back(fmt::format("{}", value));
    return true;
  }
  if (depth_ == 2 && is_list_of_header(field_)) return wrong_type("an array of lists and numbers");
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
  if (depth_ == 2 && is_rank(field_)) return rank_number(fmt::format("{}", value), -1);
  if (depth_ == 2 && field_ == Field::kModel) return no_model_text("a number");
  if (depth_ == 2 && is_list_of_header(field_))
    return wrong_type(fmt::format("an array with {}", value));
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
  if (name_ == "nonfinite") {
    summary.nonfinite = integer;
    summary.counts_nonfinite = integer >= 0;
  }
  if (name_ == "nan") summary.nan = integer;
  return true;
}

}  // namespace assay
