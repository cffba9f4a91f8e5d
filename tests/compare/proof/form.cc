#include "tests/compare/proof/form.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

#include "assay/log/sketch.h"

namespace assay::proof {
namespace {

template <typename Number>
void append_number(std::string& out, Number value, Print print, bool bare) {
  if (!std::isfinite(value)) {
    const char* name = std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
    out += bare ? name : fmt::format("\"{}\"", name);
    return;
  }
  char text[400];
  std::to_chars_result end{};
  if (print == Print::kShortest) {
    end = std::to_chars(std::begin(text), std::end(text), value);
  } else if (print == Print::kNineDigits) {
    end = std::to_chars(std::begin(text), std::end(text), value, std::chars_format::general, 9);
  } else {
    end = std::to_chars(std::begin(text), std::end(text), value, std::chars_format::fixed, 6);
  }
  out.append(text, end.ptr);
}

template <typename Numbers>
void append_numbers(std::string& out, const Numbers& numbers, const LogForm& form) {
  out += '[';
  const char* comma = "";
  for (const auto number : numbers) {
    out += comma;
    append_number(out, number, form.print, form.bare_nonfinite);
    comma = ",";
  }
  out += ']';
}

void append_values(std::string& out, const Line& line, const LogForm& form) {
  if (!form.nested || line.values.empty()) return append_numbers(out, line.values, form);
  const auto row = static_cast<size_t>(line.shape.back());
  out += '[';
  for (size_t at = 0; at < line.values.size(); at += row) {
    if (at > 0) out += ',';
    const size_t end = std::min(line.values.size(), at + row);
    append_numbers(out,
                   std::vector<float>(line.values.begin() + static_cast<ptrdiff_t>(at),
                                      line.values.begin() + static_cast<ptrdiff_t>(end)),
                   form);
  }
  out += ']';
}

void append_top(std::string& out, const std::vector<TopValue>& top, const LogForm& form) {
  out += '[';
  const char* comma = "";
  for (const TopValue& element : top) {
    out += fmt::format("{}[{},", comma, element.index);
    append_number(out, element.value, form.print, form.bare_nonfinite);
    out += ']';
    comma = ",";
  }
  out += ']';
}

void append_summary_of(std::string& out, const Line& line, const LogForm& form) {
  out += ",\"summary\":{";
  const char* comma = "";
  const auto key = [&](unsigned bit, const char* name) {
    if ((line.summary_keys & bit) == 0) return false;
    out += fmt::format("{}\"{}\":", comma, name);
    comma = ",";
    return true;
  };
  const Summary& summary = line.summary;
  const auto number = [&](unsigned bit, const char* name, double value) {
    if (key(bit, name)) append_number(out, value, form.print, form.bare_nonfinite);
  };
  number(kMin, "min", summary.min);
  number(kMax, "max", summary.max);
  number(kMean, "mean", summary.mean);
  number(kL2, "l2", summary.l2);
  if (key(kArgmax, "argmax")) out += std::to_string(summary.argmax);
  if (key(kTop, "top")) append_top(out, summary.top, form);
  if (key(kNonfinite, "nonfinite")) {
    out += std::to_string(summary.nonfinite);
    if (summary.nonfinite > 0 && summary.nan) out += fmt::format(",\"nan\":{}", *summary.nan);
  }
  out += '}';
}

void append_line(std::string& out, const Line& line, const LogForm& form) {
  const std::string shape = fmt::format("[{}]", fmt::join(line.shape, ","));
  out +=
      fmt::format(R"({{"checkpoint":"{}","token_idx":{},"dtype":"f32","shape":{})", line.checkpoint,
                  line.token_idx, form.shape_as_text ? "\"" + shape + "\"" : shape);
  if (form.with_origin) out += R"(,"ts":"2026-01-31T12:00:00Z","team":"them","source":"engine")";
  if (line.n) out += fmt::format(",\"n\":{}", *line.n);
  out += ",\"values\":";
  append_values(out, line, form);
  if (!line.top.empty()) {
    out += ",\"top\":";
    append_top(out, line.top, form);
  }
  if (line.summary_keys != 0) append_summary_of(out, line, form);
  if (line.sketch) {
    LogForm exact = form;
    exact.print = Print::kShortest;
    out += ",\"sketch\":";
    append_numbers(out, *line.sketch, exact);
  }
  out += "}\n";
}

std::string header_text(const Log& log) {
  std::string out = R"({"assay":1,"model":{"name":"model","sha256":")" + log.model_sha +
                    R"(","arch":"llama","type":"F32"})";
  if (log.names_tokens) out += fmt::format(",\"tokens\":[{}]", fmt::join(log.tokens, ","));
  if (log.prompt) out += fmt::format(",\"prompt\":\"{}\"", *log.prompt);
  return out + R"(,"engine":"engine","backend":"cpu","math":"exact"})" + "\n";
}

// The largest log-probabilities, in descending order.
std::vector<TopValue> top_logprobs(const std::vector<float>& logits, int count) {
  const double largest = logits[static_cast<size_t>(argmax(logits))];
  double sum = 0;
  for (const float value : logits) sum += std::exp(value - largest);
  std::vector<TopValue> top;
  for (size_t i = 0; i < logits.size(); ++i) {
    top.push_back(
        {static_cast<int64_t>(i), static_cast<float>(logits[i] - largest - std::log(sum))});
  }
  std::stable_sort(top.begin(), top.end(),
                   [](const TopValue& a, const TopValue& b) { return a.value > b.value; });
  top.resize(std::min(top.size(), static_cast<size_t>(count)));
  return top;
}

