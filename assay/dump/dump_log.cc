#include "assay/dump/dump_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "assay/convert/convert.h"
#include "assay/convert/python_script.h"
#include "assay/dump/base_logprobs.h"
#include "assay/dump/dump_files.h"
#include "assay/dump/dump_values.h"
#include "assay/dump/printed_tensors.h"
#include "assay/dump/server_response.h"
#include "assay/dump/skip_globs.h"
#include "assay/dump/suggest_map.h"
#include "assay/dump/token_rows.h"
#include "assay/log/line_reader.h"
#include "assay/log/record_text.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr int64_t kMostOfRow = kMaxLineBytes / 2;  // a digit and a comma each
constexpr const char* kHint =
    "give a dump of a model's activations, with tokens before all other axes; see docs/dumps.md";

// One forward pass of one rank.
struct Pass {
  std::vector<const DumpTensor*> tensors;
  PassRows rows;
};

struct GivenToken {
  int64_t id = 0;
  Rank rank;  // that was given it first
};

using PassKey =
    std::tuple<int64_t, int64_t, int64_t, std::string, std::pair<int64_t, int64_t>, int64_t>;

PassKey key_of(const DumpTensor& tensor) {
  const Rank rank = tensor.rank.value_or(Rank());
  return {rank.pp, rank.tp, rank.ep, tensor.sequence, tensor.step, tensor.token_idx.value_or(-1)};
}

bool is_text(const std::string& type_name) {
  return type_name.starts_with("<U") || type_name.starts_with("|S");
}

// The axes of one row in the dump's words, as far as they say more than a record does.
std::string dims_of_row(const std::string& dims, size_t n_axes, size_t leading) {
  std::istringstream words(dims);
  std::vector<std::string> axes;
  std::string partial;
  for (std::string word; words >> word;)
    (word[0] == '+' ? partial = word : axes.emplace_back(word));
  if (axes.size() != n_axes || dims.find('[') == std::string::npos) return {};
  std::string row;
  for (size_t i = leading; i < axes.size(); ++i) row += (row.empty() ? "" : " ") + axes[i];
  return partial.empty() ? row : row + " " + partial;
}

class LogMaker {
 public:
  LogMaker(const std::string& path, Dump dump, const DumpOptions& options,
           const std::function<void(std::string_view)>& sink)
      : path_(path), dump_(std::move(dump)), options_(options), sink_(sink) {
    result_.warnings = std::move(dump_.warnings);
  }

  ImportedDump make() {
    choose_tensors();
    find_rows();
    write_header();
    for (auto& [key, pass] : passes_) {
      for (const DumpTensor* tensor : pass.tensors) {
        if (!describes_rows(*tensor)) write(*tensor, pass.rows);
      }
    }
    flush();
    if (result_.names.empty()) {
      throw Error("holds no tensor of tokens" + (why_without_.empty() ? "" : ": " + why_without_),
                  path_, kHint);
    }
    warn_of(without_rows_, "no axis of tokens, or two that could be it (" + why_without_ + ")",
            "save activations with their tokens first");
    return std::move(result_);
  }

 private:
  void choose_tensors() {
    std::vector<std::string> texts;
    std::vector<std::string> weights;
    SkipGlobs skip(options_.skip);
    for (const DumpTensor& tensor : dump_.tensors) {
      if (skip.match(tensor.name)) continue;
      if (tensor.name.ends_with(".weight") || tensor.name.ends_with(".bias")) {
        weights.push_back(tensor.name);
        continue;
      }
      if (tensor.info.type == ArrayType::kOther) {
        if (is_text(tensor.info.type_name)) {
          texts.push_back(tensor.name);
          continue;
        }
        throw Error(fmt::format("'{}' has the type {}, which is not read",
                                printable(tensor.name, 80), printable(tensor.info.type_name, 40)),
                    path_, "give real numbers by rows, or leave it out with assay import --skip");
      }
      passes_[key_of(tensor)].tensors.push_back(&tensor);
    }
    warn_of(texts, "text", {});
    warn_of(weights, "a model's weights", {});
    skip.check_used(path_);
    if (passes_.empty()) throw Error("holds no tensor", path_, kHint);
  }

