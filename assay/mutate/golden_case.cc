#include "assay/mutate/golden_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "assay/golden/fast_floors.h"
#include "assay/golden/floors.h"
#include "assay/golden/snapshots.h"
#include "assay/golden/verify.h"
#include "assay/log/log_reader.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/sha256.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

bool is_in(const std::vector<std::string>& list, const std::string& name) {
  return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
}

std::vector<std::string> manifest_paths(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path path = entry.path() / "manifest.json";
    if (fs::exists(path, error)) paths.push_back(path.string());
  }
  if (paths.empty()) {
    throw Error("it holds no goldens: no folder with a manifest.json", folder,
                "give the folder of the goldens with --folder");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void check_hash(const std::string& got, const std::string& want, const std::string& path) {
  if (got == want) return;
  throw Error(fmt::format("its sha256 is {}, the manifest states {}", got, want), path,
              "it is another file than the golden was recorded from");
}

std::vector<CheckpointHash> snapshot_of(const GoldenManifest& manifest, const GoldenCase& golden) {
  std::vector<CheckpointHash> hashes;
  const auto all = read_snapshots(manifest.folder());
  if (!all) return hashes;
  const Snapshot* found = find_snapshot(
      *all, golden.type, golden.math == Math::kFast ? "fast" : "exact", golden.prompt);
  if (found == nullptr) return hashes;
  for (size_t i = 0; i < all->checkpoints.size(); ++i) {
    hashes.push_back({all->checkpoints[i], found->values[i].hash});
  }
  return hashes;
}

void read_log(const GoldenManifest& manifest, const GoldenLog& log, const Policy& policy,
              GoldenCase& golden) {
  const std::string path = manifest.folder() + log.file;
  check_hash(sha256_hex(MappedFile(path).bytes()), log.sha256, path);
  LogReader reader(path);
  while (const Record* record = reader.next()) {
    if (!record->summary || !record->sketch) {
      throw Error(
          fmt::format("{} at {} has no summary and sketch", record->checkpoint, record->token_idx),
          path, "record it again");
    }
    golden.records.push_back({.record = *record,
                              .tolerance = policy.tolerance(record->checkpoint).rel_l2.value(),
                              .op_level = log.set == "ops"});
  }
}

void read_file(const GoldenManifest& manifest, const GoldenFile& file, const GoldenFilter& filter,
               Math math, std::vector<MissingModel>& missing, std::vector<GoldenCase>& cases) {
  const std::string path = find_model_file(manifest, file);
  if (path.empty()) {
    missing.push_back({.model = manifest.model,
                       .what = fmt::format("{} {}: no {}", manifest.model, file.type, file.gguf)});
    return;
  }
  const auto gguf = std::make_shared<Gguf>(path);
  check_hash(gguf->sha256(), file.sha256, path);
  std::map<std::string, GoldenCase> by_prompt;
  for (const GoldenLog& log : file.logs) {
    if (!is_in(filter.prompts, log.prompt)) continue;
    GoldenCase& golden = by_prompt[log.prompt];
    const GoldenPrompt& prompt = manifest.prompts.at(log.prompt);
    golden.model = manifest.model;
    golden.type = file.type;
    golden.prompt = log.prompt;
    golden.prompt_text = prompt.text;
    golden.model_path = path;
    golden.manifest_path = manifest.path;
    golden.gguf = gguf;
    golden.tokens = prompt.tokens;
    golden.greedy = log.greedy;
    golden.padding_ids = manifest.padding_ids;
    golden.k = manifest.tolerance.k;
    golden.math = math;
    const Policy policy = math == Math::kFast ? fast_policy(manifest, file, log.prompt, kFastFloors)
                                              : floor_policy(manifest, file);
    read_log(manifest, log, policy, golden);
  }
  for (auto& [name, golden] : by_prompt) {
    golden.snapshot = snapshot_of(manifest, golden);
    cases.push_back(std::move(golden));
  }
}

}  // namespace

std::vector<GoldenCase> read_golden_cases(const std::string& folder, const GoldenFilter& filter,
                                          std::vector<MissingModel>& missing, Math math) {
  std::vector<GoldenCase> cases;
  for (const std::string& path : manifest_paths(folder)) {
    const GoldenManifest manifest = read_golden_manifest(path);
    if (!is_in(filter.models, manifest.model)) continue;
    for (const GoldenFile& file : manifest.files) {
      if (!is_in(filter.types, file.type)) continue;
      if (math == Math::kFast && !rounds_activations(file.type)) continue;
      read_file(manifest, file, filter, math, missing, cases);
    }
  }
  return cases;
}

}  // namespace assay
