#include "assay/record/golden_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "assay/golden/golden_error.h"
#include "assay/golden/verify.h"
#include "assay/log/log_reader.h"
#include "assay/record/backend.h"
#include "assay/record/snapshot_probe.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/session.h"
#include "kernels/emulated/emulated.h"

namespace assay {
namespace {

// The error of each record of a golden's logs, by checkpoint.
class ErrorProbe : public Probe {
 public:
  void read(const std::string& path) {
    LogReader reader(path);
    while (const Record* record = reader.next()) records_[record->checkpoint].push_back(*record);
  }

  bool wants(Checkpoint checkpoint, int layer) override {
    return records_.count(checkpoint_name(checkpoint, layer)) > 0;
  }
  void observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
               int64_t width, const float* values) override {
    const std::string name = checkpoint_name(checkpoint, layer);
    for (const Record& record : records_.at(name)) {
      const int64_t t = record.token_idx - first_token_idx;
      if (t < 0 || t >= n_tokens) continue;
      errors_[{layer_order(checkpoint, layer), name}].push_back(
          golden_error(record, {values + t * width, static_cast<size_t>(width)}));
    }
  }

  // The floors, in the network's order; Error if a checkpoint of the golden was not seen.
  std::vector<std::pair<std::string, FastFloor>> floors(const std::string& where) const {
    std::vector<std::pair<std::string, FastFloor>> result;
    for (const auto& [key, errors] : errors_) {
      result.emplace_back(key.second, fast_floor_of(errors, where + " " + key.second));
    }
    if (result.size() == records_.size()) return result;
    throw Error("the engine does not have every checkpoint of the golden", where);
  }

 private:
  // By layer and op; checkpoints outside of layers first and last.
  static std::pair<int, int> layer_order(Checkpoint checkpoint, int layer) {
    const int op = static_cast<int>(checkpoint);
    if (checkpoint == Checkpoint::kEmbedding) return {-1, op};
    return {is_in_layer(checkpoint) ? layer : INT32_MAX, op};
  }

  std::map<std::string, std::vector<Record>> records_;
  std::map<std::pair<std::pair<int, int>, std::string>, std::vector<double>> errors_;
};

// The golden's model; null if its file is missing.
std::unique_ptr<Model> load(const GoldenManifest& manifest, const GoldenFile& file,
                            std::vector<std::string>& absent) {
  const std::string path = find_model_file(manifest, file);
  if (path.empty()) {
    absent.push_back(file.type);
    return nullptr;
  }
  auto gguf = std::make_shared<Gguf>(path);
  if (gguf->sha256() != file.sha256) {
    throw Error("is another model than the manifest states: its SHA-256 differs", path,
                "restore it, or record the golden again");
  }
  return std::make_unique<Model>(std::move(gguf));
}

void tell(const GoldenEngineOptions& options, const GoldenManifest& manifest,
          const GoldenFile& file, const char* math, const GoldenPassage& passage) {
  if (!options.progress) return;
  options.progress(fmt::format("{} {} {} {}", manifest.model, file.type, math, passage.prompt));
}

}  // namespace

std::vector<GoldenPassage> passages_of(const GoldenManifest& manifest, const GoldenFile& file) {
  std::map<std::string, GoldenPassage> passages;
  for (const GoldenLog& log : file.logs) {
    GoldenPassage& passage = passages[log.prompt];
    passage.prompt = log.prompt;
    passage.tokens = manifest.prompts.at(log.prompt).tokens;
    if (log.greedy.size() > passage.greedy.size()) passage.greedy = log.greedy;
  }
  std::vector<GoldenPassage> all;
  for (auto& [name, passage] : passages) all.push_back(std::move(passage));
  return all;
}

void follow_golden(const Model& model, Kernels& kernels, const GoldenPassage& passage,
                   Probe& probe) {
  Session session(model, kernels, {.capacity = passage.capacity()});
  session.eval(passage.tokens, &probe);
  for (size_t i = 0; i + 1 < passage.greedy.size(); ++i) {
    session.eval({&passage.greedy[i], 1}, &probe);
  }
}

