#include "assay/dump/server_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

#include "assay/compare/log_probabilities.h"
#include "assay/dump/likely_tokens.h"
#include "assay/dump/skip_globs.h"
#include "assay/log/record_text.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/json_file.h"

namespace assay {
namespace {

using rapidjson::Value;

// About 100,000 tokens, with twenty likely ones each.
constexpr int64_t kMaxBytes = 256LL << 20;
constexpr std::string_view kTokenId = "token_id:";  // vLLM's, with return_tokens_as_token_ids

struct Answer {
  std::string engine;
  std::optional<int64_t> prompt_tokens;  // how many
  std::vector<Position> prompt;          // the first has nothing before it
  std::vector<Position> answer;
};

const Value* member(const Value& value, const char* key) {
  if (!value.IsObject()) return nullptr;
  const auto found = value.FindMember(key);
  return found == value.MemberEnd() || found->value.IsNull() ? nullptr : &found->value;
}

const Value* list(const Value& value, const char* key) {
  const Value* found = member(value, key);
  return found != nullptr && found->IsArray() ? found : nullptr;
}

std::optional<int64_t> whole(const Value* value) {
  if (value == nullptr || !value->IsInt64() || value->GetInt64() < 0) return std::nullopt;
  return value->GetInt64();
}

// "123" or "token_id:123".
std::optional<int64_t> id_of_text(std::string_view text) {
  if (text.starts_with(kTokenId)) text.remove_prefix(kTokenId.size());
  int64_t id = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), id);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size() || id < 0) {
    return std::nullopt;
  }
  return id;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  void read(const Value& value, std::vector<Answer>& answers) const {
    if (const Value* meta = member(value, "meta_info")) {
      answers.push_back(of_sglang(*meta));
      check_ids(list(value, "output_ids"), answers.back().answer);
    } else if (const Value* details = member(value, "details")) {
      answers.push_back(of_tgi(*details));
    } else if (const Value* tokens = list(value, "completion_probabilities")) {
      Answer answer{"llama.cpp", whole(member(value, "tokens_evaluated")), {}, {}};
      answer.answer = of_content(*tokens);
      check_ids(list(value, "tokens"), answer.answer);
      answers.push_back(std::move(answer));
    } else if (const Value* choices = list(value, "choices")) {
      for (const Value& choice : choices->GetArray()) answers.push_back(of_choice(value, choice));
    } else {
      fail("is no response with log-probabilities");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const {
    throw Error(what, path_, hint.empty() ? "see docs/dumps.md for what to ask the server" : hint);
  }

  // An answer that states its tokens beside their probabilities, too, states the same.
  void check_ids(const Value* ids, const std::vector<Position>& answer) const {
    const size_t count = ids == nullptr ? 0 : std::min<size_t>(ids->Size(), answer.size());
    for (size_t i = 0; i < count; ++i) {
      const auto id = whole(&(*ids)[static_cast<rapidjson::SizeType>(i)]);
      if (!id || !answer[i].token || *id == *answer[i].token) continue;
      fail(fmt::format("states two tokens at place {} of the answer: {} and {}", i,
                       *answer[i].token, *id),
           "ask the server again");
    }
  }

  int64_t id_of(const Value& token) const {
    if (const auto id = whole(member(token, "id"))) return *id;
    const Value* text = member(token, "token");
    if (text != nullptr && text->IsString()) {
      const std::string name = json_text_of(*text);
      const auto id = id_of_text(name);
      if (id && name.starts_with(kTokenId)) return *id;
    }
    fail("names tokens by their texts, which several may share",
         "ask vLLM with \"return_tokens_as_token_ids\": true");
  }

  LikelyToken likely_of(const Value& token, int64_t id) const {
    if (member(token, "prob") != nullptr) {
      fail("has probabilities after sampling", "ask llama-server without post_sampling_probs");
    }
    const auto logprob = own_of(member(token, "logprob"));
    if (!logprob) fail("has a token without 'logprob'");
    return {id, *logprob, whole(member(token, "rank")).value_or(0)};
  }

  // What is said of a place's own token; nothing where that is null.
  std::optional<double> own_of(const Value* value) const {
    if (value == nullptr || value->IsNull()) return std::nullopt;
    if (!value->IsNumber()) fail("has a log-probability that is no number");
    return value->GetDouble();
  }

  // [{id or "token_id:N", logprob, top_logprobs: [the same]}, …]: llama-server's, and of OpenAI's
  // chat.
  std::vector<Position> of_content(const Value& tokens) const {
    std::vector<Position> positions;
    for (const Value& token : tokens.GetArray()) {
      Position position{.token = id_of(token), .logprob = own_of(member(token, "logprob"))};
      if (member(token, "top_probs") != nullptr) likely_of(token, 0);
      if (const Value* likely = list(token, "top_logprobs")) {
        for (const Value& each : likely->GetArray()) {
          position.likely.push_back(likely_of(each, id_of(each)));
        }
      }
      positions.push_back(std::move(position));
    }
    return positions;
  }

  // {"token_id:N": logprob, …} of OpenAI's completions, or vLLM's {"N": {logprob, rank}, …}.
  std::vector<LikelyToken> of_object(const Value& likely) const {
    std::vector<LikelyToken> found;
    for (const auto& entry : likely.GetObject()) {
      const std::string name = json_text_of(entry.name);
      const auto id = id_of_text(name);
      const bool is_number = entry.value.IsNumber();
      if (!id || (is_number && !name.starts_with(kTokenId))) {
        fail("names tokens by their texts, which several may share",
             "ask vLLM with \"return_tokens_as_token_ids\": true");
      }
      found.push_back(is_number ? LikelyToken{*id, entry.value.GetDouble(), 0}
                                : likely_of(entry.value, *id));
    }
    return found;
  }

  Answer of_choice(const Value& response, const Value& choice) const {
    Answer answer;
    if (const Value* usage = member(response, "usage")) {
      answer.prompt_tokens = whole(member(*usage, "prompt_tokens"));
    }
    const auto either = [&](const char* key) {
      const Value* found = list(choice, key);
      return found != nullptr ? found : list(response, key);
    };
    if (const Value* prompt = either("prompt_logprobs")) {
      answer.engine = "vllm";
      for (const Value& each : prompt->GetArray()) {
        answer.prompt.emplace_back();
        if (each.IsObject()) answer.prompt.back().likely = of_object(each);
      }
    }
    if (const Value* ids = either("prompt_token_ids")) {
      answer.prompt.resize(std::max<size_t>(answer.prompt.size(), ids->Size()));
      for (rapidjson::SizeType i = 0; i < ids->Size(); ++i) {
        answer.prompt[i].token = whole(&(*ids)[i]);
      }
    }
    if (const Value* logprobs = member(choice, "logprobs")) {
      if (const Value* content = list(*logprobs, "content")) {
        answer.answer = of_content(*content);
        const bool has_ids = !content->Empty() && member((*content)[0], "id") != nullptr;
        if (answer.engine.empty()) answer.engine = has_ids ? "llama.cpp" : "vllm";
      } else if (const Value* tokens = list(*logprobs, "tokens")) {
        answer.answer = of_completion(*logprobs, *tokens);
        if (answer.engine.empty()) answer.engine = "vllm";
        take_echo(*logprobs, answer);
      }
    }
    check_ids(list(choice, "token_ids"), answer.answer);
    return answer;
  }

  std::vector<Position> of_completion(const Value& logprobs, const Value& tokens) const {
    const Value* likely = list(logprobs, "top_logprobs");
    const Value* own = list(logprobs, "token_logprobs");
    std::vector<Position> positions;
    for (rapidjson::SizeType i = 0; i < tokens.Size(); ++i) {
      Position position;
      const std::string name = tokens[i].IsString() ? json_text_of(tokens[i]) : "";
      if (!name.starts_with(kTokenId) || !id_of_text(name)) {
        fail("names tokens by their texts, which several may share",
             "ask vLLM with \"return_tokens_as_token_ids\": true");
      }
      position.token = id_of_text(name);
      if (own != nullptr && i < own->Size()) position.logprob = own_of(&(*own)[i]);
      if (likely != nullptr && i < likely->Size() && (*likely)[i].IsObject()) {
        position.likely = of_object((*likely)[i]);
      }
      positions.push_back(std::move(position));
    }
    return positions;
  }

  // With "echo" the prompt's tokens come first, and the very first has no probability.
  void take_echo(const Value& logprobs, Answer& answer) const {
    const Value* chosen = list(logprobs, "token_logprobs");
    const bool has_echo = chosen != nullptr && !chosen->Empty() && (*chosen)[0].IsNull();
    if (!has_echo || !answer.prompt_tokens) return;
    const auto count = static_cast<size_t>(*answer.prompt_tokens);
    if (count > answer.answer.size()) fail("echoes fewer tokens than the prompt has");
    const auto end = answer.answer.begin() + static_cast<std::ptrdiff_t>(count);
    answer.prompt.assign(answer.answer.begin(), end);
    answer.answer.erase(answer.answer.begin(), end);
  }

  // [[logprob, id, text], …].
  std::vector<LikelyToken> of_triples(const Value& triples) const {
    std::vector<LikelyToken> found;
    if (!triples.IsArray()) return found;
    for (const Value& each : triples.GetArray()) {
      const bool is_triple = each.IsArray() && each.Size() >= 2 && each[0].IsNumber();
      const auto id = is_triple ? whole(&each[1]) : std::nullopt;
      if (!id) fail("has a likely token that is no [logprob, id, text]");
      found.push_back({*id, each[0].GetDouble(), 0});
    }
    return found;
  }

  std::vector<Position> of_sglang_tokens(const Value& meta, const char* tokens,
                                         const char* likely) const {
    std::vector<Position> positions;
    const Value* all = list(meta, tokens);
    if (all == nullptr) return positions;
    const Value* lists = list(meta, likely);
    for (rapidjson::SizeType i = 0; i < all->Size(); ++i) {
      Position position;
      const Value& token = (*all)[i];
      if (token.IsArray() && token.Size() >= 2) {
        position.token = whole(&token[1]);
        position.logprob = own_of(&token[0]);
      }
      if (lists != nullptr && i < lists->Size()) position.likely = of_triples((*lists)[i]);
      positions.push_back(std::move(position));
    }
    return positions;
  }

  Answer of_sglang(const Value& meta) const {
    Answer answer{"sglang", whole(member(meta, "prompt_tokens")), {}, {}};
    answer.prompt = of_sglang_tokens(meta, "input_token_logprobs", "input_top_logprobs");
    answer.answer = of_sglang_tokens(meta, "output_token_logprobs", "output_top_logprobs");
    if (answer.prompt_tokens && !answer.prompt.empty() &&
        std::ssize(answer.prompt) != *answer.prompt_tokens) {
      fail(fmt::format("has log-probabilities of {} of {} tokens of the prompt",
                       answer.prompt.size(), *answer.prompt_tokens),
           "ask SGLang with \"logprob_start_len\": 0");
    }
    return answer;
  }

  std::vector<LikelyToken> of_tokens(const Value& tokens) const {
    std::vector<LikelyToken> found;
    if (!tokens.IsArray()) return found;
    for (const Value& each : tokens.GetArray()) found.push_back(likely_of(each, id_of(each)));
    return found;
  }

  Answer of_tgi(const Value& details) const {
    Answer answer{"tgi", std::nullopt, {}, {}};
    if (const Value* prefill = list(details, "prefill")) {
      for (const Value& each : prefill->GetArray()) {
        answer.prompt.push_back({.token = whole(member(each, "id"))});
      }
    }
    const Value* tokens = list(details, "tokens");
    const Value* likely = list(details, "top_tokens");
    for (rapidjson::SizeType i = 0; tokens != nullptr && i < tokens->Size(); ++i) {
      const Value& token = (*tokens)[i];
      Position position{.token = whole(member(token, "id")),
                        .logprob = own_of(member(token, "logprob"))};
      if (likely != nullptr && i < likely->Size()) position.likely = of_tokens((*likely)[i]);
      answer.answer.push_back(std::move(position));
    }
    return answer;
  }

  const std::string& path_;
};

class ResponseLog {
 public:
  ResponseLog(const std::string& path, const DumpOptions& options,
              const std::function<void(std::string_view)>& sink)
      : path_(path), options_(options), sink_(sink) {}

  ImportedDump make(std::vector<Answer> answers) {
    header_.engine = answers.empty() ? "" : answers.front().engine;
    std::vector<std::vector<int64_t>> tokens;
    for (Answer& answer : answers) {
      check(answer);
      for (auto* positions : {&answer.prompt, &answer.answer}) {
        for (Position& position : *positions) leave_likeliest(position);
      }
      tokens.push_back(tokens_of(answer));
    }
    const bool know_all = std::ranges::none_of(tokens, &std::vector<int64_t>::empty);
    if (answers.size() == 1) {
      header_.tokens = tokens.front();
    } else if (know_all) {
      for (size_t i = 0; i < answers.size(); ++i) {
        header_.sequences.push_back({std::to_string(i), tokens[i], {}});
      }
    }
    std::string text = header_line(header_);
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers.size() > 1) record_.sequence = std::to_string(i);
      append(answers[i], text);
    }
    if (result_.names.empty()) {
      throw Error("lists no likeliest tokens", path_,
                  "ask for them: n_probs, logprobs, top_logprobs_num or top_n_tokens");
    }
    sink_(text);
    return std::move(result_);
  }

 private:
  void check(const Answer& answer) const {
    const auto known = std::ssize(answer.prompt);
    if (!answer.prompt_tokens && known == 0) {
      throw Error("does not say how many tokens the prompt has", path_,
                  "keep 'usage' or 'tokens_evaluated' of the response");
    }
    if (answer.prompt_tokens && known > 0 && known != *answer.prompt_tokens) {
      throw Error(fmt::format("lists {} of a prompt of {}", count_of(known, "token"),
                              *answer.prompt_tokens),
                  path_, "ask for the log-probabilities of all of the prompt, or of none");
    }
    if (answer.prompt_tokens.value_or(known) < 1) throw Error("has a prompt of no token", path_);
    for (size_t i = 1; i < answer.prompt.size(); ++i) {
      check_position(answer.prompt[i], static_cast<int64_t>(i) - 1, path_);
    }
    const int64_t first = answer.prompt_tokens.value_or(known) - 1;
    for (size_t i = 0; i < answer.answer.size(); ++i) {
      check_position(answer.answer[i], first + static_cast<int64_t>(i), path_);
    }
  }

  // The prompt's tokens, where they are known; with the answer's where these are not the likeliest,
  // so that a reference has to be given them. Where the prompt's are not known nothing would say
  // so, and what follows the first drawn token is left out.
  std::vector<int64_t> tokens_of(Answer& answer) {
    std::vector<int64_t> tokens;
    const auto drawn = std::ranges::find_if_not(answer.answer, is_likeliest);
    const bool is_known =
        !answer.prompt.empty() && std::ranges::all_of(answer.prompt, [](const Position& one) {
          return one.token.has_value();
        });
    if (!is_known) {
      leave_out_after(drawn, answer);
      return {};
    }
    for (const Position& position : answer.prompt) tokens.push_back(*position.token);
    if (drawn == answer.answer.end()) return tokens;
    for (size_t i = 0; i + 1 < answer.answer.size(); ++i) {
      if (!answer.answer[i].token) return {};
      tokens.push_back(*answer.answer[i].token);
    }
    if (!is_drawn_) {
      result_.warnings.push_back(fmt::format(
          "{}: the answer is not made of the likeliest tokens: the log's tokens are those of the "
          "prompt and the answer, which the reference has to be given (assay run --tokens … -n 0)",
          printable(path_)));
    }
    is_drawn_ = true;
    return tokens;
  }

  void leave_out_after(std::vector<Position>::iterator drawn, Answer& answer) {
    if (answer.answer.end() - drawn < 2) return;
    const auto first = std::next(drawn);
    result_.warnings.push_back(fmt::format(
        "{}: the answer's token {} is not the likeliest: {} after it left out, which another "
        "answer has others for; ask with a temperature of 0",
        printable(path_), *drawn->token, count_of(answer.answer.end() - first, "place")));
    answer.answer.erase(first, answer.answer.end());
  }

  void append(const Answer& answer, std::string& text) {
    const int64_t first = answer.prompt_tokens.value_or(std::ssize(answer.prompt));
    for (size_t i = 1; i < answer.prompt.size(); ++i) {
      put(answer.prompt[i], static_cast<int64_t>(i) - 1, text);
    }
    for (size_t i = 0; i < answer.answer.size(); ++i) {
      put(answer.answer[i], first - 1 + static_cast<int64_t>(i), text);
    }
  }

  // What a token's place is expected to hold is computed from the token before it.
  void put(const Position& position, int64_t token_idx, std::string& text) {
    if (position.likely.empty()) return;
    record_.checkpoint = std::string(kLogProbabilitiesName);
    record_.token_idx = token_idx;
    record_.dtype = "f32";
    record_.shape = {options_.vocabulary};
    record_.n = options_.vocabulary;
    if (!options_.team.empty()) record_.team = options_.team;
    record_.top.clear();
    for (const LikelyToken& token : position.likely) {
      if (token.id >= options_.vocabulary) {
        throw Error(fmt::format("has the token {}, and the vocabulary {}", token.id,
                                count_of(options_.vocabulary, "token")),
                    path_, "give the rows of the output matrix as --vocabulary");
      }
      if (std::ranges::find(record_.top, token.id, &TopValue::index) != record_.top.end()) {
        throw Error(fmt::format("lists the token {} twice in one place", token.id), path_);
      }
      record_.top.push_back({token.id, static_cast<float>(token.logprob)});
    }
    append_record_line(text, record_);
    if (result_.names.empty()) result_.names.push_back({record_.checkpoint, record_.n});
  }

  const std::string& path_;
  const DumpOptions& options_;
  const std::function<void(std::string_view)>& sink_;
  LogHeader header_;
  Record record_;
  ImportedDump result_;
  bool is_drawn_ = false;
};

