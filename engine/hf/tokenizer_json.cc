#include "engine/hf/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "base/error.h"
#include "base/json_file.h"
#include "engine/hf/json_object.h"
#include "engine/hf/tokenizer_pipeline.h"
#include "engine/tokenizer/byte_unicode.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxTokenizerBytes = int64_t{128} << 20;
constexpr int64_t kMaxOtherBytes = int64_t{16} << 20;
constexpr char kHint[] = "the file is damaged: fetch it again";

// Ids that no token has: padding up to a round number, and what a maker left out.
constexpr size_t kMaxUnused = size_t{1} << 16;

bool is_there(const std::string& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

// Of the letters that stand for bytes, those that are digits or fractions to Unicode.
size_t count_digit_letters(std::string_view text) {
  size_t count = 0;
  for (const std::string_view letter :
       {"\u00B2", "\u00B3", "\u00B9", "\u00BC", "\u00BD", "\u00BE"}) {
    for (size_t at = 0; (at = text.find(letter, at)) != std::string_view::npos; at += letter.size())
      ++count;
  }
  return count;
}

// A token as the file has it: its text, and what is special about it.
struct Entry {
  std::string text;
  TokenType type = TokenType::kNormal;
  bool strips_right = false;
  bool found_last = false;
};

class TokenizerFile {
 public:
  explicit TokenizerFile(const std::string& path)
      : document_(read_json_file(path, kMaxTokenizerBytes, kHint)), root_(document_, path) {
    vocabulary_.source = path;
  }

  Vocabulary read() {
    const rapidjson::Value* model = root_.find("model");
    if (model == nullptr) root_.refuse("model", "is missing", kHint);
    const ConfigObject object(*model, root_.where() + ": model");
    refuse_model(object);
    digit_letters_ = read_pipeline(root_, vocabulary_);
    read_tokens(object);
    read_added_tokens();
    fill_tokens();
    read_merges(object);
    read_around();
    return std::move(vocabulary_);
  }

 private:
  bool is_byte_level() const { return vocabulary_.model == TokenizerModel::kBytePair; }

  void refuse_model(const ConfigObject& model) const {
    // Files of older versions leave the type out.
    const std::string type = model.text({"type"}, model.find("merges") != nullptr ? "BPE" : "");
    if (type != "BPE") {
      refuse_tokenizer(model.where(),
                       fmt::format("type '{}' is not one that Assay has", printable(type, 40)));
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!model.text({key}, "").empty())
        refuse_tokenizer(model.where(), fmt::format("{} is not one that Assay has", key));
    }
    if (model.find("dropout") != nullptr) {
      refuse_tokenizer(model.where(), "dropout is not one that Assay has");
    }
  }

  // `text` at `id`; a token of the model may be an added one as well.
  Entry& put(int64_t id, const std::string& text, const ConfigObject& where, const char* key) {
    const auto [at, is_new] = entries_.try_emplace(id, Entry{text});
    if (!is_new && at->second.text != text) {
      where.refuse(key,
                   fmt::format("has id {} twice, for '{}' and '{}'", id,
                               printable(at->second.text, 40), printable(text, 40)),
                   kHint);
    }
    const auto [known, is_first] = ids_.try_emplace(text, id);
    if (!is_first && known->second != id) {
      where.refuse(key,
                   fmt::format("has '{}' twice, with the ids {} and {}", printable(text, 40),
                               known->second, id),
                   kHint);
    }
    return at->second;
  }

  int64_t checked_id(const rapidjson::Value& id, const std::string& text, const ConfigObject& where,
                     const char* key) const {
    constexpr int64_t kMost = (int64_t{1} << 31) - 1;
    if (!id.IsInt64() || id.GetInt64() < 0 || id.GetInt64() > kMost) {
      where.refuse(key, fmt::format("gives '{}' something else than an id", printable(text, 40)),
                   kHint);
    }
    return id.GetInt64();
  }

  void read_tokens(const ConfigObject& model) {
    const rapidjson::Value* vocab = model.find("vocab");
    if (vocab == nullptr || !vocab->IsObject()) model.refuse("vocab", "is not an object", kHint);
    for (const auto& member : vocab->GetObject()) {
      const std::string text = json_text_of(member.name);
      put(checked_id(member.value, text, model, "vocab"), text, model, "vocab");
    }
    const std::string unknown = model.text({"unk_token"}, "");
    if (unknown.empty()) return;
    const auto found = ids_.find(unknown);
    if (found == ids_.end()) model.refuse("unk_token", "is no token of the vocabulary", kHint);
    vocabulary_.unknown = static_cast<int32_t>(found->second);
  }

  void read_added_tokens() {
    const rapidjson::Value* added = root_.find("added_tokens");
    if (added == nullptr) return;
    if (!added->IsArray()) root_.refuse("added_tokens", "is not an array", kHint);
    for (const rapidjson::Value& each : added->GetArray()) {
      const ConfigObject token(each, root_.where() + ": added_tokens");
      const std::string text = token.text({"content"}, "");
      const rapidjson::Value* id = token.find("id");
      if (text.empty() || id == nullptr)
        root_.refuse("added_tokens", "has one without text or id", kHint);
      for (const char* key : {"lstrip", "single_word"}) {
        if (token.flag(key, false)) {
          refuse_tokenizer(token.where(), fmt::format("'{}' with {} is not one that Assay has",
                                                      printable(text, 40), key));
        }
      }
      check_added_id(checked_id(*id, text, root_, "added_tokens"), text);
      if (ids_.contains(text))
        vocabulary_.merged_too.push_back(static_cast<int32_t>(id->GetInt64()));
      Entry& entry = put(id->GetInt64(), text, root_, "added_tokens");
      const bool special = token.flag("special", false);
      entry.type = special ? TokenType::kControl : TokenType::kUserDefined;
      entry.strips_right = token.flag("rstrip", false);
      entry.found_last = token.flag("normalized", !special);
      check_normalized(token, entry);
    }
    std::ranges::sort(vocabulary_.merged_too);
    vocabulary_.leftmost_special = true;
    check_strips();
  }

  // Tokens that the model does not have get the next id in the tokenizers package, whatever the
  // file says.
  void check_added_id(int64_t id, const std::string& text) const {
    const auto next = static_cast<int64_t>(entries_.size());
    if (ids_.contains(text) || id == next || entries_.contains(id)) return;
    refuse_tokenizer(root_.where() + ": added_tokens",
                     fmt::format("'{}' with the id {} after {} tokens is not one that Assay has",
                                 printable(text, 40), id, next));
  }

  // Such a token is looked for in a text after the normalizer, and is itself normalised.
  void check_normalized(const ConfigObject& token, const Entry& entry) const {
    if (!entry.found_last || is_byte_level()) return;
    const bool plain = !entry.strips_right && entry.text.find(' ') == std::string::npos &&
                       entry.text.find("\u2581") == std::string::npos;
    if (plain && (!vocabulary_.add_space_prefix || vocabulary_.prefix_unless_space)) return;
    refuse_tokenizer(token.where(), fmt::format("'{}' with normalized is not one that Assay has",
                                                printable(entry.text, 40)));
  }

  // A token that swallows white space might swallow what another one begins with.
  void check_strips() const {
    const auto strips = [](const auto& each) { return each.second.strips_right; };
    if (std::ranges::none_of(entries_, strips)) return;
    for (const auto& [id, entry] : entries_) {
      const bool added = entry.type != TokenType::kNormal;
      if (!added || entry.text.find_first_of(" \t\n\v\f\r") != 0) continue;
      refuse_tokenizer(root_.where() + ": added_tokens",
                       fmt::format("'{}' beside one with rstrip is not one that Assay has",
                                   printable(entry.text, 40)));
    }
  }

  void fill_tokens() {
    if (entries_.empty()) root_.refuse("model", "has no tokens", kHint);
    const auto last =
        std::ranges::max_element(entries_, {}, [](const auto& each) { return each.first; });
    const auto count = static_cast<size_t>(last->first) + 1;
    if (count - entries_.size() > kMaxUnused) {
      root_.refuse("model",
                   fmt::format("has {} tokens with ids up to {}", entries_.size(), count - 1),
                   kHint);
    }
    vocabulary_.tokens.resize(count);
    vocabulary_.types.assign(count, TokenType::kUnused);
    vocabulary_.scores.assign(count, 0.0F);
    for (auto& [id, entry] : entries_) {
      const auto place = static_cast<size_t>(id);
      const bool byte =
          !is_byte_level() && entry.type == TokenType::kNormal && byte_of_token(entry.text);
      vocabulary_.types[place] = byte ? TokenType::kByte : entry.type;
      if (entry.strips_right) vocabulary_.strips_right.push_back(static_cast<int32_t>(id));
      if (entry.found_last) vocabulary_.found_last.push_back(static_cast<int32_t>(id));
      vocabulary_.tokens[place] = std::move(entry.text);
    }
    for (size_t id = 0; id < count; ++id) {
      if (vocabulary_.types[id] == TokenType::kUnused)
        vocabulary_.tokens[id] = fmt::format("[PAD{}]", id);
    }
    std::ranges::sort(vocabulary_.strips_right);
    std::ranges::sort(vocabulary_.found_last);
  }

  void read_merges(const ConfigObject& model) {
    const bool ignores_merges = model.flag("ignore_merges", false);
    vocabulary_.ignores_merges = ignores_merges;
    if (ignores_merges && (!is_byte_level() || digit_letters_ != DigitLetters::kAnywhere)) {
      refuse_tokenizer(model.where(),
                       is_byte_level()
                           ? "ignore_merges with Digits after ByteLevel is not one "
                             "that Assay has"
                           : "ignore_merges without ByteLevel is not one that Assay has");
    }
    if (is_byte_level()) {
      require_letters(model);
    } else {
      require_bytes(model);
    }
    const rapidjson::Value* merges = model.find("merges");
    if (merges == nullptr || !merges->IsArray()) model.refuse("merges", "is not an array", kHint);
    vocabulary_.merges.reserve(merges->Size());
    for (const rapidjson::Value& each : merges->GetArray()) add_merge(model, each);
    vocabulary_.by_merges = !is_byte_level();
  }

  // "a b", or ["a", "b"].
  void add_merge(const ConfigObject& model, const rapidjson::Value& merge) {
    const size_t number = vocabulary_.merges.size();
    const bool pair =
        merge.IsArray() && merge.Size() == 2 && merge[0].IsString() && merge[1].IsString();
    std::string text;
    if (pair) text = json_text_of(merge[0]) + " " + json_text_of(merge[1]);
    if (merge.IsString()) text = json_text_of(merge);
    const size_t space = text.find(' ');
    const bool well_formed = space != std::string::npos && space > 0 && space + 1 < text.size() &&
                             text.find(' ', space + 1) == std::string::npos;
    if (!well_formed) {
      model.refuse("merges", fmt::format("has something else than two parts at index {}", number),
                   kHint);
    }
    const std::string left = text.substr(0, space);
    const std::string right = text.substr(space + 1);
    for (const std::string& part : {left, right, left + right}) {
      if (ids_.contains(part)) continue;
      model.refuse(
          "merges",
          fmt::format("has '{}' at index {}, which is no token", printable(part, 40), number),
          kHint);
    }
    check_digit_letters(model, left, right);
    vocabulary_.merges.push_back(std::move(text));
  }

  void check_digit_letters(const ConfigObject& model, const std::string& left,
                           const std::string& right) const {
    if (digit_letters_ == DigitLetters::kAnywhere) return;
    const size_t letters = count_digit_letters(left + right);
    const bool all = 2 * letters == left.size() + right.size();  // of two bytes each
    if (letters == 0 || (all && digit_letters_ == DigitLetters::kAmongThemselves)) return;
    refuse_tokenizer(model.where(), fmt::format("a merge of '{}' and '{}' across Digits is not one "
                                                "that Assay has",
                                                printable(left, 40), printable(right, 40)));
  }

  // A byte without one is left out, unless the file has something for it.
  void require_letters(const ConfigObject& model) const {
    const auto is_token = [&](const std::string& letter) { return ids_.contains(letter); };
    const bool stated = model.flag("byte_fallback", false) || vocabulary_.unknown;
    if (!stated || std::ranges::all_of(byte_letters(), is_token)) return;
    refuse_tokenizer(
        model.where(),
        "byte_fallback or unk_token for a byte without a token is not one that Assay has");
  }

  // Without them a character that is no token would be an unknown one, of which several in a row
  // may or may not be one.
  void require_bytes(const ConfigObject& model) const {
    size_t bytes = 0;
    for (int byte = 0; byte < 256; ++byte)
      bytes += ids_.contains(fmt::format("<0x{:02X}>", byte)) ? 1 : 0;
    if (model.flag("byte_fallback", false) && bytes == 256) return;
    refuse_tokenizer(
        model.where(),
        "BPE over characters without byte_fallback and its 256 tokens is not one that Assay has");
  }

  void read_around() {
    const AddedAround added = read_post_processor(root_);
    const auto known = [&](const std::optional<int64_t>& id) -> std::optional<int32_t> {
      if (!id) return std::nullopt;
      if (!entries_.contains(*id))
        root_.refuse("post_processor", fmt::format("adds id {}, which no token has", *id), kHint);
      return static_cast<int32_t>(*id);
    };
    vocabulary_.bos = known(added.before);
    vocabulary_.eos = known(added.after);
    vocabulary_.add_bos = added.before.has_value();
    vocabulary_.add_eos = added.after.has_value();
  }

  const rapidjson::Document document_;
  const ConfigObject root_;
  Vocabulary vocabulary_;
  DigitLetters digit_letters_ = DigitLetters::kAnywhere;
  std::unordered_map<int64_t, Entry> entries_;
  std::unordered_map<std::string, int64_t> ids_;
};

