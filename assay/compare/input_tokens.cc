#include "assay/compare/input_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace assay {
namespace {

constexpr const char* kInputHint =
    "log both with the same input, or give --align=0 to compare anyway";

// Whether `a` from its `skipped`th on is the beginning of `b`, or as much as both have.
bool follows(const std::vector<int64_t>& a, size_t skipped, const std::vector<int64_t>& b) {
  const size_t common = std::min(a.size() - std::min(skipped, a.size()), b.size());
  return common >= kMinTokensInCommon &&
         std::equal(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(common),
                    a.begin() + static_cast<std::ptrdiff_t>(skipped));
}

// The first position of `a` whose token is another one in `b`, `offset` further on.
std::optional<int64_t> first_other_token(const std::vector<int64_t>& a,
                                         const std::vector<int64_t>& b, int64_t offset) {
  for (int64_t i = 0; i < std::ssize(a); ++i) {
    int64_t there = 0;
    if (__builtin_add_overflow(i, offset, &there) || there < 0 || there >= std::ssize(b)) continue;
    if (a[static_cast<size_t>(i)] != b[static_cast<size_t>(there)]) return i;
  }
  return std::nullopt;
}

}  // namespace

bool have_tokens(const LogIndex& ref, const LogIndex& got) {
  return ref.header() && got.header() && !ref.header()->tokens.empty() &&
         !got.header()->tokens.empty();
}

bool is_named_by_one(const LogIndex& ref, const LogIndex& got, int64_t token_idx, int64_t offset) {
  return have_tokens(ref, got) && (token_idx < std::ssize(ref.header()->tokens)) !=
                                      (token_idx + offset < std::ssize(got.header()->tokens));
}

std::string other_input(const LogIndex& ref, const LogIndex& got, int64_t offset) {
  if (!ref.header() || !got.header()) return {};
  const std::vector<int64_t>& a = ref.header()->tokens;
  const std::vector<int64_t>& b = got.header()->tokens;
  if (!a.empty() && !b.empty()) {
    const auto first = first_other_token(a, b, offset);
    const bool renumbered = a.front() == b.front() && !first_other_token(a, b, 0);
    if (!first || renumbered) return {};
    const int64_t in_got = *first + offset;
    return fmt::format(
        "other tokens than the reference {}: at position {} it has {}, the "
        "reference {}{}",
        ref.path(), in_got, b[static_cast<size_t>(in_got)], a[static_cast<size_t>(*first)],
        offset == 0 ? "" : fmt::format(" at {}", *first));
  }
  const auto& prompt = ref.header()->prompt;
  if (!prompt || !got.header()->prompt || *prompt == *got.header()->prompt) return {};
  return fmt::format("another prompt than the reference {}: '{}', the reference '{}'", ref.path(),
                     printable(*got.header()->prompt, 40), printable(*prompt, 40));
}

void check_same_input(const LogIndex& ref, const LogIndex& got) {
  const std::string other = other_input(ref, got, 0);
  if (!other.empty()) throw Error(other, fmt::format("{}:1", got.path()), kInputHint);
}

bool have_other_context(const LogIndex& ref, const LogIndex& got, const Alignment& alignment,
                        int64_t token_idx) {
  if (alignment.shift != Alignment::Shift::kNone) return true;
  if (!have_tokens(ref, got) || token_idx < 0) return false;
  const std::vector<int64_t>& a = ref.header()->tokens;
  const std::vector<int64_t>& b = got.header()->tokens;
  // Of lists that begin with the same token the offset is another number of the same positions.
  if (a.front() != b.front()) return true;
  const int64_t known = std::min(std::ssize(a), std::ssize(b));
  return !std::equal(a.begin(), a.begin() + (token_idx < known ? token_idx + 1 : known), b.begin());
}

KnownTokens known_tokens(const LogIndex& ref, const LogIndex& got, int64_t offset) {
  KnownTokens known;
  if (ref.header()) known.n_prompt = std::ssize(ref.header()->tokens);
  if (!got.header()) return known;
  known.got = got.header()->tokens;
  // Of lists that begin with the same token the offset is another number of the same positions.
  const bool renumbered =
      known.n_prompt > 0 && !known.got.empty() && ref.header()->tokens.front() == known.got.front();
  if (!renumbered && __builtin_sub_overflow(int64_t{0}, offset, &known.got_first))
    known.got.clear();
  return known;
}

std::optional<int64_t> left_out_offset(const LogIndex& ref, const LogIndex& got) {
  if (!ref.header() || !got.header()) return std::nullopt;
  const std::vector<int64_t>& a = ref.header()->tokens;
  const std::vector<int64_t>& b = got.header()->tokens;
  const size_t common = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(common);
  if (std::equal(a.begin(), end, b.begin())) return std::nullopt;
  for (size_t skipped = 1; skipped <= static_cast<size_t>(kMaxShift); ++skipped) {
    if (follows(a, skipped, b)) return -static_cast<int64_t>(skipped);
    if (follows(b, skipped, a)) return static_cast<int64_t>(skipped);
  }
  return std::nullopt;
}

}  // namespace assay
