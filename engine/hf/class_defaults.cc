#include "engine/hf/class_defaults.h"

#include <fmt/format.h>

#include <string_view>

#include "base/error.h"
#include "base/json_file.h"
#include "engine/hf/config.h"

namespace assay {

// Written by golden/generate/class_defaults.py, an object for each model_type of hf_models(), and
// by golden/generate/text_parts.py; embedded by CMake.
extern const std::string_view kClassDefaults;
extern const std::string_view kTextParts;

namespace {

std::map<std::string, TextPart> read_text_parts() {
  const rapidjson::Document json = parse_json_text(
      std::string(kTextParts), "engine/hf/text_parts.json", kConfigHint, JsonNumbers::kAll);
  std::map<std::string, TextPart> parts;
  for (const auto& [kind, said] : json.GetObject()) {
    TextPart& part = parts[kind.GetString()];
    part.text = said["text"].GetString();
    part.flat = said["flat"].GetBool();
    part.tied = said["tied"].GetBool();
    part.tied_by_text = said["tied_by_text"].GetBool();
    part.scales_logits = said["scales_logits"].GetBool();
    for (const auto& name : said["others"].GetArray()) part.others.emplace_back(name.GetString());
  }
  return parts;
}

}  // namespace

rapidjson::Document class_defaults(const std::string& model_type, bool with_sizes) {
  constexpr char kFile[] = "engine/hf/class_defaults.json";
  const rapidjson::Document all =
      parse_json_text(std::string(kClassDefaults), kFile, kConfigHint, JsonNumbers::kAll);
  const auto found = all.FindMember(model_type.c_str());
  if (found == all.MemberEnd()) {
    throw Error(fmt::format("has no defaults of '{}'", model_type), kFile,
                "write it anew: python -m generate.class_defaults");
  }
  rapidjson::Document own;
  own.CopyFrom(found->value["defaults"], own.GetAllocator());
  if (!with_sizes) return own;
  for (const auto& [key, size] : found->value["sizes"].GetObject()) {
    own.AddMember(rapidjson::Value(key, own.GetAllocator()),
                  rapidjson::Value(size, own.GetAllocator()), own.GetAllocator());
  }
  return own;
}

const std::map<std::string, TextPart>& text_parts() {
  static const std::map<std::string, TextPart> parts = read_text_parts();
  return parts;
}

const TextPart* find_text_part(const std::string& model_type) {
  const auto found = text_parts().find(model_type);
  return found == text_parts().end() ? nullptr : &found->second;
}

}  // namespace assay
