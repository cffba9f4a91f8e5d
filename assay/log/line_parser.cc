#include "assay/log/line_parser.h"

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>

#include "assay/log/line_handler.h"
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

// Sets n where it is not given, and holds it against the shape and the values.
void check_sizes(bool skim, Record& record) {
  const int64_t count = element_count(record.shape);
  if (count < 0) {
    throw LineProblem{
        fmt::format("the shape [{}] has no element count", fmt::join(record.shape, ",")),
        "give dimensions of 0 or more whose product fits 63 bits"};
  }
  const bool given = record.n >= 0;
  if (!given) record.n = count;
  if (!skim && static_cast<int64_t>(record.values.size()) > record.n) {
    throw LineProblem{fmt::format("{} values, but {} says {}", record.values.size(),
                                  given ? "'n'" : "'shape'", record.n),
                      "log the shape of what is logged, or its size as n"};
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
    if (stream.at != stream.end) {  // the parser takes a NUL byte for the end
      throw LineProblem{fmt::format("a NUL byte at byte {}", stream.Tell() + 1), kNoJson, true};
    }
    const bool is_header = handler.has(Field::kAssay);
    if (!is_header) {
      check_required(handler);
      check_sizes(skim, record);
      handler.count_told_nonfinite();
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
