#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/hf/json_object.h"
#include "engine/tokenizer/vocabulary.h"

namespace assay {

// What a tokenizer.json does to a text beside its model, as far as Assay has it. All throw Error
// that names what is unknown.

// Where the letters that ByteLevel writes for bytes, and Digits takes for digits (superscripts and
// fractions), may stand: Falcon cuts there, which Assay does not, and which no merge may undo.
enum class DigitLetters { kAnywhere, kAmongThemselves, kAlone };

// The normalizer and pre_tokenizer: model, pre_tokenizer and how spaces are written.
DigitLetters read_pipeline(const ConfigObject& tokenizer, Vocabulary& vocabulary);

// Which tokens the post_processor puts before and after a text.
struct AddedAround {
  bool stated = false;  // whether it says so
  std::optional<int64_t> before;
  std::optional<int64_t> after;
};
AddedAround read_post_processor(const ConfigObject& tokenizer);

// Refuses the tokenizer for what it asks for.
[[noreturn]] void refuse_tokenizer(const std::string& where, const std::string& what);

}  // namespace assay
