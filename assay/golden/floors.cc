#include "assay/golden/floors.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>
#include <vector>

#include "assay/golden/fast_floors.h"
#include "assay/log/log_reader.h"
#include "base/error.h"
#include "model/architecture.h"

namespace assay {
namespace {

const Floor* find_in(const std::map<std::string, Floors>& table, const std::string& key,
                     const std::string& floor) {
  const auto floors = table.find(key);
  if (floors == table.end()) return nullptr;
  const auto found = floors->second.find(floor);
  return found == floors->second.end() ? nullptr : &found->second;
}

// As measured, for a checkpoint or else for its kind; null if there is neither.
const Floor* find_floor(const GoldenFile& file, const std::string& floor,
                        const std::string& checkpoint) {
  const Floor* found = find_in(file.floors_by_checkpoint, checkpoint, floor);
  return found != nullptr ? found : find_in(file.floors, checkpoint_kind(checkpoint), floor);
}

std::string floor_names(const GoldenManifest& manifest, const GoldenFile& file) {
  std::set<std::string> names;
  for (const auto* table : {&file.floors, &file.floors_by_checkpoint}) {
    for (const auto& [checkpoint, floors] : *table) {
      for (const auto& [name, floor] : floors) names.insert(name);
    }
  }
  if (const std::optional<FastFloors> fast = read_fast_floors(manifest.folder())) {
    names.insert(kFastFloorName);
    const auto is_library = [&](const FastFloors::Of& each) {
      return each.type == file.type && each.math == "library";
    };
    if (std::ranges::any_of(fast->prompts, is_library)) names.insert(kLibraryFloorName);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

bool has_floor(const GoldenFile& file, const std::string& floor) {
  for (const auto* table : {&file.floors, &file.floors_by_checkpoint}) {
    for (const auto& [checkpoint, floors] : *table) {
      if (floors.count(floor) > 0) return true;
    }
  }
  return false;
}

std::string types_of(const GoldenManifest& manifest) {
  std::vector<std::string> types;
  for (const GoldenFile& file : manifest.files) types.push_back(file.type);
  return fmt::format("{}", fmt::join(types, ", "));
}

// A type alone is that of files of many models. Only among architectures that Assay has: of others
// two tools may have two names.
void check_architecture(const GoldenManifest& manifest, const LogHeader::Model& model) {
  const Architecture* stated = find_architecture(model.arch);
  const Architecture* held = find_architecture(manifest.arch);
  if (stated == nullptr || held == nullptr || stated == held) return;
  throw Error(fmt::format("is of a model of the architecture {}, and a log of one of {}",
                          manifest.arch, model.arch),
              manifest.path, "give the manifest of the model that ran");
}

// The model file of a log; null if its header does not name it.
const GoldenFile* file_of(const GoldenManifest& manifest, const std::optional<LogHeader>& header) {
  if (!header) return nullptr;
  const LogHeader::Model& model = header->model;
  const bool by_hash = !model.sha256.empty();
  if (!by_hash) check_architecture(manifest, model);
  if (!by_hash && model.type.empty()) return nullptr;
  const auto found =
      std::find_if(manifest.files.begin(), manifest.files.end(), [&](const GoldenFile& file) {
        return by_hash ? file.sha256 == model.sha256 : file.type == model.type;
      });
  if (found != manifest.files.end()) return &*found;
  throw Error(fmt::format("a log is of the model {} {}{}, for which the manifest has no floors",
                          model.name, model.type, by_hash ? " " + model.sha256 : ""),
              manifest.path,
              fmt::format("it has {} in {}: give the manifest of the model that ran",
                          manifest.model, types_of(manifest)));
}

// The prompt of the logs, by the tokens in their headers.
std::string prompt_of(const GoldenManifest& manifest, const std::optional<LogHeader>& ref,
                      const std::optional<LogHeader>& got) {
  for (const auto* header : {&ref, &got}) {
    if (!*header) continue;
    for (const auto& [name, prompt] : manifest.prompts) {
      const auto& tokens = (*header)->tokens;
      if (std::equal(tokens.begin(), tokens.end(), prompt.tokens.begin(), prompt.tokens.end())) {
        return name;
      }
    }
  }
  throw Error("the logs match no prompt of the manifest, whose floors of fast are by prompt",
              manifest.path, "run one of its prompts, or give --floor another");
}

// The floors of a measured policy are those of its models: what is noise for one may be a fault in
// another. Of several files of a model they are what storing it in other types costs, and the
// judged log may be of one more file.
void check_models(const Policy& policy, const std::string& policy_path, const std::string& ref_path,
                  const std::string& got_path) {
  if (policy.model_hashes().empty()) return;
  for (const std::string& log : {ref_path, got_path}) {
    if (policy.model_hashes().size() > 1 && log != ref_path) break;
    const auto header = read_log_header(log);
    if (!header || header->model.sha256.empty()) continue;
    if (policy.model_hashes().contains(header->model.sha256)) continue;
    throw Error(fmt::format("its floors are of other models than {} {} {}, of which {} is",
                            header->model.name, header->model.type, header->model.sha256, log),
                policy_path, "measure those of this model with assay floors");
  }
}

}  // namespace

std::optional<double> floor_of(const GoldenFile& file, const std::string& floor,
                               const std::string& checkpoint) {
  const Floor* found = find_floor(file, floor, checkpoint);
  if (found == nullptr) return {};
  return std::max(found->max, kLeastFloor);
}

std::optional<double> floor_of_kind(const GoldenFile& file, const std::string& floor,
                                    const std::string& kind) {
  const Floor* found = find_in(file.floors, kind, floor);
  if (found == nullptr) return {};
  return std::max(found->max, kLeastFloor);
}

Policy floor_policy(const GoldenManifest& manifest, const GoldenFile& file,
                    const std::string& floor) {
  const std::string name = floor.empty() ? manifest.tolerance.floor : floor;
  if (!has_floor(file, name)) {
    throw Error(fmt::format("{} has no floor '{}'", file.type, name), manifest.path,
                "its floors are " + floor_names(manifest, file));
  }
  const double k = manifest.tolerance.k;
  return Policy([file, name, k, path = manifest.path](const std::string& checkpoint) {
    const auto value = floor_of(file, name, checkpoint);
    if (!value) {
      throw Error(fmt::format("{} has no floor '{}' for '{}'", file.type, name, checkpoint), path,
                  "leave it out of the logs, or record the golden with it");
    }
    return floor_tolerance(k, *value);
  });
}

const GoldenFile& fitting_file(const GoldenManifest& manifest, const std::optional<LogHeader>& ref,
                               const std::optional<LogHeader>& got) {
  const GoldenFile* of_ref = file_of(manifest, ref);
  const GoldenFile* of_got = file_of(manifest, got);
  if (of_ref != nullptr && of_got != nullptr && of_ref != of_got) {
    throw Error(fmt::format("the reference is of {}, the other log of {}: no floor applies to both",
                            of_ref->type, of_got->type),
                manifest.path, "compare logs of one model file");
  }
  if (of_ref != nullptr) return *of_ref;
  if (of_got != nullptr) return *of_got;
  throw Error("neither log has a header that names its model, so it is unknown whose floors apply",
              manifest.path,
              "compare with a golden's log, or give a policy with tolerances instead");
}

Policy policy_for_logs(const std::string& policy_path, const std::string& floor,
                       const std::string& ref_path, const std::string& got_path) {
  if (!policy_path.empty() && is_golden_manifest(policy_path)) {
    const GoldenManifest manifest = read_golden_manifest(policy_path);
    const auto ref = read_log_header(ref_path);
    const auto got = read_log_header(got_path);
    const GoldenFile& file = fitting_file(manifest, ref, got);
    if (floor == kFastFloorName) {
      return fast_policy(manifest, file, prompt_of(manifest, ref, got), manifest.tolerance.k);
    }
    if (floor == kLibraryFloorName) {
      return library_policy(manifest, file, prompt_of(manifest, ref, got), manifest.tolerance.k);
    }
    return floor_policy(manifest, file, floor);
  }
  if (!floor.empty()) {
    throw Error("there are no floors without a manifest", "--floor",
                "give --policy golden/MODEL/manifest.json with it");
  }
  if (policy_path.empty()) return Policy();
  Policy policy = Policy::from_file(policy_path);
  check_models(policy, policy_path, ref_path, got_path);
  return policy;
}

bool requires_whole_records(const std::string& policy_path) {
  if (policy_path.empty()) return false;
  return is_golden_manifest(policy_path) || Policy::from_file(policy_path).is_measured();
}

}  // namespace assay
