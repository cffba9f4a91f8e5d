#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <string>

namespace assay {

// Whether NaN and Infinity, which Python writes and JSON does not have, are numbers.
enum class JsonNumbers : uint8_t { kFinite, kAll };

// The JSON document in a file from outside. Throws Error, with `hint` where the contents are at
// fault, if it cannot be read, has more than `max_bytes`, or is not valid JSON in UTF-8. Depth is
// bounded by nothing but the size.
rapidjson::Document read_json_file(const std::string& path, int64_t max_bytes,
                                   const std::string& hint);
// The same of a text; errors name `path`.
rapidjson::Document parse_json_text(const std::string& text, const std::string& path,
                                    const std::string& hint,
                                    JsonNumbers numbers = JsonNumbers::kFinite);

// Throws Error if the object, which errors call `name`, has a key twice: which of the two counts
// would not be known.
void refuse_repeated_keys(const rapidjson::Value& object, const std::string& name,
                          const std::string& path, const std::string& hint);

// The bytes of a JSON string, zeros among them.
std::string json_text_of(const rapidjson::Value& value);

}  // namespace assay
