#include "assay/compare/coverage.h"

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <vector>

#include "assay/compare/name_map.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

// Checkpoints that `log` has and `other` does not.
std::vector<std::string> names_beyond(const LogIndex& log, const LogIndex& other) {
  std::vector<std::string> names;
  for (int32_t id = 0; id < log.names().size(); ++id) {
    if (other.names().find(log.names().name(id)) < 0) names.push_back(log.names().name(id));
  }
  return names;
}

std::string shown(const LogHeader::Model& model) {
  return fmt::format("{} {} ({:.8}…)", printable(model.name, 40), printable(model.type, 20),
                     printable(model.sha256, 64));
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

std::string other_names(const LogIndex& ref, const LogIndex& got) {
  const std::vector<std::string> of_ref = names_beyond(ref, got);
  const std::vector<std::string> of_got = names_beyond(got, ref);
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
                           const Selection& selection) {
  std::set<int64_t> tokens;
  for (const IndexEntry& entry : ref.entries()) {
    const int64_t token = entry.token_idx;
    int64_t there = 0;  // below 0: the shift tells of it
    const bool can_be =
        !__builtin_add_overflow(token, comparison.alignment.offset, &there) && there >= 0;
    const bool before = !comparison.split || token < comparison.split->token_idx;
    const bool selected =
        selection.has_token(token) && selection.has_checkpoint(ref.names().name(entry.checkpoint));
    if (can_be && before && selected) tokens.insert(token);
  }
  const size_t all = tokens.size();
  for (const RecordResult& result : comparison.results) tokens.erase(result.token_idx);
  if (tokens.empty()) return {};
  return fmt::format(
      "{} has no record of {} of the reference's {} tokens, the first at {}: they were not "
      "compared",
      got.path(), tokens.size(), all, *tokens.begin());
}

}  // namespace assay