bool is_response(const Value& first_or_all) {
  const bool is_list = first_or_all.IsArray() && !first_or_all.Empty();
  const Value& value = is_list ? first_or_all[0] : first_or_all;
  return member(value, "choices") != nullptr || member(value, "meta_info") != nullptr ||
         member(value, "completion_probabilities") != nullptr ||
         member(value, "details") != nullptr;
}

}  // namespace

std::optional<rapidjson::Document> read_server_response(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  char first = 0;
  std::ifstream file(path, std::ios::binary);
  if (!(file >> first) || (first != '{' && first != '[')) return std::nullopt;
  try {
    rapidjson::Document document =
        parse_json_text(read_whole_file(path, kMaxBytes, {}), path, {}, JsonNumbers::kAll);
    if (is_response(document)) return document;
  } catch (const Error&) {
    // A log, or what is said of it by others.
  }
  return std::nullopt;
}

ImportedDump server_response_to_log(const rapidjson::Document& response, const std::string& path,
                                    const DumpOptions& options,
                                    const std::function<void(std::string_view)>& sink) {
  if (options.vocabulary < 1) {
    throw Error("is a server's response, which does not say how many tokens the vocabulary has",
                path, "assay import FILE --vocabulary N -o got.jsonl makes it a log");
  }
  SkipGlobs(options.skip).check_used(path);  // it has no tensors to leave out
  std::vector<Answer> answers;
  const Reader reader(path);
  if (response.IsArray()) {
    for (const Value& each : response.GetArray()) reader.read(each, answers);
  } else {
    reader.read(response, answers);
  }
  return ResponseLog(path, options, sink).make(std::move(answers));
}

}  // namespace assay
