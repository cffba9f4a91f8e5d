#include "assay/log/log_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "assay/log/run_files.h"
#include "assay/log/sketch.h"
#include "base/error.h"

namespace assay {
namespace {

Error error_at(const InputFile& file, int64_t line, const LineProblem& problem) {
  return Error(problem.what, fmt::format("{}:{}", file.path(), line), problem.hint);
}

// Rejects compressed files by their first bytes: no line of JSON has them.
void refuse_compressed(const InputFile& file) {
  static constexpr std::pair<std::string_view, const char*> kFirstBytes[] = {
      {"\x1f\x8b", "gzip"},
      {"\x28\xb5\x2f\xfd", "zstd"},
      {"\xfd"
       "7zXZ",
       "xz"},
      {"BZh", "bzip2"}};
  char bytes[6];
  const std::string_view begin(bytes, file.read(bytes, sizeof(bytes), 0));
  for (const auto& [first, program] : kFirstBytes) {
    if (!begin.starts_with(first)) continue;
    throw Error(fmt::format("is compressed by {}", program), file.path(),
                fmt::format("give what {} -dc prints, as a file or by <( )", program));
  }
}

}  // namespace

LogReader::LogReader(const std::string& path, Depth depth, SkippedKeys* skipped)
    : depth_(depth), file_(std::make_shared<InputFile>(path)), lines_(file_), parser_(skipped) {
  refuse_compressed(*file_);
}

// Whether the file ends within an object.
bool LogReader::is_cut(std::string_view text) {
  try {
    parser_.skim(text);
    return false;
  } catch (const LineProblem& problem) {
    return problem.syntax && text.starts_with('{');
  }
}

LineKind LogReader::parse(const Line& line) {
  try {
    return depth_ == Depth::kFull ? parser_.parse(line.text) : parser_.skim(line.text);
  } catch (const LineProblem& problem) {
    if (!line.terminated && problem.syntax && is_cut(line.text)) {
      warnings_.push_back(fmt::format("{}:{}: the last line is cut off and was left out",
                                      printable(file_->path()), line.number));
      return LineKind::kBlank;
    }
    throw error_at(*file_, line.number, problem);
  }
}

Record* LogReader::next() {
  Line line;
  while (lines_.next(line)) {
    const LineKind kind = parse(line);
    if (kind == LineKind::kBlank) continue;
    const bool first = !any_line_;
    any_line_ = true;
    if (kind == LineKind::kHeader) {
      if (!first) {
        throw error_at(
            *file_, line.number,
            {"a header after the first line", "keep the log of each run in its own file"});
      }
      header_ = std::move(parser_.header());
      continue;
    }
    place_ = {line.offset, static_cast<int64_t>(line.text.size()), line.number, 0};
    return &parser_.record();
  }
  return nullptr;
}

std::optional<LogHeader> read_log_header(const std::string& path) {
  const std::vector<std::string> files = run_files(path);
  std::vector<std::optional<LogHeader>> headers;
  std::optional<LogHeader> first;
  for (const std::string& file : files) {
    LogReader log(file, Depth::kKeys);
    log.next();
    headers.push_back(log.header());
    if (!first) first = log.header();
  }
  if (first && files.size() > 1) {
    first->model = agree_on_header(files, std::move(headers)).header->model;
  }
  return first;
}

Error no_records_error(const LogReader& log) {
  return Error(log.warnings().empty() ? "the log holds no records"
                                      : "the log holds no records but a last line that is cut off",
               log.file()->path(), "check that the engine logged to this file");
}

namespace {

// Whether the summary counts more elements that are not finite than the values show.
bool hides_nonfinite(const Record& record) {
  const auto shown = std::count_if(record.values.begin(), record.values.end(),
                                   [](float value) { return !std::isfinite(value); });
  const int64_t nan = record.summary->nan.value_or(0);
  return std::max(record.summary->nonfinite, nan) > shown;
}

}  // namespace

Record& RecordLoader::load_row(const RecordPlace& place, int64_t row, int64_t rows) {
  if (sequence_offset_ != place.offset || sequence_file_ != place.file) {
    sequence_offset_ = -1;
    sequence_ = load(place);
    sequence_offset_ = place.offset;
    sequence_file_ = place.file;
  }
  const int64_t width = sequence_.n / rows;
  const auto held = std::ssize(sequence_.values);
  const auto begin = sequence_.values.begin() + std::min(held, row * width);
  const auto end = sequence_.values.begin() + std::min(held, (row + 1) * width);
  row_ = Record();
  row_.checkpoint = sequence_.checkpoint;
  row_.token_idx = sequence_.token_idx + row;
  row_.sequence = sequence_.sequence;
  row_.dtype = sequence_.dtype;
  row_.team = sequence_.team;
  row_.ts = sequence_.ts;
  row_.shape = {width};
  row_.n = width;
  row_.values.assign(begin, end);
  // Which row has what the values do not show is not known: any that is not listed may, and where
  // all are, the record contradicts itself.
  const bool may_have = !row_.has_all_values() || (row == 0 && sequence_.has_all_values());
  if (sequence_.summary && may_have && hides_nonfinite(sequence_)) {
    row_.summary = counts_of(*sequence_.summary);
  }
  return row_;
}

Record& RecordLoader::load(const RecordPlace& place) {
  const InputFile& file = *(*files_)[static_cast<size_t>(place.file)];
  try {
    const std::string_view text =
        buffer_.read(file, place.offset, static_cast<size_t>(place.bytes));
    if (parser_.parse(text) == LineKind::kRecord) return parser_.record();
    throw LineProblem{"the record is missing", "do not write to the log while it is read"};
  } catch (const LineProblem& problem) {
    throw error_at(file, place.line, problem);
  }
}

}  // namespace assay
