#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "assay/log/json_text.h"

namespace assay {

// Appends one JSON object to a string, member by member.
class JsonObject {
 public:
  explicit JsonObject(std::string& out) : out_(out) { out_ += '{'; }

  void key(std::string_view name) {
    if (!first_) out_ += ',';
    first_ = false;
    append_json_string(out_, name);
    out_ += ':';
  }
  void member(std::string_view name, std::string_view text) {
    key(name);
    append_json_string(out_, text);
  }
  void member(std::string_view name, bool value) {
    key(name);
    out_ += value ? "true" : "false";
  }
  void member(std::string_view name, double value) {
    key(name);
    append_json_number(out_, value);
  }
  void member(std::string_view name, int64_t value) {
    key(name);
    append_json_number(out_, value);
  }
  template <typename Number>
  void member(std::string_view name, const std::optional<Number>& value) {
    key(name);
    if (value) {
      append_json_number(out_, *value);
    } else {
      out_ += "null";
    }
  }
  void end() { out_ += '}'; }

 private:
  std::string& out_;
  bool first_ = true;
};

}  // namespace assay
