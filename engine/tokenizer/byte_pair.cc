#include "engine/tokenizer/byte_pair.h"

#include "engine/tokenizer/byte_unicode.h"

namespace assay {
namespace {

std::array<int32_t, 256> byte_symbols(TokenIndex& symbols) {
  std::array<int32_t, 256> numbers;
  for (size_t byte = 0; byte < numbers.size(); ++byte) {
    numbers[byte] = symbols.intern(std::string(byte_letters()[byte]));
  }
  return numbers;
}

}  // namespace

BytePairEncoder::BytePairEncoder(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      spec_(find_pre_tokenizer(vocabulary)),
      pre_tokenizer_(spec_),
      symbols_(vocabulary),
      byte_symbols_(byte_symbols(symbols_)),
      rules_(vocabulary.merges, symbols_) {}

void BytePairEncoder::encode(std::string_view text, bool /*with_prefix*/,
                             std::vector<int32_t>& ids) const {
  Workspace workspace;
  for (const std::string_view word : pre_tokenizer_.split(text)) {
    encode_word(word, workspace, ids);
  }
}

void BytePairEncoder::encode_word(std::string_view word, Workspace& workspace,
                                  std::vector<int32_t>& ids) const {
  if (vocabulary_.ignores_merges.value_or(spec_.ignores_merges)) {
    const int32_t whole = symbols_.find(letters_of_bytes(word));
    if (is_token(whole)) {
      ids.push_back(whole);
      return;
    }
  }
  std::vector<Symbol>& symbols = workspace.symbols;
  symbols.clear();
  for (size_t i = 0; i < word.size(); ++i) {
    const int32_t id = byte_symbols_[static_cast<uint8_t>(word[i])];
    symbols.push_back({.begin = i, .size = 1, .id = id});
  }
  workspace.merger.run(symbols, [&](const Symbol& left, const Symbol& right) {
    return rules_.find(left.id, right.id);
  });
  for (const Symbol& symbol : symbols) {
    if (symbol.size == 0) continue;
    if (is_token(symbol.id)) {
      ids.push_back(symbol.id);
    } else {
      append_bytes(word.substr(symbol.begin, symbol.size), ids);
    }
  }
}

void BytePairEncoder::append_bytes(std::string_view bytes, std::vector<int32_t>& ids) const {
  for (const char c : bytes) {
    const int32_t id = byte_symbols_[static_cast<uint8_t>(c)];
    if (is_token(id)) ids.push_back(id);
  }
}

std::string BytePairEncoder::decode(std::string_view token_text) const {
  return bytes_of_letters(token_text);
}

}  // namespace assay
