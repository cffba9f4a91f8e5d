#include "assay/golden/manifest_changes.h"

#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "assay/golden/manifest.h"
#include "base/error.h"
#include "base/json_file.h"

namespace assay {
namespace {

using Value = rapidjson::Value;

// Deeper keys are reported by the one above: notes may be nested to any depth.
constexpr int kToldDepth = 12;
constexpr size_t kMaxKey = 80;
constexpr size_t kMaxValue = 100;
constexpr size_t kMaxCommand = kMaxManifestBytes;

std::string scalar_text(const Value& value, size_t max_bytes) {
  if (value.IsString()) return fmt::format("'{}'", printable(json_text_of(value), max_bytes));
  if (value.IsNull()) return "null";
  if (value.IsBool()) return value.GetBool() ? "true" : "false";
  if (value.IsInt64()) return fmt::format("{}", value.GetInt64());
  if (value.IsNumber()) return fmt::format("{}", value.GetDouble());
  return value.IsArray() ? fmt::format("[{} items]", value.Size())
                         : fmt::format("{{{} keys}}", value.MemberCount());
}

bool is_scalar(const Value& value) {
  return !value.IsObject() && !value.IsArray();
}

// The kinds of values that are reported differently.
enum class Place : uint8_t { kManifest, kFiles, kFile, kLogs, kLog, kTexts, kNote };

Place place_in(Place place, std::string_view name) {
  if (place == Place::kManifest && name == "files") return Place::kFiles;
  if (place == Place::kFiles) return Place::kFile;
  if (place == Place::kFile && name == "logs") return Place::kLogs;
  if (place == Place::kFile && name == "texts") return Place::kTexts;
  return place == Place::kLogs ? Place::kLog : Place::kNote;
}

bool is_left_out(Place place, std::string_view name) {
  return (place == Place::kFile && (name == "floors" || name == "floors_by_checkpoint")) ||
         (place == Place::kLog && name == "sha256");
}

const char* name_key_of(Place place) {
  if (place == Place::kFiles) return "type";
  if (place == Place::kLogs) return "file";
  return place == Place::kTexts ? "prompt" : nullptr;
}

// The members of an object, or the items of an array by number or, if each is an object with a
// unique name, by that name, so that an inserted item does not change the keys of those after it.
class Members {
 public:
  Members(const Value& value, Place place) {
    if (value.IsObject()) {
      for (const auto& member : value.GetObject()) add(json_text_of(member.name), member.value);
      return;
    }
    if (add_by_name(value, name_key_of(place))) return;
    all_.clear();
    by_name_.clear();
    for (const Value& item : value.GetArray()) add(fmt::format("{}", &item - value.Begin()), item);
  }

  const std::vector<std::pair<std::string, const Value*>>& all() const { return all_; }
  const Value* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  // False unless each item has a name, and no other has it.
  bool add_by_name(const Value& array, const char* key) {
    return key != nullptr && std::all_of(array.Begin(), array.End(), [&](const Value& item) {
             return item.IsObject() && item.HasMember(key) && item[key].IsString() &&
                    add(json_text_of(item[key]), item);
           });
  }

  bool add(const std::string& name, const Value& value) {
    if (!by_name_.try_emplace(name, &value).second) return false;
    all_.emplace_back(name, &value);
    return true;
  }

  std::vector<std::pair<std::string, const Value*>> all_;  // as they stand in the file
  std::map<std::string, const Value*> by_name_;
};

class Differ {
 public:
  std::vector<std::string> differences(const Value& before, const Value& after) {
    // Not by recursion, which could be too deep.
    todo_.push_back({"", &before, &after, 0, Place::kManifest});
    while (!todo_.empty()) {
      const Pair pair = std::move(todo_.back());
      todo_.pop_back();
      compare(pair);
    }
    return std::move(found_);
  }

 private:
  struct Pair {
    std::string key;
    const Value* before;
    const Value* after;
    int depth;
    Place place;
  };

