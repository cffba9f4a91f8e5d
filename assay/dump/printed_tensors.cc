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

#include "assay/dump/skip_globs.h"
#include "assay/log/line_reader.h"
#include "assay/log/record_text.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/input_file.h"

namespace assay {
namespace {

// Of a tensor in llama.cpp since 2026, and before it or of a module.
constexpr std::string_view kNewMarker = "common_debug_cb_eval:";
constexpr std::string_view kMarkers[] = {"ggml_debug:", kNewMarker};
constexpr std::string_view kSum = "sum = ";
constexpr std::string_view kTokenCount = "number of input tokens = ";
// Half of the built-in tolerance: an error that printing alone makes must not look like one.
constexpr double kMostRounding = 0.005;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// One vector along the first dimension: what is printed of it from its first element on.
struct PrintedRow {
  std::vector<float> values;
  bool is_whole = true;
};

// Rows, or blocks of rows, of which the middle may not be printed.
template <typename Part>
struct Printed {
  std::vector<Part> parts;
  std::optional<size_t> before_gap;  // how many there are before "..."

  // Which of `count` the part is.
  int64_t index(size_t part, int64_t count) const {
    const auto at = static_cast<int64_t>(part);
    return !before_gap || part < *before_gap ? at : count - std::ssize(parts) + at;
  }
  bool fits(int64_t count) const {
    if (parts.empty()) return false;
    return before_gap ? std::ssize(parts) <= count : std::ssize(parts) == count;
  }
};
using PrintedBlock = Printed<PrintedRow>;

struct PrintedTensor {
  std::string name;
  std::string type;
  std::string origin;              // the operation and what it is of
  std::array<int64_t, 4> ne = {};  // elements, the fastest dimension first
  bool is_module = false;          // of PyTorch
  bool sums_all = false;           // the sum is that of all elements, and not of the printed ones
  Printed<PrintedBlock> blocks;
  int64_t line = 0;
  bool is_closed = false;
  std::optional<double> sum;
  // Of all values that are printed.
  int decimals = 0;
  double squares = 0;
  int64_t count = 0;

  bool is_rounded_away() const {
    if (type.starts_with("i") || count == 0) return false;
    const double rms = std::sqrt(squares / static_cast<double>(count));
    return !(0.5 * std::pow(10.0, -decimals) <= kMostRounding * rms) && !std::isnan(rms);
  }
};

// "NAME = (f32) OP(SOURCES) = {256, 8, 1, 1}" or, of a module, "NAME = (f32)  ... =
// {torch.Size([1, 8, 256])}", behind a marker. Nothing if the line is another one.
std::optional<PrintedTensor> header_of(std::string_view line) {
  size_t from = std::string_view::npos;
  bool sums_all = false;
  for (const std::string_view marker : kMarkers) {
    const size_t found = line.find(marker);
    if (found == std::string_view::npos) continue;
    from = found + marker.size();
    sums_all = marker == kNewMarker;
  }
  if (from == std::string_view::npos) return std::nullopt;
  line = trimmed(line.substr(from));
  const size_t type = line.find(" = (");
  const size_t sizes = line.rfind(" = {");
  if (type == std::string_view::npos || sizes == std::string_view::npos || sizes <= type) {
    return std::nullopt;
  }
  PrintedTensor tensor;
  tensor.sums_all = sums_all;
  tensor.name = trimmed(line.substr(0, type));
  const size_t end_of_type = line.find(')', type);
  if (end_of_type >= sizes) return std::nullopt;
  tensor.type = line.substr(type + 4, end_of_type - type - 4);
  tensor.origin = trimmed(line.substr(end_of_type + 1, sizes - end_of_type - 1));
  std::vector<int64_t> numbers;
  for (size_t at = sizes; at < line.size();) {
    if (line[at] < '0' || line[at] > '9') {
      ++at;
      continue;
    }
    int64_t number = 0;
    const auto read = std::from_chars(line.data() + at, line.data() + line.size(), number);
    if (read.ec != std::errc() || number < 1 || number > INT32_MAX) return std::nullopt;
    numbers.push_back(number);
    at = static_cast<size_t>(read.ptr - line.data());
  }
  tensor.is_module = line.find("torch.Size", sizes) != std::string_view::npos;
  if (!tensor.is_module) {
    if (numbers.size() != 4) return std::nullopt;
    std::copy(numbers.begin(), numbers.end(), tensor.ne.begin());
    return tensor;
  }
  // The first of a batch is printed, with the heads of a token in one row.
  if (numbers.size() == 4) {
    int64_t width = 0;
    if (__builtin_mul_overflow(numbers[2], numbers[3], &width)) return std::nullopt;
    tensor.ne = {width, numbers[1], 1, 1};
  } else if (numbers.size() == 2 || numbers.size() == 3) {
    tensor.ne = {numbers.back(), numbers[numbers.size() - 2], 1, 1};
  } else {
    return std::nullopt;
  }
  return tensor;
}

class PrintedLog {
 public:
  PrintedLog(const std::string& path, const DumpOptions& options,
             const std::function<void(std::string_view)>& sink)
      : path_(path), options_(options), sink_(sink), skip_(options.skip) {}

