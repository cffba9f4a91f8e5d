#include "assay/log/line_parser.h"

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>

#include "assay/log/line_handler.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr unsigned kFlags = rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNanAndInfFlag |
                            rapidjson::kParseNumbersAsStringsFlag;
constexpr const char* kNoJson = "each line of a log is one JSON object";
constexpr const char* kRequiredHint =
    "each record needs checkpoint, token_idx, dtype, shape and values";

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

// Keeps the memory of the vectors and strings that most lines fill again.
void reset(Record& record) {
  record.values.clear();
  record.shape.clear();
  record.n = -1;  // not given, or null
  record.top.clear();
  record.sequence.assign(1, '0');
  record.step.reset();
  record.phase.reset();
  record.rank.reset();
  record.dims.reset();
  record.summary.reset();
  record.sketch.reset();
  record.ts.reset();
  record.team.reset();
  record.source.reset();
  record.file.reset();
  record.line.reset();
}

void check_required(const LineHandler& handler) {
  for (const Field field :
       {Field::kCheckpoint, Field::kTokenIdx, Field::kDtype, Field::kShape, Field::kValues}) {
    if (!handler.has(field)) {
      throw LineProblem{fmt::format("'{}' is missing", field_name(field)), kRequiredHint};
    }
  }
}

// Sets n if it is missing, and checks it against the shape and the values.
void check_sizes(bool skim, Record& record) {
  const int64_t count = element_count(record.shape);
  if (count < 0) {
    throw LineProblem{
        fmt::format("the shape [{}] has no element count", fmt::join(record.shape, ",")),
        "give dimensions of 0 or more whose product fits 63 bits"};
  }
  const bool given = record.n >= 0;
  if (!given) record.n = count;
  const auto logged = static_cast<int64_t>(record.values.size());
  if (!skim && !has_shape_of_values(record)) {
    throw LineProblem{
        fmt::format(
            "'n' is {}, but the shape [{}] has {}, which is not how many 'values' there are",
            record.n, fmt::join(record.shape, ","), count_of(count, "element")),
        "log the shape of the tensor, or of what is logged of it"};
  }
  if (!skim && logged > record.n) {
    throw LineProblem{
        fmt::format("{} values, but {} says {}", logged, given ? "'n'" : "'shape'", record.n),
        "log the shape of what is logged, or its size as n"};
  }
}

// `dims` without those that do not affect the order.
std::vector<int64_t> without_ones(std::vector<int64_t> dims) {
  std::erase(dims, 1);
  return dims;
}

// Checks the rows of nested values against the shape. Heads of rows, or columns given as rows,
// would be read as wrong elements.
void check_rows(const std::vector<int64_t>& lengths, const Record& record) {
  if (lengths.size() < 2 || record.values.empty()) return;
  const std::vector<int64_t> rows = without_ones(lengths);
  const std::vector<int64_t> shape = without_ones(record.shape);
  if (record.has_all_values() && rows.size() != shape.size()) return;
  bool fits = rows.size() <= shape.size();
  // The outermost dimension may be incomplete: the head of the tensor.
  for (size_t i = 0; fits && i < rows.size(); ++i) {
    const int64_t dim = shape[shape.size() - rows.size() + i];
    fits = i == 0 ? rows[i] <= dim : rows[i] == dim;
  }
  if (fits) return;
  throw LineProblem{fmt::format("'values' is nested as [{}], but the shape is [{}]",
                                fmt::join(lengths, ","), fmt::join(record.shape, ",")),
                    "log whole rows in the order of the shape, or a flat head of the tensor"};
}

// Checks the ids of `top` against the vocabulary's size and each other.
void check_top(const Record& record) {
  std::vector<int64_t> ids;
  ids.reserve(record.top.size());
  for (const TopValue& entry : record.top) ids.push_back(entry.index);
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) {
    throw LineProblem{fmt::format("'top' has the id {} twice", *twice), "log each id once"};
  }
  if (!ids.empty() && ids.back() >= record.n) {
    throw LineProblem{
        fmt::format("'top' has the id {}, but the record has {} elements", ids.back(), record.n),
        "give the vocabulary's size as n"};
  }
}

}  // namespace

struct LineParser::Impl {
  SkippedKeys* skipped = nullptr;
  rapidjson::Reader reader;
  Record record;
  LogHeader header;

  LineKind parse(std::string_view text, bool skim) {
    if (is_blank(text)) return LineKind::kBlank;
    reset(record);
    header = LogHeader();
    LineStream stream{text.data(), text.data(), text.data() + text.size()};
    LineHandler handler(stream, skim, skipped != nullptr, record, header);
    const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, handler);
    if (handler.has_problem()) throw handler.problem();
    if (result.IsError()) {
      std::string_view reason = rapidjson::GetParseError_En(result.Code());
      if (reason.ends_with('.')) reason.remove_suffix(1);
      throw LineProblem{
          fmt::format("is not valid JSON at byte {}: {}", result.Offset() + 1, reason), kNoJson,
          true};
    }
    if (stream.at != stream.end) {  // the parser treats a NUL byte as the end
      throw LineProblem{fmt::format("a NUL byte at byte {}", stream.Tell() + 1), kNoJson, true};
    }
    const bool is_header = handler.has(Field::kAssay);
    if (is_header && !handler.put_sequences_together()) throw handler.problem();
    if (!is_header) {
      check_required(handler);
      check_sizes(skim, record);
      check_rows(handler.values_lengths(), record);
      check_top(record);
      handler.count_nonfinite_of_summary();
    }
    if (skipped != nullptr) {
      for (const std::string& key : handler.skipped_keys(is_header)) skipped->add(key);
      if (handler.has_vanished()) skipped->add_vanished();
    }
    return is_header ? LineKind::kHeader : LineKind::kRecord;
  }
};

LineParser::LineParser(SkippedKeys* skipped) : impl_(std::make_unique<Impl>()) {
  impl_->skipped = skipped;
}
LineParser::~LineParser() = default;
LineKind LineParser::parse(std::string_view text) {
  return impl_->parse(text, false);
}
LineKind LineParser::skim(std::string_view text) {
  return impl_->parse(text, true);
}
Record& LineParser::record() {
  return impl_->record;
}
LogHeader& LineParser::header() {
  return impl_->header;
}

}  // namespace assay
