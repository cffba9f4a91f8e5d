#include "engine/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "engine/tokenizer/pre_tokenizer.h"

namespace assay {
namespace {

constexpr char kModel[] = "tokenizer.ggml.model";
constexpr char kPre[] = "tokenizer.ggml.pre";
constexpr char kTokens[] = "tokenizer.ggml.tokens";
constexpr char kScores[] = "tokenizer.ggml.scores";
constexpr char kTypes[] = "tokenizer.ggml.token_type";
constexpr char kMerges[] = "tokenizer.ggml.merges";
constexpr char kBos[] = "tokenizer.ggml.bos_token_id";
constexpr char kEos[] = "tokenizer.ggml.eos_token_id";
constexpr char kEot[] = "tokenizer.ggml.eot_token_id";
constexpr char kEom[] = "tokenizer.ggml.eom_token_id";
constexpr char kUnknown[] = "tokenizer.ggml.unknown_token_id";
constexpr char kAddBos[] = "tokenizer.ggml.add_bos_token";
constexpr char kAddEos[] = "tokenizer.ggml.add_eos_token";
constexpr char kAddSpacePrefix[] = "tokenizer.ggml.add_space_prefix";

[[noreturn]] void fail(const std::string& source, std::string_view key, const std::string& what) {
  throw Error(what, fmt::format("{}: key '{}'", source, key),
              "the file's vocabulary is damaged: convert or fetch it again");
}

std::optional<int32_t> id_at(const Gguf& file, const char* key) {
  if (file.find(key) == nullptr) return std::nullopt;
  const int64_t id = file.get_int(key);
  // check_vocabulary compares with the number of tokens; here only what does not fit is caught.
  if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
    fail(file.path(), key, fmt::format("{} is not a token id", id));
  }
  return static_cast<int32_t>(id);
}

std::vector<TokenType> types_of(const Gguf& file, size_t n_tokens) {
  if (file.find(kTypes) == nullptr) return std::vector<TokenType>(n_tokens, TokenType::kNormal);
  std::vector<TokenType> types;
  for (const int64_t type : file.get_ints(kTypes)) {
    if (type < 0 || type > static_cast<int64_t>(TokenType::kByte)) {
      fail(file.path(), kTypes,
           fmt::format("{} at index {} is not a token type", type, types.size()));
    }
    types.push_back(static_cast<TokenType>(type));
  }
  return types;
}

[[noreturn]] void fail_score(const std::string& source, size_t index, double score) {
  fail(
      source, kScores,
      fmt::format("the score at index {} is {}, which is not a finite 32-bit float", index, score));
}

std::vector<float> scores_of(const Gguf& file, size_t n_tokens) {
  if (file.find(kScores) == nullptr) return std::vector<float>(n_tokens, 0.0F);
  std::vector<float> scores;
  for (const double score : file.get_floats(kScores)) {
    if (!(std::abs(score) <= static_cast<double>(std::numeric_limits<float>::max()))) {
      fail_score(file.path(), scores.size(), score);
    }
    scores.push_back(static_cast<float>(score));
  }
  return scores;
}

// White space after a special token is no part of a Phi-3 prompt: the tokens of its published
// tokenizer carry "rstrip". GGUF has no key for that, so it is known by the model's name, or by
// its architecture (newer converters write "Phi 3 Mini").
bool is_phi3(const Gguf& file) {
  std::string name(file.get_string("general.name", ""));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos ||
         file.get_string("general.architecture", "") == "phi3";
}

void check_length(const Vocabulary& vocabulary, const char* key, size_t length) {
  if (length != vocabulary.tokens.size()) {
    fail(vocabulary.source, key,
         fmt::format("{} entries for {} tokens", length, vocabulary.tokens.size()));
  }
}

// Ids and the nodes of searches are numbered in 32 bits; no real vocabulary comes near this.
constexpr size_t kMaxSize = size_t{1} << 30;

// Each byte of a special token is a node of the search for them. Published vocabularies have at
// most a few thousand, of some dozen bytes.
constexpr size_t kMaxSpecial = size_t{1} << 16;
constexpr size_t kMaxAllSpecial = size_t{1} << 23;

void check_special_tokens(const Vocabulary& vocabulary) {
  size_t size = 0;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!is_special(vocabulary.types[i])) continue;
    const size_t bytes = vocabulary.tokens[i].size();
    size += bytes;
    if (bytes > kMaxSpecial) {
      fail(vocabulary.source, kTokens,
           fmt::format("the special token at index {} has {} bytes, more than {}", i, bytes,
                       kMaxSpecial));
    }
  }
  if (size > kMaxAllSpecial) {
    fail(vocabulary.source, kTokens,
         fmt::format("the special tokens have {} bytes, more than {}", size, kMaxAllSpecial));
  }
}

size_t size_of(const Vocabulary& vocabulary) {
  size_t size = 0;
  for (const std::string& token : vocabulary.tokens) size += token.size() + 1;
  for (const std::string& merge : vocabulary.merges) size += merge.size() + 1;
  return size;
}

void check_id(const Vocabulary& vocabulary, const char* key, const std::optional<int32_t>& id) {
  if (id && !vocabulary.contains(*id)) {
    fail(vocabulary.source, key,
         fmt::format("token {} of a vocabulary of {}", *id, vocabulary.tokens.size()));
  }
}

