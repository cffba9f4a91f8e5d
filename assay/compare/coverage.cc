#include "assay/compare/coverage.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>
#include <vector>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/input_tokens.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/name_map.h"
#include "assay/compare/nothing_in_common.h"
#include "assay/compare/policy.h"
#include "assay/compare/policy_names.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/shell.h"

namespace assay {
namespace {

// Checkpoints that are selected and that `log` has and `other` does not.
std::vector<std::string> names_beyond(const LogIndex& log, const LogIndex& other,
                                      const Selection& selection = {}) {
  std::vector<std::string> names;
  for (int32_t id = 0; id < log.names().size(); ++id) {
    const std::string& name = log.names().name(id);
    const bool missing = other.names().find(name) < 0 && other.names().find(sibling_of(name)) < 0;
    if (missing && selection.has_checkpoint(name)) names.push_back(name);
  }
  return names;
}

std::string shown(const LogHeader::Model& model) {
  return fmt::format("{} {} ({:.8}…)", printable(model.name, 40), printable(model.type, 20),
                     printable(model.sha256, 64));
}

bool are_of_other_files(const std::optional<LogHeader>& ref, const std::optional<LogHeader>& got) {
  if (!ref || !got || ref->model.sha256.empty() || got->model.sha256.empty()) return false;
  return ref->model.sha256 != got->model.sha256;
}

// The letters and digits of a model's name, without the folder, owner and ending that tools add.
std::string plain_name(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);
  if (name.ends_with(".gguf")) name.remove_suffix(5);
  std::string plain;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || byte >= 0x80) plain += static_cast<char>(std::tolower(byte));
  }
  return plain;
}

// The headers name other models, and not both say of which file. One name may be a part of the
// other: some tools add the type.
std::string other_name(const std::optional<LogHeader>& ref, const std::optional<LogHeader>& got) {
  if (!ref || !got || (!ref->model.sha256.empty() && !got->model.sha256.empty())) return {};
  const std::string a = plain_name(ref->model.name);
  const std::string b = plain_name(got->model.name);
  const bool alike = a.find(b) != std::string::npos || b.find(a) != std::string::npos;
  if (a.empty() || b.empty() || alike) return {};
  return fmt::format(
      "the headers name different models: '{}' and '{}'; where both state the file's SHA-256, they "
      "show whether it is the same",
      printable(ref->model.name, 60), printable(got->model.name, 60));
}

// The elements that a checkpoint has at a token; 0 where the log has none.
int64_t elements_of(const LogIndex& log, const std::string& name) {
  const int32_t id = log.names().find(name);
  if (id < 0) return 0;
  const auto found = std::ranges::find(log.entries(), id, &IndexEntry::checkpoint);
  if (found == log.entries().end()) return 0;
  return found->row < 0 ? found->n : found->n / std::max(found->rows, 1);
}

// A size of the network that types of one model share: ": logits has 318 elements in one and 4096
// in the other". A vocabulary may be filled up.
std::string other_size(const LogIndex& ref, const LogIndex& got) {
  constexpr double kFilledUp = 0.1;  // of the larger vocabulary, at most
  for (const std::string name : {"embedding", "layer_0_output", "final_norm", "logits"}) {
    const int64_t a = elements_of(ref, name);
    const int64_t b = elements_of(got, name);
    const auto apart = static_cast<double>(std::max(a, b) - std::min(a, b));
    const double allowed = name == "logits" ? kFilledUp * static_cast<double>(std::max(a, b)) : 0.0;
    if (a == 0 || b == 0 || apart <= allowed) continue;
    return fmt::format(": {} has {} elements in one and {} in the other", name, a, b);
  }
  return {};
}

}  // namespace

