#include "assay/record/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "assay/record/backend.h"
#include "assay/record/followed_tokens.h"
#include "assay/record/log_header.h"
#include "assay/record/log_probe.h"
#include "assay/record/prompt.h"
#include "assay/record/replayed_routing.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/session.h"
#include "engine/tokenizer/text_stream.h"
#include "engine/tokenizer/tokenizer.h"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

// Copying quantised weights to anonymous memory takes as long as it saves in 50 to 200 tokens. F16
// and F32, whose rows are read without prefetching ahead of pages, gain nothing.
constexpr int64_t kTokensWorthReading = 128;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<int32_t> prompt_tokens(const RunOptions& options, const Tokenizer* tokenizer) {
  if (!options.prompt) return options.tokens;
  return encode_prompt(*options.prompt, tokenizer, options.model_path);
}

// The positions of the longest sequence of a log to follow. Rejects one that does not fit.
int64_t followed_capacity(const ModelConfig& config, const std::string& path,
                          const std::vector<FollowedTokens>& followed) {
  int64_t positions = 0;
  for (const FollowedTokens& tokens : followed) {
    positions = std::max(positions, tokens.positions());
  }
  if (positions <= config.context_length) return positions;
  throw Error(
      fmt::format("has {} positions, the model's context {}", positions, config.context_length),
      path, "follow a shorter log");
}

// Positions that the run will evaluate: all but that of the last generated token. Rejects a prompt
// that does not fit; generation ends at the end of the context.
int64_t wanted_capacity(const ModelConfig& config, const RunOptions& options, size_t n_prompt) {
  const auto prompt = static_cast<int64_t>(n_prompt);
  if (prompt > config.context_length) {
    throw Error(fmt::format("the prompt has {} tokens, the model's context {}", prompt,
                            config.context_length),
                options.model_path, "use a shorter prompt");
  }
  const int64_t room = config.context_length - prompt;
  return prompt + std::clamp<int64_t>(options.n_predict - 1, 0, room);
}

// A model with everything needed to run it, and the state of the run.
class Runner {
 public:
  Runner(const RunOptions& options, const RunObserver& observer)
      : options_(options), observer_(observer) {}

  RunResult run() {
    result_.backend = chosen_backend(options_.backend);
    Sampler sampler(options_.sampler);
    load();
    const bool follows = !options_.follow_path.empty();
    const ModelConfig& config = model_->config();
    const int64_t capacity = follows ? followed_capacity(config, options_.follow_path, followed_)
                                     : wanted_capacity(config, options_, result_.tokens.size());
    Session session(*model_, *kernels_,
                    {.capacity = capacity, .batch = options_.batch, .kv_type = options_.kv_type});
    if (!follows) session.check(result_.tokens);
    for (const FollowedTokens& tokens : followed_) session.check(tokens.prompt);
    if (replayed_) session.set_experts(&*replayed_);
    open_log();
    gguf_->release_arrays();  // the tokenizer has what it needs, and the log the file's hash
    if (follows) {
      follow(session);
    } else {
      generate(session, sampler);
    }
    if (probe_) result_.log_put_back = probe_->writer().close();
    return std::move(result_);
  }

 private:
  void load() {
    const auto start = Clock::now();
    pool_ = std::make_unique<ThreadPool>(options_.n_threads);
    kernels_ = make_kernels(result_.backend, math_of(options_.math), *pool_);
    gguf_ = std::make_shared<Gguf>(options_.model_path);
    model_ = std::make_unique<Model>(gguf_);
    if (result_.backend == "cpu") prepare_weights();
    std::string unknown;
    tokenizer_ = Tokenizer::from_gguf(*gguf_, options_.prompt ? nullptr : &unknown);
    result_.load_ms = seconds_since(start) * 1e3;
    result_.math = options_.math;
    result_.n_threads = pool_->n_threads();
    choosable_ = choosable_tokens(tokenizer_.get(), model_->config().n_vocab);
    read_tokens();
    if (!unknown.empty()) result_.warnings.push_back("no text is shown: " + unknown);
    if (options_.replay_path.empty()) return;
    if (followed_.size() > 1) {
      throw Error("has several sequences, and routing is replayed of one", options_.follow_path,
                  "follow the log of a single sequence");
    }
    replayed_.emplace(options_.replay_path, model_->config());
    replayed_->check_tokens(result_.tokens);
    replayed_->check_positions(
        0, followed_.empty() ? std::ssize(result_.tokens) : followed_.front().positions());
  }