void set_default(const Vocabulary& vocabulary, std::optional<int32_t>& id, int32_t value) {
  if (!id && vocabulary.contains(value)) id = value;
}

// "left right": one space, and something on either side. Byte-pair texts hold no other spaces,
// because the space has a letter of its own there.
bool is_merge(std::string_view merge) {
  const size_t space = merge.find(' ');
  return space != std::string_view::npos && space > 0 && space + 1 < merge.size() &&
         merge.find(' ', space + 1) == std::string_view::npos;
}

}  // namespace

std::optional<Vocabulary> load_vocabulary(const Gguf& file) {
  const std::string_view model = file.get_string(kModel, "no_vocab");
  if (model == "no_vocab") return std::nullopt;
  if (model != "llama" && model != "gpt2") {
    throw UnknownTokenizer(
        fmt::format("tokenizer model '{}' is not supported", printable(model, 40)),
        fmt::format("{}: key '{}'", file.path(), kModel),
        "give the prompt as ids with --tokens; supported are llama, gpt2 and no_vocab");
  }
  Vocabulary vocabulary;
  vocabulary.source = file.path();
  const bool byte_pair = model == "gpt2";
  vocabulary.model = byte_pair ? TokenizerModel::kBytePair : TokenizerModel::kSentencePiece;
  const std::string_view pre = file.get_string(kPre, "default");
  vocabulary.pre_tokenizer = pre.empty() ? "default" : pre;
  const auto tokens = file.get_strings(kTokens);
  vocabulary.tokens.assign(tokens.begin(), tokens.end());
  vocabulary.types = types_of(file, vocabulary.tokens.size());
  vocabulary.scores = scores_of(file, vocabulary.tokens.size());
  if (byte_pair) {
    const auto merges = file.get_strings(kMerges);
    vocabulary.merges.assign(merges.begin(), merges.end());
  }
  vocabulary.bos = id_at(file, kBos);
  vocabulary.eos = id_at(file, kEos);
  vocabulary.eot = id_at(file, kEot);
  vocabulary.eom = id_at(file, kEom);
  vocabulary.unknown = id_at(file, kUnknown);
  // Files may leave ids and flags out. Sentence-piece vocabularies get what llama.cpp gives them;
  // byte-pair ones get no ids: llama.cpp's, 11 for both, are an ordinary token in most files.
  if (!byte_pair) {
    set_default(vocabulary, vocabulary.unknown, 0);
    set_default(vocabulary, vocabulary.bos, 1);
    set_default(vocabulary, vocabulary.eos, 2);
  }
  const bool adds_bos = byte_pair ? find_pre_tokenizer(vocabulary).adds_bos : true;
  vocabulary.add_bos = file.get_bool(kAddBos, adds_bos && vocabulary.bos.has_value());
  vocabulary.add_eos = file.get_bool(kAddEos, false);
  vocabulary.add_space_prefix = !byte_pair && file.get_bool(kAddSpacePrefix, true);
  vocabulary.strip_after_special = is_phi3(file);
  check_vocabulary(vocabulary);
  return vocabulary;
}

void check_vocabulary(const Vocabulary& vocabulary) {
  const std::string& source = vocabulary.source;
  const size_t n_tokens = vocabulary.tokens.size();
  if (n_tokens == 0) fail(source, kTokens, "no tokens");
  if (size_of(vocabulary) > kMaxSize) fail(source, kTokens, "more than 1 GiB of tokens and merges");
  check_length(vocabulary, kTypes, vocabulary.types.size());
  check_length(vocabulary, kScores, vocabulary.scores.size());
  for (size_t i = 0; i < n_tokens; ++i) {
    if (!std::isfinite(vocabulary.scores[i])) {
      fail_score(source, i, static_cast<double>(vocabulary.scores[i]));
    }
    if (vocabulary.types[i] == TokenType::kByte && !byte_of_token(vocabulary.tokens[i])) {
      fail(source, kTokens,
           fmt::format("'{}' at index {} is of type byte and not of the form <0x0A>",
                       printable(vocabulary.tokens[i]), i));
    }
  }
  check_special_tokens(vocabulary);
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    if (!is_merge(vocabulary.merges[i])) {
      fail(source, kMerges,
           fmt::format("'{}' at index {} is not two parts with a space between",
                       printable(vocabulary.merges[i]), i));
    }
  }
  check_id(vocabulary, kBos, vocabulary.bos);
  check_id(vocabulary, kEos, vocabulary.eos);
  check_id(vocabulary, kEot, vocabulary.eot);
  check_id(vocabulary, kEom, vocabulary.eom);
  check_id(vocabulary, kUnknown, vocabulary.unknown);
  if (vocabulary.add_bos && !vocabulary.bos) fail(source, kAddBos, "true, but no bos_token_id");
  if (vocabulary.add_eos && !vocabulary.eos) fail(source, kAddEos, "true, but no eos_token_id");
}

bool is_special(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined ||
         type == TokenType::kUnknown;
}

std::optional<uint8_t> byte_of_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    int digit = -1;
    if (c >= '0' && c <= '9') digit = c - '0';
    if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
    if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<uint8_t>(value);
}

}  // namespace assay
