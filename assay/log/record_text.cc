#include "assay/log/record_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "assay/log/json_text.h"

namespace assay {
namespace {

// Whether `shape` and `values` alone determine how many elements the tensor has.
bool size_is_known(const Record& record) {
  return element_count(record.shape) == record.n && record.has_all_values();
}

// An element of a float tensor: in the shortest form of a float, unless the source log had more
// digits.
void append_extreme(std::string& out, double value) {
  if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max()) {
    append_json_number(out, value);
    return;
  }
  const auto element = static_cast<float>(value);
  if (static_cast<double>(element) == value || std::isnan(value)) {
    append_json_number(out, element);
    return;
  }
  std::string text;
  append_json_number(text, element);
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  if (read == value) {
    out += text;
  } else {
    append_json_number(out, value);
  }
}

// [[index,value],...]
void append_pairs(std::string& out, const std::vector<TopValue>& pairs) {
  out += '[';
  for (size_t i = 0; i < pairs.size(); ++i) {
    out += i == 0 ? "[" : ",[";
    append_json_number(out, pairs[i].index);
    out += ',';
    append_json_number(out, pairs[i].value);
    out += ']';
  }
  out += ']';
}

void append_coordinates(std::string& out, const Record& record) {
  const auto number = [&out](std::string_view key, int64_t value) {
    out += key;
    append_json_number(out, value);
  };
  if (record.sequence != "0") append_json_member(out, "sequence", record.sequence);
  if (record.step) number(",\"step\":", *record.step);
  if (record.phase) append_json_member(out, "phase", phase_name(*record.phase));
  if (!record.rank) return;
  number(",\"rank\":{\"tp\":", record.rank->tp);
  number(",\"pp\":", record.rank->pp);
  number(",\"ep\":", record.rank->ep);
  if (record.rank->sp != 0) number(",\"sp\":", record.rank->sp);
  out += '}';
}

// The lists that `member` has of each sequence, or the one of a header without sequences.
void append_lists(std::string& out, const LogHeader& header, const std::vector<int64_t>& only,
                  std::vector<int64_t> LogHeader::Sequence::*member) {
  if (header.sequences.empty()) {
    append_json_array(out, only);
    return;
  }
  for (size_t i = 0; i < header.sequences.size(); ++i) {
    out += i == 0 ? '[' : ',';
    append_json_array(out, header.sequences[i].*member);
  }
  out += ']';
}

// The tokens, the names of several sequences, and the mask where there is one.
void append_tokens(std::string& out, const LogHeader& header) {
  append_lists(out, header, header.tokens, &LogHeader::Sequence::tokens);
  bool masked = !header.mask.empty();
  for (size_t i = 0; i < header.sequences.size(); ++i) {
    out += i == 0 ? ",\"sequences\":[" : ",";
    append_json_string(out, header.sequences[i].name);
    masked = masked || !header.sequences[i].mask.empty();
  }
  if (!header.sequences.empty()) out += ']';
  if (!masked) return;
  out += ",\"mask\":";
  append_lists(out, header, header.mask, &LogHeader::Sequence::mask);
}

}  // namespace

void append_json_member(std::string& out, std::string_view key, std::string_view value) {
  out += ",\"";
  out += key;
  out += "\":";
  append_json_string(out, value);
}

void append_summary(std::string& out, const Summary& summary, int64_t n) {
  // Then it is known that there is no least and no greatest element.
  const bool none_finite = summary.nonfinite >= n;
  const auto is_known = [&](double number) { return none_finite || !std::isnan(number); };
  out += '{';
  const auto key = [&](const char* name) {
    if (out.back() != '{') out += ',';
    out += name;
  };
  if (is_known(summary.min)) {
    key("\"min\":");
    append_extreme(out, summary.min);
  }
  if (is_known(summary.max)) {
    key("\"max\":");
    append_extreme(out, summary.max);
  }
  if (is_known(summary.mean)) {
    key("\"mean\":");
    append_json_number(out, summary.mean);
  }
  if (is_known(summary.l2)) {
    key("\"l2\":");
    append_json_number(out, summary.l2);
  }
  if (none_finite || summary.argmax >= 0) {
    key("\"argmax\":");
    append_json_number(out, summary.argmax);
  }
  if (none_finite || !summary.top.empty()) {
    key("\"top\":");
    append_pairs(out, summary.top);
  }
  // A count of none is implied by the other members: a summary without this key also reads as 0.
  const bool whole = is_known(summary.min) && is_known(summary.max) && is_known(summary.mean) &&
                     is_known(summary.l2);
  if (whole || summary.nonfinite != 0) {
    key("\"nonfinite\":");
    append_json_number(out, summary.nonfinite);
  }
  if (summary.nonfinite > 0 && summary.nan) {
    key("\"nan\":");
    append_json_number(out, *summary.nan);
  }
  out += '}';
}

std::string header_line(const LogHeader& header) {
  std::string out = "{\"assay\":1,\"model\":{\"name\":";
  append_json_string(out, header.model.name);
  append_json_member(out, "sha256", header.model.sha256);
  append_json_member(out, "arch", header.model.arch);
  append_json_member(out, "type", header.model.type);
  out += "},\"tokens\":";
  append_tokens(out, header);
  if (header.prompt) append_json_member(out, "prompt", *header.prompt);
  append_json_member(out, "engine", header.engine);
  append_json_member(out, "backend", header.backend);
  append_json_member(out, "math", header.math);
  if (!header.checkpoints.empty()) append_json_member(out, "checkpoints", header.checkpoints);
  if (!header.routing.empty()) append_json_member(out, "routing", header.routing);
  if (!header.sampling.empty()) append_json_member(out, "sampling", header.sampling);
  if (header.ranks) {
    std::vector<std::string> stated;
    for (const RankAxis axis : kRankAxes) {
      const int64_t count = along(*header.ranks, axis);
      if (count > 0) stated.push_back(fmt::format(R"("{}":{})", rank_axis_name(axis), count));
    }
    out += fmt::format(",\"ranks\":{{{}}}", fmt::join(stated, ","));
  }
  out += "}\n";
  return out;
}

void append_record_line(std::string& out, const Record& record) {
  out += "{\"checkpoint\":";
  append_json_string(out, record.checkpoint);
  out += ",\"token_idx\":";
  append_json_number(out, record.token_idx);
  append_coordinates(out, record);
  if (record.ts) append_json_member(out, "ts", *record.ts);
  if (record.team) append_json_member(out, "team", *record.team);
  if (record.source) append_json_member(out, "source", *record.source);
  if (record.file) append_json_member(out, "file", *record.file);
  if (record.line) {
    out += ",\"line\":";
    append_json_number(out, *record.line);
  }
  append_json_member(out, "dtype", record.dtype);
  out += ",\"shape\":";
  append_json_array(out, record.shape);
  if (record.dims) append_json_member(out, "dims", *record.dims);
  if (!size_is_known(record)) {
    out += ",\"n\":";
    append_json_number(out, record.n);
  }
  out += ",\"values\":";
  append_json_array(out, record.values);
  if (!record.top.empty()) {
    out += ",\"top\":";
    append_pairs(out, record.top);
  }
  if (record.summary) {
    out += ",\"summary\":";
    append_summary(out, *record.summary, record.n);
  }
  if (record.sketch) {
    out += ",\"sketch\":";
    append_json_array(out, *record.sketch);
  }
  out += "}\n";
}

}  // namespace assay