  void tell(const std::string& key, const std::string& what) {
    const std::string text = key + what;
    if (found_.empty() || found_.back() != text) found_.push_back(text);
  }

  void compare(const Pair& pair) {
    const Value& a = *pair.before;
    const Value& b = *pair.after;
    if (is_scalar(a) || is_scalar(b) || a.GetType() != b.GetType()) {
      if (is_scalar(a) && is_scalar(b) && a == b) return;
      if (pair.depth >= kToldDepth) return tell(pair.key, " changes");
      return tell(pair.key, ": " + change_of(pair.key, a, b));
    }
    if (a.IsArray() && holds_scalars(a) && holds_scalars(b)) return compare_rows(pair);
    push_members(pair);
  }

  // A truncated text is shown from shortly before the difference.
  static std::string change_of(const std::string& key, const Value& a, const Value& b) {
    const size_t most = key == "command" ? kMaxCommand : kMaxValue;
    if (a.IsString() && b.IsString() && std::max(a.GetStringLength(), b.GetStringLength()) > most) {
      const std::string old = json_text_of(a);
      const std::string now = json_text_of(b);
      const auto at = static_cast<size_t>(
          std::mismatch(old.begin(), old.end(), now.begin(), now.end()).first - old.begin());
      return fmt::format("from byte {} on '{}' -> '{}'", at + 1, printable(old.substr(at), most),
                         printable(now.substr(at), most));
    }
    return scalar_text(a, most) + " -> " + scalar_text(b, most);
  }

  static bool holds_scalars(const Value& array) {
    return std::all_of(array.Begin(), array.End(), is_scalar);
  }

  // Lists of numbers or texts: the first that differs, and how many do.
  void compare_rows(const Pair& pair) {
    const Value& a = *pair.before;
    const Value& b = *pair.after;
    const auto [x, y] = std::mismatch(a.Begin(), a.End(), b.Begin(), b.End());
    if (x == a.End() && y == b.End()) return;
    const std::string old = x == a.End() ? "none" : scalar_text(*x, kMaxValue);
    const std::string now = y == b.End() ? "none" : scalar_text(*y, kMaxValue);
    std::string text = fmt::format("[{}]: {} -> {}", x - a.Begin(), old, now);
    if (a.Size() != b.Size()) text += fmt::format(", {} items -> {}", a.Size(), b.Size());
    tell(pair.key, pair.depth >= kToldDepth ? " changes" : text);
  }

  void push_members(const Pair& pair) {
    const Members before(*pair.before, pair.place);
    const Members after(*pair.after, pair.place);
    const size_t first = todo_.size();
    for (const auto& [name, a] : before.all()) {
      if (is_left_out(pair.place, name)) continue;
      const std::string key = key_of(pair, name);
      const Value* b = after.find(name);
      if (b == nullptr) {
        tell(key, " is removed; it was " + scalar_text(*a, kMaxValue));
      } else {
        todo_.push_back({key, a, b, pair.depth + 1, place_in(pair.place, name)});
      }
    }
    for (const auto& [name, b] : after.all()) {
      if (before.find(name) != nullptr || is_left_out(pair.place, name)) continue;
      tell(key_of(pair, name), " is new: " + scalar_text(*b, kMaxValue));
    }
    std::reverse(todo_.begin() + static_cast<std::ptrdiff_t>(first), todo_.end());
  }

  static std::string key_of(const Pair& pair, const std::string& name) {
    if (pair.depth >= kToldDepth) return pair.key;
    const std::string shown = printable(name, kMaxKey);
    if (pair.before->IsArray()) return fmt::format("{}[{}]", pair.key, shown);
    return pair.key.empty() ? shown : pair.key + "." + shown;
  }

  std::vector<Pair> todo_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> manifest_changes(const std::string& before, const std::string& after,
                                          const std::string& path) {
  const rapidjson::Document a = parse_json_text(before, path, {});
  const rapidjson::Document b = parse_json_text(after, path, {});
  return Differ().differences(a, b);
}

}  // namespace assay
