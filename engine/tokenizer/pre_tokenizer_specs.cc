#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "engine/tokenizer/pre_tokenizer.h"

namespace assay {
namespace {

// Every pattern is spelled as the tokenizer.json of its models spells it, with line breaks as \r
// and \n. PreTokenizer reads that spelling.
#define CONTRACTION R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define WORD R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define SYMBOLS R"( ?[^\s\p{L}\p{N}]+)"
#define SPACES R"(\s+(?!\S)|\s+)"
#define LINES R"(\s*[\r\n]+|)" SPACES
#define AFTER_DIGITS SYMBOLS R"([\r\n]*|)" LINES
constexpr std::string_view kLlama3 = CONTRACTION "|" WORD R"(|\p{N}{1,3}|)" AFTER_DIGITS;
constexpr std::string_view kQwen2 = CONTRACTION "|" WORD R"(|\p{N}|)" AFTER_DIGITS;
constexpr std::string_view kUfakZeka = WORD R"(|\p{N}|)" AFTER_DIGITS;  // no contractions
constexpr std::string_view kJais2 = CONTRACTION
    "|" WORD R"(|\p{N}{1,3}|)" SYMBOLS
    R"([\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S))"
    R"(|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
    R"(\s*[\r\n]|)" SPACES;
constexpr std::string_view kExaoneMoe =
    CONTRACTION R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)" SYMBOLS
                R"([\r\n/]?|\s*[\r\n]|)" SPACES;
constexpr std::string_view kMiniCpm5 = CONTRACTION "|" WORD R"(|\p{N}+|)" AFTER_DIGITS;
constexpr std::string_view kSeedCoder =
    CONTRACTION "|" WORD R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)" LINES;
constexpr std::string_view kQwen35 =
    CONTRACTION R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" LINES;

// Words that change from capitals to small letters at most once.
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define CASED(after)                                                                         \
  R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER "+" after R"(|[^\r\n\p{L}\p{N}]?)" UPPER "+" LOWER \
  "*" after
#define AFTER_CASED SYMBOLS R"([\r\n/]*|)" LINES
constexpr std::string_view kTekken = CASED("") R"(|\p{N}|)" AFTER_CASED;
constexpr std::string_view kGpt4o = CASED(CONTRACTION "?") R"(|\p{N}{1,3}|)" AFTER_CASED;
constexpr std::string_view kYoutu = CASED(CONTRACTION "?") R"(|\p{N}|)" AFTER_CASED;

// Kimi K2 has no tokenizer.json, and writes a class less Han, as no pattern of the others does.
#define HAN                                                                  \
  R"(\x{2E80}-\x{2FD5}\x{3005}\x{3007}\x{3021}-\x{3029}\x{3038}-\x{303B})"   \
  R"(\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAD9}\x{16FE2}\x{16FE3})" \
  R"(\x{16FF0}\x{16FF1}\x{20000}-\x{3FFFD})"
#define UPPER_NO_HAN "(?:(?![" HAN "])" UPPER ")"
#define LOWER_NO_HAN "(?:(?![" HAN "])" LOWER ")"
constexpr std::string_view kKimiK2 =
    "[" HAN R"(]+|[^\r\n\p{L}\p{N}]?)" UPPER_NO_HAN "*" LOWER_NO_HAN "+" CONTRACTION
    R"(?|[^\r\n\p{L}\p{N}]?)" UPPER_NO_HAN "+" LOWER_NO_HAN "*" CONTRACTION
    R"(?|\p{N}{1,3}|)" AFTER_DIGITS;

constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|)" LINES;
constexpr std::string_view kLineBreak = R"([\r\n])";
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[)"
    R"(A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ)"
    R"(Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ)"
    R"(-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃)"
    R"(]+)";
constexpr std::string_view kDeepSeekSymbols = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)";
constexpr std::string_view kTrailingSpace = R"(\s+$)";
constexpr std::string_view kSpaceLetters = R"(\s?\p{L}+)";
constexpr std::string_view kSpacePunctuation = R"(\s?\p{P}+)";
constexpr std::string_view kAsianLetters = "[一-龥ࠀ-一가-퟿]+";
constexpr std::string_view kHanKana = "[一-龥぀-ゟ゠-ヿ]+";
constexpr std::string_view kYoutuAsian =
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-"
    "ゟ゠-"
    "ヿ]"
    "+";