// The rows of one checkpoint as one record.
void add_whole_sequence(const std::vector<const Tensor*>& rows, const LogForm& form, Log& log) {
  Line line;
  line.checkpoint = rows.front()->checkpoint;
  line.token_idx = rows.front()->token + form.offset;
  line.shape = {static_cast<int64_t>(rows.size()),
                static_cast<int64_t>(rows.front()->values.size())};
  for (const Tensor* row : rows) {
    line.values.insert(line.values.end(), row->values.begin(), row->values.end());
  }
  log.lines.push_back(line);
}

// Consecutive tokens of each checkpoint, all of one size, go into one record.
void add_whole_sequences(const std::vector<const Tensor*>& logged, const LogForm& form, Log& log) {
  for (const std::string& name : form.checkpoints) {
    std::vector<const Tensor*> rows;
    for (const Tensor* tensor : logged) {
      if (tensor->checkpoint != name) continue;
      if (!rows.empty() && (tensor->token != rows.back()->token + 1 ||
                            tensor->values.size() != rows.back()->values.size())) {
        add_whole_sequence(rows, form, log);
        rows.clear();
      }
      rows.push_back(tensor);
    }
    if (!rows.empty()) add_whole_sequence(rows, form, log);
  }
}

// The numbers by which records are sorted, where not as the network computes.
void sort_lines(const LogForm& form, std::vector<const Tensor*>& logged) {
  Chance chance(form.shuffle);
  if (form.order == LogForm::Order::kShuffled) {
    for (size_t i = logged.size(); i > 1; --i) {
      std::swap(logged[i - 1], logged[static_cast<size_t>(chance.below(static_cast<int>(i)))]);
    }
  } else if (form.order != LogForm::Order::kNetwork) {
    std::map<std::string, size_t> place;
    for (const Tensor* tensor : logged) place.try_emplace(tensor->checkpoint, place.size());
    const int64_t batch =
        form.order == LogForm::Order::kBatch ? chance.between(2, 4) : int64_t{1} << 40;
    std::stable_sort(logged.begin(), logged.end(), [&](const Tensor* a, const Tensor* b) {
      return std::pair(a->token / batch, place[a->checkpoint]) <
             std::pair(b->token / batch, place[b->checkpoint]);
    });
  }
}

}  // namespace

bool LogForm::logs(const Tensor& tensor) const {
  return tensor.token >= from && tensor.token < to &&
         std::find(checkpoints.begin(), checkpoints.end(), tensor.checkpoint) != checkpoints.end();
}

Line make_line(const Tensor& tensor, const LogForm& form) {
  const auto n = static_cast<int64_t>(tensor.values.size());
  Line line;
  line.checkpoint = tensor.checkpoint;
  line.token_idx = tensor.token + form.offset;
  line.shape = {1, n};
  if (tensor.checkpoint == "logits" && form.logprobs_top > 0) {
    line.checkpoint = "logprobs";
    line.n = n;
    line.top = top_logprobs(tensor.values, form.logprobs_top);
    return line;
  }
  const RecordForm& record = form.of(tensor.checkpoint);
  const int64_t head = record.head == RecordForm::kAll ? n : std::min(record.head, n);
  if (record.n_given) line.n = n;
  line.values.assign(tensor.values.begin(), tensor.values.begin() + head);
  const size_t words = std::min(tensor.garbage.size(), static_cast<size_t>(head));
  std::copy_n(tensor.garbage.begin(), words, line.values.begin());
  line.summary_keys = record.summary;
  if (record.summary != 0) line.summary = summarize(tensor.values);
  if (record.sketch) line.sketch = compute_sketch(tensor.values);
  return line;
}

Log make_log(const Run& run, const LogForm& form, const Network& network) {
  Log log;
  log.has_header = form.header != LogForm::Header::kNone;
  log.model_sha = fmt::format("{:064x}", network.seed);
  log.names_tokens = form.names_tokens();
  const int64_t n_prompt = form.n_prompt.value_or(run.n_prompt);
  log.tokens.assign(run.tokens.begin() + form.from, run.tokens.begin() + n_prompt);
  if (form.header == LogForm::Header::kPrompt) {
    log.prompt =
        fmt::format("{}", fmt::join(run.tokens.begin(), run.tokens.begin() + n_prompt, " "));
  }
  std::vector<const Tensor*> logged;
  for (const Tensor& tensor : run.tensors) {
    if (form.logs(tensor)) logged.push_back(&tensor);
  }
  if (form.whole_sequence) {
    add_whole_sequences(logged, form, log);
    return log;
  }
  sort_lines(form, logged);
  for (const Tensor* tensor : logged) log.lines.push_back(make_line(*tensor, form));
  return log;
}

std::string text_of(const Log& log, const LogForm& form) {
  std::string out;
  if (log.has_header) out += header_text(log);
  size_t last = 0;
  for (const Line& line : log.lines) {
    last = out.size();
    append_line(out, line, form);
  }
  if (log.torn) {
    out.resize(last + (out.size() - last) / 2);
  } else if (!log.final_newline && !out.empty()) {
    out.pop_back();
  }
  return out;
}

}  // namespace assay::proof
