#include "assay/golden/json_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/json_file.h"
#include "base/letters_apart.h"

namespace assay {
namespace {

std::string_view view_of(const rapidjson::Value& text) {
  return {text.GetString(), text.GetStringLength()};
}

// Whether `name`, which an object lacks, was meant by one that it has: a table that is left out by
// mistake would leave a wider one to apply.
bool is_misspelt(std::string_view own, std::string_view name) {
  constexpr size_t kShortest = 6;
  constexpr size_t kMost = 2;
  return name.size() >= kShortest && own.size() <= name.size() + kMost &&
         own.size() + kMost >= name.size() && letters_apart(own, name) <= kMost;
}

}  // namespace

void JsonNode::fail(const std::string& what, const std::string& hint) const {
  throw Error(parent_ == nullptr ? "the document " + what : fmt::format("'{}' {}", key(), what),
              path_, hint);
}

std::string JsonNode::key() const {
  if (parent_ == nullptr) return {};
  const std::string above = parent_->key();
  if (!name_) return fmt::format("{}[{}]", above, index_);
  return above.empty() ? std::string(*name_) : fmt::format("{}.{}", above, *name_);
}

std::optional<JsonNode> JsonNode::find(const char* name) const {
  if (!value_.IsObject()) fail("is not an object");
  std::optional<JsonNode> found;
  for (const auto& member : value_.GetObject()) {
    const std::string_view each = view_of(member.name);
    if (each != name) continue;
    if (found) fail(fmt::format("has the key '{}' twice", name));
    found.emplace(JsonNode(member.value, std::make_shared<const JsonNode>(*this), each, 0));
  }
  if (found && found->value_.IsNull()) return {};
  if (found) return found;
  for (const auto& member : value_.GetObject()) {
    const std::string_view each = view_of(member.name);
    if (is_misspelt(each, name)) fail(fmt::format("has the key '{}': is it '{}'?", each, name));
  }
  return {};
}

JsonNode JsonNode::at(const char* name) const {
  auto found = find(name);
  if (!found) {
    JsonNode(value_, std::make_shared<const JsonNode>(*this), name, 0).fail("is missing");
  }
  return *found;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  if (!value_.IsObject()) fail("is not an object");
  const auto self = std::make_shared<const JsonNode>(*this);
  std::vector<std::pair<std::string, JsonNode>> all;
  std::set<std::string_view> seen;
  for (const auto& member : value_.GetObject()) {
    const std::string_view name = view_of(member.name);
    if (!seen.insert(name).second) fail(fmt::format("has the key '{}' twice", name));
    all.emplace_back(name, JsonNode(member.value, self, name, 0));
  }
  return all;
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_.IsArray()) fail("is not an array");
  const auto self = std::make_shared<const JsonNode>(*this);
  std::vector<JsonNode> all;
  for (const auto& item : value_.GetArray()) {
    all.push_back(JsonNode(item, self, std::nullopt, all.size()));
  }
  return all;
}

std::string JsonNode::text() const {
  if (!value_.IsString()) fail("is not a string");
  return json_text_of(value_);
}

std::string JsonNode::nonempty_text() const {
  std::string result = text();
  if (result.empty()) fail("is empty");
  return result;
}

std::string JsonNode::sha256() const {
  std::string result = text();
  const bool digits = std::all_of(result.begin(), result.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (result.size() != 64 || !digits) fail("is not a SHA-256: 64 hexadecimal digits in lower case");
  return result;
}

std::string JsonNode::file_name() const {
  std::string result = nonempty_text();
  const bool folder = result.find('/') != std::string::npos || result == "." || result == "..";
  if (folder || result.find('\0') != std::string::npos) {
    fail("is not a plain file name", "name a file in the manifest's own folder");
  }
  return result;
}

int64_t JsonNode::integer(int64_t least, int64_t most) const {
  if (!value_.IsInt64() || value_.GetInt64() < least || value_.GetInt64() > most) {
    fail(fmt::format("is not a whole number from {} to {}", least, most));
  }
  return value_.GetInt64();
}

double JsonNode::number_at_least(double least) const {
  const double number = value_.IsNumber() ? value_.GetDouble() : std::nan("");
  if (!(number >= least) || !std::isfinite(number)) {
    fail(fmt::format("is not a finite number of {} or more", least));
  }
  return number;
}

std::vector<int32_t> JsonNode::token_ids() const {
  std::vector<int32_t> ids;
  for (const JsonNode& item : items()) {
    ids.push_back(static_cast<int32_t>(item.integer(0, INT32_MAX)));
  }
  return ids;
}

}  // namespace assay
