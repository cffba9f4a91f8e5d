#include "assay/golden/change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "assay/golden/fast_floors.h"
#include "assay/golden/files.h"
#include "assay/golden/log_check.h"
#include "assay/golden/snapshots.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/input_file.h"

namespace assay {
namespace {

std::string name_of_model(const std::string& folder) {
  const std::string path = folder.substr(0, folder.find_last_not_of('/') + 1);
  return path.substr(path.rfind('/') + 1);
}

std::string again(const std::string& folder) {
  return "assay golden record " + name_of_model(folder);
}

// The SHA-256 of every file that a manifest names, except those that are fetched from elsewhere.
std::map<std::string, std::string> hashes_of(const GoldenManifest& manifest) {
  std::map<std::string, std::string> hashes;
  for (const GoldenFile& file : manifest.files) {
    if (file.source.empty()) hashes[file.gguf] = file.sha256;
    for (const GoldenLog& log : file.logs) hashes[log.file] = log.sha256;
  }
  return hashes;
}

std::set<std::string> files_of(const GoldenManifest& manifest) {
  std::set<std::string> names;
  for (const auto& [name, hash] : hashes_of(manifest)) names.insert(name);
  return names;
}

std::optional<GoldenManifest> manifest_in_place(const std::string& folder) {
  try {
    return read_golden_manifest(folder + kManifestName);
  } catch (const Error&) {
    return {};  // that is what this change repairs
  }
}

// Files that Assay's own engine measured; no manifest names them.
bool is_measured(const std::string& name) {
  return name == kSnapshotsName || name == kFastFloorsName;
}

std::vector<std::string> problems_of_measured(const std::string& name, const std::string& path,
                                              const GoldenManifest& manifest) {
  const std::string text = read_whole_file(path, kMaxManifestBytes);
  return name == kSnapshotsName ? snapshot_problems(manifest, parse_snapshots(text, path))
                                : fast_floor_problems(manifest, parse_fast_floors(text, path));
}

class Planner {
 public:
  // `hint`: what to do about files that do not match.
  Planner(const std::string& folder, const std::map<std::string, std::string>& replacements,
          std::string hint)
      : folder_(folder), replacements_(replacements), hint_(std::move(hint)) {}

  GoldenChange plan() {
    read_manifest();
    const std::set<std::string> names = files_of(change_.manifest);
    for (const auto& [name, path] : replacements_) {
      if (name == kManifestName) continue;
      if (is_measured(name)) {
        check_measured(name, path);
      } else if (names.count(name) == 0) {
        throw Error("nothing in the manifest names it", path, "remove it, or " + hint_);
      }
      change_.replaced.push_back(name);
    }
    before_ = manifest_in_place(folder_);
    for (const GoldenFile& file : change_.manifest.files) check(file);
    if (before_) {
      const std::set<std::string> had = files_of(*before_);
      std::set_difference(had.begin(), had.end(), names.begin(), names.end(),
                          std::back_inserter(change_.dropped));
    }
    return std::move(change_);
  }

 private:
  void read_manifest() {
    const auto found = replacements_.find(kManifestName);
    const bool stated = found != replacements_.end();
    const std::string path = stated ? found->second : folder_ + kManifestName;
    if (!file_exists(path)) {
      throw Error("there is no manifest", path, "let the oracle write one, see golden/README.md");
    }
    change_.manifest_text = read_whole_file(path, kMaxManifestBytes);
    if (!stated) {
      std::map<std::string, std::string> hashes;
      for (const auto& [name, from] : replacements_) hashes[name] = file_sha256(from);
      change_.manifest_text = with_hashes(change_.manifest_text, path, hashes);
    }
    change_.manifest = parse_golden_manifest(change_.manifest_text, path);
    if (change_.manifest.model != name_of_model(folder_)) {
      throw Error(fmt::format("is of the model '{}', its folder is '{}'", change_.manifest.model,
                              name_of_model(folder_)),
                  path, "name the folder as the model");
    }
  }

  // Where a file will come from.
  std::string place(const std::string& name) const {
    const auto found = replacements_.find(name);
    return found == replacements_.end() ? folder_ + name : found->second;
  }

  void check_hash(const std::string& name, const std::string& sha256) const {
    const std::string path = place(name);
    if (!file_exists(path)) {
      throw Error("is missing, and the manifest names it", path, hint_);
    }
    if (file_sha256(path) != sha256) {
      throw Error("is not what the manifest states: its SHA-256 differs", path, hint_);
    }
  }

  void check_measured(const std::string& name, const std::string& path) const {
    const auto problems = problems_of_measured(name, path, change_.manifest);
    if (problems.empty()) return;
    throw Error(
        problems.front(), path,
        fmt::format("assay golden reject {}, and measure it again", change_.manifest.model));
  }

  // Of the pending file, or of the current one if the model does not change.
  int64_t n_layers(const GoldenFile& file) const {
    int64_t n = layers_of(file, [&](const std::string& name) { return place(name); });
    if (!before_) return n;
    for (const GoldenFile& old : before_->files) {
      if (old.sha256 != file.sha256) continue;
      n = std::max(n, layers_of(old, [&](const std::string& name) { return folder_ + name; }));
    }
    return n;
  }

  void check(const GoldenFile& file) const {
    if (file.source.empty()) check_hash(file.gguf, file.sha256);
    const int64_t layers = n_layers(file);
    for (const GoldenLog& log : file.logs) {
      check_hash(log.file, log.sha256);
      check_golden_log(place(log.file), change_.manifest, file, log, layers, hint_);
    }
  }

