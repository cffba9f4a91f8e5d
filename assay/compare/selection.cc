#include "assay/compare/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "assay/compare/log_probabilities.h"
#include "assay/compare/nothing_in_common.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Whether `text` is a whole number, or empty, which leaves `value` as it is.
bool read_end(std::string_view text, int64_t& value) {
  if (text.empty()) return true;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && value >= 0;
}

// And the other name of each.
std::vector<std::string> with_siblings(std::vector<std::string> names) {
  for (size_t i = names.size(); i-- > 0;) {
    const std::string sibling = sibling_of(names[i]);
    if (!sibling.empty()) names.push_back(sibling);
  }
  return names;
}

}  // namespace

void Selection::set_tokens(const std::string& text, const std::string& where) {
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    Range range{0, kMost, std::string(item)};
    const size_t dots = item.find("..");
    bool good = !item.empty();
    if (dots == std::string_view::npos) {
      good = good && read_end(item, range.first);
      range.last = range.first;
    } else {
      good = read_end(item.substr(0, dots), range.first) &&
             read_end(item.substr(dots + 2), range.last) && range.first <= range.last;
    }
    if (!good) {
      throw Error(fmt::format("'{}' is not a range of tokens", printable(item, 40)), where,
                  "give positions such as 5, 5..20, 5.. or ..20, separated by commas");
    }
    ranges_.push_back(range);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
}

void Selection::set_checkpoints(const std::string& text, const std::string& where) {
  checkpoints_.emplace(text, where);
}

void Selection::check_checkpoints(const std::vector<std::string>& ref,
                                  const std::vector<std::string>& got, const std::string& ref_path,
                                  const std::string& got_path) const {
  if (!checkpoints_) return;
  std::vector<std::string> both = ref;
  both.insert(both.end(), got.begin(), got.end());
  checkpoints_->check(both, "neither log has a");
  try {
    checkpoints_->check_named(with_siblings(ref), printable(ref_path) + " has no");
    checkpoints_->check_named(with_siblings(got), printable(got_path) + " has no");
  } catch (const Error& error) {
    throw NothingInCommon(error);
  }
}

void Selection::check_tokens(const std::set<int64_t>& ref, const std::string& ref_path) const {
  for (const Range& range : ranges_) {
    const auto found = ref.lower_bound(range.first);
    if (found != ref.end() && *found <= range.last) continue;
    throw Error(
        fmt::format("{} has no record at tokens {}", printable(ref_path), range.text), "--tokens",
        ref.empty()
            ? "give a reference that has records"
            : fmt::format("its records are of tokens {} to {}", *ref.begin(), *ref.rbegin()));
  }
}

bool Selection::has_token(int64_t token_idx) const {
  return ranges_.empty() || std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
           return token_idx >= range.first && token_idx <= range.last;
         });
}

bool Selection::has_checkpoint(const std::string& name) const {
  return !checkpoints_ || checkpoints_->matches(name);
}

}  // namespace assay