void check_names(const std::vector<std::shared_ptr<LogIndex>>& ref,
                 const std::vector<std::shared_ptr<LogIndex>>& got, const CompareOptions& options) {
  const auto names_of = [](const std::vector<std::shared_ptr<LogIndex>>& sequences) {
    NameTable all;
    for (const auto& log : sequences) {
      for (int32_t id = 0; id < log->names().size(); ++id) all.id(log->names().name(id));
    }
    std::vector<std::string> names;
    for (int32_t id = 0; id < all.size(); ++id) names.push_back(all.name(id));
    return names;
  };
  const std::vector<std::string> names = names_of(ref);
  std::vector<std::string> all = names_of(got);
  all.insert(all.end(), names.begin(), names.end());
  for (const LogIndex* log : {ref.front().get(), got.front().get()}) {
    for (int32_t id = 0; id < log->raw_names().size(); ++id) {
      all.push_back(log->raw_names().name(id));
    }
  }
  check_policy_names(options.policy, all);
  const std::string& ref_path = ref.front()->path();
  try {
    options.selection.check_checkpoints(names, names_of(got), ref_path, got.front()->path());
  } catch (const NothingInCommon&) {
    const std::string map = fitting_map(*ref.front(), *got.front());
    if (map.empty()) throw;
    throw NothingInCommon(Error("the two logs have other names than those of --checkpoints",
                                got.front()->path(), map));
  }
  if (options.selection.is_of_tokens()) {
    std::set<int64_t> positions;
    for (const auto& log : ref) {
      for (const IndexEntry& entry : log->entries()) positions.insert(entry.token_idx);
    }
    options.selection.check_tokens(positions, ref_path);
  }
  for (const std::string& glob : options.allow_missing) {
    const bool any = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    });
    if (any) continue;
    throw Error(fmt::format("{} has no checkpoint '{}'", printable(ref_path), printable(glob, 60)),
                "--allow-missing", "give a glob of checkpoints that the reference has");
  }
}

std::string foreign_names(const LogIndex& ref, const LogIndex& got) {
  std::vector<std::string> names;
  for (const LogIndex* log : {&ref, &got}) {
    for (int32_t id = 0; id < log->names().size(); ++id) {
      if (parse_checkpoint_name(log->names().name(id)).known) return {};
      names.push_back(log->names().name(id));
    }
  }
  const std::string map = NameMap::suggest(names);
  if (map.empty()) return {};
  return fmt::format(
      "the names in both logs look like those of {}: give --map {}, or the order of the network, "
      "drift and causes are not known",
      map, map);
}

std::string unused_globs(const Policy& policy, const SharedNames& names) {
  std::vector<std::string> all;
  for (int32_t id = 0; id < names.checkpoints.size(); ++id) {
    all.push_back(names.checkpoints.name(id));
  }
  const std::vector<std::string> unused = policy.unused_globs(all);
  if (unused.empty()) return {};
  return fmt::format(
      "no checkpoint of either log matches '{}', for which the policy has a tolerance",
      printable(unused.front(), 60));
}

std::string fitting_map(const LogIndex& ref, const LogIndex& got) {
  const LogIndex* logs[2] = {&got, &ref};
  for (int i = 0; i < 2; ++i) {
    const std::string map = NameMap::suggest(names_beyond(*logs[i], *logs[1 - i]));
    if (map.empty()) continue;
    return fmt::format("the names in {} look like those of {}: give --map {}", logs[i]->path(), map,
                       map);
  }
  return {};
}

std::string other_names(const LogIndex& ref, const LogIndex& got, const Selection& selection) {
  const std::vector<std::string> of_ref = names_beyond(ref, got, selection);
  const std::vector<std::string> of_got = names_beyond(got, ref, selection);
  if (of_ref.empty() || of_got.empty()) return {};
  const std::string map = fitting_map(ref, got);
  return fmt::format(
      "{} of the reference, such as {}, {} not in {}, which has {} of its own, such as {}: {}",
      count_of(of_ref.size(), "checkpoint"), printable(of_ref.front(), 60),
      of_ref.size() == 1 ? "is" : "are", got.path(), of_got.size(), printable(of_got.front(), 60),
      map.empty() ? "where two are one tensor, give --map" : map);
}

