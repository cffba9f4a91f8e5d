#include "assay/synth/safetensors_header.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "assay/log/json_text.h"

namespace assay {
namespace {

uint64_t bytes_of(const SafetensorsEntry& entry) {
  return row_bytes(entry.type, std::accumulate(entry.shape.begin(), entry.shape.end(), int64_t{1},
                                               std::multiplies()));
}

}  // namespace

std::string safetensors_header(std::span<const SafetensorsEntry> entries) {
  std::string json;
  uint64_t begin = 0;
  for (const SafetensorsEntry& entry : entries) {
    json += json.empty() ? '{' : ',';
    append_json_string(json, entry.name);
    json += fmt::format(R"(:{{"dtype":"{}","shape":)", tensor_type_info(entry.type).name);
    append_json_array(json, entry.shape);
    const uint64_t end = begin + bytes_of(entry);
    json += fmt::format(R"(,"data_offsets":[{},{}]}})", begin, end);
    begin = end;
  }
  json += json.empty() ? "{}" : "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  const uint64_t size = json.size();
  std::string header(sizeof(size), '\0');
  std::memcpy(header.data(), &size, sizeof(size));
  return header + json;
}

uint64_t safetensors_data_bytes(std::span<const SafetensorsEntry> entries) {
  uint64_t bytes = 0;
  for (const SafetensorsEntry& entry : entries) bytes += bytes_of(entry);
  return bytes;
}

}  // namespace assay
