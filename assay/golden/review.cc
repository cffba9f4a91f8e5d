#include "assay/golden/review.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "assay/compare/log_index.h"
#include "assay/golden/change.h"
#include "assay/golden/fast_floors.h"
#include "assay/golden/files.h"
#include "assay/golden/floor_changes.h"
#include "assay/golden/floors.h"
#include "assay/golden/manifest.h"
#include "assay/golden/manifest_changes.h"
#include "base/error.h"
#include "base/input_file.h"

namespace assay {
namespace {

// Whether a check of the current model file disappears; `file` is its next state.
bool loses_checks(const GoldenFile& old, const GoldenFile* file) {
  if (file == nullptr) return !old.logs.empty() || !old.texts.empty();
  const auto stays = [](const auto& all, const auto& key, const auto& one) {
    return std::any_of(all.begin(), all.end(), [&](const auto& other) {
      return other.*key == one.*key && other.greedy.size() >= one.greedy.size();
    });
  };
  return !std::all_of(old.logs.begin(), old.logs.end(), [&](const GoldenLog& log) {
    return stays(file->logs, &GoldenLog::file, log);
  }) || !std::all_of(old.texts.begin(), old.texts.end(), [&](const GoldenText& text) {
    return stays(file->texts, &GoldenText::prompt, text);
  });
}

// Whether `record` holds everything that `old` did: at least the same values, and a sketch and a
// summary if `old` had them.
bool keeps_all(const Record& record, const Record& old) {
  if (record.values.size() < old.values.size()) return false;
  return record.has_all_values() ||
         ((record.sketch || !old.sketch) && (record.summary || !old.summary));
}

std::map<std::string, int64_t> lost_records(const Comparison& comparison) {
  std::map<std::string, int64_t> gone;
  const LogIndex& ref = *comparison.ref_log;
  const LogIndex& got = *comparison.got_log;
  IndexLoader ref_loader = ref.loader();
  IndexLoader got_loader = got.loader();
  for (const IndexEntry& entry : ref.entries()) {
    const std::string& name = ref.names().name(entry.checkpoint);
    const int64_t place = got.find(got.names().find(name), entry.token_idx);
    const bool kept =
        place >= 0 && keeps_all(got.load(got.entries()[static_cast<size_t>(place)], got_loader),
                                ref.load(entry, ref_loader));
    if (!kept) ++gone[name];
  }
  return gone;
}

class Reviewer {
 public:
  explicit Reviewer(const std::string& folder) : folder_(folder), pending_(pending_files(folder)) {
    if (pending_.empty()) throw Error("nothing is pending", folder);
    change_ = plan_change(folder, pending_);
    try {
      before_ = read_golden_manifest(folder + kManifestName);
    } catch (const Error& error) {
      review_.notes.push_back(
          fmt::format("the manifest in place cannot be read: {}", error.what()));
    }
  }

  GoldenReview review() {
    review_.model = change_.manifest.model;
    review_.removed = change_.dropped;
    for (const GoldenFile& file : change_.manifest.files) {
      if (pending_.count(file.gguf) > 0 && file_exists(folder_ + file.gguf)) {
        note("{}: the model file {} changes", file.type, file.gguf);
      }
      for (const GoldenLog& log : file.logs) {
        if (pending_.count(log.file) > 0) review_log(file, log);
      }
      if (const GoldenFile* old = before_ ? before_->file_of_type(file.type) : nullptr) {
        FloorChanges floors = floor_changes(*before_, *old, change_.manifest, file);
        std::move(floors.notes.begin(), floors.notes.end(), std::back_inserter(review_.notes));
        review_.looser = review_.looser || floors.looser;
      }
    }
    if (before_) {
      for (const GoldenFile& old : before_->files) {
        review_.looser =
            review_.looser || loses_checks(old, change_.manifest.file_of_type(old.type));
      }
      const std::string path = folder_ + kManifestName;
      for (std::string& change : manifest_changes(read_whole_file(path, kMaxManifestBytes),
                                                  change_.manifest_text, path)) {
        review_.notes.push_back(std::move(change));
      }
    }
    review_.snapshots = review_pending_snapshots(folder_);
    review_fast_floors();
    return std::move(review_);
  }

 private:
  template <typename... Values>
  void note(fmt::format_string<Values...> text, Values&&... values) {
    review_.notes.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  void review_fast_floors() {
    const auto found = pending_.find(kFastFloorsName);
    if (found == pending_.end()) return;
    const FastFloors before = read_fast_floors(folder_).value_or(FastFloors{});
    FastFloorChanges changes = fast_floor_changes(
        before,
        parse_fast_floors(read_whole_file(found->second, kMaxManifestBytes), found->second));
    std::move(changes.notes.begin(), changes.notes.end(), std::back_inserter(review_.notes));
    review_.looser = review_.looser || changes.looser;
  }

  void review_log(const GoldenFile& file, const GoldenLog& log) {
    LogReview review{log.file, file.type, log.prompt, false, {}, {}, 0, {}};
    const GoldenManifest& trusted = before_ ? *before_ : change_.manifest;
    const GoldenFile* old = trusted.file_of_type(file.type);
    review.k = trusted.tolerance.k;
    review.added = !file_exists(folder_ + log.file);
    if (!review.added) {
      CompareOptions options;
      options.policy = Policy(
          [&](const std::string& checkpoint) { return tolerance(trusted, old, file, checkpoint); });
      try {
        review.comparison = compare_logs(folder_ + log.file, pending_.at(log.file), options);
        review.gone = lost_records(*review.comparison);
      } catch (const Error& error) {
        review.not_comparable = error.what();
      }
    }
    review_.logs.push_back(std::move(review));
  }

  // By the current floor, or the pending one if there is none.
  Tolerance tolerance(const GoldenManifest& trusted, const GoldenFile* old, const GoldenFile& file,
                      const std::string& checkpoint) const {
    const auto& ours = trusted.tolerance;
    auto floor = old == nullptr ? std::nullopt : floor_of(*old, ours.floor, checkpoint);
    if (!floor) floor = floor_of(file, change_.manifest.tolerance.floor, checkpoint);
    if (!floor) {
      throw Error(fmt::format("{} has no floor for '{}'", file.type, checkpoint), folder_);
    }
    Tolerance result;
    result.rel_l2 = ours.k * *floor;
    result.floor = floor;
    return result;
  }

  std::string folder_;
  std::map<std::string, std::string> pending_;
  GoldenChange change_;
  std::optional<GoldenManifest> before_;
  GoldenReview review_;
};

}  // namespace

bool GoldenReview::within_floors() const {
  const bool snapshots_within =
      std::all_of(snapshots.begin(), snapshots.end(),
                  [](const SnapshotReview& snapshot) { return snapshot.within; });
  return !looser && snapshots_within &&
         std::all_of(logs.begin(), logs.end(), [](const LogReview& log) {
           return log.added || (log.comparison && log.comparison->pass && log.gone.empty());
         });
}

GoldenReview review_pending(const std::string& folder) {
  return Reviewer(folder).review();
}

}  // namespace assay