  void prepare_weights() {
    if (is_worth_reading()) {
      gguf_->read_tensors(*pool_);
    } else if (model_->config().routing.n_experts == 0) {
      gguf_->map_tensors(*pool_);
    }
  }

  void read_tokens() {
    prompt_text_ = options_.prompt;
    if (options_.follow_path.empty()) {
      result_.tokens = prompt_tokens(options_, tokenizer_.get());
      return;
    }
    std::optional<int64_t> bos;
    if (tokenizer_) bos = tokenizer_->added_bos().value_or(-1);
    FollowedLog followed = read_followed_tokens(options_.follow_path, choosable_, bos);
    followed_ = std::move(followed.sequences);
    for (const FollowedTokens& tokens : followed_) {
      result_.tokens.insert(result_.tokens.end(), tokens.prompt.begin(), tokens.prompt.end());
    }
    result_.warnings = std::move(followed.warnings);
    prompt_text_ = std::move(followed.prompt_text);
  }

  // Of quantised weights. Reading takes as long as the file is large, and of experts a token gains
  // by the few that it uses.
  bool is_worth_reading() const {
    const Routing& routing = model_->config().routing;
    const int64_t tokens_a_use = routing.n_experts > 0 ? routing.n_experts / routing.n_used : 1;
    const TensorType type = model_->layers.front().linear(Checkpoint::kAttnOut).weight.type;
    return options_.n_predict >= kTokensWorthReading * tokens_a_use &&
           tensor_type_info(type).block_elements > 1;
  }

  void open_log() {
    if (!options_.log) return;
    std::error_code none;
    if (std::filesystem::equivalent(options_.log->path, options_.model_path, none)) {
      throw Error("the log would overwrite the model", options_.log->path, "give another --log");
    }
    probe_ = std::make_unique<LogProbe>(*options_.log, model_->config(), pool_.get());
    LogHeader header = log_header_of(*model_, result_.tokens);
    if (followed_.size() > 1) {
      header.tokens.clear();
      for (const FollowedTokens& tokens : followed_) {
        header.sequences.push_back(
            {tokens.sequence, {tokens.prompt.begin(), tokens.prompt.end()}, {}});
      }
    }
    header.prompt = prompt_text_;
    header.backend = result_.backend;
    header.math = result_.math;
    if (replayed_) header.routing = kRoutingReplayed;
    header.sampling = sampling_text();
    probe_->write_header(header);
  }

  // As a header has it; empty where the likeliest token is chosen, or one of a log.
  std::string sampling_text() const {
    const SamplerOptions& sampler = options_.sampler;
    if (sampler.temperature == 0.0 || !options_.follow_path.empty()) return {};
    std::string text = fmt::format("temp {}", sampler.temperature);
    if (sampler.top_k > 0) text += fmt::format(", top-k {}", sampler.top_k);
    if (sampler.top_p < 1.0) text += fmt::format(", top-p {}", sampler.top_p);
    return text + fmt::format(", seed {}", sampler.seed);
  }

  std::span<const float> prefill(Session& session, std::span<const int32_t> tokens) {
    std::span<const float> logits;
    for (size_t done = 0; done < tokens.size();) {
      const size_t count = std::min(static_cast<size_t>(options_.batch), tokens.size() - done);
      logits = session.eval(tokens.subspan(done, count), probe_.get());
      done += count;
      if (observer_.on_prefill) {
        observer_.on_prefill(n_prefilled_ + static_cast<int64_t>(done), std::ssize(result_.tokens));
      }
    }
    n_prefilled_ += std::ssize(tokens);
    return logits;
  }

