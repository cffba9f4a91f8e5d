#include "assay/compare/sequence_pairs.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "assay/compare/input_tokens.h"

namespace assay {
namespace {

using Sequences = std::vector<std::shared_ptr<LogIndex>>;
using Tokens = std::vector<int64_t>;

constexpr int64_t kMinPaddedTokens = 2;  // before a single sequence: one more token is a second BOS

const Tokens& tokens_of(const LogIndex& log) {
  static const Tokens kNone;
  return log.header() ? log.header()->tokens : kNone;
}

// The tokens that the header's mask does not say are padding.
Tokens real_tokens(const LogIndex& log) {
  Tokens tokens = tokens_of(log);
  if (tokens.empty() || log.header()->mask.empty()) return tokens;
  size_t i = 0;
  std::erase_if(tokens, [&](int64_t) { return log.header()->mask[i++] == 0; });
  return tokens;
}

// Whether the tokens of all sequences are equally many, as those of a padded batch are.
bool is_batch(const Sequences& sequences) {
  return sequences.size() > 1 && std::ranges::all_of(sequences, [&](const auto& sequence) {
           return tokens_of(*sequence).size() == tokens_of(*sequences.front()).size();
         });
}

// The mask of `padded`, if it is `tokens` with one token, which differs from its neighbours,
// repeated before or after. In a log of a single sequence only several before are padding: what
// comes after is a longer prompt.
std::optional<Tokens> padding_mask(const Tokens& padded, const Tokens& tokens, bool batch) {
  const int64_t more = std::ssize(padded) - std::ssize(tokens);
  if (more <= 0 || tokens.empty()) return std::nullopt;
  for (int64_t before = 0; before <= more; ++before) {
    const auto begin = padded.begin() + before;
    const auto end = begin + std::ssize(tokens);
    const int64_t token = before > 0 ? padded.front() : padded.back();
    const auto all_are_it = [&](auto from, auto to) {
      return std::all_of(from, to, [&](int64_t other) { return other == token; });
    };
    if (before > 0 && padded[static_cast<size_t>(before) - 1] != token) break;
    if (before > 0 && token == tokens.front()) continue;
    if (before < more && token == tokens.back()) continue;
    if (!all_are_it(end, padded.end()) || !std::equal(begin, end, tokens.begin())) continue;
    if (!batch && (before < kMinPaddedTokens || before < more)) continue;
    Tokens mask(padded.size(), 0);
    std::fill_n(mask.begin() + before, tokens.size(), 1);
    return mask;
  }
  return std::nullopt;
}

class SequencePairer {
 public:
  SequencePairer(const Sequences& ref, const Sequences& got)
      : ref_(ref),
        got_(got),
        ref_is_batch_(is_batch(ref)),
        got_is_batch_(is_batch(got)),
        taken_(got.size(), false) {
    for (int64_t i = 0; i < std::ssize(ref); ++i) pairs_.push_back({i, -1});
  }

  std::vector<SequencePair> pair() {
    const auto same_tokens = [](const LogIndex& a, const LogIndex& b) {
      const Tokens tokens = real_tokens(a);
      return !tokens.empty() && tokens == real_tokens(b);
    };
    const auto same_name = [](const LogIndex& a, const LogIndex& b) {
      return a.sequence() == b.sequence();
    };
    take([&](LogIndex& a, LogIndex& b) { return same_name(a, b) && same_tokens(a, b); });
    take([&](LogIndex& a, LogIndex& b) { return same_tokens(a, b); });
    any_exact_ = std::ranges::any_of(pairs_, [](const SequencePair& p) { return p.got >= 0; });
    take([&](LogIndex& a, LogIndex& b) { return is_padded(a, b); });
    take([&](LogIndex& a, LogIndex& b) { return same_name(a, b) && fit(a, b); });
    take([&](LogIndex& a, LogIndex& b) { return fit(a, b); });
    take([&](LogIndex& a, LogIndex& b) {
      return same_name(a, b) && (tokens_of(a).empty() || tokens_of(b).empty());
    });
    if (ref_.size() == 1 && got_.size() == 1 && pairs_[0].got < 0) {
      pairs_[0].got = 0;
      taken_[0] = true;
    }
    for (int64_t i = 0; i < std::ssize(got_); ++i) {
      if (taken_[static_cast<size_t>(i)]) continue;
      // A sequence that is there twice is held to the reference's twice.
      const auto same = std::ranges::find_if(ref_, [&](const auto& reference) {
        return same_tokens(*reference, *got_[static_cast<size_t>(i)]);
      });
      pairs_.push_back({same == ref_.end() ? twin_of(i) : same - ref_.begin(), i});
    }
    return std::move(pairs_);
  }

