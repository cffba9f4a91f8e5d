#define PCRE2_CODE_UNIT_WIDTH 8

#include "engine/tokenizer/pre_tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pcre2.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/utf8.h"

namespace assay {
namespace {

// The patterns are those that the models were trained with. White space is written out as the
// Unicode property White_Space, because PCRE2's \s has U+180E as well; contractions likewise
// spell both cases, because caseless matching would take U+017F for an s.
#define SPACE "\\p{Z}\\x09-\\x0D\\x85"

constexpr std::string_view kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d"
    "| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE
    "\\p{L}\\p{N}]+"
    "|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+";

// Llama 3 and Qwen 2 differ in how many digits a word may have.
#define CONTRACTION "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
#define BEFORE_DIGITS CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define AFTER_DIGITS        \
  " ?[^" SPACE              \
  "\\p{L}\\p{N}]+[\\r\\n]*" \
  "|[" SPACE                \
  "]*[\\r\\n]+"             \
  "|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
constexpr std::string_view kLlama3 = BEFORE_DIGITS "|\\p{N}{1,3}|" AFTER_DIGITS;
constexpr std::string_view kQwen2 = BEFORE_DIGITS "|\\p{N}|" AFTER_DIGITS;

constexpr std::string_view kDigit = "\\p{N}";
constexpr std::string_view kDigits = "\\p{N}+";
constexpr std::string_view kThreeDigits = "[0-9]{3}";
constexpr std::string_view kPunctuation = "[\\p{P}$+<=>^~|]+";

#undef SPACE
#undef CONTRACTION
#undef BEFORE_DIGITS
#undef AFTER_DIGITS

const std::vector<PreTokenizerSpec>& specs() {
  static const std::vector<PreTokenizerSpec> all = {
      {{"gpt-2", "phi-2"}, {kGpt2}},
      {{"llama-bpe", "llama3", "llama-v3"}, {kLlama3}, true, true},
      {{"glm4"}, {kLlama3}, true},
      {{"chatglm-bpe"}, {kLlama3}},
      {{"qwen2", "deepseek-r1-qwen"}, {kQwen2}},
      {{"smollm"}, {kDigit, kGpt2}},
      {{"default"}, {kPunctuation, kGpt2, kDigits, kThreeDigits}},
  };
  return all;
}

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct JitStackDeleter {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
using Code = std::unique_ptr<pcre2_code, CodeDeleter>;

std::string message_of(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

Code compile(std::string_view pattern) {
  int error = 0;
  PCRE2_SIZE where = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr));
  if (!code) {
    throw Error(fmt::format("pattern '{}' at {}: {}", pattern, where, message_of(error)));
  }
  // Only speed: where no executable memory can be had, pcre2_match interprets.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

constexpr size_t kJitStackStart = size_t{32} << 10;
constexpr size_t kJitStackLimit = size_t{16} << 20;

// What matching changes as it goes; one for each call of split.
class Matcher {
 public:
  Matcher()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr)) {
    if (!data_ || !context_) throw Error("out of memory for matching a pattern");
    // The limit is there against patterns that explode. Ours look at each byte a fixed number of
    // times, but a run of a hundred million spaces must not hit it.
    pcre2_set_match_limit(context_.get(), std::numeric_limits<uint32_t>::max());
    // Null (no memory) leaves the machine stack, which is enough for all but odd inputs.
    if (stack_) pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }

  // Cuts `piece`, which is well-formed UTF-8, into matches and what lies between them.
  void cut(const pcre2_code* code, std::string_view piece, std::vector<std::string_view>& out) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
    size_t done = 0;
    while (done < piece.size()) {
      const int found = pcre2_match(code, subject, piece.size(), done, PCRE2_NO_UTF_CHECK,
                                    data_.get(), context_.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) throw Error("cannot cut the text into words: " + message_of(found));
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data_.get());
      if (range[0] > done) out.push_back(piece.substr(done, range[0] - done));
      out.push_back(piece.substr(range[0], range[1] - range[0]));
      done = range[1];
    }
    if (done < piece.size()) out.push_back(piece.substr(done));
  }

 private:
  std::unique_ptr<pcre2_match_data, MatchDataDeleter> data_;
  std::unique_ptr<pcre2_match_context, MatchContextDeleter> context_;
  std::unique_ptr<pcre2_jit_stack, JitStackDeleter> stack_;
};

// Bytes of `text` up to where well-formed turns into malformed or back.
size_t run_length(std::string_view text, bool well_formed) {
  size_t length = 0;
  while (length < text.size()) {
    const Utf8Unit unit = next_utf8(text.substr(length));
    if ((unit.kind == Utf8Kind::kWhole) != well_formed) break;
    length += unit.length;
  }
  return length;
}

}  // namespace

const PreTokenizerSpec& find_pre_tokenizer(const Vocabulary& vocabulary) {
  std::vector<std::string_view> supported;
  for (const PreTokenizerSpec& spec : specs()) {
    for (const std::string_view name : spec.names) {
      if (name == vocabulary.pre_tokenizer) return spec;
      supported.push_back(name);
    }
  }
  throw Error(fmt::format("pre-tokenizer '{}' is not supported", vocabulary.pre_tokenizer),
              fmt::format("{}: key 'tokenizer.ggml.pre'", vocabulary.source),
              fmt::format("supported are {}", fmt::join(supported, ", ")));
}

struct PreTokenizer::Patterns {
  std::vector<Code> codes;
};

PreTokenizer::PreTokenizer(const PreTokenizerSpec& spec) {
  auto patterns = std::make_unique<Patterns>();
  for (const std::string_view pattern : spec.patterns) patterns->codes.push_back(compile(pattern));
  patterns_ = std::move(patterns);
}

PreTokenizer::~PreTokenizer() = default;

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  Matcher matcher;
  std::vector<std::string_view> words;
  std::vector<std::string_view> pieces;
  std::vector<std::string_view> cut;
  for (bool well_formed = true; !text.empty(); well_formed = !well_formed) {
    const std::string_view run = text.substr(0, run_length(text, well_formed));
    text.remove_prefix(run.size());
    if (run.empty()) continue;
    pieces.assign(1, run);
    for (const Code& code : patterns_->codes) {
      if (!well_formed) break;
      cut.clear();
      for (const std::string_view piece : pieces) matcher.cut(code.get(), piece, cut);
      pieces.swap(cut);
    }
    words.insert(words.end(), pieces.begin(), pieces.end());
  }
  return words;
}

}  // namespace assay
