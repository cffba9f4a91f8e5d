#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/golden/change.h"
#include "assay/golden/fast_floors.h"
#include "assay/golden/floors.h"
#include "assay/golden/inventory.h"
#include "assay/golden/manifest.h"
#include "assay/golden/verify.h"
#include "tests/support/named_case.h"
#include "tests/support/paths.h"

namespace assay {

// One prompt of a model file, with everything that is recorded for it.
struct GoldenSequence {
  std::string name;  // of the prompt
  std::vector<int32_t> tokens;
  std::vector<int32_t> greedy;
  std::vector<int32_t> padding_ids;
  std::vector<std::string> logs = {};                                      // paths of the fixtures
  std::function<double(const std::string& checkpoint)> tolerance_of = {};  // of relative L2
  // The same for fast math on weights stored in blocks (fast_floors.h), of every record, and of
  // half of them.
  std::function<double(const std::string& checkpoint)> fast_tolerance_of = {};
  std::function<double(const std::string& checkpoint)> fast_usual_of = {};
  // The same for library math; empty where there are no floors of it. They are measured on the
  // emulated backend, which must stay within kFastFloors of them; cuBLAS has another order of sums,
  // and the goldens' own factor for that.
  std::function<double(const std::string& checkpoint)> library_tolerance_of = {};
  std::function<double(const std::string& checkpoint)> cublas_tolerance_of = {};
  std::function<double(const std::string& checkpoint)> library_usual_of = {};
};

struct GoldenModel {
  std::string model;
  std::string type;
  std::string path;  // empty where the file is not here
  std::string source;
  std::string command;         // that makes the file, where the manifest has one
  bool goes_all_ways = false;  // one type of each model, where a case takes seconds
  std::string sha256;
  std::vector<GoldenSequence> sequences;
  Inventory inventory;  // what `sequences` are made of
};

// A model file and the prompts in its manifest. Logs of one prompt that were recorded with the same
// generated tokens are of one sequence.
//
// Small models are held to 2e-6 everywhere, whatever their floors allow: Assay promises it. Real
// weights are held to 1e-4, whatever a manifest says. The manifest must outlive the result.
inline GoldenModel golden_model(const GoldenManifest& manifest, const GoldenFile& file) {
  GoldenModel golden{manifest.model, file.type,    find_model_file(manifest, file),
                     file.source,    file.command, false,
                     file.sha256,    {},           {}};
  const auto policy = std::make_shared<const Policy>(floor_policy(manifest, file));
  // Read by the test that needs it, so that missing files fail the test and not the listing of
  // tests.
  const auto fast = [shared = &manifest, of = &file](const std::string& prompt,
                                                     const auto& policy_of) {
    const auto kept = std::make_shared<std::optional<Policy>>();
    return [=](const std::string& checkpoint) {
      if (!*kept) *kept = policy_of(*shared, *of, prompt);
      return *(*kept)->tolerance(checkpoint).rel_l2;
    };
  };
  const double most = file.source.empty() ? 2e-6 : 1e-4;
  for (const GoldenLog& log : file.logs) {
    GoldenSequence* sequence = nullptr;
    for (GoldenSequence& known : golden.sequences) {
      if (known.name == log.prompt && known.greedy == log.greedy) sequence = &known;
    }
    if (sequence == nullptr) {
      golden.sequences.push_back({log.prompt,
                                  manifest.prompts.at(log.prompt).tokens,
                                  log.greedy,
                                  manifest.padding_ids,
                                  {},
                                  [policy, most](const std::string& checkpoint) {
                                    return std::min(most, *policy->tolerance(checkpoint).rel_l2);
                                  },
                                  fast(log.prompt,
                                       [](const auto& m, const auto& f, const std::string& prompt) {
                                         return fast_policy(m, f, prompt, kFastFloors);
                                       }),
                                  fast(log.prompt, usual_fast_policy)});
      sequence = &golden.sequences.back();
      if (has_library_floors(manifest, file, log.prompt)) {
        sequence->library_tolerance_of =
            fast(log.prompt, [](const auto& m, const auto& f, const std::string& prompt) {
              return library_policy(m, f, prompt, kFastFloors);
            });
        sequence->cublas_tolerance_of =
            fast(log.prompt, [](const auto& m, const auto& f, const std::string& prompt) {
              return library_policy(m, f, prompt, m.tolerance.k);
            });
        sequence->library_usual_of = fast(log.prompt, usual_library_policy);
      }
    }
    sequence->logs.push_back(manifest.folder() + log.file);
    golden.inventory.insert({manifest.model, file.type, log.prompt, log.set});
  }
  for (const GoldenText& text : file.texts) {
    golden.sequences.push_back(
        {text.prompt, manifest.prompts.at(text.prompt).tokens, text.greedy, manifest.padding_ids});
    golden.inventory.insert({manifest.model, file.type, text.prompt, kTextSet});
  }
  return golden;
}

// Whether a case is of this model, whose name it begins with.
inline bool is_case_of(const std::string& name, std::string model) {
  std::replace_if(
      model.begin(), model.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name.starts_with(model + "_");
}

// The manifests of golden/. Cases point into them: copies would take most of the time of a test
// that is a process of its own. If it is a case of one model, the others are not read.
inline const std::vector<GoldenManifest>& golden_manifests_of_tests() {
  static std::vector<GoldenManifest> all;
  if (!all.empty()) return all;
  const std::string root = source_path("golden");
  std::vector<std::string> models = golden_models(root);
  const std::string name = testing_support::named_case();
  const auto is_named = [&](const std::string& model) { return is_case_of(name, model); };
  if (std::ranges::any_of(models, is_named)) std::erase_if(models, std::not_fn(is_named));
  for (const std::string& model : models) {
    all.push_back(read_golden_manifest(golden_folder(root, model) + kManifestName));
  }
  return all;
}

// All model files that golden/ has manifests of.
inline const std::vector<GoldenModel>& golden_models_of_tests() {
  static std::vector<GoldenModel> all;
  if (!all.empty()) return all;
  for (const GoldenManifest& manifest : golden_manifests_of_tests()) {
    const size_t first = all.size();
    for (const GoldenFile& file : manifest.files) all.push_back(golden_model(manifest, file));
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    const auto k = std::find_if(begin, all.end(), [](auto& one) { return one.type == "Q4_K_M"; });
    if (begin != all.end()) (k == all.end() ? begin : k)->goes_all_ways = true;
  }
  return all;
}

}  // namespace assay
