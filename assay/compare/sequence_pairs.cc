#include "assay/compare/sequence_pairs.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "assay/compare/input_tokens.h"
#include "assay/compare/token_prefixes.h"

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

// What two sequences that belong together have in common: tokens, and what these are of.
using PairingKey = std::pair<int, Tokens>;
constexpr int kInRef = 0;  // the reference's tokens, which are a part of the other log's
constexpr int kInGot = 1;

std::vector<PairingKey> keys_of_tokens(const LogIndex& log) {
  Tokens tokens = real_tokens(log);
  if (tokens.empty()) return {};
  return {{0, std::move(tokens)}};
}

// Its tokens as a part (`own`), and what they are without padding, of which the mask may not tell:
// see padding_mask().
std::vector<PairingKey> keys_of_padding(const LogIndex& log, int own, int other) {
  std::vector<PairingKey> keys;
  const Tokens& all = tokens_of(log);
  if (all.empty()) return keys;
  keys.emplace_back(own, real_tokens(log));
  if (!log.header()->mask.empty()) return keys;
  const auto is = [](int64_t token) { return [token](int64_t each) { return each != token; }; };
  const auto begin = std::ranges::find_if(all, is(all.front()));
  const auto end_of = [&](int64_t token) {
    return std::find_if(all.rbegin(), all.rend(), is(token)).base();
  };
  keys.emplace_back(other, Tokens(begin, all.end()));
  keys.emplace_back(other, Tokens(all.begin(), end_of(all.back())));
  if (begin != all.end()) keys.emplace_back(other, Tokens(begin, end_of(all.front())));
  return keys;
}

using Beginning = std::vector<int64_t>;
using Beginnings = std::set<Beginning>;