constexpr std::string_view kViking = R"( ?[^(\s|.,!?…。，、।۔،)]+)";

constexpr std::string_view kDigitTriple = R"(\p{N}{1,3})";
constexpr std::string_view kTriplesFromTheEnd = R"(\d{1,3}(?=(?:\d{3})*\b))";
// llama.cpp's, of files whose tokenizer it does not know.
constexpr std::string_view kDefaultPunctuation = R"([\p{P}$+<=>^~|]+)";

// Names as llama.cpp has them, and its flags. Patterns are the models' own: llama.cpp writes those
// of tekken, gpt-4o, tiny_aya, falcon and falcon3 in ways of its own, which give other words for
// letters with marks, capitals beyond ASCII and some digits, and gigachat is GPT-2 there.
const std::vector<PreTokenizerSpec>& specs() {
  static const std::vector<PreTokenizerSpec> all = {
      {{"gpt-2", "phi-2", "olmo", "mpt", "jais", "exaone4", "mellum", "a.x-4.0", "trillion",
        "granite-docling"},
       {kGpt2Pattern}},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "mellum2",
        "minerva-7b"},
       {kDigitPattern, kGpt2Pattern}},
      {{"llama-bpe", "llama3", "llama-v3", "lfm2", "pixtral", "midm-2.0", "falcon-h1"},
       {kLlama3},
       true,
       true},
      {{"glm4", "glm5"}, {kLlama3}, true},
      {{"chatglm-bpe", "dbrx", "smaug-bpe"}, {kLlama3}},
      {{"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "kormo", "hunyuan", "f2llmv2",
        "solar-open", "grok-2"},
       {kQwen2}},
      {{"ufakzeka"}, {kUfakZeka}},
      {{"jais-2"}, {kJais2}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailing}},
      {{"exaone-moe"}, {kExaoneMoe}},
      {{"qwen35"}, {kQwen35}},
      {{"minicpm5"}, {kDigitTriple, kMiniCpm5}, true},
      {{"seed-coder"}, {kSeedCoder}},
      {{"tekken"}, {kTekken}, true, true},
      {{"gpt-4o", "gigachat", "kanana2", "llama4", "talkie", "minimax-m2"}, {kGpt4o}},
      {{"tiny_aya", "cohere2moe"}, {kTriplesFromTheEnd, kGpt4o}},
      {{"youtu"}, {kYoutuAsian, kYoutu}, true},
      {{"kimi-k2"}, {kKimiK2}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       {kDigitTriple, kHanKana, kDeepSeek3}},
      {{"deepseek-llm"},
       {kLineBreak, kDeepSeekLetters, kDeepSeekSymbols, kTrailingSpace, kAsianLetters,
        kDigitPattern}},
      {{"deepseek-coder"},
       {kLineBreak, kSpaceLetters, kSpacePunctuation, kAsianLetters, kDigitPattern}},
      {{"viking"}, {kViking, kDigitPattern}},
      {{"falcon"}, {kPunctuationPattern, kGpt2Pattern, kDigitLettersPattern, kThreeDigitsPattern}},
      {{"falcon3"}, {kPunctuationPattern, kGpt2Pattern, kDigitLetterPattern}, true, true},
      {{"default"}, {kDefaultPunctuation, kGpt2Pattern, kDigitsPattern, kThreeDigitsPattern}},
  };
  return all;
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
  throw UnknownTokenizer(
      fmt::format("pre-tokenizer '{}' is not supported", printable(vocabulary.pre_tokenizer, 40)),
      fmt::format("{}: key 'tokenizer.ggml.pre'", vocabulary.source),
      fmt::format("give the prompt as ids with --tokens; supported are {}",
                  fmt::join(supported, ", ")));
}

std::string_view pre_tokenizer_with(const std::vector<std::string>& patterns) {
  for (const PreTokenizerSpec& spec : specs()) {
    if (std::ranges::equal(spec.patterns, patterns)) return spec.names.front();
  }
  return {};
}

}  // namespace assay