  void generate(Session& session, Sampler& sampler) {
    const auto prefill_start = Clock::now();
    std::span<const float> logits = prefill(session, result_.tokens);
    result_.prefill_tok_s = static_cast<double>(n_prefilled_) / seconds_since(prefill_start);
    session.set_choosable(choosable_);
    const bool greedy = options_.sampler.temperature == 0.0;
    std::optional<TextStream> stream;
    if (tokenizer_) stream.emplace(*tokenizer_);
    const auto start = Clock::now();
    int64_t evaluated = 0;
    for (int64_t i = 0; i < options_.n_predict; ++i) {
      // There would be no room for the last token.
      result_.context_full = i > 0 && session.n_positions() == session.capacity();
      if (result_.context_full) break;
      if (i > 0 && replayed_) replayed_->check_positions(session.n_positions(), 1);
      int32_t token = 0;
      if (i > 0 && greedy) {
        token = session.eval_greedy(result_.generated.back(), probe_.get());
      } else {
        if (i > 0) logits = session.eval({&result_.generated.back(), 1}, probe_.get());
        token = sampler.sample(logits, choosable_);
      }
      if (i > 0) ++evaluated;
      result_.generated.push_back(token);
      emit(token, stream ? stream->put(token) : "");
      if (!options_.ignore_eos && ends_generation(token)) break;
    }
    if (stream) emit_rest(stream->flush());
    if (evaluated > 0) {
      result_.decode_tok_s = static_cast<double>(evaluated) / seconds_since(start);
    }
  }

  // Evaluates the reference's sequences, of each its generated tokens one at a time.
  void follow(Session& session) {
    double prefilling = 0;
    double decoding = 0;
    for (const FollowedTokens& tokens : followed_) {
      if (tokens.prompt.empty()) continue;
      session.clear();
      if (probe_ && followed_.size() > 1) probe_->writer().set_sequence(tokens.sequence);
      const auto start = Clock::now();
      prefill(session, tokens.prompt);
      prefilling += seconds_since(start);
      decoding += follow_continuation(session, tokens.continuation);
    }
    result_.prefill_tok_s = static_cast<double>(n_prefilled_) / prefilling;
    if (!result_.generated.empty()) {
      result_.decode_tok_s = static_cast<double>(result_.generated.size()) / decoding;
    }
  }

  // The seconds that it took.
  double follow_continuation(Session& session, const std::vector<int32_t>& continuation) {
    std::optional<TextStream> stream;
    if (tokenizer_) stream.emplace(*tokenizer_);
    const auto start = Clock::now();
    for (const int32_t token : continuation) {
      session.eval({&token, 1}, probe_.get());
      result_.generated.push_back(token);
      emit(token, stream ? stream->put(token) : "");
    }
    if (stream && !continuation.empty()) emit_rest(stream->flush());
    return seconds_since(start);
  }

  // By the file's end ids, which even a file without a vocabulary may name.
  bool ends_generation(int32_t token) const {
    if (tokenizer_) return tokenizer_->is_end_of_generation(token);
    return gguf_->get_int("tokenizer.ggml.eos_token_id", -1) == token ||
           gguf_->get_int("tokenizer.ggml.eot_token_id", -1) == token ||
           gguf_->get_int("tokenizer.ggml.eom_token_id", -1) == token;
  }

  // Readers of the log find the records of each token that was printed.
  void emit(int32_t token, const std::string& text) {
    if (probe_) probe_->writer().flush();
    result_.text += text;
    if (!observer_.on_token) return;
    observer_.on_token(token, tokenizer_ ? std::optional<std::string_view>(text) : std::nullopt);
  }
  void emit_rest(const std::string& text) {
    if (!text.empty()) emit(result_.generated.back(), text);
  }

  const RunOptions& options_;
  const RunObserver& observer_;
  RunResult result_;
  std::shared_ptr<Gguf> gguf_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Kernels> kernels_;
  std::vector<bool> choosable_;
  std::optional<std::string> prompt_text_;
  std::vector<FollowedTokens> followed_;  // the sequences of a followed log
  int64_t n_prefilled_ = 0;               // of result_.tokens
  std::optional<ReplayedRouting> replayed_;
  std::unique_ptr<LogProbe> probe_;
};

}  // namespace

RunResult run(const RunOptions& options, const RunObserver& observer) {
  return Runner(options, observer).run();
}

}  // namespace assay
