#include "assay/golden/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

#include "assay/golden/change.h"
#include "assay/golden/fast_floors.h"
#include "assay/golden/files.h"
#include "assay/golden/inventory.h"
#include "assay/golden/log_check.h"
#include "assay/golden/snapshots.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/input_file.h"

namespace assay {
namespace {

constexpr int64_t kMaxRequirementsBytes = 1 << 20;

std::string with_slash(const std::string& folder) {
  return folder.ends_with('/') ? folder : folder + "/";
}

// PEP 503: case and the kind of separator do not distinguish packages.
std::string normalized(std::string package) {
  for (char& c : package) {
    c = c == '_' || c == '.' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return package;
}

// Versions that "name==version" lines of a requirements.txt pin.
std::map<std::string, std::string> pinned_versions(const std::string& path) {
  std::map<std::string, std::string> pins;
  std::istringstream lines(read_whole_file(path, kMaxRequirementsBytes));
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.size(), line.find_first_of("#;")));
    std::erase_if(line, [](unsigned char c) { return std::isspace(c) != 0; });
    const size_t equals = line.find("==");
    if (equals == std::string::npos) continue;
    const std::string name = line.substr(0, std::min(equals, line.find('[')));
    pins[normalized(name)] = line.substr(equals + 2);
  }
  return pins;
}

void add_inventory_problems(const std::string& root, const Inventory& listed,
                            const Inventory& found, GoldenCheck& check) {
  for (const std::string& problem : inventory_problems(listed, found)) {
    check.problems.emplace_back(
        Error(problem, with_slash(root) + kInventoryName,
              "restore it with git checkout; the expected fixtures: assay golden list "
              "--inventory")
            .what());
  }
}

class Verifier {
 public:
  Verifier(const std::string& root, const std::string& model)
      : root_(with_slash(root)), folder_(golden_folder(root, model)) {
    check_.model = model;
  }

  GoldenCheck verify() {
    pending_ = pending_files(folder_);
    mend_ = fmt::format("assay golden {} {}",
                        pending_.count(kManifestName) > 0 ? "accept" : "record", check_.model);
    const std::string path = folder_ + kManifestName;
    try {
      manifest_ = read_golden_manifest(path);
    } catch (const NewerManifest& error) {
      check_.problems.emplace_back(error.what());
    } catch (const Error& error) {
      problem("", error.what());
    }
    if (!check_.problems.empty()) {
      check_.fixtures.push_back({check_.model, "-", "-", "-", "-", "unreadable"});
      return std::move(check_);
    }
    if (manifest_.model != check_.model) {
      problem(path, fmt::format("is of the model '{}', its folder is '{}'", manifest_.model,
                                check_.model));
    }
    check_oracles();
    for (const GoldenFile& file : manifest_.files) check_file(file);
    check_.allowed = allowed_errors(manifest_);
    check_.wide = wide_tolerances(manifest_);
    for (const std::string& what : tolerances_beyond_float32(manifest_)) problem(path, what);
    check_orphans();
    check_inventory();
    check_measured();
    return std::move(check_);
  }

 private:
  void problem(const std::string& file, const std::string& what, const std::string& mend = {}) {
    check_.problems.emplace_back(Error(what, file, mend.empty() ? mend_ : mend).what());
  }

  // Of a log that is not the recorded one; a pending golden says what to do itself.
  std::string log_mend() const {
    return pending_.empty() ? "restore it with git checkout, or record it again: " + mend_ : mend_;
  }

  void check_oracles() {
    const std::string path = root_ + "generate/requirements.txt";
    if (!file_exists(path)) return;
    const auto pins = pinned_versions(path);
    for (const auto& [name, version] : manifest_.oracles) {
      const auto pin = pins.find(normalized(name));
      if (pin == pins.end() || pin->second == version) continue;
      problem(folder_ + kManifestName,
              fmt::format("was recorded with {} {}, {} pins {}", name, version, path, pin->second));
    }
  }

  void check_model_file(const GoldenFile& file) {
    const std::string path = find_model_file(manifest_, file);
    if (path.empty() && !file.source.empty()) {
      check_.absent_models.push_back(
          fmt::format("{}: {} of {}", check_.model, file.gguf, file.source));
    } else if (path.empty()) {
      problem(folder_ + file.gguf, "is missing");
    } else if (has_hash(path, file.sha256) == false) {
      const bool fetched = !path.starts_with(folder_);
      problem(path, "is another model than the manifest states: its SHA-256 differs",
              fetched ? fmt::format("remove it and fetch it again ({})", file.source) : mend_);
    }
  }

  void check_file(const GoldenFile& file) {
    check_model_file(file);
    const int64_t n_layers =
        layers_of(file, [&](const std::string& name) { return folder_ + name; });
    for (const GoldenLog& log : file.logs) {
      std::string state = pending_.count(log.file) > 0 ? "pending" : "recorded";
      const std::string path = folder_ + log.file;
      if (!file_exists(path)) {
        state = "missing";
        problem(path, "is missing", log_mend());
      } else if (const auto same = has_hash(path, log.sha256); !same.value_or(false)) {
        state = same ? "changed" : "unreadable";
        if (same) {
          problem(path, "is not what the manifest states: its SHA-256 differs", log_mend());
        }
      } else {
        try {
          check_golden_log(path, manifest_, file, log, n_layers,
                           "assay golden record " + manifest_.model);
        } catch (const Error& error) {
          state = "changed";
          check_.problems.emplace_back(error.what());
        }
      }
      check_.fixtures.push_back({check_.model, file.type, log.prompt, log.set, log.file, state});
    }
  }

