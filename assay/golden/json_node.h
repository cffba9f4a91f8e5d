#pragma once

#include <rapidjson/document.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay {

// A value in a JSON file together with its place, so that any error in it is an Error such as
// "FILE: 'files[0].sha256' is not a string". Valid as long as the document is.
class JsonNode {
 public:
  JsonNode(const rapidjson::Value& value, const std::string& path) : value_(value), path_(path) {}

  // A member of an object, which is required; or nothing if it is absent or null. A name that is
  // absent must not be there misspelt.
  JsonNode at(const char* name) const;
  std::optional<JsonNode> find(const char* name) const;

  // All members of an object, none of them twice.
  std::vector<std::pair<std::string, JsonNode>> members() const;
  std::vector<JsonNode> items() const;

  bool is_object() const { return value_.IsObject(); }
  const rapidjson::Value& json() const { return value_; }
  std::string text() const;
  std::string nonempty_text() const;
  std::string sha256() const;     // 64 hexadecimal digits in lower case
  std::string file_name() const;  // one component of a path: no folder, none of '.' and '..'
  int64_t integer(int64_t least, int64_t most) const;
  double number_at_least(double least) const;  // finite
  std::vector<int32_t> token_ids() const;

  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const;

 private:
  JsonNode(const rapidjson::Value& value, std::shared_ptr<const JsonNode> parent,
           std::optional<std::string_view> name, size_t index)
      : value_(value),
        path_(parent->path_),
        parent_(std::move(parent)),
        name_(name),
        index_(index) {}

  // Its place in the document, as in "files[0].sha256"; empty for the document itself. It is made
  // only for messages: storing it in a node for each item would take many times the memory of the
  // file.
  std::string key() const;

  const rapidjson::Value& value_;
  const std::string& path_;
  std::shared_ptr<const JsonNode> parent_;  // null: the document
  std::optional<std::string_view> name_;    // of a member, in the document; none: an item
  size_t index_ = 0;                        // of an item
};

}  // namespace assay
