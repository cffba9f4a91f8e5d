#include "assay/compare/split.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "assay/compare/evidence.h"

namespace assay {
namespace {

// Two candidates for the token after `token_idx`.
struct Fork {
  int64_t token_idx;
  int32_t checkpoint;  // the logits
  int64_t ref;
  int64_t got;
};

bool passes_except_argmax(const RecordResult& result) {
  return !result.failed() || result.failing_metric == Metric::kArgmax;
}

class Search {
 public:
  Search(const Comparison& comparison, const KnownTokens& tokens)
      : comparison_(comparison), tokens_(tokens) {}

  std::optional<Split> find() {
    const std::vector<RecordResult>& results = comparison_.results;
    for (size_t begin = 0; begin < results.size();) {
      size_t end = begin;
      while (end < results.size() && results[end].token_idx == results[begin].token_idx) ++end;
      const std::span at_token(results.data() + begin, end - begin);
      if (auto split = split_before(at_token)) return split;
      for (size_t i = begin; i < end; ++i) note(results[i]);
      begin = end;
    }
    return std::nullopt;
  }

 private:
  // `at_token`: what was compared at a token, as the network computes. What shows whether the
  // same token went in is the first that was compared whole, or fails before it: a part that
  // passes proves nothing of it.
  std::optional<Split> split_before(std::span<const RecordResult> at_token) {
    if (!fork_) return std::nullopt;
    const auto tells = [](const RecordResult& result) {
      const SharedFacts& facts = result.metrics.facts;
      if (result.reason == kAfterFlip) return false;
      return facts.all_values || facts.sketch || result.failed();
    };
    const auto found = std::find_if(at_token.begin(), at_token.end(), tells);
    const RecordResult& first = found == at_token.end() ? at_token.front() : *found;
    if (first.reason == kAfterFlip) return std::nullopt;
    const Fork fork = *fork_;
    fork_.reset();
    if (std::ranges::any_of(at_token, [&](const RecordResult& r) { return shows_same_token(r); })) {
      return std::nullopt;
    }
    const auto stated = tokens_.got_at(fork.token_idx + 1);
    if (stated && *stated != fork.got) return std::nullopt;  // what the fork says did not happen
    // Where the reference does not say where the prompt ends, what the other's header names is it.
    if (stated && tokens_.n_prompt == 0) return std::nullopt;
    // What a part of a record shows is the least that it differs by.
    const SharedFacts& facts = first.metrics.facts;
    const bool part = !facts.all_values && !facts.sketch;
    const bool off = !(first.metrics.rel_l2 <= kOtherToken) || (part && first.failed());
    const bool is_garbage = first.failing_metric == Metric::kQuarantine ||
                            first.failing_metric == Metric::kNonfinite ||
                            first.failing_metric == Metric::kSize || first.contradicts_itself;
    if (!passed_before(first.checkpoint, fork) || !off || is_garbage) return std::nullopt;
    // Where the prompt ends is not known: that the next input is another token must be seen.
    const bool known = tokens_.n_prompt > 0 || is_embedding(first);
    return Split{fork.token_idx + 1, fork.ref, fork.got, 0, known};
  }

  bool is_embedding(const RecordResult& result) const {
    return comparison_.checkpoints[static_cast<size_t>(result.checkpoint)].name == "embedding";
  }

  // No two tokens have embeddings that begin with the same bits; near each other they may be, by
  // one large element.
  bool shows_same_token(const RecordResult& result) const {
    constexpr int64_t kFewest = 4;  // values, of which fewer may agree by chance
    return is_embedding(result) && result.metrics.identical && result.metrics.facts.head &&
           result.metrics.compared >= kFewest;
  }

  // The logits that chose differently may themselves have failed.
  bool passed_before(int32_t checkpoint, const Fork& fork) const {
    if (!seen_.contains(checkpoint)) return false;
    const auto failed = failed_.find(checkpoint);
    return failed == failed_.end() ||
           (checkpoint == fork.checkpoint && failed->second == fork.token_idx);
  }

  void note(const RecordResult& result) {
    seen_.insert(result.checkpoint);
    if (!passes_except_argmax(result)) {
      failed_.try_emplace(result.checkpoint, result.token_idx);
    }
    const Metrics& metrics = result.metrics;
    const bool generated = result.token_idx >= tokens_.n_prompt - 1;
    if (generated && metrics.argmax_ref && metrics.argmax_got &&
        metrics.argmax_ref != metrics.argmax_got) {
      fork_ = Fork{result.token_idx, result.checkpoint, *metrics.argmax_ref, *metrics.argmax_got};
    }
  }

  const Comparison& comparison_;
  const KnownTokens& tokens_;
  std::set<int32_t> seen_;             // checkpoints
  std::map<int32_t, int64_t> failed_;  // of each checkpoint, the first token at which it did
  std::optional<Fork> fork_;           // since the last record that shows the same token
};

}  // namespace

std::optional<Split> find_split(const Comparison& comparison, const KnownTokens& tokens) {
  return Search(comparison, tokens).find();
}

}  // namespace assay
