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
      symbols_(vocabulary),
      rule_slots_(vocabulary.merges.size()) {
  for (size_t byte = 0; byte < byte_symbols_.size(); ++byte) {
    byte_symbols_[byte] = symbols_.intern(std::string(byte_letters()[byte]));
  }
  rules_.reserve(vocabulary.merges.size());
  for (const std::string& merge : vocabulary.merges) add_merge(merge);
}

void BytePairEncoder::add_merge(std::string_view merge) {
  const size_t space = merge.find(' ');
  const std::string_view left = merge.substr(0, space);
  const std::string_view right = merge.substr(space + 1);
  const int32_t merged = symbols_.intern(std::string(left).append(right));
  const Rule rule = {symbols_.intern(std::string(left)), symbols_.intern(std::string(right)),
                     merged};
  // Of a pair that is listed twice the first counts.
  if (find_rule(rule.left, rule.right) >= 0) return;
  rule_slots_.add(pair_key(rule.left, rule.right), static_cast<int32_t>(rules_.size()));
  rules_.push_back(rule);
}

int32_t BytePairEncoder::find_rule(int32_t left, int32_t right) const {
  return rule_slots_.find(pair_key(left, right), [&](int32_t place) {
    const Rule& rule = rules_[static_cast<size_t>(place)];
    return rule.left == left && rule.right == right;
  });
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
  workspace.merger.run(symbols, [&](const Symbol& left, const Symbol& right) -> Merge {
    const int32_t place = find_rule(left.id, right.id);
    if (place < 0) return {};
    return {-static_cast<double>(place), rules_[static_cast<size_t>(place)].merged};
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
