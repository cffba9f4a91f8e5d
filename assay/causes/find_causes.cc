#include "assay/causes/find_causes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>
#include <set>
#include <string>
#include <utility>

#include "assay/causes/error_sources.h"
#include "assay/causes/expert_count.h"
#include "assay/causes/infer.h"
#include "assay/causes/model_fit.h"
#include "assay/causes/own_tokens.h"
#include "assay/causes/search.h"
#include "assay/causes/search_places.h"
#include "assay/compare/input_tokens.h"
#include "assay/compare/log_probabilities.h"
#include "assay/mistakes/network.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace causes {
namespace {

void tell(const Judgement& judgement, Comparison& comparison) {
  if (judgement.cause) {
    comparison.causes.push_back(*judgement.cause);
    CheckpointName& at = comparison.causes.back().checkpoint;
    const CheckpointName& diverged = comparison.first_divergence->checkpoint;
    if (sibling_of(at.name) == diverged.name) at = diverged;
  } else {
    comparison.cause_hint = judgement.hint;
  }
}

// Of the model, or of what the logs name.
Network network_of(const Model* model, const TensorStore& store, const Comparison& comparison) {
  Network network;
  if (model != nullptr) {
    int64_t positions = std::ssize(store.tokens());
    for (const RecordResult& result : comparison.results) {
      positions = std::max(positions, result.token_idx + 1);
    }
    network = Network::of_model(*model, positions);
    check_model(network, comparison);
  } else {
    constexpr int kMaxLayers = 1000;
    for (const CheckpointName& name : comparison.checkpoints) {
      network.n_layers = std::max(network.n_layers, std::min(name.layer, kMaxLayers - 1) + 1);
    }
  }
  network.n_prompt = std::ssize(store.tokens());
  return network;
}

// The share of the difference (of squares) by which the reference's records of the op are off what
// the model gives for what the reference has before them. Nothing where that is not known.
std::optional<double> error_of_reference(Op op, const Network& network, TensorStore& store,
                                         int64_t first_token) {
  store.use_reference(true);
  std::optional<double> error;
  const std::vector<int64_t> at = positions_to_try(store, op.name(), first_token);
  const Chain chain(network, store, op, at, true);
  if (chain.complete() && chain.base_multiplications() <= Search::kMaxMultiplications) {
    const Evidence evidence(store, op.name(), at);
    const auto right = evidence.features(chain.base(), chain.positions());
    double off = 0;
    double difference = 0;
    for (size_t t = 0; t < right.size(); ++t) {
      const Evidence::Token& token = evidence.tokens()[t];
      if (right[t].empty()) continue;
      off += square_sum(token.ref, right[t]);
      difference += square_sum(token.ref, token.got);
    }
    if (difference > 0) error = off / difference;
  }
  store.use_reference(false);
  return error;
}

bool fails(Op op, const Comparison& comparison) {
  return std::ranges::any_of(comparison.results, [&](const RecordResult& result) {
    return result.failed() &&
           comparison.checkpoints[static_cast<size_t>(result.checkpoint)].name == op.name();
  });
}

// Of a checkpoint that is what it should be for inputs that both logs agree in.
std::string correct_hint(Op op, const Network& network, TensorStore& store,
                         const Comparison& comparison) {
  const int64_t token_idx = comparison.first_divergence->token_idx;
  const auto size = [](const Record* record) { return record == nullptr ? 0 : record->n; };
  const int64_t ref_n = size(store.ref(op.name(), token_idx));
  const int64_t got_n = size(store.got(op.name(), token_idx));
  if (ref_n != got_n && ref_n > 0 && got_n > 0) {
    return fmt::format(
        "the {} elements of {} that both logs have are what {}; the judged log has {}, the "
        "reference {}: look at {}",
        std::min(ref_n, got_n), op.name(),
        network.model != nullptr ? "the model gives" : "their inputs give", got_n, ref_n,
        op.checkpoint == Checkpoint::kLogits ? "the size of the vocabulary and what fills it up"
                                             : "its size");
  }
  if (is_named_by_one(*comparison.ref_log, *comparison.got_log,
                      comparison.first_divergence->token_idx, comparison.alignment.offset)) {
    return fmt::format(
        "{} of the judged log is what the model gives for the tokens that one header names; the "
        "prompt of the other ends before: log both with the same tokens",
        op.name());
  }
  if (network.model != nullptr) {
    // Half of it: the other half may be noise of the judged log.
    constexpr double kOfReference = 0.5;
    const std::optional<double> error = error_of_reference(op, network, store, token_idx);
    if (!fails(op, comparison) || (error && !(*error >= kOfReference))) {
      return fmt::format(
          "{} of the judged log is what the model gives for what that log has before it, and so is "
          "the reference's{}: what they differ by before grows there",
          op.name(), error ? "" : ", as far as is known");
    }
    const auto& header = comparison.ref_log->header();
    const bool is_golden = header && header->math == "float64";
    return fmt::format(
        "{} of the judged log is what the model gives for inputs that both logs agree in: it is "
        "the reference that computes something else; {}",
        op.name(),
        is_golden ? "it was computed in float64: look at whether --model is the file that it is of"
                  : "give the logs the other way round to see what");
  }
  return fmt::format(
      "{} of the judged log is what its inputs, in which both logs agree, give if they are taken "
      "as the rest of the reference's log shows; that of the reference is not: give the logs the "
      "other way round to see what it computes, and --model to know which of the two is right",
      op.name());
}

// Where the two logs are of other tokens, which makes them differ whatever the network computes.
std::string other_prompt_hint(const Comparison& comparison) {
  const LogIndex& ref = *comparison.ref_log;
  const LogIndex& got = *comparison.got_log;
  const Alignment& alignment = comparison.alignment;
  const int64_t token_idx = comparison.first_divergence->token_idx;
  if (!have_other_context(ref, got, alignment, token_idx)) return {};
  const int64_t count = std::abs(alignment.offset);
  const bool left_out = alignment.offset < 0;
  std::string what = fmt::format("the two prompts differ at token {} or before", token_idx);
  if (alignment.shift != Alignment::Shift::kNone) {
    const std::string tokens = count_of(count, "token");
    what = left_out ? fmt::format("the judged log's prompt lacks the first {} of the reference's",
                                  count == 1 ? "token" : tokens)
                    : fmt::format("the judged log's prompt has {} before the reference's", tokens);
    if (alignment.shift == Alignment::Shift::kByEmbedding) what += ", as the embeddings show";
  }
  if (alignment.shift == Alignment::Shift::kByTokens) {
    constexpr int64_t kShown = 4;
    const LogIndex& longer = left_out ? ref : got;
    const auto begin = longer.header()->tokens.begin();
    what += fmt::format(" ({}{})", fmt::join(begin, begin + std::min(count, kShown), ", "),
                        count > kShown ? ", ..." : "");
  }
  return what +
         ": that alone changes what attention reads, so no mistake of the network was looked for; "
         "log both with the same tokens (check BOS)";
}

// What an op was computed from: the nearest inputs that `has` knows, and `start` where none come
// before an op.
std::string nearest_inputs(Op op, const Network& network,
                           const std::function<bool(const std::string&)>& has,
                           const std::string& start = {}) {
  std::vector<std::string> names;
  std::vector<Op> open = {op};
  std::set<Op> seen;
  for (size_t i = 0; i < open.size(); ++i) {
    const std::vector<Op> inputs = network.inputs(open[i]);
    if (inputs.empty() && !start.empty()) names.push_back(start);
    for (const Op input : inputs) {
      if (!seen.insert(input).second) continue;
      if (has(input.name())) {
        names.push_back(input.name());
      } else {
        open.push_back(input);
      }
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string logged_inputs(Op op, const Network& network, const LogIndex& log) {
  return nearest_inputs(
      op, network, [&](const std::string& name) { return log.names().find(name) >= 0; },
      "the tokens");
}

// Of what both logs have.
std::string shared_inputs(Op op, const Network& network, const TensorStore& store) {
  return nearest_inputs(op, network,
                        [&](const std::string& name) { return store.last_position(name) >= 0; });
}

// Where the step that is wrong lies between what both logs have, and what the judged log alone has
// of it does not tell which it is.
std::string undecided_hint(Op op, const Network& network, const TensorStore& store) {
  const Comparison& comparison = store.comparison();
  const std::string& first = comparison.first_divergence->checkpoint.name;
  const std::string before = shared_inputs(op, network, store);
  return fmt::format(
      "{} is the first checkpoint of the reference that fails; in the judged log {} is no more "
      "than what {} give, and the reference does not have these, so that nothing tells which "
      "step{} to {} is wrong: log the reference with --checkpoints ops, or give the model with "
      "--model",
      first, op.name() == first ? "it" : op.name(), logged_inputs(op, network, *comparison.got_log),
      before.empty() ? "" : fmt::format(" from {}, which both have,", before), op.name());
}

// The causes of what has diverged at `target`.
void search_from(Op target, Network network, TensorStore& store, Comparison& comparison,
                 const Search::Progress& progress) {
  const int64_t first_token = comparison.first_divergence->token_idx;
  store.use_unjudged(false);
  find_error_sources(network, store, comparison);
  store.use_unjudged(true);
  if (const auto count = find_expert_count(target, store)) {
    comparison.causes.push_back(*count);
    return;
  }
  Op op = target;
  Op failing = target;  // the earliest of those that were looked at
  std::set<Op> tried;
  while (tried.insert(op).second) {
    if (fails(op, comparison)) failing = op;
    const double inferred = infer(store, op, network);
    const Tried tried_here = try_mistakes(network, store, op, first_token, progress,
                                          Search::kMaxMultiplications - inferred);
    if (!tried_here.is_inherited) {
      tell(tried_here.judgement, comparison);
      comparison.causes_not_tried = tried_here.not_tried;
      return;
    }
    // What the judged log alone has may be wrong: from what both logs have.
    store.use_unjudged(false);
    Search over(network, store, op, {first_token, std::nullopt, true}, progress);
    over.run();
    store.use_unjudged(true);
    const auto source = over.is_own() ? std::nullopt : worst_input(network, store, op);
    if (source) {
      op = *source;
      continue;
    }
    Judgement judgement = over.judgement();
    if (over.is_inherited()) {
      judgement.hint = correct_hint(failing, network, store, comparison);
    } else if (!judgement.cause && network.model == nullptr) {
      judgement.hint = undecided_hint(op, network, store);
    }
    tell(judgement, comparison);
    comparison.causes_not_tried = over.not_tried();
    return;
  }
}

std::string own_error_hint(const Model& model, const Comparison& comparison) {
  const std::string& name = comparison.first_divergence->checkpoint.name;
  const std::optional<Op> op = find_op(name);
  if (!op) return {};
  const Network network = Network::of_model(model, 1);
  return fmt::format(
      "{} is not what the model gives for {} as the same log holds it, and all before it is: look "
      "at the step from there to {}, or at what is logged under these names",
      name, logged_inputs(*op, network, *comparison.got_log), name);
}

// Of the sequence that was looked at.
void take_causes(const Comparison& sequence, Comparison& all) {
  all.causes = sequence.causes;
  all.error_sources = sequence.error_sources;
  all.cause_hint = sequence.cause_hint;
  all.causes_not_tried = sequence.causes_not_tried;
  const std::string& name = all.first_divergence ? all.first_divergence->checkpoint.sequence : "";
  for (Cause& cause : all.causes) cause.checkpoint.sequence = name;
  for (ErrorSource& source : all.error_sources) source.checkpoint.sequence = name;
}

}  // namespace
}  // namespace causes

void find_causes(const Model* model, Comparison& comparison,
                 const std::function<void(int64_t done, int64_t total)>& progress) {
  if (!comparison.sequences.empty()) {
    Comparison& first = comparison.sequences[comparison.leading];
    find_causes(model, first, progress);
    causes::take_causes(first, comparison);
    return;
  }
  if (comparison.pass || !comparison.first_divergence) return;
  if (comparison.first_divergence->metric == Metric::kReplica) {
    comparison.cause_hint = fmt::format(
        "ranks that should hold the same do not: look at what rank {} computes or receives there",
        comparison.first_divergence->ranks);
    return;
  }
  const auto first = std::ranges::find_if(comparison.results, &RecordResult::failed);
  if (first != comparison.results.end() && first->contradicts_itself) {
    comparison.cause_hint =
        "the judged log contradicts itself there: look at what writes it before what is computed";
    return;
  }
  // What the reference does not tell apart shows no mistake.
  const bool is_own = first != comparison.results.end() &&
                      first->failing_metric == Metric::kOwnError && model != nullptr;
  if (is_own && (!first->of_ref || !(first->metrics.rel_l2 > 0))) {
    comparison.cause_hint = causes::own_error_hint(*model, comparison);
    return;
  }
  comparison.cause_hint = causes::other_prompt_hint(comparison);
  if (!comparison.cause_hint.empty()) return;
  const auto target = causes::find_op(comparison.first_divergence->checkpoint.name);
  if (!target) {
    comparison.cause_hint = "the checkpoint's name is not one that Assay knows the computation of";
    return;
  }
  const bool other_size = comparison.first_divergence->metric == Metric::kSize;
  if (other_size && target->checkpoint != Checkpoint::kExperts) {
    comparison.cause_hint = "the tensors have other sizes: look at the shapes that are logged";
    return;
  }
  causes::TensorStore store(comparison);
  if (model != nullptr) store.find_chosen_tokens(causes::choosable_ids(*model));
  causes::Network network = causes::network_of(model, store, comparison);
  // What diverges has been judged: nothing that the logs hold beside it takes that back.
  try {
    causes::search_from(*target, std::move(network), store, comparison, progress);
  } catch (const std::bad_alloc&) {
    comparison.cause_hint = "the search for the cause ended: there is too little memory for it";
  } catch (const std::exception& error) {
    comparison.cause_hint = fmt::format("the search for the cause ended: {}", error.what());
  }
  if (is_own && comparison.causes.empty()) {
    comparison.cause_hint = causes::own_error_hint(*model, comparison);
  }
}

}  // namespace assay
