#include "assay/log/log_line.h"

#include <algorithm>
#include <iterator>

#include "assay/log/json_text.h"
#include "assay/log/record_text.h"
#include "assay/log/sketch.h"

namespace assay {

size_t printed_values(const RawRecord& record, const LogOptions& options) {
  const size_t all = record.values.size();
  return options.head_values == kAllValues
             ? all
             : std::min(all, static_cast<size_t>(options.head_values));
}

void append_log_line(std::string& out, const RawRecord& record, const LogOptions& options) {
  const std::span<const float> values = record.values;
  const size_t head = printed_values(record, options);
  out += "{\"checkpoint\":";
  append_json_string(out, record.checkpoint);
  out += ",\"token_idx\":";
  append_json_number(out, record.token_idx);
  if (!record.sequence.empty() && record.sequence != "0") {
    append_json_member(out, "sequence", record.sequence);
  }
  if (!record.ts.empty()) {
    out += ",\"ts\":";
    out += record.ts;
  }
  if (!options.team.empty()) append_json_member(out, "team", options.team);
  append_json_member(out, "dtype", record.dtype);
  out += ",\"shape\":";
  append_json_array(out, record.shape);
  if (head < values.size()) {
    out += ",\"n\":";
    append_json_number(out, static_cast<int64_t>(values.size()));
  }
  out += ",\"values\":";
  append_json_array(out, values.first(head));
  if (options.summary || options.sketch) {
    out += ",\"summary\":";
    append_summary(out, summarize(values), std::ssize(values));
  }
  if (options.sketch) {
    out += ",\"sketch\":";
    append_json_array(out, record.sketch != nullptr ? *record.sketch : compute_sketch(values));
  }
  out += "}\n";
}

}  // namespace assay