  // The reference's sequence that one with the same tokens as sequence `i` of the judged log is
  // held to, or -1. What is padding in that one is padding here.
  int64_t twin_of(int64_t i) const {
    LogIndex& own = *got_[static_cast<size_t>(i)];
    if (tokens_of(own).empty()) return -1;
    for (size_t p = 0; p < ref_.size(); ++p) {
      if (pairs_[p].got < 0) continue;
      const LogIndex& twin = *got_[static_cast<size_t>(pairs_[p].got)];
      if (real_tokens(own) == real_tokens(twin)) return pairs_[p].ref;
      if (tokens_of(own) != tokens_of(twin) || !own.header()->mask.empty()) continue;
      own.set_mask(Tokens(twin.header()->mask), false);
      return pairs_[p].ref;
    }
    return -1;
  }

 private:
  // Pairs each sequence that has no partner yet with the first that belongs to it.
  void take(const std::function<bool(LogIndex&, LogIndex&)>& belong) {
    for (SequencePair& pair : pairs_) {
      for (size_t i = 0; i < got_.size() && pair.got < 0; ++i) {
        if (taken_[i] || !belong(*ref_[static_cast<size_t>(pair.ref)], *got_[i])) continue;
        pair.got = static_cast<int64_t>(i);
        taken_[i] = true;
      }
    }
  }

  // Whether one is the other with padding, of which the header has no mask. In the reference that
  // is a guess: tokens that an engine left out look alike.
  bool is_padded(LogIndex& a, LogIndex& b) const {
    const auto pad = [&](LogIndex& padded, const LogIndex& other, bool batch) {
      if (tokens_of(padded).empty() || !padded.header()->mask.empty()) return false;
      const Tokens tokens = real_tokens(other);
      // One token before each of a batch is BOS.
      const bool one = tokens_of(padded).size() == tokens.size() + 1;
      auto mask = padding_mask(tokens_of(padded), tokens, batch && (any_exact_ || !one));
      if (mask) padded.set_mask(std::move(*mask), &padded == &a);
      return mask.has_value();
    };
    return pad(b, a, got_is_batch_) || pad(a, b, ref_is_batch_);
  }

  // Whether the tokens of one go on after those of the other, or begin before them.
  static bool fit(const LogIndex& a, const LogIndex& b) {
    const Tokens& ref = tokens_of(a);
    const Tokens& got = tokens_of(b);
    if (ref.empty() || got.empty()) return false;
    const size_t common = std::min(ref.size(), got.size());
    return std::equal(ref.begin(), ref.begin() + static_cast<std::ptrdiff_t>(common),
                      got.begin()) ||
           left_out_offset(a, b).has_value();
  }

  const Sequences& ref_;
  const Sequences& got_;
  bool ref_is_batch_;
  bool got_is_batch_;
  bool any_exact_ = false;
  std::vector<bool> taken_;
  std::vector<SequencePair> pairs_;
};

}  // namespace

std::vector<SequencePair> pair_sequences(const Sequences& ref, const Sequences& got) {
  return SequencePairer(ref, got).pair();
}

}  // namespace assay
