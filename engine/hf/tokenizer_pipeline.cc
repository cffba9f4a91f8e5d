#include "engine/hf/tokenizer_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json_file.h"
#include "engine/hf/tokenizer_json.h"

namespace assay {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581
constexpr int64_t kMaxId = int64_t{1} << 31;

// The patterns as published tokenizers write them, and the name of what does the same.
#define BEFORE_DIGITS R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)"
#define AFTER_DIGITS R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr std::pair<std::string_view, const char*> kPatterns[] = {
    {BEFORE_DIGITS R"(\p{N}{1,3})" AFTER_DIGITS, "llama-bpe"},
    {BEFORE_DIGITS R"(\p{N})" AFTER_DIGITS, "qwen2"},
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", "gpt-2"}};
#undef BEFORE_DIGITS
#undef AFTER_DIGITS

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
    if (type == "Metaspace" && !replaces && step.text({"replacement"}, "") == kSpace) {
      if (step.flag("split", true)) refuse_step(step, "with split");
      const std::string scheme = step.text({"prepend_scheme"}, "always");
      vocabulary.add_space_prefix = scheme != "never";
      vocabulary.prefix_at_start_only = scheme == "first";
      vocabulary.prefix_unless_space = true;
      replaces = true;
    } else if (!(type == "Split" && replaces && pattern_of(step, "String") == " ")) {
      refuse_step(step);  // no space is left to split at
    }
  }
  if (!replaces) {
    refuse_tokenizer(vocabulary.source,
                     "a normalizer that leaves spaces as they are is not one "
                     "that Assay has");
  }
}

// "gpt-2" where ByteLevel has its own pattern, of which those before it may be a part.
void read_byte_level(const Steps& normalizer, const Steps& pre, Vocabulary& vocabulary) {
  vocabulary.model = TokenizerModel::kBytePair;
  for (const ConfigObject& step : normalizer) {
    if (type_of(step) != "NFC") refuse_step(step);
  }
  const ConfigObject& last = pre.back();
  if (last.flag("add_prefix_space", true)) refuse_step(last, "with add_prefix_space");
  const bool own_pattern = last.flag("use_regex", true);
  if (pre.size() > 2) refuse_step(pre.front(), "before two others");
  if (pre.size() == 1) {
    if (!own_pattern) refuse_step(last, "without a pattern");
    vocabulary.pre_tokenizer = "gpt-2";
    return;
  }
  const ConfigObject& first = pre.front();
  if (own_pattern) {
    if (type_of(first) != "Digits" || !first.flag("individual_digits", false)) refuse_step(first);
    vocabulary.pre_tokenizer = "smollm";
    return;
  }
  const std::string pattern = pattern_of(first, "Regex");
  const auto* known = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                   [&](const auto& each) { return each.first == pattern; });
  if (type_of(first) != "Split" || known == std::end(kPatterns)) {
    refuse_step(first, fmt::format("with the pattern {}", pattern));
  }
  if (first.text({"behavior"}, "") != "Isolated" || first.flag("invert", false)) {
    refuse_step(first, "that keeps other pieces than the matches and what is between");
  }
  vocabulary.pre_tokenizer = known->second;
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

void read_pipeline(const ConfigObject& tokenizer, Vocabulary& vocabulary) {
  const Steps normalizer = steps_of(tokenizer, "normalizer", "normalizers");
  const Steps pre = steps_of(tokenizer, "pre_tokenizer", "pretokenizers");
  if (!pre.empty() && type_of(pre.back()) == "ByteLevel") {
    read_byte_level(normalizer, pre, vocabulary);
  } else {
    read_space_letters(normalizer, pre, vocabulary);
  }
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