  void find_rows() {
    struct Before {
      std::map<std::string, int64_t> tokens;  // of each sequence
      std::optional<int64_t> step;
    };
    std::map<std::tuple<int64_t, int64_t, int64_t, std::string>, Before> of;
    std::optional<std::pair<int64_t, int64_t>> gap;
    for (auto& [key, pass] : passes_) {
      const auto& [pp, tp, ep, sequence, step, token] = key;
      Before& before = of[{pp, tp, ep, sequence}];
      pass.rows = rows_of(pass.tensors, before.tokens);
      for (const TokenRow& row : pass.rows.rows) sequences_.insert(row.sequence);
      check_ids(key, pass.rows);
      if (!gap && before.step && step.first > *before.step + 1 && !pass.rows.has_places) {
        gap = {*before.step, step.first};
      }
      before.step = step.first;
    }
    if (!gap) return;
    result_.warnings.push_back(
        fmt::format("{}: after pass {} comes {}: its tokens are counted on, as if there were none "
                    "between; save "
                    "'positions', too, if there were",
                    printable(path_), gap->first, gap->second));
  }

  // Ranks are given the same tokens. What one made of others would be held to the first one's.
  void check_ids(const PassKey& key, const PassRows& rows) {
    const auto& [pp, tp, ep, sequence, step, token] = key;
    for (size_t i = 0; i < rows.ids.size() && i < rows.rows.size(); ++i) {
      const TokenRow& row = rows.rows[i];
      if (row.is_padding) continue;
      const auto [first, added] = ids_.try_emplace({step, row.sequence, row.token_idx},
                                                   GivenToken{rows.ids[i], {tp, pp, ep}});
      if (added || first->second.id == rows.ids[i]) continue;
      const Rank& other = first->second.rank;
      if (other == Rank{tp, pp, ep}) continue;
      throw Error(
          fmt::format("rank tp {} pp {} ep {} was given the token {} at position {} of sequence "
                      "'{}', and rank tp {} pp {} ep {} the token {}",
                      tp, pp, ep, rows.ids[i], row.token_idx, printable(row.sequence, 40), other.tp,
                      other.pp, other.ep, first->second.id),
          path_,
          "that is the fault, if they share a model; of processes that each have sequences of "
          "their own, import the folder of each by itself");
    }
  }

  // The tokens of each sequence are those of its first pass, the prompt's; of all sequences, or of
  // none.
  void write_header() {
    LogHeader header;
    header.engine = dump_.engine;
    std::map<std::string, std::vector<int64_t>> tokens;
    for (const auto& [key, pass] : passes_) {
      std::map<std::string, std::vector<int64_t>> of_pass;
      for (size_t i = 0; i < pass.rows.ids.size() && i < pass.rows.rows.size(); ++i) {
        const TokenRow& row = pass.rows.rows[i];
        if (!row.is_padding) of_pass[row.sequence].push_back(pass.rows.ids[i]);
      }
      tokens.merge(of_pass);
    }
    if (sequences_.size() == 1 && !tokens.empty()) {
      header.tokens = tokens.begin()->second;
    } else if (tokens.size() == sequences_.size()) {
      for (auto& [name, ids] : tokens) header.sequences.push_back({name, std::move(ids), {}});
    }
    const bool has_tokens = !header.tokens.empty() || !header.sequences.empty();
    if (!header.engine.empty() || has_tokens) text_ += header_line(header);
  }

