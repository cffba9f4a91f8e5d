#include "assay/dump/printed_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "assay/dump/printed_tensor.h"
#include "assay/dump/skip_globs.h"
#include "assay/log/line_reader.h"
#include "assay/log/record_text.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/input_file.h"

namespace assay {
namespace {

constexpr std::string_view kSum = "sum = ";
constexpr std::string_view kTokenCount = "number of input tokens = ";
// Each is printed once a run: by llama-debug, and beside hooks.
constexpr std::string_view kPrompts[] = {"Token ids (", "Input tokens: "};

class PrintedLog {
 public:
  PrintedLog(const std::string& path, const DumpOptions& options,
             const std::function<void(std::string_view)>& sink)
      : path_(path), options_(options), sink_(sink), skip_(options.skip) {}

  ImportedDump make() {
    LineReader lines(std::make_shared<const InputFile>(path_));
    for (Line line; lines.next(line);) take(line);
    if (tensor_ && !(depth_ == 0 && tensor_->prints_no_values())) {
      result_.warnings.push_back(fmt::format("{}:{}: the text ends within '{}', which is left out",
                                             printable(path_), tensor_->line,
                                             printable(tensor_->name, 80)));
    }
    if (result_.names.empty()) {
      throw Error("prints no tensor with a row for each token", path_,
                  "give what llama-eval-callback printed; see docs/dumps.md");
    }
    skip_.check_used(path_);
    flush();
    warn();
    return std::move(result_);
  }

 private:
  void take(const Line& line) {
    line_ = line.number;
    if (is_marked(line.text)) {
      begin_tensor(line.text);
      return;
    }
    const std::string_view text = without_spaces(line.text);
    if (!tensor_) {
      if (text == "[" && !first_.empty() && !may_go_on_) fail("rows of no tensor");
      take_token(text);
    } else if (tensor_->is_closed) {
      if (text == "[" && tensor_->ne[3] == 1) fail(*tensor_, "it ends before its sum");
      if (text.starts_with(kSum)) take_sum(text.substr(kSum.size()));
    } else if (text == "[") {
      if (++depth_ == 2) tensor_->blocks.parts.emplace_back();
      if (depth_ > 2) fail(*tensor_, "brackets within a row");
    } else if (text == "..." || text == "...,") {
      note_gap();
    } else if (text.starts_with("[") && depth_ == 2) {
      const std::string wrong = add_printed_row(text, *tensor_);
      if (!wrong.empty()) fail(*tensor_, wrong);
    } else if (text.starts_with("]")) {
      close();
    }
  }

  void begin_tensor(std::string_view line) {
    if (tensor_ && tensor_->is_closed) fail(*tensor_, "it ends before its sum");
    const bool has_begun = tensor_ && (depth_ > 0 || !tensor_->prints_no_values());
    if (has_begun) fail(*tensor_, "it ends before all of it is printed");
    tensor_ = printed_header_of(line);
    if (!tensor_) fail("a tensor's name, type and sizes cannot be read");
    tensor_->line = line_;
    depth_ = 0;
    may_go_on_ = tensor_->is_empty() || tensor_->ne[3] > 1;
    if (tensor_->is_empty()) tensor_.reset();
  }

  void take_sum(std::string_view text) {
    double sum = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), sum);
    if (read.ec != std::errc()) fail(*tensor_, "its sum is no number");
    tensor_->sum = sum;
    tensor_->sum_decimals = decimals_of({text.data(), read.ptr});
    if (tensor_->contradicts_sum()) {
      fail(*tensor_,
           fmt::format("its sum is {}, and that of its values {:.6g}", sum, tensor_->total));
    }
    write(*tensor_);
    tensor_.reset();
  }

