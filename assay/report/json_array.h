#pragma once

#include <string>
#include <string_view>

#include "assay/report/json_object.h"
#include "assay/report/text_sink.h"

namespace assay {

// "name":[ each element on a line of its own ], given to the sink now and then, after a comma.
template <typename Range, typename Append>
void write_array(std::string_view name, const Range& range, std::string& out, const TextSink& sink,
                 const Append& append) {
  constexpr size_t kFlushBytes = 1 << 16;
  out += ",\n\"";
  out += name;
  out += "\":[";
  bool first = true;
  for (const auto& element : range) {
    out += first ? "\n  " : ",\n  ";
    first = false;
    append(element);
    if (out.size() < kFlushBytes) continue;
    sink(out);
    out.clear();
  }
  out += ']';
}

// "name":[ each element ], for arrays that need no flushing and no lines.
template <typename Range, typename Append>
void append_array(JsonObject& object, std::string_view name, const Range& range, std::string& out,
                  const Append& append) {
  object.key(name);
  out += '[';
  bool first = true;
  for (const auto& element : range) {
    if (!first) out += ',';
    first = false;
    append(element);
  }
  out += ']';
}

}  // namespace assay
