#pragma once

#include <rapidjson/document.h>

#include <string>
#include <utility>
#include <vector>

namespace assay {

// What a map knows of beginnings of names: {"module.": "", "model.language_model.": "model."}. A
// name that begins with the first is one that begins with the second, of each in turn.
class NamePrefixes {
 public:
  // Throws Error if `object`, named as in messages, is not such an object, or has over kMost.
  static NamePrefixes parse(const rapidjson::Value& object, const std::string& where);

  void add(const NamePrefixes& other);
  // The name with its beginnings exchanged; itself if it has none of them.
  std::string without(const std::string& name) const;

  static constexpr size_t kMost = 100;

 private:
  std::vector<std::pair<std::string, std::string>> prefixes_;
};

}  // namespace assay