std::string other_sequence(const LogIndex& ref, const LogIndex& got) {
  if (ref.sequence() == got.sequence()) return {};
  return fmt::format(
      "{} has sequence '{}' and {} has sequence '{}': their records are compared as those of one",
      ref.path(), printable(ref.sequence(), 40), got.path(), printable(got.sequence(), 40));
}

std::string further_sequences(const std::string& got_path, const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  if (names.empty()) return {};
  std::string shown;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) {
    shown += fmt::format("{}'{}'", i > 0 ? ", " : "", printable(names[i], 40));
  }
  return fmt::format("{}: {} not in the reference, and only searched for NaN: {}{}",
                     printable(got_path), count_of(names.size(), "sequence is", "sequences are"),
                     shown, names.size() > kShown ? ", ..." : "");
}

std::string other_model(const std::optional<LogHeader>& ref, const std::optional<LogHeader>& got) {
  if (!are_of_other_files(ref, got)) return other_name(ref, got);
  const LogHeader::Model& a = ref->model;
  const LogHeader::Model& b = got->model;
  std::string text =
      fmt::format("the logs are of different model files: {} and {}", shown(a), shown(b));
  if (!a.arch.empty() && !b.arch.empty() && a.arch != b.arch) {
    return fmt::format("{}, of the architectures {} and {}", text, printable(a.arch, 40),
                       printable(b.arch, 40));
  }
  if (a.type == b.type) return text;
  return text +
         "; those of other types differ by what storing them so costs, and assay floors measures "
         "how much that may be";
}

std::string other_model(const LogIndex& ref, const LogIndex& got) {
  const bool other_files = are_of_other_files(ref.header(), got.header());
  const std::string sizes = other_files ? other_size(ref, got) : "";
  if (sizes.empty()) return other_model(ref.header(), got.header());
  return fmt::format("the logs are of different models: {} and {}{}", shown(ref.header()->model),
                     shown(got.header()->model), sizes);
}

std::string other_continuation(const LogIndex& ref, const LogIndex& got,
                               const Comparison& comparison) {
  if (!comparison.first_divergence || !have_tokens(ref, got)) return {};
  const int64_t token_idx = comparison.first_divergence->token_idx;
  const auto sampled = [&](const LogIndex& log, int64_t position) {
    const LogHeader& header = *log.header();
    if (header.sampling.empty() || position < std::ssize(header.tokens)) return std::string();
    return fmt::format(
        "what differs first is at token {}, which was sampled in {} ({}): the two may have other "
        "tokens there; compare runs that choose the likeliest token, or that are given all tokens",
        token_idx, log.path(), printable(header.sampling, 80));
  };
  for (const std::string& text :
       {sampled(ref, token_idx), sampled(got, token_idx + comparison.alignment.offset)}) {
    if (!text.empty()) return text;
  }
  if (!is_named_by_one(ref, got, token_idx, comparison.alignment.offset)) return {};
  return fmt::format(
      "what differs first is at token {}, beyond the {} that one header names and within the {} of "
      "the other: the two may have other tokens there; log the same tokens, as assay run "
      "MODEL.gguf --follow {} does",
      token_idx, std::min(ref.header()->tokens.size(), got.header()->tokens.size()),
      std::max(ref.header()->tokens.size(), got.header()->tokens.size()), shell_quoted(ref.path()));
}

std::string fitted_constants(const Comparison& comparison) {
  const auto is_fitted = [](const RecordResult& result) {
    return result.metrics.fitted_constant && !result.metrics.called_log_probabilities;
  };
  const auto count = std::ranges::count_if(comparison.results, is_fitted);
  if (count == 0) return {};
  return fmt::format(
      "{} of logits could be log-probabilities, and a constant was taken from each: whether it is "
      "the right one shows only where one log has all values",
      count_of(count, "record"));
}

