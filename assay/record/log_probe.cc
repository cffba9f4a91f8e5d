#include "assay/record/log_probe.h"

#include "model/architecture.h"

namespace assay {
namespace {

size_t index(Checkpoint checkpoint, int layer) {
  return static_cast<size_t>(is_in_layer(checkpoint) ? layer : 0) * kCheckpoints +
         static_cast<size_t>(checkpoint);
}

std::vector<bool> wanted(const CheckpointSet& set, const ModelConfig& config) {
  std::vector<bool> result(static_cast<size_t>(config.n_layers) * kCheckpoints);
  std::vector<std::string> names;
  for (size_t i = 0; i < result.size(); ++i) {
    const auto checkpoint = static_cast<Checkpoint>(i % kCheckpoints);
    if (!has_checkpoint(*config.architecture, checkpoint)) continue;
    names.push_back(checkpoint_name(checkpoint, static_cast<int>(i / kCheckpoints)));
    result[i] = set.matches(names.back());
  }
  set.check(names, "the model has no");
  return result;
}

}  // namespace

LogProbe::LogProbe(const LogRequest& request, const ModelConfig& config, ThreadPool* pool)
    : checkpoints_(request.checkpoints.text()),
      wanted_(wanted(request.checkpoints, config)),
      writer_(request.path, request.options, pool) {}

void LogProbe::write_header(LogHeader header) {
  header.checkpoints = checkpoints_;
  writer_.write_header(header);
}

bool LogProbe::wants(Checkpoint checkpoint, int layer) {
  return wanted_[index(checkpoint, layer)];
}

void LogProbe::observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
                       int64_t width, const float* values) {
  const std::string name = checkpoint_name(checkpoint, layer);
  const bool is_whole = checkpoint == Checkpoint::kExperts || checkpoint == Checkpoint::kIndexed;
  const char* dtype = is_whole ? "i32" : "f32";
  for (int64_t t = 0; t < n_tokens; ++t) {
    writer_.write(name, first_token_idx + t, {values + t * width, static_cast<size_t>(width)},
                  dtype);
  }
}

}  // namespace assay
