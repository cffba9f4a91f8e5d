#include "assay/dump/likely_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"

namespace assay {
namespace {

// What servers write for a probability of zero, which JSON has no number for: vLLM -9999,
// llama-server the lowest float, Python -Infinity.
constexpr double kNoProbability = -9999;
// Both are of one computation, printed with four digits or more.
constexpr double kSame = 1e-3;
// What a vocabulary of 300,000 may lose where probabilities below 6e-8 are 0, as in float16.
constexpr double kLost = 0.02;

bool is_number(double logprob) {
  return !std::isnan(logprob) && logprob < INFINITY;
}

bool is_zero(const LikelyToken& token) {
  return token.logprob <= kNoProbability;
}

bool are_same(double a, double b) {
  const bool are_zero = a <= kNoProbability && b <= kNoProbability;
  return are_zero || std::abs(a - b) <= kSame * (1 + std::abs(a));
}

[[noreturn]] void fail(const std::string& what, int64_t token_idx, const std::string& path) {
  throw Error(fmt::format("{} (token {})", what, token_idx), path,
              "this is no distribution that a server computes");
}

[[noreturn]] void fail_two(int64_t id, double one, double other, int64_t token_idx,
                           const std::string& path) {
  fail(fmt::format("states two log-probabilities of the token {}: {:.6g} and {:.6g}", id, one,
                   other),
       token_idx, path);
}

void check_own(const Position& position, int64_t token_idx, const std::string& path) {
  const double own = *position.logprob;
  const std::vector<LikelyToken>& likely = position.likely;
  if (!is_number(own)) fail("states no log-probability of its own token", token_idx, path);
  const auto listed = std::ranges::find(likely, position.token.value_or(-1), &LikelyToken::id);
  if (listed != likely.end()) {
    if (are_same(own, listed->logprob)) return;
    fail_two(listed->id, own, listed->logprob, token_idx, path);
  }
  double most = 0;
  for (const LikelyToken& token : likely) most = std::min(most, token.logprob);
  if (!(own <= most + kSame * (1 + std::abs(most)))) {
    fail(fmt::format("states {:.6g} for its own token, which is not among the likeliest, down to "
                     "{:.6g}",
                     own, most),
         token_idx, path);
  }
}

}  // namespace

void check_position(const Position& position, int64_t token_idx, const std::string& path) {
  for (const LikelyToken& token : position.likely) {
    if (!is_number(token.logprob)) {
      fail(fmt::format("states no log-probability of the token {}", token.id), token_idx, path);
    }
  }
  if (position.logprob && position.token) check_own(position, token_idx, path);
  std::map<int64_t, double> listed;
  double sum = 0;
  for (const LikelyToken& token : position.likely) {
    const auto [place, is_new] = listed.try_emplace(token.id, token.logprob);
    if (is_new) {
      sum += std::exp(token.logprob);
    } else if (!are_same(place->second, token.logprob)) {
      fail_two(token.id, place->second, token.logprob, token_idx, path);
    }
  }
  if (std::ranges::any_of(position.likely, is_zero) && !(sum >= 1 - kLost)) {
    fail(fmt::format("lists tokens of probability 0, and the others add up to {:.3g}", sum),
         token_idx, path);
  }
}

void leave_likeliest(Position& position) {
  std::vector<LikelyToken>& likely = position.likely;
  const auto count = std::ssize(likely);
  std::erase_if(likely,
                [&](const LikelyToken& token) { return token.rank > count || is_zero(token); });
  std::ranges::stable_sort(likely, std::greater(), &LikelyToken::logprob);
  const bool ends_with_own = likely.size() > 1 && position.token == likely.back().id;
  if (ends_with_own && likely.back().rank == 0) likely.pop_back();
}

bool is_likeliest(const Position& position) {
  if (position.likely.empty() || !position.token) return true;
  const auto own = std::ranges::find(position.likely, *position.token, &LikelyToken::id);
  return own != position.likely.end() && own->logprob >= position.likely.front().logprob;
}

}  // namespace assay