  void write(const DumpTensor& tensor, const PassRows& pass) {
    const auto axes = axes_of(tensor, pass);
    if (!axes) {
      leave_out(tensor, pass);
      return;
    }
    const int64_t width = element_count(axes->shape);
    if (width < 1 || width > kMostOfRow) {
      throw Error(
          fmt::format("'{}' has {} elements for each token", printable(tensor.name, 80), width),
          path_, "leave it out with assay import --skip");
    }
    Record record;
    record.checkpoint = tensor.name;
    record.dtype = names_of(tensor.info.type).log;
    record.shape = axes->shape;
    record.n = width;
    record.rank = tensor.rank;
    if (!options_.team.empty()) record.team = options_.team;
    const std::string dims = dims_of_row(tensor.dims, tensor.info.shape.size(), axes->leading);
    if (!dims.empty() && axes->form != RowAxes::Form::kHeadsFirst) record.dims = dims;
    if (has_steps()) record.step = tensor.step.first;
    if (named_.insert(tensor.name).second) result_.names.push_back({tensor.name, width});
    if (axes->form == RowAxes::Form::kHeadsFirst) {
      write_heads(tensor, pass, record);
      return;
    }
    const bool of_last = axes->form == RowAxes::Form::kLast;
    const int64_t count = of_last ? std::ssize(pass.last) : std::ssize(pass.rows);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = of_last ? pass.last[static_cast<size_t>(i)] : i;
      read_values(tensor, width, record.values);
      write_row(pass.rows[static_cast<size_t>(row)], record);
    }
  }

  // What cannot be read at all is not: it is left out.
  static bool holds_nan(const DumpTensor& tensor) {
    constexpr int64_t kPart = int64_t{1} << 16;
    std::vector<float> values;
    try {
      for (int64_t left = element_count(tensor.info.shape); left > 0; left -= kPart) {
        read_values(tensor, std::min(left, kPart), values);
        if (std::ranges::any_of(values, [](float value) { return std::isnan(value); })) return true;
      }
    } catch (const Error&) {
      return false;
    }
    return false;
  }

  // A checkpoint by its name has a row for each token: what has not is a part of one. Only where
  // heads and tokens are equally many could it be whole.
  void leave_out(const DumpTensor& tensor, const PassRows& pass) {
    const std::vector<int64_t>& shape = tensor.info.shape;
    const std::string what =
        fmt::format("'{}' has the shape [{}], and {}, {}, {} expected", printable(tensor.name, 80),
                    fmt::join(shape, ","), count_of(pass.batch * pass.tokens, "row"), pass.counted,
                    plural(pass.batch * pass.tokens == 1, "is", "are"));
    const bool may_be_whole = shape.size() == 4 && shape[1] == shape[2];
    if (is_checkpoint(tensor.name) && !may_be_whole) {
      throw Error(what, tensor.file.empty() ? path_ : tensor.file,
                  "save it for all tokens, which come before all other axes, or leave it out with "
                  "assay import --skip");
    }
    if (holds_nan(tensor)) {
      throw Error(
          fmt::format("'{}' is no tensor of tokens, and holds NaN", printable(tensor.name, 80)),
          tensor.file.empty() ? path_ : tensor.file,
          "leave it out with assay import --skip, if it may");
    }
    without_rows_.push_back(tensor.name);
    if (without_rows_.size() == 1) why_without_ = what;
  }

  // [batch, heads, tokens, size] as rows of [heads, size].
  void write_heads(const DumpTensor& tensor, const PassRows& pass, Record& record) {
    const int64_t heads = record.shape[0];
    const int64_t size = record.shape[1];
    std::vector<float> all;
    for (int64_t b = 0; b < pass.batch; ++b) {
      read_values(tensor, heads * pass.tokens * size, all);
      for (int64_t t = 0; t < pass.tokens; ++t) {
        record.values.clear();
        for (int64_t head = 0; head < heads; ++head) {
          const auto from = all.begin() + (head * pass.tokens + t) * size;
          record.values.insert(record.values.end(), from, from + size);
        }
        write_row(pass.rows[static_cast<size_t>(b * pass.tokens + t)], record);
      }
    }
  }

  void write_row(const TokenRow& row, Record& record) {
    if (row.is_padding) return;
    record.token_idx = row.token_idx;
    if (sequences_.size() > 1) record.sequence = row.sequence;
    append_record_line(text_, record);
    if (text_.size() > (size_t{1} << 20)) flush();
  }

  bool has_steps() const {
    return std::get<4>(passes_.begin()->first).first != std::get<4>(passes_.rbegin()->first).first;
  }

  void flush() {
    sink_(text_);
    text_.clear();
  }

  void warn_of(const std::vector<std::string>& names, const std::string& why,
               const std::string& hint) {
    if (names.empty()) return;
    result_.warnings.push_back(fmt::format(
        "{}: left out {}, the first '{}': {}{}", printable(path_), count_of(names.size(), "tensor"),
        printable(names.front(), 80), why, hint.empty() ? "" : "; " + hint));
  }

  const std::string& path_;
  Dump dump_;
  const DumpOptions& options_;
  const std::function<void(std::string_view)>& sink_;
  std::map<PassKey, Pass> passes_;
  std::map<std::tuple<std::pair<int64_t, int64_t>, std::string, int64_t>, GivenToken> ids_;
  std::set<std::string> sequences_;
  std::set<std::string> named_;
  std::vector<std::string> without_rows_;
  std::string why_without_;  // the first of these
  std::string text_;
  ImportedDump result_;
};

