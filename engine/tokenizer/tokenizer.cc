#include "engine/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "engine/hf/folder.h"
#include "engine/hf/tokenizer_json.h"
#include "engine/tokenizer/byte_pair.h"
#include "engine/tokenizer/sentence_piece.h"

namespace assay {
namespace {

Vocabulary checked(Vocabulary vocabulary) {
  check_vocabulary(vocabulary);
  return vocabulary;
}

std::unique_ptr<const Encoder> make_encoder(const Vocabulary& vocabulary) {
  if (vocabulary.model == TokenizerModel::kBytePair) {
    return std::make_unique<BytePairEncoder>(vocabulary);
  }
  return std::make_unique<SentencePieceEncoder>(vocabulary);
}

// Whether a space goes before a text that begins the input or follows a special token.
bool has_prefix(const Vocabulary& vocabulary, std::string_view text, bool at_start) {
  if (!vocabulary.add_space_prefix || (vocabulary.prefix_at_start_only && !at_start)) return false;
  const bool has_space = text.starts_with(' ') || text.starts_with("\xE2\x96\x81");  // U+2581
  return !vocabulary.prefix_unless_space || !has_space;
}

std::unique_ptr<Tokenizer> tokenizer_of(std::optional<Vocabulary> vocabulary) {
  if (!vocabulary) return nullptr;
  return std::make_unique<Tokenizer>(*std::move(vocabulary));
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const Gguf& file, std::string* unknown) {
  try {
    return tokenizer_of(is_folder(file.path()) ? read_tokenizer_json(file.path())
                                               : load_vocabulary(file));
  } catch (const UnknownTokenizer& error) {
    if (unknown == nullptr) throw;
    *unknown = error.what();
    return nullptr;
  }
}

std::unique_ptr<Tokenizer> Tokenizer::from_model(const std::string& path) {
  return is_folder(path) ? tokenizer_of(read_tokenizer_json(path)) : from_gguf(Gguf(path));
}

Tokenizer::Tokenizer(Vocabulary vocabulary)
    : vocabulary_(checked(std::move(vocabulary))),
      special_tokens_(vocabulary_),
      last_special_tokens_(vocabulary_, true),
      encoder_(make_encoder(vocabulary_)) {
  std::vector<std::string>().swap(vocabulary_.merges);  // and its memory: `= {}` would keep that
}

std::vector<Fragment> Tokenizer::fragments(std::string_view text) const {
  std::vector<Fragment> found = special_tokens_.split(text);
  if (vocabulary_.found_last.empty()) return found;
  std::vector<Fragment> all;
  for (const Fragment& fragment : found) {
    if (fragment.token >= 0) {
      all.push_back(fragment);
    } else {
      std::ranges::copy(last_special_tokens_.split(fragment.text), std::back_inserter(all));
    }
  }
  return all;
}

std::optional<int32_t> Tokenizer::added_bos() const {
  return vocabulary_.add_bos ? vocabulary_.bos : std::nullopt;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special) const {
  // Positions in a text are 32 bits wide; a prefix and U+2581 for spaces can make it longer.
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()) / 4) {
    throw Error(fmt::format("a text of {} bytes is too long", text.size()), {},
                "at most 512 MiB can be tokenised at once");
  }
  std::vector<int32_t> ids;
  if (add_special && added_bos()) ids.push_back(*added_bos());
  bool after_special = true;  // or at the start
  for (const Fragment& fragment : fragments(text)) {
    if (fragment.token >= 0) {
      ids.push_back(fragment.token);
    } else {
      const bool at_start = fragment.text.data() == text.data();
      encoder_->encode(fragment.text,
                       after_special && has_prefix(vocabulary_, fragment.text, at_start), ids);
    }
    after_special = fragment.token >= 0;
  }
  if (add_special && vocabulary_.add_eos) ids.push_back(*vocabulary_.eos);
  return ids;
}

std::string Tokenizer::token_bytes(int32_t id) const {
  if (!vocabulary_.contains(id)) return {};
  const std::string& text = vocabulary_.text(id);
  switch (vocabulary_.type(id)) {
    case TokenType::kNormal:
      return encoder_->decode(text);
    case TokenType::kUserDefined:
      // Such a token may come of merges.
      if (std::ranges::binary_search(vocabulary_.merged_too, id)) return encoder_->decode(text);
      return text;
    case TokenType::kControl:
    case TokenType::kUnknown:
      return text;
    case TokenType::kByte:
      return std::string(1, static_cast<char>(byte_of_token(text).value()));
    case TokenType::kUndefined:
    case TokenType::kUnused:
      break;
  }
  return {};
}

bool Tokenizer::is_end_of_generation(int32_t id) const {
  return id == vocabulary_.eos || id == vocabulary_.eot || id == vocabulary_.eom ||
         std::ranges::find(vocabulary_.ends, id) != vocabulary_.ends.end();
}

bool Tokenizer::is_choosable(int32_t id) const {
  if (!vocabulary_.contains(id) || vocabulary_.type(id) == TokenType::kUnused) return false;
  const std::string& text = vocabulary_.text(id);
  return !text.starts_with("[PAD") || text != fmt::format("[PAD{}]", id);
}

bool Tokenizer::is_control(int32_t id) const {
  return vocabulary_.contains(id) && (vocabulary_.type(id) == TokenType::kControl ||
                                      vocabulary_.type(id) == TokenType::kUnknown);
}

}  // namespace assay
