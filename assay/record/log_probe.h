#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/log/log_request.h"
#include "assay/log/log_writer.h"
#include "engine/model_config.h"
#include "engine/probe.h"

namespace assay {

// Writes the checkpoints that a request asks for to its log, one record for each token position.
class LogProbe : public Probe {
 public:
  // Throws Error if an item of the request's set matches no checkpoint of the model, or the log
  // cannot be opened; an older log is emptied only if neither happens.
  // `pool`: that of the engine, if its threads are to make the log's text, too.
  LogProbe(const LogRequest& request, const ModelConfig& config, ThreadPool* pool = nullptr);

  LogWriter& writer() { return writer_; }

  // Adds to the header what was asked for.
  void write_header(LogHeader header);

  bool wants(Checkpoint checkpoint, int layer) override;
  void observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
               int64_t width, const float* values) override;

 private:
  std::string checkpoints_;
  std::vector<bool> wanted_;  // by checkpoint within layer
  LogWriter writer_;
};

}  // namespace assay
