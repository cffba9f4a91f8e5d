#include "assay/mutate/mutant_log.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/mutant.h"
#include "assay/record/log_header.h"
#include "assay/record/log_probe.h"
#include "assay/record/prompt.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/thread_pool.h"
#include "engine/probe.h"

namespace assay {
namespace {

// Hashes what is computed at one checkpoint, and passes all on to another probe, if there is one.
class PlaceProbe : public Probe {
 public:
  PlaceProbe(const FaultPlace& place, Probe* next) : place_(place), next_(next) {}

  std::string hex() { return hash_.hex(); }

  bool wants(Checkpoint checkpoint, int layer) override {
    return is_place(checkpoint, layer) || (next_ != nullptr && next_->wants(checkpoint, layer));
  }
  void observe(Checkpoint checkpoint, int layer, int64_t first_token_idx, int64_t n_tokens,
               int64_t width, const float* values) override {
    if (is_place(checkpoint, layer)) {
      hash_.update(std::as_bytes(std::span(values, static_cast<size_t>(n_tokens * width))));
    }
    if (next_ == nullptr || !next_->wants(checkpoint, layer)) return;
    next_->observe(checkpoint, layer, first_token_idx, n_tokens, width, values);
  }

 private:
  bool is_place(Checkpoint checkpoint, int layer) const {
    return checkpoint == place_.checkpoint && (layer == place_.layer || !is_in_layer(checkpoint));
  }

  FaultPlace place_;
  Probe* next_;
  Sha256 hash_;
};

// The hash of what a sound engine computes at the place, given the same tokens.
std::string sound_hash(const std::shared_ptr<const Gguf>& gguf, Kernels& kernels,
                       const MutantLog& log) {
  const auto n_positions = std::ssize(log.tokens) + std::ssize(log.generated);
  Mutant sound(gguf, kernels, {.n_positions = n_positions});
  PlaceProbe probe(log.found_at, nullptr);
  sound.eval(log.tokens, &probe);
  for (size_t i = 0; i + 1 < log.generated.size(); ++i) sound.eval({&log.generated[i], 1}, &probe);
  return probe.hex();
}

}  // namespace

MutantLog write_mutant_log(const MutantLogOptions& options) {
  const Fault& fault = find_fault(options.fault);
  if (fault.edit_vocabulary && !options.prompt) {
    throw Error(fmt::format("fault '{}' changes which tokens a text becomes", fault.name),
                "--tokens", "give a text with --prompt in its place");
  }
  const auto gguf = std::make_shared<Gguf>(options.model_path);
  std::string unknown;  // as in a run, ids need no tokenizer
  const auto tokenizer = make_faulty_tokenizer(*gguf, &fault, options.prompt ? nullptr : &unknown);
  MutantLog result;
  result.tokens = options.prompt
                      ? encode_prompt(*options.prompt, tokenizer.get(), options.model_path)
                      : options.tokens;

  ThreadPool pool(options.n_threads);
  const auto kernels = make_cpu_kernels(pool);
  const int64_t n_positions = static_cast<int64_t>(result.tokens.size()) + options.n_predict;
  Mutant mutant(gguf, *kernels,
                {.fault = &fault, .layer = options.layer, .n_positions = n_positions});
  result.found_at = mutant.found_at();

  std::error_code none;
  if (std::filesystem::equivalent(options.log.path, options.model_path, none)) {
    throw Error("the log would overwrite the model", options.log.path, "give another --log");
  }
  LogProbe log(options.log, mutant.model().config());
  LogHeader header = log_header_of(mutant.model(), result.tokens);
  header.prompt = options.prompt;
  header.engine = "assay with " + fault.name;
  header.backend = "cpu";
  header.math = "exact";
  log.write_header(header);
  PlaceProbe probe(result.found_at, &log);

  const auto choosable = choosable_tokens(tokenizer.get(), mutant.model().config().n_vocab);
  auto logits = mutant.eval(result.tokens, &probe);
  for (int64_t i = 0; i < options.n_predict; ++i) {
    if (i > 0) logits = mutant.eval({&result.generated.back(), 1}, &probe);
    result.generated.push_back(mutant.sample(logits, choosable));
  }
  log.writer().close();
  result.changes_nothing = result.found_at.kind == FaultPlace::Kind::kCheckpoint &&
                           sound_hash(gguf, *kernels, result) == probe.hex();
  return result;
}

}  // namespace assay