// Adds the ids that a file names as the end of a text: a number, or several.
void add_ends(const std::string& path, Vocabulary& vocabulary) {
  if (!is_there(path)) return;
  const rapidjson::Document document = read_json_file(path, kMaxOtherBytes, kHint);
  const ConfigObject object(document, path);
  const rapidjson::Value* ids = object.find("eos_token_id");
  if (ids == nullptr) return;
  const auto add = [&](const rapidjson::Value& id) {
    if (!id.IsInt() || !vocabulary.contains(id.GetInt())) {
      object.refuse("eos_token_id", "has something else than ids of tokens", kHint);
    }
    vocabulary.ends.push_back(id.GetInt());
  };
  if (!ids->IsArray()) return add(*ids);
  for (const rapidjson::Value& id : ids->GetArray()) add(id);
}

// The id of a token that tokenizer_config.json names: its text, or an object with that.
std::optional<int32_t> named_token(const ConfigObject& object, const char* key,
                                   const Vocabulary& vocabulary) {
  const rapidjson::Value* value = object.find(key);
  if (value == nullptr) return std::nullopt;
  std::string text;
  if (value->IsString()) text = json_text_of(*value);
  if (value->IsObject()) text = ConfigObject(*value, object.where()).text({"content"}, "");
  const auto found = std::ranges::find(vocabulary.tokens, text);
  if (found == vocabulary.tokens.end())
    object.refuse(key, fmt::format("is '{}', which is no token", printable(text, 40)), kHint);
  return static_cast<int32_t>(found - vocabulary.tokens.begin());
}

}  // namespace

std::optional<Vocabulary> read_tokenizer_json(const std::string& folder) {
  const auto path_of = [&](const char* name) { return (fs::path(folder) / name).string(); };
  const std::string path = path_of("tokenizer.json");
  if (!is_there(path)) return std::nullopt;
  Vocabulary vocabulary = TokenizerFile(path).read();
  const std::string config = path_of("tokenizer_config.json");
  if (is_there(config)) {
    const rapidjson::Document document = read_json_file(config, kMaxOtherBytes, kHint);
    const ConfigObject object(document, config);
    if (!vocabulary.bos) vocabulary.bos = named_token(object, "bos_token", vocabulary);
    const auto eos = named_token(object, "eos_token", vocabulary);
    if (eos) vocabulary.ends.push_back(*eos);
  }
  for (const char* name : {"generation_config.json", "config.json"})
    add_ends(path_of(name), vocabulary);
  check_vocabulary(vocabulary);
  return vocabulary;
}

}  // namespace assay
