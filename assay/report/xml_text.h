#pragma once

#include <string>
#include <string_view>

namespace assay {

// `text` as it may stand in an XML or HTML element or between quotes of an attribute.
// What XML 1.0 forbids even as a reference (control characters, U+FFFE, bytes that are not UTF-8),
// and what changes the text around it, is written as \xNN. Line ends are kept.
std::string xml_text(std::string_view text);

// The same with line ends as \x0a too: a reader would make spaces of them in an attribute or title,
// and where the file is printed a line of it could be a command to a CI runner.
std::string xml_attribute(std::string_view text);

}  // namespace assay
