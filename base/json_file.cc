#include "base/json_file.h"

#include <fmt/format.h>
#include <rapidjson/error/en.h>

#include <set>
#include <string_view>

#include "base/error.h"
#include "base/input_file.h"

namespace assay {

rapidjson::Document read_json_file(const std::string& path, int64_t max_bytes,
                                   const std::string& hint) {
  return parse_json_text(read_whole_file(path, max_bytes, hint), path, hint);
}

rapidjson::Document parse_json_text(const std::string& text, const std::string& path,
                                    const std::string& hint, JsonNumbers numbers) {
  rapidjson::Document document;
  constexpr unsigned kFlags =
      rapidjson::kParseValidateEncodingFlag | rapidjson::kParseIterativeFlag;
  if (numbers == JsonNumbers::kFinite) {
    document.Parse<kFlags>(text.data(), text.size());
  } else {
    document.Parse<kFlags | rapidjson::kParseNanAndInfFlag>(text.data(), text.size());
  }
  if (document.HasParseError()) {
    std::string_view reason = rapidjson::GetParseError_En(document.GetParseError());
    if (reason.ends_with('.')) reason.remove_suffix(1);
    throw Error(
        fmt::format("is not valid JSON at byte {}: {}", document.GetErrorOffset() + 1, reason),
        path, hint);
  }
  return document;
}

void refuse_repeated_keys(const rapidjson::Value& object, const std::string& name,
                          const std::string& path, const std::string& hint) {
  std::set<std::string> seen;
  for (const auto& member : object.GetObject()) {
    const std::string key = json_text_of(member.name);
    if (seen.insert(key).second) continue;
    throw Error(fmt::format("{} has the key '{}' twice", name, printable(key, 40)), path, hint);
  }
}

std::string json_text_of(const rapidjson::Value& value) {
  return {value.GetString(), value.GetStringLength()};
}

}  // namespace assay
