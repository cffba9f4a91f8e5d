#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace assay {

// What matching the names of one log may cost, in steps of PCRE2.
struct MatchBudget {
  int64_t steps = 100'000'000;
  bool is_spent() const { return steps < 0; }
};

// Which names of tensors a rule of a map is for, and the layer that such a name holds.
class NamePattern {
 public:
  // `glob`: * stands for any characters, ? for one, {N} for the digits of the layer (once at most).
  // Throws std::invalid_argument, whose what() says what is wrong: both forms may have kMaxPattern
  // bytes and kMaxGroups groups.
  static NamePattern from_glob(std::string_view glob);
  // `regex`: as PCRE2 has it, for the whole name; its first group, if it has one, is the layer.
  static NamePattern from_regex(const std::string& regex);

  struct Match {
    std::optional<int> layer;
  };
  // Nothing where `name` does not match, is longer than kMaxName, or asks too much of the pattern;
  // nor where the budget, from which it takes, is spent.
  std::optional<Match> match(std::string_view name, MatchBudget& budget) const;

  static constexpr size_t kMaxPattern = 1024;
  static constexpr size_t kMaxName = 4096;
  static constexpr uint32_t kMaxGroups = 64;

 private:
  struct Code;
  static NamePattern compile(const std::string& regex);
  explicit NamePattern(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

}  // namespace assay
