#include "engine/tokenizer/sentence_piece.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "engine/tokenizer/merge.h"

namespace assay {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

std::string escape_spaces(std::string_view text, bool with_prefix) {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 2);
  if (with_prefix) escaped += kSpace;
  for (const char c : text) {
    if (c == ' ') {
      escaped += kSpace;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

SentencePieceEncoder::SentencePieceEncoder(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), index_(vocabulary) {
  byte_tokens_.fill(-1);
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& token = vocabulary.tokens[i];
    longest_token_ = std::max(longest_token_, token.size());
    if (vocabulary.types[i] != TokenType::kByte) continue;
    int32_t& of_byte = byte_tokens_[byte_of_token(token).value()];
    if (of_byte < 0) of_byte = static_cast<int32_t>(i);
  }
  if (vocabulary.by_merges) rules_.emplace(vocabulary.merges, index_);
  // A file without types names them alike, or has the characters alone.
  for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    if (byte_tokens_[byte] >= 0) continue;
    const char raw = static_cast<char>(byte);
    const int32_t named = index_.find(fmt::format("<0x{:02X}>", byte));
    byte_tokens_[byte] = named >= 0 ? named : index_.find(std::string_view(&raw, 1));
  }
}

void SentencePieceEncoder::encode(std::string_view text, bool with_prefix,
                                  std::vector<int32_t>& ids) const {
  const std::string escaped = escape_spaces(text, with_prefix);
  const std::string_view all = escaped;
  std::vector<Symbol> symbols;
  symbols.reserve(all.size());
  for (size_t begin = 0; begin < all.size();) {
    const Utf8Unit unit = next_utf8(all.substr(begin));
    const size_t size = unit.kind == Utf8Kind::kWhole ? unit.length : 1;
    symbols.push_back({.begin = begin, .size = size, .id = index_.find(all.substr(begin, size))});
    begin += size;
  }
  SymbolMerger().run(symbols, [&](const Symbol& left, const Symbol& right) {
    return rules_ ? rules_->find(left.id, right.id) : merge_by_score(all, left, right);
  });
  for (const Symbol& symbol : symbols) {
    if (symbol.size == 0) continue;
    if (vocabulary_.contains(symbol.id)) {
      ids.push_back(symbol.id);
    } else {
      append_bytes(all.substr(symbol.begin, symbol.size), ids);
    }
  }
}

Merge SentencePieceEncoder::merge_by_score(std::string_view text, const Symbol& left,
                                           const Symbol& right) const {
  if (left.size + right.size > longest_token_) return {};
  const int32_t id = index_.find(text.substr(left.begin, left.size + right.size));
  if (id < 0) return {};
  return {vocabulary_.scores[static_cast<size_t>(id)], id};
}

void SentencePieceEncoder::append_bytes(std::string_view text, std::vector<int32_t>& ids) const {
  const auto token_of = [&](char c) { return byte_tokens_[static_cast<uint8_t>(c)]; };
  const bool complete =
      std::all_of(text.begin(), text.end(), [&](char c) { return token_of(c) >= 0; });
  if (complete) {
    for (const char c : text) ids.push_back(token_of(c));
  } else if (vocabulary_.unknown) {
    ids.push_back(*vocabulary_.unknown);
  } else {
    throw Error(fmt::format("no token for the character '{}'", printable(text)), vocabulary_.source,
                "the vocabulary has no byte and no unknown tokens");
  }
}

std::string SentencePieceEncoder::decode(std::string_view token_text) const {
  std::string bytes;
  for (size_t space = 0; (space = token_text.find(kSpace)) != std::string_view::npos;) {
    bytes.append(token_text.substr(0, space)).push_back(' ');
    token_text.remove_prefix(space + kSpace.size());
  }
  return bytes.append(token_text);
}

}  // namespace assay
