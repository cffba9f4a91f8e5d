#include "assay/log/skipped_keys.h"

#include <fmt/format.h>

#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr size_t kMost = 16;  // any log may have any number of keys
constexpr size_t kMaxName = 60;

}  // namespace

void SkippedKeys::add(const std::string& key) {
  const std::string name = printable(key, kMaxName);
  const auto found = lines_.find(name);
  if (found != lines_.end()) {
    ++found->second;
  } else if (lines_.size() < kMost) {
    lines_[name] = 1;
  } else {
    ++others_;
  }
}

std::string SkippedKeys::text() const {
  std::string text;
  for (const auto& [name, count] : lines_) {
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", name, count_of(count, "line"));
  }
  if (others_ > 0) text += fmt::format(", and further keys {}", count_of(others_, "time"));
  return text;
}

}  // namespace assay