  ImportedDump make() {
    LineReader lines(std::make_shared<const InputFile>(path_));
    for (Line line; lines.next(line);) take(line);
    finish();
    if (tensor_) {
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
    if (auto header = header_of(line.text)) {
      finish();
      if (tensor_) fail(*tensor_, "it ends before all of it is printed");
      tensor_ = std::move(header);
      tensor_->line = line.number;
      depth_ = 0;
      return;
    }
    const std::string_view text = trimmed(line.text);
    if (!tensor_) {
      take_token(text);
    } else if (tensor_->is_closed) {
      if (!text.starts_with(kSum)) return;
      double sum = 0;
      const char* const end = text.data() + text.size();
      const auto read = std::from_chars(text.data() + kSum.size(), end, sum);
      if (read.ec == std::errc()) tensor_->sum = sum;
      finish();
    } else if (text == "[") {
      if (++depth_ == 2) tensor_->blocks.parts.emplace_back();
      if (depth_ > 2) fail(*tensor_, "brackets within a row");
    } else if (text.starts_with("...")) {
      note_gap();
    } else if (text.starts_with("[") && depth_ == 2) {
      read_row(text);
    } else if (text.starts_with("]")) {
      close();
    }
  }

  // The ids follow the line that counts them, one a line.
  void take_token(std::string_view text) {
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
    gap = depth_ == 1 ? blocks.parts.size() : blocks.parts.back().parts.size();
  }

  void read_row(std::string_view text) {
    PrintedRow row;
    int64_t listed = 0;
    for (size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c == '[' || c == ']' || c == ',' || c == ' ' || c == '\t') {
        ++at;
      } else if (text.substr(at).starts_with("...")) {
        row.is_whole = false;
        at += 3;
      } else {
        double value = 0;
        const auto read = std::from_chars(text.data() + at, text.data() + text.size(), value);
        if (read.ec != std::errc()) fail(*tensor_, "a row holds what is no number");
        const auto end = static_cast<size_t>(read.ptr - text.data());
        const size_t point = text.substr(at, end - at).find('.');
        if (point != std::string_view::npos) {
          tensor_->decimals = std::max(tensor_->decimals, static_cast<int>(end - at - point - 1));
        }
        tensor_->squares += value * value;
        ++tensor_->count;
        ++listed;
        if (row.is_whole) row.values.push_back(static_cast<float>(value));
        at = end;
      }
    }
    const bool fits =
        row.is_whole ? listed == tensor_->ne[0] : std::ssize(row.values) <= tensor_->ne[0];
    if (!fits) {
      fail(*tensor_,
           fmt::format("a row of {}, and {} expected", count_of(listed, "number"), tensor_->ne[0]));
    }
    tensor_->blocks.parts.back().parts.push_back(std::move(row));
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

  void finish() {
    if (!tensor_ || !tensor_->is_closed) return;
    write(*tensor_);
    tensor_.reset();
  }

  [[noreturn]] void fail(const PrintedTensor& tensor, const std::string& what) const {
    throw Error(fmt::format("'{}': {}", printable(tensor.name, 80), what),
                fmt::format("{}:{}", path_, line_),
                "keep the text as it was printed, each stream in its own file");
  }

  // A pass begins anew with the tensor that began the first one.
  void begin_pass(const PrintedTensor& tensor) {
    const std::string key = tensor.name + ' ' + tensor.origin.substr(0, tensor.origin.find('{'));
    if (first_.empty()) {
      first_ = key;
      write_header(tensor);
    } else if (key != first_) {
      return;
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
      put(tensor, head_of(blocks.parts.front()), tokens_ - 1, record);
    } else if (depth == 1 && height == rows_) {
      record.shape = {width};
      const PrintedBlock& block = blocks.parts.front();
      lacks_tokens_ = lacks_tokens_ || block.before_gap;
      for (size_t i = 0; i < block.parts.size(); ++i) {
        put(tensor, block.parts[i].values, block.index(i, height), record);
      }
    } else if (depth == rows_) {
      record.shape = {height, width};
      lacks_tokens_ = lacks_tokens_ || blocks.before_gap;
      for (size_t i = 0; i < blocks.parts.size(); ++i) {
        put(tensor, head_of(blocks.parts[i]), blocks.index(i, depth), record);
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

  void put(PrintedTensor& tensor, const std::vector<float>& values, int64_t token, Record& record) {
    record.token_idx = base_ + token;
    record.n = element_count(record.shape);
    record.values = tensor.is_rounded_away() ? std::vector<float>() : values;
    record.summary = summary_of(tensor, record.n);
    append_record_line(text_, record);
    if (text_.size() > (size_t{1} << 20)) flush();
  }

  // What the sum says of the whole tensor. Of several tokens it says no more than that one of them
  // is not a number: the first that may be it.
  std::optional<Summary> summary_of(PrintedTensor& tensor, int64_t n) {
    if (!tensor.sum) return std::nullopt;
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    Summary summary;
    summary.min = summary.max = summary.mean = summary.l2 = kUnknown;
    summary.counts_nonfinite = false;
    if (std::isnan(*tensor.sum)) {
      summary.counts_nonfinite = true;
      summary.nonfinite = 1;
      summary.nan = 1;
      tensor.sum.reset();
      return summary;
    }
    if (!tensor.sums_all || rows_ != 1 || !std::isfinite(*tensor.sum)) return std::nullopt;
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
  std::string first_;   // the tensor that a pass begins with
  int64_t base_ = 0;    // tokens of the passes before
  int64_t tokens_ = 0;  // of this pass
  int64_t rows_ = 0;    // that tensors have by now
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
  return std::ranges::any_of(kMarkers, [&](std::string_view marker) {
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
