#include "engine/tokenizer/byte_pair.h"

#include "engine/tokenizer/byte_unicode.h"

namespace assay {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

BytePairEncoder::BytePairEncoder(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      spec_(find_pre_tokenizer(vocabulary)),
      pre_tokenizer_(spec_),
      symbols_(index_tokens(vocabulary)) {
  for (size_t byte = 0; byte < byte_symbols_.size(); ++byte) {
    byte_symbols_[byte] = intern(byte_letters()[byte]);
  }
  merges_.reserve(vocabulary.merges.size());
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    add_merge(vocabulary.merges[rank], rank);
  }
}

int32_t BytePairEncoder::intern(std::string text) {
  const auto found = symbols_.find(text);
  if (found != symbols_.end()) return found->second;
  const size_t id = vocabulary_.tokens.size() + extra_texts_.size();
  extra_texts_.push_back(std::move(text));
  symbols_.emplace(extra_texts_.back(), static_cast<int32_t>(id));
  return static_cast<int32_t>(id);
}

void BytePairEncoder::add_merge(std::string_view merge, size_t rank) {
  const size_t space = merge.find(' ');
  const std::string_view left = merge.substr(0, space);
  const std::string_view right = merge.substr(space + 1);
  const int32_t merged = intern(std::string(left).append(right));
  // Of a pair that is listed twice the first counts.
  merges_.emplace(pair_key(intern(std::string(left)), intern(std::string(right))),
                  Merge{-static_cast<double>(rank), merged});
}

void BytePairEncoder::encode(std::string_view text, bool /*after_special*/,
                             std::vector<int32_t>& ids) const {
  Workspace workspace;
  for (const std::string_view word : pre_tokenizer_.split(text)) {
    encode_word(word, workspace, ids);
  }
}

void BytePairEncoder::encode_word(std::string_view word, Workspace& workspace,
                                  std::vector<int32_t>& ids) const {
  if (spec_.ignores_merges) {
    const auto whole = symbols_.find(letters_of_bytes(word));
    if (whole != symbols_.end() && is_token(whole->second)) {
      ids.push_back(whole->second);
      return;
    }
  }
  std::vector<Symbol>& symbols = workspace.symbols;
  symbols.clear();
  for (size_t i = 0; i < word.size(); ++i) {
    const int32_t id = byte_symbols_[static_cast<uint8_t>(word[i])];
    symbols.push_back({.begin = i, .size = 1, .id = id});
  }
  workspace.merger.run(symbols, [&](const Symbol& left, const Symbol& right) -> Merge {
    const auto found = merges_.find(pair_key(left.id, right.id));
    return found == merges_.end() ? Merge{} : found->second;
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
