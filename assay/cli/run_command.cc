#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "assay/cli/checks.h"
#include "assay/cli/commands.h"
#include "assay/cli/fleet_command.h"
#include "assay/cli/inject.h"
#include "assay/cli/log_flags.h"
#include "assay/cli/output.h"
#include "assay/cli/text_file.h"
#include "assay/record/run.h"
#include "assay/report/json_object.h"
#include "base/count_of.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr uint64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMaxUint64 = std::numeric_limits<uint64_t>::max();

struct RunFlags {
  RunOptions options;
  std::optional<std::string> prompt_file;
  std::optional<std::string> tokens;
  std::optional<std::string> inject;
  std::optional<std::string> follow;
  std::optional<std::string> replay;
  std::string kv_type = "f32";
  NewRuns fleet = {.prints_runs = false};
  LogFlags log = {.defaults = {.team = "assay", .environment = true}};
  bool json = false;
  std::function<bool()> has_unused_sampling_flags;  // --top-k, --top-p or --seed without --temp
};

std::string as_json(const RunResult& result) {
  const auto figure = [](double value) { return RawJson{json_decimal(value, 3)}; };
  return json_of([&](JsonObject& object) {
    object.array("tokens", result.tokens);
    object.array("generated", result.generated);
    object.member("text", result.text);
    object.member("backend", result.backend);
    object.member("math", result.math);
    object.member("threads", result.n_threads);
    object.member("load_ms", figure(result.load_ms));
    object.member("prefill_tok_s", figure(result.prefill_tok_s));
    object.member("decode_tok_s", figure(result.decode_tok_s));
  });
}

RunObserver terminal_observer(bool json) {
  RunObserver observer;
  if (isatty(STDERR_FILENO) == 1) {
    observer.on_prefill = [](int64_t done, int64_t total) {
      print_status(
          fmt::format("\rprompt: {} of {} tokens{}", done, total, done == total ? "\n" : ""));
    };
  }
  if (json) return observer;
  observer.on_token = [first = true](int32_t token, std::optional<std::string_view> text) mutable {
    // Without a vocabulary there is no text: the ids are shown.
    print_foreign_text(text ? std::string(*text) : fmt::format("{}{}", first ? "" : " ", token));
    first = false;
  };
  return observer;
}

void tell_where_the_log_is(const std::string& path, const std::string& put_back) {
  if (!put_back.empty()) {
    print_warning(fmt::format("{}: was removed while it was written; all of it is in {} now",
                              printable(path), printable(put_back)));
  }
  print_status(fmt::format("log: {}\n", printable(put_back.empty() ? path : put_back)));
}

int run_injected_command(const RunFlags& flags) {
  if (flags.log.path) {
    throw Error("no log is written with --inject", "--log", "leave one of the two out");
  }
  if (const auto asked = flags.log.request()) {
    print_warning(fmt::format("no log is written with --inject: ORCH_LOG_FILE, {}, stays as it is",
                              printable(asked->path)));
  }
  InjectOptions options;
  options.model_path = flags.options.model_path;
  options.reference_path = *flags.inject;
  options.backend = flags.options.backend;
  options.math = flags.options.math;
  options.kv_type = flags.options.kv_type;
  options.n_threads = flags.options.n_threads;
  show_injected_run(options, flags.json);
  return kInParity;
}

