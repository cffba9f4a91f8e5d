#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/record/log_header.h"
#include "assay/record/log_probe.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/session.h"

namespace assay {
namespace {

constexpr int kUnsupportedCase = 3;
constexpr uint64_t kMostTokens = 1'000'000;

std::string needed(const char* variable) {
  std::string value = environment(variable);
  if (value.empty()) throw Error("is not set", variable, "docs/conform.md says what it holds");
  return value;
}

// How many tokens are evaluated together; 0 where the engine does not have the surface.
size_t step_of(const std::string& surface, size_t n_tokens) {
  if (surface.empty() || surface == "alone") return n_tokens;
  if (surface == "steps") return 1;
  if (surface == "cached") return std::max<size_t>(1, n_tokens / 2);
  constexpr std::string_view kChunks = "chunks:";
  const std::string number = surface.starts_with(kChunks) ? surface.substr(kChunks.size()) : "";
  return whole_number(1, kMostTokens)(number).empty() ? std::stoul(number) : 0;
}

int run_engine_case() {
  const std::string surface = environment("ASSAY_SURFACE");
  const std::string folder = environment("ASSAY_MODEL_DIR");
  const std::vector<int32_t> tokens = parse_token_ids(needed("ASSAY_TOKENS"), "ASSAY_TOKENS");
  const size_t step = step_of(surface, tokens.size());
  if (step == 0) {
    print_error(fmt::format("the engine has no surface '{}'", printable(surface, 40)));
    return kUnsupportedCase;
  }
  const std::string path = needed("ASSAY_LOG_FILE");
  const std::string place = folder.empty() ? needed("ASSAY_GGUF") : folder;
  refuse_model_as_log(place, path, "ASSAY_LOG_FILE");
  ThreadPool pool(0);
  const auto kernels = make_cpu_kernels(pool);
  const Model model(std::make_shared<Gguf>(place));
  const SessionOptions options{.capacity = std::ssize(tokens)};
  auto session = std::make_unique<Session>(model, *kernels, options);
  session->check(tokens);
  LogOptions whole;
  whole.head_values = kAllValues;
  const std::string chosen = environment("ASSAY_LOG_CHECKPOINTS");
  LogProbe probe({path, whole, CheckpointSet(chosen.empty() ? "ops" : chosen)}, model.config());
  LogHeader header = log_header_of(model, tokens);
  header.backend = "cpu";
  header.math = "exact";
  probe.write_header(header);
  for (size_t done = 0; done < tokens.size(); done += step) {
    if (done > 0 && surface == "cached") {
      const std::string saved = path + ".cache";
      session->save(saved);
      session = std::make_unique<Session>(model, *kernels, options);
      session->restore(saved);
      std::filesystem::remove(saved);
    }
    session->eval(std::span(tokens).subspan(done, std::min(step, tokens.size() - done)), &probe);
  }
  probe.writer().close();
  return kInParity;
}

}  // namespace

void add_engine(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "engine", "Run one case for conform or invariance, as their environment asks, and log it");
  command->callback([&exit_code] { exit_code = run_engine_case(); });
}

}  // namespace assay