// Whether `assay convert` wrote these arrays.
bool is_log(const Dump& dump) {
  return std::any_of(dump.tensors.begin(), dump.tensors.end(),
                     [](const DumpTensor& tensor) { return tensor.name == "assay.records"; });
}

// Files that are given by mistake, and that no reader of dumps would name.
void check_is_no_log(const std::string& path) {
  char begin[4] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof(begin));
  if (begin[0] == '{' && !path.ends_with(".json")) {
    throw Error("is JSON, and no dump", path, "a log needs no import: give it to assay compare");
  }
  if (std::string_view(begin, sizeof(begin)) == "GGUF") {
    throw Error("is a model, and no dump of a run", path, "assay run MODEL --log F logs one");
  }
}

// A pipe would be waited for, and cannot be read twice.
void require_file_or_folder(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  using enum std::filesystem::file_type;
  if (type == regular || type == directory || type == not_found || type == none) return;
  throw Error("is neither a regular file nor a folder", path, "give the path of a dump");
}

}  // namespace

ImportedDump dump_to_log(const std::string& path, const DumpOptions& options,
                         const std::function<void(std::string_view)>& sink) {
  require_file_or_folder(path);
  if (path.ends_with(".parquet")) {
    parquet_to_log(path, options.work + "/log", sink);
    return {};
  }
  const auto response = read_server_response(path);
  if (!response && options.vocabulary > 0) {
    throw Error("is no response of a server", path, "leave out --vocabulary");
  }
  const bool is_base = !response && is_base_logprobs(path);
  if (!is_base && options.bos) {
    throw Error("holds no log-probabilities of llama-perplexity", path, "leave out --bos");
  }
  const bool is_text = !response && !is_base && is_printed(path);
  const bool has_layers = !response && !is_base && !is_text;
  if (!has_layers && !options.vllm_layers.empty()) throw no_hidden_states(path);
  if (response) return server_response_to_log(*response, path, options, sink);
  if (is_base) return base_logprobs_to_log(path, options, sink);
  if (is_text) return printed_to_log(path, options, sink);
  check_is_no_log(path);
  const ScriptFolder work(options.work + "/dump");
  Dump dump = open_dump(path, work.path(""), options.vllm_layers);
  if (is_log(dump)) {
    arrays_to_log(path, sink);
    return {};
  }
  return LogMaker(path, std::move(dump), options, sink).make();
}

}  // namespace assay
