#include "assay/golden/floor_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "assay/golden/floors.h"

namespace assay {
namespace {

constexpr size_t kMaxNames = 8;

struct Change {
  std::string what;  // a checkpoint, or all others of a kind
  double before;
  double after;

  double times() const { return after / before; }
  std::string text() const {
    return fmt::format("{:.3g} -> {:.3g} (x {:.3g})", before, after, times());
  }
};

using Tables = std::vector<const std::map<std::string, Floors>*>;

std::set<std::string> floor_names(const Tables& tables) {
  std::set<std::string> names;
  for (const auto* table : tables) {
    for (const auto& [key, floors] : *table) {
      for (const auto& [name, floor] : floors) names.insert(name);
    }
  }
  return names;
}

std::set<std::string> keys_of(const Tables& tables) {
  std::set<std::string> keys;
  for (const auto* table : tables) {
    for (const auto& [key, floors] : *table) keys.insert(key);
  }
  return keys;
}

// From the floor named `before` in `old` to the one named `after` in `file`.
struct Changes {
  std::vector<Change> rises;  // the greatest first
  std::vector<Change> falls;  // likewise
  int64_t added = 0;
  std::vector<std::string> gone;  // whose own floors have disappeared, whatever replaces them

  bool loosen() const { return !rises.empty() || !gone.empty(); }
};

bool has(const std::map<std::string, Floors>& table, const std::string& key,
         const std::string& floor) {
  const auto found = table.find(key);
  return found != table.end() && found->second.count(floor) > 0;
}

Changes changes_of(const GoldenFile& old, const std::string& before, const GoldenFile& file,
                   const std::string& after) {
  Changes changes;
  const auto add = [&](const std::string& what, std::optional<double> a, std::optional<double> b) {
    if (!a && b) ++changes.added;
    if (!a || !b || *a == *b) return;
    (*b > *a ? changes.rises : changes.falls).push_back({what, *a, *b});
  };
  const auto checkpoints = keys_of({&old.floors_by_checkpoint, &file.floors_by_checkpoint});
  for (const std::string& name : checkpoints) {
    if (has(old.floors_by_checkpoint, name, before) &&
        !has(file.floors_by_checkpoint, name, after)) {
      changes.gone.push_back(name);
    }
    add(name, floor_of(old, before, name), floor_of(file, after, name));
  }
  for (const std::string& kind : keys_of({&old.floors, &file.floors})) {
    const auto a = floor_of_kind(old, before, kind);
    const auto b = floor_of_kind(file, after, kind);
    if (a && !b) changes.gone.push_back("every other checkpoint of the kind " + kind);
    const bool told = checkpoints.count(kind) > 0 && a == floor_of(old, before, kind) &&
                      b == floor_of(file, after, kind);
    if (!told) add("every other checkpoint of the kind " + kind, a, b);
  }
  std::stable_sort(changes.rises.begin(), changes.rises.end(),
                   [](const Change& x, const Change& y) { return x.times() > y.times(); });
  std::stable_sort(changes.falls.begin(), changes.falls.end(),
                   [](const Change& x, const Change& y) { return x.times() < y.times(); });
  return changes;
}

std::string most_of(const std::vector<Change>& changes, const char* verb) {
  return fmt::format(", {} {}, most that of {}: {}", changes.size(), verb, changes[0].what,
                     changes[0].text());
}

// "3 removed: layer_0_q, layer_1_q and 1 more".
std::string removed_text(const std::vector<std::string>& gone) {
  const size_t named = std::min(gone.size(), kMaxNames);
  std::string text =
      fmt::format("{} removed: {}", gone.size(),
                  fmt::join(gone.begin(), gone.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  if (named < gone.size()) text += fmt::format(" and {} more", gone.size() - named);
  return text;
}

// "F32: of the floors f32_vs_f64, 3 fall, most that of logits: 2e-06 -> 1e-06 (x 0.5)".
std::string summary_of(const std::string& floor, const Changes& changes, bool with_rises) {
  std::string text;
  if (with_rises && !changes.rises.empty()) text += most_of(changes.rises, "rise");
  if (!changes.falls.empty()) text += most_of(changes.falls, "fall");
  if (changes.added > 0) text += fmt::format(", {} are new", changes.added);
  if (with_rises && !changes.gone.empty()) text += ", " + removed_text(changes.gone);
  return text.empty() ? text : fmt::format("of the floors {}{}", floor, text);
}

}  // namespace

FloorChanges floor_changes(const GoldenManifest& before, const GoldenFile& old,
                           const GoldenManifest& after, const GoldenFile& file) {
  FloorChanges result;
  const auto note = [&](const std::string& text) {
    if (!text.empty()) result.notes.push_back(file.type + ": " + text);
  };
  const std::string& was = before.tolerance.floor;
  const std::string& judges = after.tolerance.floor;
  const Changes judged = changes_of(old, was, file, judges);
  const std::set<std::string> gone(judged.gone.begin(), judged.gone.end());
  std::set<std::string> told;
  for (const Change& rise : judged.rises) {
    told.insert(rise.what);
    note(fmt::format("the floor of {} {}: {}", rise.what,
                     gone.contains(rise.what) ? "is removed, and another applies" : "rises",
                     rise.text()));
  }
  for (const std::string& what : judged.gone) {
    if (!told.contains(what)) note(fmt::format("the floor of {} is removed", what));
  }
  note(summary_of(judges, judged, false));
  result.looser = judged.loosen() || after.tolerance.k > before.tolerance.k;
  for (const std::string& name : floor_names(
           {&old.floors, &old.floors_by_checkpoint, &file.floors, &file.floors_by_checkpoint})) {
    if (name == judges && name == was) continue;
    const Changes others = changes_of(old, name, file, name);
    note(summary_of(name, others, true));
    result.looser = result.looser || others.loosen();
  }
  const bool same =
      old.floors == file.floors && old.floors_by_checkpoint == file.floors_by_checkpoint;
  if (!same && result.notes.empty()) {
    note("the tables of the floors change, but no floor that judges");
  }
  return result;
}

}  // namespace assay
