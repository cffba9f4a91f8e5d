#define PCRE2_CODE_UNIT_WIDTH 8

#include "engine/tokenizer/pre_tokenizer.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace assay {
namespace {

// As Unicode's property White_Space has it, for inside a class: PCRE2's \s has U+180E as well.
constexpr std::string_view kSpace = R"(\p{Z}\x09-\x0D\x85)";

// Patterns that look ahead over a whole run from each place in it, and others that find the same
// places in time that is linear in the run's length. Of \b, the tokenizers' notion of a word is
// spelled out, since PCRE2's differs: what is alphabetic, marks, decimal digits, connectors, and
// the superscripts and fractions of Latin-1.
constexpr std::pair<std::string_view, std::string_view> kLinear[] = {
    {R"(\s+$)", R"((?<!\s)\s+$)"},
    {R"(\d{1,3}(?=(?:\d{3})*\b))",
     R"((?<!\d)\d{1,3}(?=(?:\d{3})*(?![\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\xB2\xB3\xB9\xBC-\xBE)"
     R"(\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}]))|(?<=\d)\G\d{3})"},
};

// `pattern`, spelled as the tokenizers spell theirs, for PCRE2.
std::string for_pcre2(std::string_view pattern) {
  for (const auto& [published, linear] : kLinear) {
    if (pattern == published) pattern = linear;
  }
  std::string text;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\') {
      if (pattern[i] == '[') in_class = true;
      if (pattern[i] == ']') in_class = false;
      text += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      text += in_class ? std::string(kSpace) : fmt::format("[{}]", kSpace);
    } else if (escaped == 'S' && !in_class) {
      text += fmt::format("[^{}]", kSpace);
    } else {
      text.append({'\\', escaped});
    }
  }
  return text;
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

Code compile(std::string_view published) {
  const std::string pattern = for_pcre2(published);
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
