#define PCRE2_CODE_UNIT_WIDTH 8

#include "assay/compare/name_pattern.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <charconv>
#include <stdexcept>
#include <system_error>

namespace assay {
namespace {

constexpr std::string_view kLayer = "{N}";
// The names and patterns come from outside. Steps: the first that suffice, so that the many cheap
// matches take little of the budget.
constexpr uint32_t kMatchLimits[] = {64, 2048, 100000};
constexpr uint32_t kHeapKib = 16384;

template <typename T, void (*free)(T*)>
struct Deleter {
  void operator()(T* held) const { free(held); }
};
using MatchData =
    std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data, pcre2_match_data_free>>;
using MatchContext =
    std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context, pcre2_match_context_free>>;

void check_length(std::string_view pattern) {
  if (pattern.size() <= NamePattern::kMaxPattern) return;
  throw std::invalid_argument(
      fmt::format("it has {} bytes, more than {}", pattern.size(), NamePattern::kMaxPattern));
}

}  // namespace

struct NamePattern::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  std::unique_ptr<pcre2_code, Deleter<pcre2_code, pcre2_code_free>> code;
};

NamePattern NamePattern::from_regex(const std::string& regex) {
  check_length(regex);
  return compile(regex);
}

NamePattern NamePattern::compile(const std::string& regex) {
  int error = 0;
  PCRE2_SIZE where = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                                   PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY,
                                   &error, &where, nullptr);
  if (code == nullptr) {
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(error, text, sizeof(text));
    throw std::invalid_argument(
        fmt::format("at {}: {}", where, reinterpret_cast<const char*>(text)));
  }
  NamePattern pattern(std::make_shared<Code>(code));
  uint32_t groups = 0;
  pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &groups);
  if (groups > kMaxGroups) {
    throw std::invalid_argument(fmt::format("it has {} groups, more than {}", groups, kMaxGroups));
  }
  return pattern;
}

NamePattern NamePattern::from_glob(std::string_view glob) {
  check_length(glob);
  std::string regex;
  bool has_layer = false;
  while (!glob.empty()) {
    if (glob.starts_with(kLayer)) {
      if (has_layer) throw std::invalid_argument("{N} is there twice");
      has_layer = true;
      regex += "([0-9]+)";
      glob.remove_prefix(kLayer.size());
      continue;
    }
    const char c = glob.front();
    glob.remove_prefix(1);
    if (c == '*') {
      regex += "(?s:.*)";
    } else if (c == '?') {
      regex += "(?s:.)";
    } else {
      regex += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return compile(regex);
}

std::optional<NamePattern::Match> NamePattern::match(std::string_view name,
                                                     MatchBudget& budget) const {
  if (name.size() > kMaxName) return std::nullopt;
  const MatchData data(pcre2_match_data_create(2, nullptr));
  const MatchContext context(pcre2_match_context_create(nullptr));
  if (!data || !context) throw std::bad_alloc();
  pcre2_set_heap_limit(context.get(), kHeapKib);
  int count = PCRE2_ERROR_MATCHLIMIT;
  for (const uint32_t limit : kMatchLimits) {
    budget.steps -= limit;
    if (budget.is_spent()) return std::nullopt;
    pcre2_set_match_limit(context.get(), limit);
    count = pcre2_match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(),
                        0, 0, data.get(), context.get());
    if (count != PCRE2_ERROR_MATCHLIMIT) break;
  }
  if (count < 0) return std::nullopt;
  Match match;
  const PCRE2_SIZE* at = pcre2_get_ovector_pointer(data.get());
  // 0: there are more groups than the one that is asked for.
  if (count != 1 && at[2] != PCRE2_UNSET) {
    int layer = 0;
    const char* end = name.data() + at[3];
    const auto [stop, error] = std::from_chars(name.data() + at[2], end, layer);
    if (error == std::errc() && stop == end && layer >= 0) match.layer = layer;
  }
  return match;
}

}  // namespace assay
