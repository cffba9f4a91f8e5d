#include "assay/log/json_file.h"

#include <fmt/format.h>
#include <rapidjson/error/en.h>

#include <string_view>

#include "assay/log/line_reader.h"
#include "base/error.h"

namespace assay {

rapidjson::Document read_json_file(const std::string& path, int64_t max_bytes,
                                   const std::string& hint) {
  const InputFile file(path);
  if (file.size() > max_bytes) {
    throw Error(fmt::format("{} bytes are too many, {} is the most", file.size(), max_bytes), path,
                hint);
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  text.resize(file.read(text.data(), text.size(), 0));
  return parse_json_text(text, path, hint);
}

rapidjson::Document parse_json_text(const std::string& text, const std::string& path,
                                    const std::string& hint) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseValidateEncodingFlag | rapidjson::kParseIterativeFlag>(
      text.data(), text.size());
  if (document.HasParseError()) {
    std::string_view reason = rapidjson::GetParseError_En(document.GetParseError());
    if (reason.ends_with('.')) reason.remove_suffix(1);
    throw Error(fmt::format("not valid JSON at byte {}: {}", document.GetErrorOffset() + 1, reason),
                path, hint);
  }
  return document;
}

std::string json_text_of(const rapidjson::Value& value) {
  return {value.GetString(), value.GetStringLength()};
}

}  // namespace assay
