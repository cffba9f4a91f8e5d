#include "engine/tokenizer/token_index.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace assay {
namespace {

uint64_t hash_of(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

}  // namespace

TokenIndex::TokenIndex(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), slots_(vocabulary.tokens.size()) {
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string& token = vocabulary.tokens[i];
    const auto id = static_cast<int32_t>(i);
    const bool merged = vocabulary.type(id) == TokenType::kNormal ||
                        std::ranges::binary_search(vocabulary.merged_too, id);
    if (!merged || token.empty() || find(token) >= 0) continue;
    slots_.add(hash_of(token), id);
  }
}

int32_t TokenIndex::find(std::string_view text) const {
  return slots_.find(hash_of(text), [&](int32_t id) { return text_of(id) == text; });
}

int32_t TokenIndex::intern(std::string text) {
  const int32_t known = find(text);
  if (known >= 0) return known;
  const auto id = static_cast<int32_t>(vocabulary_.tokens.size() + more_.size());
  slots_.add(hash_of(text), id);
  more_.push_back(std::move(text));
  return id;
}

std::string_view TokenIndex::text_of(int32_t id) const {
  const auto place = static_cast<size_t>(id);
  const size_t n_tokens = vocabulary_.tokens.size();
  return place < n_tokens ? vocabulary_.tokens[place] : more_[place - n_tokens];
}

}  // namespace assay
