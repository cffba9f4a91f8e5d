#include "engine/hf/tokenizer_pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json_file.h"
#include "engine/tokenizer/pre_tokenizer.h"

namespace assay {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581
constexpr int64_t kMaxId = int64_t{1} << 31;

// A step of a normalizer, pre_tokenizer or post_processor.
using Steps = std::vector<ConfigObject>;

// The steps of a part, those of a Sequence one by one; none where it is null.
Steps steps_of(const ConfigObject& tokenizer, const char* part, const char* of_sequence) {
  const rapidjson::Value* value = tokenizer.find(part);
  if (value == nullptr) return {};
  const std::string where = fmt::format("{}: {}", tokenizer.where(), part);
  const ConfigObject whole(*value, where);
  if (whole.text({"type"}, "") != "Sequence") return {whole};
  const rapidjson::Value* list = whole.find(of_sequence);
  if (list == nullptr || !list->IsArray()) whole.refuse(of_sequence, "is not an array");
  Steps steps;
  for (const rapidjson::Value& each : list->GetArray()) steps.emplace_back(each, where);
  return steps;
}

std::string type_of(const ConfigObject& step) {
  return step.text({"type"}, "");
}

[[noreturn]] void refuse_step(const ConfigObject& step, const std::string& detail = {}) {
  refuse_tokenizer(step.where(),
                   fmt::format("{}{}{} is not one that Assay has", printable(type_of(step), 40),
                               detail.empty() ? "" : " ", printable(detail, 200)));
}

// The string or regular expression of a Replace or Split.
std::string pattern_of(const ConfigObject& step, const char* kind) {
  const rapidjson::Value* pattern = step.find("pattern");
  if (pattern == nullptr || !pattern->IsObject()) return {};
  return ConfigObject(*pattern, step.where()).text({kind}, "");
}

bool replaces_spaces(const ConfigObject& step) {
  return type_of(step) == "Replace" && pattern_of(step, "String") == " " &&
         step.text({"content"}, "") == kSpace;
}

// Of a model whose spaces are U+2581.
void read_space_letters(const Steps& normalizer, const Steps& pre, Vocabulary& vocabulary) {
  vocabulary.model = TokenizerModel::kSentencePiece;
  vocabulary.add_space_prefix = false;
  bool replaces = false;
  for (const ConfigObject& step : normalizer) {
    const std::string type = type_of(step);
    if (type == "Prepend" && step.text({"prepend"}, "") == kSpace) {
      vocabulary.add_space_prefix = true;
    } else if (replaces_spaces(step)) {
      replaces = true;
    } else {
      refuse_step(step);
    }
  }
  for (const ConfigObject& step : pre) {
    const std::string type = type_of(step);
    const bool prepends = vocabulary.add_space_prefix;  // twice, with Metaspace
    if (type == "Metaspace" && !replaces && !prepends && step.text({"replacement"}, "") == kSpace) {
      if (step.flag("split", true)) refuse_step(step, "with split");
      const std::string scheme = step.text({"prepend_scheme"}, "always");
      vocabulary.add_space_prefix = scheme != "never";
      vocabulary.prefix_at_start_only = scheme == "first";
      vocabulary.prefix_unless_space = true;
      replaces = true;
    } else if (type != "Split" || !replaces || pattern_of(step, "String") != " " ||
               step.flag("invert", false)) {
      refuse_step(step);  // of a Split, no space is left to split at
    }
  }
  if (!replaces) {
    refuse_tokenizer(vocabulary.source,
                     "a normalizer that leaves spaces as they are is not one "
                     "that Assay has");
  }
}

// Whether each character of any text is in a match: of a pattern for letters, numbers, spaces, and
// for what is none of these.
bool matches_everything(std::string_view pattern) {
  return pattern.ends_with(R"(|\s+)") &&
         pattern.find(R"(| ?[^\s\p{L}\p{N}]+)") != std::string_view::npos;
}

// Some files have the characters CR and LF in their patterns, some "\r" and "\n".
std::string split_pattern(const ConfigObject& step) {
  std::string pattern;
  for (const char c : pattern_of(step, "Regex")) {
    if (c == '\r' || c == '\n') {
      pattern += c == '\r' ? "\\r" : "\\n";
    } else {
      pattern += c;
    }
  }
  const std::string behavior = step.text({"behavior"}, "");
  const bool invert = step.flag("invert", false);
  const bool removes_nothing = behavior == "Removed" && invert && matches_everything(pattern);
  if (!removes_nothing && (behavior != "Isolated" || invert)) {
    refuse_step(step, "that keeps other pieces than the matches and what is between");
  }
  return pattern;
}

// The pattern that cuts a text as the step does; `after_bytes`: a step after ByteLevel.
std::string cutting_pattern(const ConfigObject& step, bool after_bytes) {
  const std::string type = type_of(step);
  if (type == "Split" && (!after_bytes || pattern_of(step, "Regex") == kThreeDigitsPattern)) {
    return split_pattern(step);
  }
  if (type == "Digits") {
    const bool single = step.flag("individual_digits", false);
    if (after_bytes) return std::string(single ? kDigitLetterPattern : kDigitLettersPattern);
    return std::string(single ? kDigitPattern : kDigitsPattern);
  }
  if (type != "Punctuation" || after_bytes || step.text({"behavior"}, "") != "Contiguous") {
    refuse_step(step);
  }
  return std::string(kPunctuationPattern);
}

DigitLetters read_byte_level(const Steps& normalizer, const Steps& pre, Vocabulary& vocabulary) {
  vocabulary.model = TokenizerModel::kBytePair;
  for (const ConfigObject& step : normalizer) {
    if (type_of(step) != "NFC") refuse_step(step);
  }
  std::vector<std::string> patterns;
  bool after_bytes = false;
  DigitLetters digits = DigitLetters::kAnywhere;
  for (const ConfigObject& step : pre) {
    if (type_of(step) != "ByteLevel") {
      patterns.push_back(cutting_pattern(step, after_bytes));
      if (patterns.back() == kDigitLetterPattern) digits = DigitLetters::kAlone;
      if (patterns.back() == kDigitLettersPattern) digits = DigitLetters::kAmongThemselves;
      continue;
    }
    if (after_bytes) refuse_step(step, "twice");
    if (step.flag("add_prefix_space", true)) refuse_step(step, "with add_prefix_space");
    if (step.flag("use_regex", true)) patterns.emplace_back(kGpt2Pattern);
    after_bytes = true;
  }
  vocabulary.pre_tokenizer = pre_tokenizer_with(patterns);
  if (vocabulary.pre_tokenizer.empty()) {
    refuse_tokenizer(fmt::format("{}: pre_tokenizer", vocabulary.source),
                     patterns.empty()
                         ? "ByteLevel without a pattern is not one that Assay has"
                         : fmt::format("the patterns {} are not ones that Assay has",
                                       printable(fmt::format("{}", fmt::join(patterns, " , ")))));
  }
  return digits;
}

// The id of the one special token of a template's item.
int64_t id_of_special(const ConfigObject& step, const ConfigObject& item) {
  const rapidjson::Value* special = item.find("SpecialToken");
  const std::string name = ConfigObject(*special, step.where()).text({"id"}, "");
  const rapidjson::Value* all = step.find("special_tokens");
  const auto* named = all != nullptr && all->IsObject() && all->HasMember(name.c_str())
                          ? &(*all)[name.c_str()]
                          : nullptr;
  const auto* ids =
      named != nullptr && named->IsObject() && named->HasMember("ids") ? &(*named)["ids"] : nullptr;
  if (ids == nullptr || !ids->IsArray() || ids->Size() != 1 || !(*ids)[0].IsInt64() ||
      (*ids)[0].GetInt64() < 0 || (*ids)[0].GetInt64() > kMaxId) {
    step.refuse("special_tokens", fmt::format("has no single id for '{}'", printable(name, 40)));
  }
  return (*ids)[0].GetInt64();
}

AddedAround read_template(const ConfigObject& step) {
  AddedAround added;
  added.stated = true;
  const rapidjson::Value* single = step.find("single");
  if (single == nullptr || !single->IsArray()) step.refuse("single", "is not an array");
  bool after = false;
  for (const rapidjson::Value& each : single->GetArray()) {
    const ConfigObject item(each, step.where());
    if (item.find("Sequence") != nullptr && !after) {
      after = true;
      continue;
    }
    std::optional<int64_t>& id = after ? added.after : added.before;
    if (item.find("SpecialToken") == nullptr || id) {
      refuse_step(step, "with more than a token before and after a text");
    }
    id = id_of_special(step, item);
  }
  if (!after) step.refuse("single", "has no text");
  return added;
}

}  // namespace

DigitLetters read_pipeline(const ConfigObject& tokenizer, Vocabulary& vocabulary) {
  const Steps normalizer = steps_of(tokenizer, "normalizer", "normalizers");
  const Steps pre = steps_of(tokenizer, "pre_tokenizer", "pretokenizers");
  const auto is_byte_level = [](const ConfigObject& step) { return type_of(step) == "ByteLevel"; };
  if (std::ranges::any_of(pre, is_byte_level)) return read_byte_level(normalizer, pre, vocabulary);
  read_space_letters(normalizer, pre, vocabulary);
  return DigitLetters::kAnywhere;
}

AddedAround read_post_processor(const ConfigObject& tokenizer) {
  AddedAround added;
  for (const ConfigObject& step : steps_of(tokenizer, "post_processor", "processors")) {
    const std::string type = type_of(step);
    if (type == "TemplateProcessing" && !added.stated) {
      added = read_template(step);
    } else if (type != "ByteLevel") {  // which changes no id
      refuse_step(step);
    }
  }
  return added;
}

void refuse_tokenizer(const std::string& where, const std::string& what) {
  throw UnknownTokenizer(what, where, "give the prompt as ids with --tokens");
}

}  // namespace assay
