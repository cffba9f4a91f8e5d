#include "assay/compare/coverage.h"

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <vector>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/name_map.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

// Checkpoints that are selected and that `log` has and `other` does not.
std::vector<std::string> names_beyond(const LogIndex& log, const LogIndex& other,
                                      const Selection& selection = {}) {
  std::vector<std::string> names;
  for (int32_t id = 0; id < log.names().size(); ++id) {
    const std::string& name = log.names().name(id);
    if (other.names().find(name) < 0 && selection.has_checkpoint(name)) names.push_back(name);
  }
  return names;
}

std::string shown(const LogHeader::Model& model) {
  return fmt::format("{} {} ({:.8}…)", printable(model.name, 40), printable(model.type, 20),
                     printable(model.sha256, 64));
}

// Whether a record of the reference was to be compared.
bool is_wanted(const Comparison& comparison, const LogIndex& ref, const IndexEntry& entry,
               const Selection& selection) {
  const bool before = !comparison.split || entry.token_idx < comparison.split->token_idx;
  return before && selection.has_token(entry.token_idx) &&
         selection.has_checkpoint(ref.names().name(entry.checkpoint));
}

// What a log has of the set `layers` and of ops.
struct Kinds {
  bool layers = false;  // embedding or outputs of layers; logits alone are asked for by many
  std::set<std::string> ops;
};

Kinds kinds_of(const LogIndex& log) {
  Kinds kinds;
  for (int32_t id = 0; id < log.names().size(); ++id) {
    const CheckpointName name = parse_checkpoint_name(log.names().name(id));
    if (name.name == "embedding" || (name.layer >= 0 && name.op == "output")) {
      kinds.layers = true;
    } else if (name.layer >= 0) {
      kinds.ops.insert(name.op);
    }
  }
  return kinds;
}

// Whether a log of these kinds would have the checkpoint, too.
bool is_expected(const std::string& checkpoint, const Kinds& kinds, const Kinds& of_ref) {
  const CheckpointName name = parse_checkpoint_name(checkpoint);
  const bool of_layers = checkpoint == "embedding" || checkpoint == "logits" ||
                         (name.layer >= 0 && name.op == "output");
  // No set has it but that of all ops.
  if (checkpoint == "final_norm") return 2 * kinds.ops.size() > of_ref.ops.size();
  return of_layers ? kinds.layers : name.layer >= 0 && kinds.ops.contains(name.op);
}

}  // namespace

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

std::string other_model(const LogIndex& ref, const LogIndex& got) {
  if (!ref.header() || !got.header()) return {};
  const LogHeader::Model& a = ref.header()->model;
  const LogHeader::Model& b = got.header()->model;
  if (a.sha256.empty() || b.sha256.empty() || a.sha256 == b.sha256) return {};
  return fmt::format("the logs are of different model files: {} and {}", shown(a), shown(b));
}

std::string missing_tokens(const Comparison& comparison, const LogIndex& ref, const LogIndex& got,
                           const Selection& selection, bool shift_is_told) {
  std::set<int64_t> tokens;
  for (const IndexEntry& entry : ref.entries()) {
    int64_t there = 0;
    const bool can_be =
        !__builtin_add_overflow(entry.token_idx, comparison.alignment.offset, &there) && there >= 0;
    if ((can_be || !shift_is_told) && is_wanted(comparison, ref, entry, selection)) {
      tokens.insert(entry.token_idx);
    }
  }
  const size_t all = tokens.size();
  for (const RecordResult& result : comparison.results) tokens.erase(result.token_idx);
  if (tokens.empty()) return {};
  return fmt::format(
      "{} has no record of {} of the reference's {} tokens, the first at {}: they were not "
      "compared",
      got.path(), tokens.size(), all, *tokens.begin());
}

std::string missing_checkpoints(const LogIndex& ref, const LogIndex& got,
                                const Selection& selection) {
  const Kinds kinds = kinds_of(got);
  std::vector<std::string> missing = names_beyond(ref, got, selection);
  if (!selection.is_of_checkpoints()) {
    const Kinds of_ref = kinds_of(ref);
    std::erase_if(missing,
                  [&](const std::string& name) { return !is_expected(name, kinds, of_ref); });
  }
  if (missing.empty()) return {};
  return fmt::format("{} lacks {} of {}, such as {}: {} not compared", got.path(),
                     count_of(missing.size(), "checkpoint"), ref.path(),
                     printable(missing.front(), 60),
                     plural(missing.size() == 1, "it was", "they were"));
}

std::string missing_records(const Comparison& comparison, const LogIndex& ref, const LogIndex& got,
                            const Selection& selection) {
  std::set<int64_t> tokens;
  for (const RecordResult& result : comparison.results) tokens.insert(result.token_idx);
  const IndexEntry* first = nullptr;
  int64_t count = 0;
  for (const IndexEntry& entry : ref.entries()) {
    const int32_t there = got.names().find(ref.names().name(entry.checkpoint));
    int64_t token = 0;
    if (there < 0 || !tokens.contains(entry.token_idx) ||
        !is_wanted(comparison, ref, entry, selection) ||
        __builtin_add_overflow(entry.token_idx, comparison.alignment.offset, &token) ||
        got.find(there, token) >= 0) {
      continue;
    }
    if (count++ == 0) first = &entry;
  }
  if (count == 0) return {};
  return fmt::format(
      "{} lacks {} of checkpoints that it has at other tokens, the first {} at token {}: {} not "
      "compared",
      got.path(), count_of(count, "record"), printable(ref.names().name(first->checkpoint), 60),
      first->token_idx, plural(count == 1, "it was", "they were"));
}

}  // namespace assay