// The tokens from a later one on, of which at most kMaxShift are before it, where another sequence
// begins with the same as they: see left_out_offset().
std::vector<std::span<const int64_t>> later_parts(std::span<const int64_t> tokens,
                                                  const Beginnings& of_others) {
  std::vector<std::span<const int64_t>> parts;
  for (size_t from = 1; from <= kMaxShift && from + kMinTokensInCommon <= tokens.size(); ++from) {
    const auto begin = tokens.subspan(from, kMinTokensInCommon);
    if (!of_others.contains(Beginning(begin.begin(), begin.end()))) continue;
    parts.push_back(tokens.subspan(from));
  }
  return parts;
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
    take_of_same_name([](const LogIndex& a, const LogIndex& b) {
      const Tokens tokens = real_tokens(a);
      return !tokens.empty() && tokens == real_tokens(b);
    });
    take_by_keys(keys_of_tokens, keys_of_tokens, [](LogIndex&, LogIndex&) { return true; });
    any_exact_ = std::ranges::any_of(pairs_, [](const SequencePair& p) { return p.got >= 0; });
    take_by_keys([](const LogIndex& ref) { return keys_of_padding(ref, kInRef, kInGot); },
                 [](const LogIndex& got) { return keys_of_padding(got, kInGot, kInRef); },
                 [&](LogIndex& a, LogIndex& b) { return is_padded(a, b); });
    take_of_same_name([](const LogIndex& a, const LogIndex& b) { return fit(a, b); });
    take_by_beginning();
    take_of_same_name([](const LogIndex& a, const LogIndex& b) {
      return tokens_of(a).empty() || tokens_of(b).empty();
    });
    if (ref_.size() == 1 && got_.size() == 1 && pairs_[0].got < 0) join(pairs_[0], 0);
    add_further();
    return std::move(pairs_);
  }

 private:
  using Belong = std::function<bool(LogIndex& ref, LogIndex& got)>;
  using KeysOf = std::function<std::vector<PairingKey>(const LogIndex&)>;
  // Places in got_ in ascending order, of which those before `next` have been tried.
  struct Candidates {
    const std::deque<size_t>* places = nullptr;
    size_t next = 0;
  };

  void join(SequencePair& pair, size_t got) {
    pair.got = static_cast<int64_t>(got);
    taken_[got] = true;
  }

  LogIndex& ref_of(const SequencePair& pair) const { return *ref_[static_cast<size_t>(pair.ref)]; }
  LogIndex& got_of(const SequencePair& pair) const { return *got_[static_cast<size_t>(pair.got)]; }

  // Pairs each sequence that has no partner yet with the one of its name, if they belong together.
  void take_of_same_name(const Belong& belong) {
    std::unordered_map<std::string_view, size_t> place_of;
    for (size_t i = 0; i < got_.size(); ++i) {
      if (!taken_[i]) place_of.emplace(got_[i]->sequence(), i);
    }
    for (SequencePair& pair : pairs_) {
      if (pair.got >= 0) continue;
      const auto found = place_of.find(ref_of(pair).sequence());
      if (found == place_of.end() || !belong(ref_of(pair), *got_[found->second])) continue;
      join(pair, found->second);
    }
  }

  // Pairs each sequence that has no partner yet with the first that belongs to it, of those that
  // share a key with it: so that not each is tried with each.
  void take_by_keys(const KeysOf& keys_of_ref, const KeysOf& keys_of_got, const Belong& belong) {
    std::map<PairingKey, std::deque<size_t>> places_of;
    for (size_t i = 0; i < got_.size(); ++i) {
      if (taken_[i]) continue;
      for (PairingKey& key : keys_of_got(*got_[i])) {
        std::deque<size_t>& places = places_of[std::move(key)];
        if (places.empty() || places.back() != i) places.push_back(i);
      }
    }
    for (SequencePair& pair : pairs_) {
      if (pair.got >= 0) continue;
      std::vector<Candidates> lists;
      for (const PairingKey& key : keys_of_ref(ref_of(pair))) {
        const auto found = places_of.find(key);
        if (found == places_of.end()) continue;
        std::deque<size_t>& places = found->second;
        while (!places.empty() && taken_[places.front()]) places.pop_front();
        lists.push_back({&places, 0});
      }
      while (const auto place = next_of(lists)) {
        if (!belong(ref_of(pair), *got_[*place])) continue;
        join(pair, *place);
        break;
      }
    }
  }

  // Pairs each sequence that has no partner yet with the first that fit()s it.
  void take_by_beginning() {
    Beginnings of_ref;
    Beginnings of_got;
    const auto add = [](Beginnings& all, const Tokens& tokens) {
      if (tokens.size() < kMinTokensInCommon) return;
      all.emplace(tokens.begin(), tokens.begin() + kMinTokensInCommon);
    };
    for (const SequencePair& pair : pairs_) {
      if (pair.got < 0) add(of_ref, tokens_of(ref_of(pair)));
    }
    std::vector<TokenPrefixes::Entry> from_first;
    std::vector<TokenPrefixes::Entry> from_later;
    for (size_t i = 0; i < got_.size(); ++i) {
      const Tokens& tokens = tokens_of(*got_[i]);
      if (taken_[i] || tokens.empty()) continue;
      add(of_got, tokens);
      from_first.push_back({tokens, i});
      for (const auto part : later_parts(tokens, of_ref)) from_later.push_back({part, i});
    }
    TokenPrefixes whole(std::move(from_first));
    TokenPrefixes later(std::move(from_later));
    for (SequencePair& pair : pairs_) {
      const Tokens& tokens = tokens_of(ref_of(pair));
      if (pair.got >= 0 || tokens.empty()) continue;
      size_t first = got_.size();
      const auto add_place = [&](std::optional<size_t> place) {
        if (place) first = std::min(first, *place);
      };
      add_place(whole.first(tokens, 1, taken_));
      add_place(later.first(tokens, kMinTokensInCommon, taken_));
      for (const auto part : later_parts(tokens, of_got)) {
        add_place(whole.first(part, kMinTokensInCommon, taken_));
      }
      if (first < got_.size()) join(pair, first);
    }
  }

  // Takes the first place that is in any of the lists, and that no pair has.
  std::optional<size_t> next_of(std::vector<Candidates>& lists) const {
    size_t first = got_.size();
    for (auto& [places, next] : lists) {
      while (next < places->size() && taken_[(*places)[next]]) ++next;
      if (next < places->size()) first = std::min(first, (*places)[next]);
    }
    if (first == got_.size()) return std::nullopt;
    for (auto& [places, next] : lists) {
      if (next < places->size() && (*places)[next] == first) ++next;
    }
    return first;
  }

  // Adds the sequences of the judged log that no pair has. One that is there twice is held to the
  // reference's twice.
  void add_further() {
    // The first sequence of the reference that has, or whose partner has, these tokens.
    std::map<Tokens, int64_t> own_tokens;
    std::map<Tokens, int64_t> real_of_partner;
    std::map<Tokens, int64_t> all_of_partner;
    for (int64_t p = std::ssize(ref_) - 1; p >= 0; --p) {
      const SequencePair& pair = pairs_[static_cast<size_t>(p)];
      own_tokens[real_tokens(ref_of(pair))] = p;
      if (pair.got < 0) continue;
      real_of_partner[real_tokens(got_of(pair))] = p;
      all_of_partner[tokens_of(got_of(pair))] = p;
    }
    own_tokens.erase(Tokens());
    const auto first_in = [&](const std::map<Tokens, int64_t>& places, const Tokens& tokens) {
      const auto found = places.find(tokens);
      return found == places.end() ? std::ssize(ref_) : found->second;
    };
    for (size_t i = 0; i < got_.size(); ++i) {
      if (taken_[i]) continue;
      LogIndex& own = *got_[i];
      const bool unmasked = own.header() && own.header()->mask.empty();
      int64_t ref = first_in(own_tokens, real_tokens(own));
      if (ref == std::ssize(ref_) && !tokens_of(own).empty()) {
        ref = first_in(real_of_partner, real_tokens(own));
        const int64_t alike =
            unmasked ? first_in(all_of_partner, tokens_of(own)) : std::ssize(ref_);
        if (alike < ref) {
          // What is padding in the partner is padding here.
          ref = alike;
          own.set_mask(Tokens(got_of(pairs_[static_cast<size_t>(ref)]).header()->mask), false);
        }
      }
      pairs_.push_back({ref < std::ssize(ref_) ? ref : -1, static_cast<int64_t>(i)});
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