std::string zeros_of_both(const Comparison& comparison) {
  const RecordResult* first = nullptr;
  int64_t count = 0;
  for (const RecordResult& result : comparison.results) {
    const bool is_zero = result.status == Verdict::kInconclusive;
    if (!is_zero || holds_ids(comparison.checkpoints[static_cast<size_t>(result.checkpoint)])) {
      continue;
    }
    if (count++ == 0) first = &result;
  }
  if (count == 0 || count == comparison.compared) return {};
  return fmt::format(
      "{} of {} records that were compared hold nothing but zeros in both logs, the first {} at "
      "token {}: check that both engines compute {}",
      count, comparison.compared,
      printable(comparison.checkpoints[static_cast<size_t>(first->checkpoint)].name, 60),
      first->token_idx, count == 1 ? "it" : "them");
}

std::string jump_within_tolerance(const Comparison& comparison) {
  const auto& course = comparison.drift.layers;
  if (!comparison.pass || !comparison.built_in_tolerance || !course || !course->jump) return {};
  const Drift::Jump& jump = *course->jump;
  return fmt::format(
      "the error jumps at layer {}, from {:.3g} to {:.3g}, within the built-in tolerance of {:g}: "
      "rounding grows little by little, so look at that layer, or hold it to less (--policy)",
      jump.at, jump.before, jump.after, kDefaultRelL2);
}

std::string large_errors_that_pass(const Comparison& comparison) {
  const RecordResult* worst = nullptr;
  int64_t count = 0;
  for (const RecordResult& result : comparison.results) {
    const double rel_l2 = result.metrics.rel_l2;
    const bool is_allowed = !result.failed() && result.tolerance > kLargeRelL2;
    if (!is_allowed || !(rel_l2 > kLargeRelL2)) continue;
    ++count;
    if (worst == nullptr || rel_l2 > worst->metrics.rel_l2) worst = &result;
  }
  if (!comparison.pass || worst == nullptr) return {};
  return fmt::format(
      "{} within the policy by an error that is large beside the values, the worst {} at token {}: "
      "rel_l2 {:.3g}, and zeros are off by 1; this shows little: measure floors of runs that are "
      "nearer to each other",
      count_of(count, "record is", "records are"),
      printable(comparison.checkpoints[static_cast<size_t>(worst->checkpoint)].name, 60),
      worst->token_idx, worst->metrics.rel_l2);
}

std::string replayed_routing(const LogIndex& ref, const LogIndex& got) {
  for (const LogIndex* log : {&got, &ref}) {
    if (!log->header() || log->header()->routing != kRoutingReplayed) continue;
    return fmt::format(
        "the experts in {} are not the engine's own choice: it was run with --replay-routing",
        log->path());
  }
  return {};
}

std::string shift_warning(const LogIndex& ref, const LogIndex& got, const Alignment& alignment) {
  if (alignment.shift == Alignment::Shift::kNone) return {};
  const int64_t count = std::abs(alignment.offset);
  const bool left_out = alignment.offset < 0;
  return fmt::format(
      "{} {} the first {} of {} ({}): position N of the reference is compared with {}; check "
      "whether both begin with the same token (BOS)",
      got.path(), left_out ? "leaves out" : "has tokens before",
      count == 1 ? "token" : fmt::format("{} tokens", count), ref.path(),
      alignment.shift == Alignment::Shift::kByTokens ? "their tokens say so"
                                                     : "their embeddings say so",
      left_out ? fmt::format("N-{}", count) : fmt::format("N+{}", count));
}

std::string other_input_warning(const LogIndex& ref, const LogIndex& got,
                                const Alignment& alignment) {
  if (alignment.mode != AlignMode::kFixed) return {};
  const std::string other = other_input(ref, got, alignment.offset);
  if (other.empty()) return {};
  return fmt::format("{} is of {}; --align={} compares them all the same", got.path(), other,
                     alignment.offset);
}

std::string found_offset_warning(int64_t offset) {
  return fmt::format(
      "position N of the reference is compared with N{:+}, where the values match far better; an "
      "engine that is late by a token looks alike: give \"tokens\" in both headers, or --align "
      "index",
      offset);
}

std::string excluded_offset_warning(int64_t offset) {
  if (offset == 0) return {};
  return fmt::format(
      "the records would match with --align={}, but both headers name the same tokens, which "
      "settles the positions: check from where the engine counts token_idx",
      offset);
}

}  // namespace assay
