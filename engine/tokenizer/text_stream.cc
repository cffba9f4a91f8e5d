#include "engine/tokenizer/text_stream.h"

#include "base/utf8.h"

namespace assay {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, TextStreamOptions options)
    : tokenizer_(tokenizer),
      options_(options),
      drop_space_(options.at_start_of_text && tokenizer.adds_space_prefix()) {}

std::string TextStream::put(int32_t id) {
  std::string_view bytes;
  std::string token;
  if (!tokenizer_.is_control(id) || options_.show_control_tokens) {
    token = tokenizer_.token_bytes(id);
    bytes = token;
  }
  // The prefix belongs to the first token that is text; <s> may come before it.
  if (drop_space_ && !tokenizer_.is_control(id)) {
    if (bytes.starts_with(' ')) bytes.remove_prefix(1);
    drop_space_ = false;
  }
  pending_ += bytes;
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Unit unit = next_utf8(rest);
    if (unit.kind == Utf8Kind::kPartial) break;
    text += unit.kind == Utf8Kind::kWhole ? rest.substr(0, unit.length) : kReplacement;
    rest.remove_prefix(unit.length);
  }
  pending_ = std::string(rest);
  return text;
}

std::string TextStream::flush() {
  const bool waits = !pending_.empty();
  pending_.clear();
  return waits ? kReplacement : std::string();
}

std::string decode(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                   TextStreamOptions options) {
  TextStream stream(tokenizer, options);
  std::string text;
  for (const int32_t id : ids) text += stream.put(id);
  return text + stream.flush();
}

}  // namespace assay
