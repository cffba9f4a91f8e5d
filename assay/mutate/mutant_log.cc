#include "assay/mutate/mutant_log.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/mutant.h"
#include "assay/record/log_header.h"
#include "assay/record/log_probe.h"
#include "assay/record/prompt.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace assay {

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
  LogProbe probe(options.log, mutant.model().config());
  LogHeader header = log_header_of(mutant.model(), result.tokens);
  header.prompt = options.prompt;
  header.engine = "assay with " + fault.name;
  header.backend = "cpu";
  header.math = "exact";
  probe.write_header(header);

  const auto choosable = choosable_tokens(tokenizer.get(), mutant.model().config().n_vocab);
  auto logits = mutant.eval(result.tokens, &probe);
  for (int64_t i = 0; i < options.n_predict; ++i) {
    if (i > 0) logits = mutant.eval({&result.generated.back(), 1}, &probe);
    result.generated.push_back(mutant.sample(logits, choosable));
  }
  probe.writer().close();
  return result;
}

}  // namespace assay