  const std::string& folder_;
  const std::map<std::string, std::string>& replacements_;
  std::string hint_;
  std::optional<GoldenManifest> before_;
  GoldenChange change_;
};

// Left by an interrupted write.
void remove_leftovers(const std::string& folder) {
  for (const std::string& name : files_in(folder)) {
    if (name.ends_with(kTemporarySuffix)) remove_file(folder + name);
  }
}

// A file that an interrupted accept has installed or removed; empty if there is none: the current
// manifest states other files than the pending one and those in the folder.
std::string moved_by_accept(const std::string& folder) {
  const std::string waiting = folder + kManifestName + kPendingSuffix;
  const std::optional<GoldenManifest> old = manifest_in_place(folder);
  if (!old || !file_exists(waiting)) return {};
  GoldenManifest next;
  try {
    next = read_golden_manifest(waiting);
  } catch (const Error&) {
    return {};  // no accept begins with such a one
  }
  const std::map<std::string, std::string> was = hashes_of(*old);
  const std::map<std::string, std::string> becomes = hashes_of(next);
  for (const auto& [name, hash] : becomes) {
    const auto before = was.find(name);
    const bool changes = before == was.end() || before->second != hash;
    if (changes && file_exists(folder + name) && file_sha256(folder + name) == hash) return name;
  }
  for (const auto& [name, hash] : was) {
    if (becomes.count(name) == 0 && !file_exists(folder + name)) return name;
  }
  return {};
}

int64_t remove_pending(const std::string& folder) {
  // The manifest last: without it, the files left after an interruption would look like a complete
  // pending change.
  const auto pending = pending_files(folder);
  for (const auto& [name, path] : pending) {
    if (name != kManifestName) remove_file(path);
  }
  remove_file(folder + kManifestName + kPendingSuffix);
  remove_leftovers(folder);
  return std::ssize(pending);
}

bool same_content(const std::string& a, const std::string& b) {
  return file_exists(a) && file_exists(b) && file_sha256(a) == file_sha256(b);
}

}  // namespace

GoldenChange plan_change(const std::string& folder,
                         const std::map<std::string, std::string>& replacements) {
  return Planner(folder, replacements, again(folder)).plan();
}

std::map<std::string, std::string> pending_files(const std::string& folder) {
  std::map<std::string, std::string> pending;
  for (const std::string& name : files_in(folder)) {
    if (!name.ends_with(kPendingSuffix) || name == kPendingSuffix) continue;
    if (name.ends_with(kTemporarySuffix)) continue;
    pending[name.substr(0, name.size() - std::string_view(kPendingSuffix).size())] = folder + name;
  }
  return pending;
}

void make_measured_pending(const std::string& folder, const std::string& name,
                           const std::string& text) {
  const FolderLock lock(folder);
  replace_file(text, folder + name + kPendingSuffix);
}

GoldenChange accept_pending(const std::string& folder) {
  const FolderLock lock(folder);
  const auto pending = pending_files(folder);
  if (pending.empty()) throw Error("nothing is pending", folder, again(folder) + " first");
  GoldenChange change = plan_change(folder, pending);
  const std::string manifest = folder + kManifestName;
  replace_file(change.manifest_text, manifest + kPendingSuffix);
  for (const std::string& name : change.replaced) move_file(pending.at(name), folder + name);
  for (const std::string& name : change.dropped) remove_file(folder + name);
  move_file(manifest + kPendingSuffix, manifest);
  remove_leftovers(folder);
  return change;
}

int64_t reject_pending(const std::string& folder) {
  const FolderLock lock(folder);
  const std::string moved = moved_by_accept(folder);
  if (!moved.empty()) {
    throw Error(
        "an accept was interrupted after it replaced this file", folder + moved,
        fmt::format("assay golden accept {} completes it, git checkout restores the old state",
                    name_of_model(folder)));
  }
  return remove_pending(folder);
}

// Throws Error unless an oracle wrote each log: one that it left out is the old one, of another
// run.
void check_all_written(const GoldenManifest& manifest,
                       const std::map<std::string, std::string>& written) {
  std::vector<std::string> missing;
  int64_t n_logs = 0;
  for (const GoldenFile& file : manifest.files) {
    for (const GoldenLog& log : file.logs) {
      ++n_logs;
      if (!written.contains(log.file)) missing.push_back(log.file);
    }
  }
  if (missing.empty()) return;
  constexpr size_t kMostNamed = 5;
  const size_t more = missing.size() - std::min(missing.size(), kMostNamed);
  missing.resize(missing.size() - more);
  throw Error(fmt::format("the oracle did not write {} of the {} that the manifest names: {}{}",
                          missing.size() + more, count_of(n_logs, "log"), fmt::join(missing, ", "),
                          more > 0 ? fmt::format(" and {} more", more) : ""),
              manifest.folder(), "fix the oracle; nothing was recorded");
}

std::vector<std::string> make_pending(const std::string& folder,
                                      const std::map<std::string, std::string>& replacements) {
  const GoldenChange change =
      Planner(folder, replacements, "fix the oracle; nothing was recorded").plan();
  check_all_written(change.manifest, replacements);
  const FolderLock lock(folder);
  remove_pending(folder);  // also those of an interrupted accept: all that differs is pending again
  std::vector<std::string> names;
  for (const std::string& name : change.replaced) {
    if (!same_content(replacements.at(name), folder + name)) names.push_back(name);
  }
  const std::string manifest = folder + kManifestName;
  const bool same_manifest =
      file_exists(manifest) && read_whole_file(manifest, kMaxManifestBytes) == change.manifest_text;
  if (names.empty() && same_manifest) return names;
  // The manifest first: it names the hash of all that must be there to accept it.
  replace_file(change.manifest_text, manifest + kPendingSuffix);
  for (const std::string& name : names) {
    replace_file_with_copy(replacements.at(name), folder + name + kPendingSuffix);
  }
  names.emplace_back(kManifestName);
  return names;
}

}  // namespace assay
