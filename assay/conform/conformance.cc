#include "assay/conform/conformance.h"

#include <algorithm>
#include <filesystem>

#include "assay/conform/engine_process.h"
#include "assay/conform/feature_model.h"
#include "assay/conform/judge.h"
#include "base/error.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

void make_folder(const fs::path& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) throw Error("cannot be created: " + failed.message(), path.string());
}

struct Paths {
  std::string model;
  std::string gguf;  // empty where there is none
};

Paths write_model(const Feature& feature, const fs::path& work) {
  const fs::path folder = work / "models" / feature.name;
  Paths paths{.model = folder.string(), .gguf = {}};
  write_feature_folder(feature, feature.config, {}, paths.model);
  if (!feature.has_gguf) return paths;
  paths.gguf = (folder / "model.gguf").string();
  write_feature_gguf(feature, paths.model, paths.gguf);
  return paths;
}

FeatureVerdict verdict_on(const Feature& feature, const Paths& model,
                          const EngineDeclaration& engine, const fs::path& logs,
                          EngineProcess& process) {
  FeatureVerdict verdict;
  verdict.feature = feature.name;
  verdict.log = (logs / (feature.name + ".jsonl")).string();
  const EngineAnswer answer = process.run({.model_dir = model.model,
                                           .gguf = model.gguf,
                                           .tokens = feature.tokens,
                                           .surface = "alone",
                                           .log = verdict.log});
  if (answer.outcome == EngineAnswer::Outcome::kLogged) {
    judge(feature, find_precision(engine.precision, engine.name), model.model, verdict);
    return verdict;
  }
  verdict.conformity = answer.outcome == EngineAnswer::Outcome::kUnsupported
                           ? Conformity::kUnsupported
                           : Conformity::kCrashed;
  verdict.text = answer.message;
  return verdict;
}

}  // namespace

std::string_view conformity_name(Conformity conformity) {
  constexpr std::string_view kNames[] = {"honoured", "ignored",     "misread",
                                         "differs",  "unsupported", "crashed"};
  return kNames[static_cast<size_t>(conformity)];
}

int64_t EngineVerdicts::count(Conformity conformity) const {
  return std::ranges::count(features, conformity, &FeatureVerdict::conformity);
}

bool Conformance::pass() const {
  return std::ranges::all_of(engines, [](const EngineVerdicts& each) {
    const int64_t honoured = each.count(Conformity::kHonoured);
    return honoured > 0 &&
           honoured + each.count(Conformity::kUnsupported) == std::ssize(each.features);
  });
}

Conformance conform(const std::vector<EngineDeclaration>& engines, const ConformOptions& options) {
  Conformance result;
  result.features = read_suite(options.suite, options.features);
  const fs::path work = fs::absolute(options.work);
  const auto total = static_cast<int64_t>(result.features.size() * engines.size());
  int64_t done = 0;
  for (const EngineDeclaration& engine : engines) {
    const fs::path logs = work / "logs" / engine.name;
    make_folder(logs);
    EngineProcess process(engine.command, engine.serves, (logs / "stderr.txt").string(),
                          options.timeout);
    EngineVerdicts verdicts{.engine = engine, .features = {}};
    for (const Feature& feature : result.features) {
      const Paths model = write_model(feature, work);
      verdicts.features.push_back(verdict_on(feature, model, engine, logs, process));
      if (options.progress) options.progress(++done, total);
    }
    result.engines.push_back(std::move(verdicts));
  }
  return result;
}

}  // namespace assay