Snapshot take_snapshot(const Model& model, Kernels& kernels, const GoldenPassage& passage,
                       std::vector<std::string>& checkpoints) {
  SnapshotProbe probe(model.config().n_layers);
  follow_golden(model, kernels, passage, probe);
  SnapshotProbe::Result result = probe.result();
  checkpoints = std::move(result.checkpoints);
  Snapshot snapshot;
  snapshot.prompt = passage.prompt;
  snapshot.positions = result.positions;
  snapshot.values = std::move(result.values);
  return snapshot;
}

FastFloors::Of measure_fast_floors(const GoldenManifest& manifest, const GoldenFile& file,
                                   const Model& model, Kernels& kernels,
                                   const GoldenPassage& passage, const std::string& math) {
  ErrorProbe probe;
  for (const GoldenLog& log : file.logs) {
    if (log.prompt == passage.prompt) probe.read(manifest.folder() + log.file);
  }
  follow_golden(model, kernels, passage, probe);
  return {file.type, file.sha256, passage.prompt,
          probe.floors(fmt::format("{} {} {} {}", manifest.model, file.type, math, passage.prompt)),
          math};
}

GoldenSnapshots take_snapshots(const GoldenManifest& manifest, const GoldenSnapshots* old,
                               const GoldenEngineOptions& options,
                               std::vector<std::string>& absent) {
  ThreadPool pool(options.n_threads);
  GoldenSnapshots all;
  all.model = manifest.model;
  for (const GoldenFile& file : manifest.files) {
    const auto model = load(manifest, file, absent);
    for (const char* math : kSnapshotMaths) {
      const auto kernels = make_kernels("cpu", math_of(math), pool);
      for (const GoldenPassage& passage : passages_of(manifest, file)) {
        if (!model) {
          const Snapshot* kept =
              old == nullptr ? nullptr : find_snapshot(*old, file.type, math, passage.prompt);
          if (kept != nullptr) all.snapshots.push_back(*kept);
          continue;
        }
        tell(options, manifest, file, math, passage);
        std::vector<std::string> checkpoints;
        Snapshot snapshot = take_snapshot(*model, *kernels, passage, checkpoints);
        snapshot.type = file.type;
        snapshot.sha256 = file.sha256;
        snapshot.math = math;
        if (all.checkpoints.empty()) all.checkpoints = checkpoints;
        if (all.checkpoints != checkpoints) {
          throw Error("has other checkpoints than the model's other files", file.gguf);
        }
        all.snapshots.push_back(std::move(snapshot));
      }
    }
  }
  if (all.checkpoints.empty() && old != nullptr) all.checkpoints = old->checkpoints;
  return all;
}

FastFloors measure_fast_floors(const GoldenManifest& manifest, const FastFloors* old,
                               const GoldenEngineOptions& options,
                               std::vector<std::string>& absent) {
  ThreadPool pool(options.n_threads);
  const auto fast = make_kernels("cpu", Math::kFast, pool);
  std::unique_ptr<Kernels> library;  // where it is needed, and this build has it
  FastFloors all;
  all.model = manifest.model;
  for (const GoldenFile& file : manifest.files) {
    const auto passages = passages_of(manifest, file);
    const auto in_library = [&](const GoldenPassage& passage) {
      return has_library_floors(manifest, file, passage.prompt);
    };
    const bool any_in_library = std::ranges::any_of(passages, in_library);
    if (!rounds_activations(file.type) && !any_in_library) continue;
    if (any_in_library && !library && has_emulated_kernels()) {
      library = make_emulated_kernels(0, Math::kLibrary);
    }
    const auto model = load(manifest, file, absent);
    const auto measure = [&](const GoldenPassage& passage, Kernels* kernels, const char* math) {
      if (model && kernels != nullptr) {
        tell(options, manifest, file, math, passage);
        all.prompts.push_back(measure_fast_floors(manifest, file, *model, *kernels, passage, math));
        return;
      }
      if (old == nullptr) return;
      std::copy_if(old->prompts.begin(), old->prompts.end(), std::back_inserter(all.prompts),
                   [&](const FastFloors::Of& each) {
                     return each.type == file.type && each.prompt == passage.prompt &&
                            each.math == math;
                   });
    };
    for (const GoldenPassage& passage : passages) {
      if (rounds_activations(file.type)) measure(passage, fast.get(), "fast");
      if (in_library(passage)) measure(passage, library.get(), "library");
    }
  }
  return all;
}

}  // namespace assay