int run_command(RunFlags& flags) {
  flags.options.kv_type = flags.kv_type == "f16" ? KvType::kF16 : KvType::kF32;
  if (flags.inject) return run_injected_command(flags);
  if (flags.has_unused_sampling_flags()) {
    const Sampler checked(flags.options.sampler);  // throws where a number is out of range
    print_warning(
        "without --temp the most likely token is taken: --top-k, --top-p and --seed "
        "change nothing");
  }
  if (flags.tokens) flags.options.tokens = parse_token_ids(*flags.tokens, "--tokens");
  if (flags.prompt_file) flags.options.prompt = read_text_file(*flags.prompt_file);
  flags.options.log = flags.log.request();
  flags.options.follow_path = flags.follow.value_or("");
  flags.options.replay_path = flags.replay.value_or("");
  for (const auto& input : {flags.prompt_file, flags.follow, flags.replay}) {
    if (!input || !flags.options.log) continue;
    refuse_to_overwrite({*input}, flags.options.log->path, "the log", "--log");
  }
  if (flags.options.log) {
    refuse_model_as_log(flags.options.model_path, flags.options.log->path, "--log");
  }
  if (flags.options.log) refuse_standard_streams(flags.options.log->path);
  const RunResult result = run(flags.options, terminal_observer(flags.json));
  for (const std::string& warning : result.warnings) print_warning(warning);
  if (flags.json) {
    print_text(as_json(result) + "\n");
  } else {
    print_text("\n");
  }
  if (result.context_full) {
    print_warning(
        fmt::format("the model's context is full: generation ended after {}, with {} of the prompt",
                    count_of(result.generated.size(), "token"), result.tokens.size()));
  }
  const auto speed = [](double tokens_a_second) {
    return tokens_a_second > 0 ? fmt::format(", {:.1f} tok/s", tokens_a_second) : "";
  };
  print_status(fmt::format("loaded in {:.0f} ms; prompt {}{}; {} {}{} ({}, {}, {})\n",
                           result.load_ms, count_of(result.tokens.size(), "token"),
                           speed(result.prefill_tok_s), flags.follow ? "followed" : "generated",
                           count_of(result.generated.size(), "token"), speed(result.decode_tok_s),
                           result.backend, result.math, count_of(result.n_threads, "thread")));
  if (!flags.options.log) return kInParity;
  tell_where_the_log_is(flags.options.log->path, result.log_put_back);
  if (flags.fleet.dataset.empty()) return kInParity;
  flags.fleet.logs = {result.log_put_back.empty() ? flags.options.log->path : result.log_put_back};
  return add_to_fleet(flags.fleet);
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<RunFlags>();
  RunOptions& options = flags->options;
  CLI::App* command = app.add_subcommand("run", "Run a model: generate text, log checkpoints");
  command->add_option("MODEL", options.model_path, "GGUF file or Hugging Face folder")->required();

  auto* prompt = command->add_option_group("prompt", "What the model is given; one of");
  prompt->add_option("--prompt", options.prompt, "Text");
  prompt->add_option("--prompt-file", flags->prompt_file,
                     "File of text, read as it is; - is standard input");
  prompt->add_option("--tokens", flags->tokens, "Token ids, comma-separated");
  CLI::Option* inject = prompt->add_option(
      "--inject", flags->inject,
      "Log of a reference with all values of its layers: each layer is given the "
      "reference's input, and its own error is shown");
  CLI::Option* follow = prompt->add_option(
      "--follow", flags->follow,
      "Log of a reference: its prompt and the tokens that it went on with are evaluated, whatever "
      "this model would choose");
  prompt->require_option(1);

  CLI::Option* replay = command->add_option(
      "--replay-routing", flags->replay,
      "Log of a reference: each token uses the experts that it chose, whatever this model's router "
      "would choose, so that only other errors remain");
  auto* n_predict = command->add_option("-n", options.n_predict, "Most tokens to generate")
                        ->capture_default_str()
                        ->check(whole_number(0, kMaxInt64));
  auto* ignore_eos =
      command->add_flag("--ignore-eos", options.ignore_eos, "Go on after an end-of-sequence token");
  command->add_option("--backend", options.backend, "What computes")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "emulated"}))
      ->capture_default_str();
  command
      ->add_option("--math", options.math,
                   "exact: float32 in one order; fast: may round more; library: prompts by cuBLAS")
      ->check(CLI::IsMember({"exact", "fast", "library"}))
      ->capture_default_str();
  command->add_option("--kv", flags->kv_type, "How keys and values are kept")
      ->check(CLI::IsMember({"f32", "f16"}))
      ->capture_default_str();
  add_threads_flag(*command, options.n_threads);
  auto* batch = command
                    ->add_option("--batch", options.batch,
                                 "Most prompt tokens evaluated together; the CPU takes at most 128")
                    ->check(whole_number(1, 65536))
                    ->capture_default_str();
  auto* temp = command->add_option("--temp", options.sampler.temperature, "Temperature; 0: greedy")
                   ->capture_default_str();
  auto* top_k =
      command->add_option("--top-k", options.sampler.top_k, "Sample from the K highest; 0: all")
          ->check(whole_number(0, kMaxInt64))
          ->capture_default_str();
  auto* top_p =
      command->add_option("--top-p", options.sampler.top_p, "Sample from the fewest that reach P")
          ->capture_default_str();
  auto* seed = command->add_option("--seed", options.sampler.seed, "Seed of the sampling")
                   ->check(whole_number(0, kMaxUint64))
                   ->capture_default_str();

  inject->excludes(replay);
  for (CLI::Option* option : {n_predict, ignore_eos, batch, temp, top_k, top_p, seed}) {
    inject->excludes(option);
    if (option != batch) follow->excludes(option);
  }
  flags->has_unused_sampling_flags = [=] {
    return temp->count() == 0 && top_k->count() + top_p->count() + seed->count() > 0;
  };

  add_log_flags(*command, flags->log, "Write a checkpoint log (JSONL) here");
  auto* fleet = command->add_option(
      "--fleet", flags->fleet.dataset,
      "Add the run to this dataset, too, as assay fleet add does (needs --log)");
  fleet->needs(command->get_option("--log"));
  command->add_option("--commit", flags->fleet.commit, "With --fleet: the commit or version")
      ->needs(fleet);
  command->add_flag("--json", flags->json, "One JSON object on stdout in place of the text");
  command->callback([flags, &exit_code] { exit_code = run_command(*flags); });
}

}  // namespace assay