  // No test reads a file that no manifest names.
  void check_orphans() {
    std::set<std::string> named = {kManifestName, kSnapshotsName, kFastFloorsName};
    for (const GoldenFile& file : manifest_.files) {
      named.insert(file.gguf);
      for (const GoldenLog& log : file.logs) named.insert(log.file);
    }
    for (const std::string& name : files_in(folder_)) {
      if (named.contains(name) || name.ends_with(kPendingSuffix)) continue;
      problem(folder_ + name, "is a file that no manifest names", "delete it or record it");
    }
  }

  void check_inventory() {
    const auto inventory = read_inventory(root_);
    if (!inventory) return;
    add_inventory_problems(root_, inventory_of_model(*inventory, manifest_.model),
                           inventory_of(manifest_), check_);
  }

  // Whether another golden has a file of that name, so that this one should.
  bool others_have(const char* name) const {
    const std::vector<std::string> models = golden_models(root_);
    return std::ranges::any_of(models, [&](const std::string& model) {
      return model != check_.model && file_exists(root_ + model + "/" + name);
    });
  }

  void check_measured(const char* name, const std::string& flag, bool is_needed,
                      const std::optional<std::vector<std::string>>& problems) {
    const std::string mend = fmt::format("assay golden record {} {}", flag, manifest_.model);
    for (const std::string& what : problems.value_or(std::vector<std::string>())) {
      problem(folder_ + name, what, mend);
    }
    if (problems || !is_needed) return;
    if (!others_have(name)) {
      check_.unverified.push_back(
          fmt::format("{}{} is not there, nor in another golden: that the engine still computes "
                      "what it did was "
                      "not verified; {} writes it",
                      folder_, name, mend));
      return;
    }
    problem(folder_ + name, "is missing, and other goldens have one",
            "restore it with git checkout, or measure it: " + mend);
  }

  // What a golden has, and what it lacks where others have it.
  void check_measured() {
    using Problems = std::optional<std::vector<std::string>>;
    try {
      const auto snapshots = read_snapshots(folder_);
      check_measured(kSnapshotsName, "--snapshots", true,
                     snapshots ? Problems(snapshot_problems(manifest_, *snapshots)) : Problems());
      const auto floors = read_fast_floors(folder_);
      check_measured(kFastFloorsName, "--fast-floors", needs_fast_floors(manifest_),
                     floors ? Problems(fast_floor_problems(manifest_, *floors)) : Problems());
    } catch (const Error& error) {
      check_.problems.emplace_back(error.what());
    }
  }

  // Nothing, and a problem of its own, where the file cannot be read.
  std::optional<bool> has_hash(const std::string& path, const std::string& sha256) {
    std::error_code none;
    if (std::filesystem::is_empty(path, none)) return false;
    try {
      return file_sha256(path) == sha256;
    } catch (const Error& error) {
      check_.problems.emplace_back(error.what());
      return std::nullopt;
    }
  }

  std::string root_;
  std::string folder_;
  std::string mend_;
  std::map<std::string, std::string> pending_;
  GoldenManifest manifest_;
  GoldenCheck check_;
};

// A manifest, a pending one, or files that only a golden has: a missing manifest must be reported.
bool holds_golden(const std::string& folder) {
  const std::string manifest = folder + kManifestName;
  if (file_exists(manifest) || file_exists(manifest + kPendingSuffix)) return true;
  std::error_code none;
  if (!std::filesystem::is_directory(folder, none)) return false;
  const std::vector<std::string> names = files_in(folder);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.ends_with(".jsonl") || name.ends_with(".gguf");
  });
}

[[noreturn]] void refuse_root(const std::string& root, const std::error_code& error) {
  throw Error("cannot read the goldens: " + error.message(), root,
              "run in the folder that holds golden/, or give --folder");
}

}  // namespace

std::vector<std::string> golden_models(const std::string& root) {
  std::vector<std::string> models;
  std::error_code error;
  std::filesystem::directory_iterator entry(root, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (holds_golden(entry->path().string() + "/")) {
      models.push_back(entry->path().filename().string());
    }
  }
  if (error) refuse_root(root, error);
  if (models.empty()) {
    throw Error("no folder in it holds a manifest.json", root, "give the goldens with --folder");
  }
  std::sort(models.begin(), models.end());
  return models;
}

std::string golden_folder(const std::string& root, const std::string& model) {
  const std::string folder = with_slash(root) + model;
  std::error_code error;
  const bool plain =
      !model.empty() && model.find('/') == std::string::npos && model != "." && model != "..";
  if (plain && std::filesystem::is_directory(folder, error)) return folder + "/";
  if (std::filesystem::directory_iterator(root, error); error) refuse_root(root, error);
  throw Error(fmt::format("there is no golden of '{}'", model), root, "see assay golden list");
}

std::string find_model_file(const GoldenManifest& manifest, const GoldenFile& file) {
  for (const std::string& path :
       {manifest.folder() + file.gguf, cache_folder() + "/" + manifest.model + "/" + file.gguf}) {
    if (file_exists(path)) return path;
  }
  return "";
}

GoldenCheck verify_golden(const std::string& root, const std::string& model) {
  return Verifier(root, model).verify();
}

std::vector<GoldenCheck> verify_goldens(const std::string& root) {
  std::vector<GoldenCheck> checks;
  Inventory gone = read_inventory(root).value_or(Inventory{});
  for (const std::string& model : golden_models(root)) {
    checks.push_back(verify_golden(root, model));
    for (const InventoryEntry& entry : inventory_of_model(gone, model)) gone.erase(entry);
  }
  while (!gone.empty()) {
    GoldenCheck check;
    check.model = gone.begin()->model;
    const Inventory listed = inventory_of_model(gone, check.model);
    add_inventory_problems(root, listed, {}, check);
    checks.push_back(std::move(check));
    for (const InventoryEntry& entry : listed) gone.erase(entry);
  }
  return checks;
}

}  // namespace assay