  // The ids follow the line that counts them, one a line.
  void take_token(std::string_view text) {
    for (const std::string_view prompt : kPrompts) {
      if (text.find(prompt) == std::string_view::npos) continue;
      if (!prompts_.insert(prompt).second) fail_of_two_runs();
    }
    const size_t count = text.find(kTokenCount);
    if (count != std::string_view::npos) {
      if (!prompt_) prompt_.emplace();
      counts_tokens_ = prompt_->empty();
      return;
    }
    if (!counts_tokens_ || base_ > 0) return;
    int64_t id = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), id);
    if (read.ec == std::errc() && read.ptr == text.data() + text.size() && id >= 0) {
      prompt_->push_back(id);
    } else {
      counts_tokens_ = false;
    }
  }

  void note_gap() {
    if (depth_ != 1 && depth_ != 2) return;
    Printed<PrintedBlock>& blocks = tensor_->blocks;
    std::optional<size_t>& gap = depth_ == 1 ? blocks.before_gap : blocks.parts.back().before_gap;
    if (gap) fail(*tensor_, "'...' twice");
    tensor_->is_whole = false;
    gap = depth_ == 1 ? blocks.parts.size() : blocks.parts.back().parts.size();
  }

  void close() {
    if (--depth_ < 0) fail(*tensor_, "a bracket closes nothing");
    if (depth_ > 0) {
      const PrintedBlock& block = tensor_->blocks.parts.back();
      if (!block.fits(tensor_->ne[1])) {
        fail(*tensor_, fmt::format("{}, and {} expected", count_of(block.parts.size(), "row"),
                                   tensor_->ne[1]));
      }
      return;
    }
    // Of a tensor of four dimensions, which is no row of tokens, the first part is enough.
    if (!tensor_->blocks.fits(tensor_->ne[2])) {
      fail(*tensor_, fmt::format("{} of rows, and {} expected",
                                 count_of(tensor_->blocks.parts.size(), "block"), tensor_->ne[2]));
    }
    tensor_->is_closed = true;
  }

  static bool are_same(const Printed<PrintedBlock>& a, const Printed<PrintedBlock>& b) {
    return std::ranges::equal(a.parts, b.parts, [](const PrintedBlock& x, const PrintedBlock& y) {
      return std::ranges::equal(x.parts, y.parts, {}, &PrintedRow::values, &PrintedRow::values);
    });
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(what, fmt::format("{}:{}", path_, line_),
                "keep the text as it was printed, each stream in its own file");
  }
  [[noreturn]] void fail(const PrintedTensor& tensor, const std::string& what) const {
    fail(fmt::format("'{}': {}", printable(tensor.name, 80), what));
  }
  // What comes first would be compared, and what was appended to it not.
  [[noreturn]] void fail_of_two_runs() const {
    throw Error("a second run begins", fmt::format("{}:{}", path_, line_),
                "keep each run in a file of its own");
  }

  // A pass begins anew with the tensor that began the first one.
  void begin_pass(const PrintedTensor& tensor) {
    const std::string key = tensor.name + ' ' + tensor.origin.substr(0, tensor.origin.find('{'));
    if (first_.empty()) {
      first_ = key;
      first_blocks_ = tensor.blocks;
      write_header(tensor);
    } else if (key != first_) {
      return;
    } else if (tensor.ne[1] * tensor.ne[2] > 1 && are_same(tensor.blocks, first_blocks_)) {
      fail_of_two_runs();  // of the same tokens
    }
    base_ += tokens_;
    tokens_ = tensor.ne[2] > 1 ? tensor.ne[2] : tensor.ne[1];
    rows_ = tokens_;
  }

  void write_header(const PrintedTensor& tensor) {
    LogHeader header;
    header.engine = tensor.is_module ? "transformers" : "llama.cpp";
    const int64_t tokens = tensor.ne[2] > 1 ? tensor.ne[2] : tensor.ne[1];
    if (prompt_ && std::ssize(*prompt_) == tokens) header.tokens = *prompt_;
    text_ += header_line(header);
  }

  void write(PrintedTensor& tensor) {
    if (tensor.is_module) {
      if (tensor.name.ends_with("_in")) return;  // what other modules gave
      if (tensor.name.ends_with("_out")) tensor.name.resize(tensor.name.size() - 4);
    }
    begin_pass(tensor);
    // From here on the layer goes on with the rows whose logits are asked for.
    if (tensor.origin.starts_with("GET_ROWS(") &&
        tensor.origin.find("inp_out_ids{") != std::string::npos) {
      rows_ = tensor.ne[1];
    }
    const auto& [width, height, depth, rest] = tensor.ne;
    if (rest != 1 || tensor.name.empty() || skip_.match(tensor.name)) return;
    if (rows_ > 1 && rows_ < tokens_) return;  // which tokens these are is not printed
    Record record;
    record.checkpoint = tensor.name;
    record.dtype = tensor.type;
    if (!options_.team.empty()) record.team = options_.team;
    const Printed<PrintedBlock>& blocks = tensor.blocks;
    const bool is_vector = height == 1 && depth == 1;
    if (rows_ == 1 || is_vector) {
      record.shape = {width};
      if (!is_vector) record.shape.insert(record.shape.begin(), height);
      if (depth > 1) record.shape.insert(record.shape.begin(), depth);
      put(tensor, head_of(blocks.parts.front()), tensor.nonfinite, tokens_ - 1, record);
    } else if (depth == 1 && height == rows_) {
      record.shape = {width};
      const PrintedBlock& block = blocks.parts.front();
      lacks_tokens_ = lacks_tokens_ || block.before_gap;
      for (size_t i = 0; i < block.parts.size(); ++i) {
        const PrintedRow& row = block.parts[i];
        put(tensor, row.values, row.nonfinite, block.index(i, height), record);
      }
    } else if (depth == rows_) {
      record.shape = {height, width};
      lacks_tokens_ = lacks_tokens_ || blocks.before_gap;
      for (size_t i = 0; i < blocks.parts.size(); ++i) {
        const PrintedBlock& block = blocks.parts[i];
        put(tensor, head_of(block), nonfinite_of(block), blocks.index(i, depth), record);
      }
    } else {
      return;
    }
    if (named_.insert(tensor.name).second) result_.names.push_back({tensor.name, record.n});
    if (tensor.is_rounded_away()) rounded_away_.insert(tensor.name);
    decimals_ = tensor.decimals;
  }

  // The values from the first one on, up to the first that is not printed.
  static std::vector<float> head_of(const PrintedBlock& block) {
    std::vector<float> values;
    for (size_t i = 0; i < block.before_gap.value_or(block.parts.size()); ++i) {
      const PrintedRow& row = block.parts[i];
      values.insert(values.end(), row.values.begin(), row.values.end());
      if (!row.is_whole) break;
    }
    return values;
  }

  static NonfiniteCount nonfinite_of(const PrintedBlock& block) {
    NonfiniteCount all;
    for (const PrintedRow& row : block.parts) all += row.nonfinite;
    return all;
  }

  void put(PrintedTensor& tensor, const std::vector<float>& values, const NonfiniteCount& nonfinite,
           int64_t token, Record& record) {
    record.token_idx = base_ + token;
    record.n = element_count(record.shape);
    record.values = tensor.is_rounded_away() ? std::vector<float>() : values;
    record.summary = summary_of(tensor, record.values, nonfinite, record.n);
    append_record_line(text_, record);
    if (text_.size() > (size_t{1} << 20)) flush();
  }

  // What else is known of the whole tensor: what is not finite behind `values`, and the sum. Of
  // several tokens a sum that is not finite says no more than that one of them is not: the first
  // that may be it, where no value is printed that is the reason.
  std::optional<Summary> summary_of(PrintedTensor& tensor, const std::vector<float>& values,
                                    NonfiniteCount nonfinite, int64_t n) {
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    Summary summary;
    summary.min = summary.max = summary.mean = summary.l2 = kUnknown;
    summary.counts_nonfinite = false;
    NonfiniteCount shown;
    for (const float value : values) shown.add(value);
    if (tensor.sum && !std::isfinite(*tensor.sum) && tensor.nonfinite.total() == 0) {
      nonfinite.add(*tensor.sum);
      tensor.sum.reset();
    }
    if (nonfinite.total() > shown.total()) {
      summary.counts_nonfinite = true;
      summary.nonfinite = nonfinite.total();
      summary.nan = nonfinite.nan;
      return summary;
    }
    const bool is_of_token = tensor.sums_all && rows_ == 1;
    if (!tensor.sum || !is_of_token || !std::isfinite(*tensor.sum)) return std::nullopt;
    summary.mean = *tensor.sum / static_cast<double>(n);
    return summary;
  }

  void flush() {
    sink_(text_);
    text_.clear();
  }

  void warn() {
    if (lacks_tokens_) {
      result_.warnings.push_back(
          fmt::format("{}: of the tokens only the first and the last are printed: compare these "
                      "with --tokens, or print a prompt of at most 6",
                      printable(path_)));
    }
    if (rounded_away_.empty()) return;
    result_.warnings.push_back(fmt::format(
        "{}: left out the values of {}, the first '{}': they are so small that what {} leave out "
        "may be over 0.5 % of them; print more",
        printable(path_), count_of(rounded_away_.size(), "tensor"),
        printable(*rounded_away_.begin(), 80), count_of(decimals_, "decimal")));
  }

  const std::string& path_;
  const DumpOptions& options_;
  const std::function<void(std::string_view)>& sink_;
  std::optional<PrintedTensor> tensor_;  // that is being read
  int depth_ = 0;                        // of its brackets
  int64_t line_ = 0;
  std::optional<std::vector<int64_t>> prompt_;  // ids, where they are printed
  bool counts_tokens_ = false;
  std::set<std::string_view> prompts_;  // lines of kPrompts that were there
  bool may_go_on_ = false;  // more brackets may follow the last tensor, of which nothing is read
  std::string first_;       // the tensor that a pass begins with
  Printed<PrintedBlock> first_blocks_;  // of the first pass
  int64_t base_ = 0;                    // tokens of the passes before
  int64_t tokens_ = 0;                  // of this pass
  int64_t rows_ = 0;                    // that tensors have by now
  bool lacks_tokens_ = false;
  int decimals_ = 0;
  SkipGlobs skip_;
  std::set<std::string> named_;
  std::set<std::string> rounded_away_;
  std::string text_;
  ImportedDump result_;
};

}  // namespace

bool begins_printed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] == '{') return false;  // a log
  return std::ranges::any_of(kPrintedMarkers, [&](std::string_view marker) {
    const size_t found = text.find(marker);
    return found != std::string_view::npos && text.find(" = {", found) != std::string_view::npos;
  });
}

bool is_printed(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string text(64, '\0');
  const auto read = [&](size_t from) {
    file.read(text.data() + from, static_cast<std::streamsize>(text.size() - from));
    text.resize(from + static_cast<size_t>(file.gcount()));
  };
  read(0);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] == '{') return false;  // a log
  const size_t begun = text.size();
  text.resize(kPrintedSearched);
  read(begun);
  return begins_printed(text);
}

ImportedDump printed_to_log(const std::string& path, const DumpOptions& options,
                            const std::function<void(std::string_view)>& sink) {
  return PrintedLog(path, options, sink).make();
}

}  // namespace assay
