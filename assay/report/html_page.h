#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "assay/report/text_sink.h"

namespace assay {

// One page that needs nothing but itself: style, script and data are in it, and its policy lets a
// browser load nothing else and run no other script.
struct HtmlPage {
  std::string title;
  std::string kind;         // "comparison": what the text is of, where scripts are off
  std::string_view script;  // elements.js first, then what draws `data`
  std::string data;         // JSON
  std::function<void(const TextSink&)> text;  // what is shown where scripts are off
};

void write_page(const HtmlPage& page, const TextSink& sink);

}  // namespace assay
