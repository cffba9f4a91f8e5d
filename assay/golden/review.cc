#include "assay/golden/review.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "assay/golden/change.h"
#include "assay/golden/files.h"
#include "assay/golden/floors.h"
#include "assay/golden/manifest.h"
#include "base/error.h"

namespace assay {
namespace {

const GoldenFile* file_of_type(const GoldenManifest& manifest, const std::string& type) {
  for (const GoldenFile& file : manifest.files) {
    if (file.type == type) return &file;
  }
  return nullptr;
}

const GoldenLog* log_named(const GoldenFile& file, const std::string& name) {
  for (const GoldenLog& log : file.logs) {
    if (log.file == name) return &log;
  }
  return nullptr;
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
      if (const GoldenFile* old = before_ ? file_of_type(*before_, file.type) : nullptr) {
        compare_texts(*old, file);
        compare_floors(*old, file);
      }
    }
    if (before_) compare_manifests();
    return std::move(review_);
  }

 private:
  template <typename... Values>
  void note(fmt::format_string<Values...> text, Values&&... values) {
    review_.notes.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  void review_log(const GoldenFile& file, const GoldenLog& log) {
    LogReview review{log.file, file.type, log.prompt, false, {}, {}, 0};
    const GoldenManifest& trusted = before_ ? *before_ : change_.manifest;
    const GoldenFile* old = file_of_type(trusted, file.type);
    review.k = trusted.tolerance.k;
    review.added = !file_exists(folder_ + log.file);
    if (!review.added) {
      CompareOptions options;
      options.policy = Policy(
          [&](const std::string& checkpoint) { return tolerance(trusted, old, file, checkpoint); });
      try {
        review.comparison = compare_logs(folder_ + log.file, pending_.at(log.file), options);
      } catch (const Error& error) {
        review.not_comparable = error.what();
      }
    }
    review_.logs.push_back(std::move(review));
  }

  // By the floor in place, or the pending one where there is none.
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

  void compare_texts(const GoldenFile& old, const GoldenFile& file) {
    for (const GoldenLog& log : file.logs) {
      const GoldenLog* before = log_named(old, log.file);
      if (before == nullptr || before->greedy == log.greedy) continue;
      const auto [a, b] = std::mismatch(before->greedy.begin(), before->greedy.end(),
                                        log.greedy.begin(), log.greedy.end());
      note("{}: the generated tokens of {} change from the {}th on", file.type, log.file,
           a - before->greedy.begin() + 1);
    }
  }

  // The floor that changes most.
  void compare_floors(const GoldenFile& old, const GoldenFile& file) {
    double most = 0;
    std::string text;
    for (const auto& [kind, floors] : file.floors) {
      for (const auto& [name, floor] : floors) {
        const auto before = old.floors.find(kind);
        if (before == old.floors.end() || before->second.count(name) == 0) continue;
        const double a = std::max(before->second.at(name).max, kLeastFloor);
        const double b = std::max(floor.max, kLeastFloor);
        if (!(std::abs(std::log(b / a)) > most)) continue;
        most = std::abs(std::log(b / a));
        text = fmt::format("{}: of the floors, {} of {} changes most: {:.3g} -> {:.3g} (x {:.3g})",
                           file.type, name, kind, a, b, b / a);
      }
    }
    if (!text.empty()) review_.notes.push_back(text);
  }

  void compare_manifests() {
    const GoldenManifest& now = change_.manifest;
    std::set<std::string> names;
    for (const auto& [name, version] : before_->oracles) names.insert(name);
    for (const auto& [name, version] : now.oracles) names.insert(name);
    const auto version_in = [](const GoldenManifest& manifest, const std::string& name) {
      const auto found = manifest.oracles.find(name);
      return found == manifest.oracles.end() ? std::string("none") : found->second;
    };
    for (const std::string& name : names) {
      const std::string a = version_in(*before_, name);
      const std::string b = version_in(now, name);
      if (a != b) note("oracle {}: {} -> {}", name, a, b);
    }
    const GoldenTolerance& a = before_->tolerance;
    const GoldenTolerance& b = now.tolerance;
    if (a.k != b.k || a.floor != b.floor) {
      note("tolerance: {} x {} -> {} x {}", a.k, a.floor, b.k, b.floor);
    }
    for (const auto& [name, prompt] : now.prompts) {
      const auto before = before_->prompts.find(name);
      const bool same = before != before_->prompts.end() &&
                        before->second.tokens == prompt.tokens &&
                        before->second.text == prompt.text;
      if (!same) note("the prompt '{}' is new or changes", name);
    }
  }

  std::string folder_;
  std::map<std::string, std::string> pending_;
  GoldenChange change_;
  std::optional<GoldenManifest> before_;
  GoldenReview review_;
};

}  // namespace

bool GoldenReview::within_floors() const {
  return std::all_of(logs.begin(), logs.end(), [](const LogReview& log) {
    return log.added || (log.comparison && log.comparison->pass);
  });
}

GoldenReview review_pending(const std::string& folder) {
  return Reviewer(folder).review();
}

}  // namespace assay
