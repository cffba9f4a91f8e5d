#include "assay/compare/split.h"

#include <map>
#include <set>
#include <vector>

namespace assay {
namespace {

// Two candidates for the token after `token_idx`.
struct Fork {
  int64_t token_idx;
  int32_t checkpoint;  // the logits
  int64_t ref;
  int64_t got;
};

bool passes_but_for_the_argmax(const RecordResult& result) {
  return result.pass || result.failing_metric == "argmax";
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
      if (auto split = split_before(results[begin])) return split;
      for (size_t i = begin; i < end; ++i) note(results[i]);
      begin = end;
    }
    return std::nullopt;
  }

 private:
  // `first`: what the network computes first of all that is compared at its token.
  std::optional<Split> split_before(const RecordResult& first) {
    const int64_t token = first.token_idx;
    const auto ref = tokens_.ref(token);
    const auto got = tokens_.got(token);
    if (ref && got && *ref != *got && token >= tokens_.n_prompt) return Split{token, ref, got, 0};
    if (!fork_ || (ref && got)) {
      fork_.reset();
      return std::nullopt;
    }
    const Fork fork = *fork_;
    fork_.reset();
    const bool off = first.metrics.rel_l2 > kOtherToken && first.failing_metric != "quarantine";
    if (!passed_before(first.checkpoint, fork) || !off) return std::nullopt;
    const bool next = fork.token_idx + 1 == token;
    // Where the prompt ends is not known: that the next input is another token must be seen.
    const bool known = tokens_.n_prompt > 0 || is_embedding(first);
    return Split{fork.token_idx + 1, next && ref ? *ref : fork.ref, next && got ? *got : fork.got,
                 0, known};
  }

  bool is_embedding(const RecordResult& result) const {
    return comparison_.checkpoints[static_cast<size_t>(result.checkpoint)].name == "embedding";
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
    if (!passes_but_for_the_argmax(result)) {
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
