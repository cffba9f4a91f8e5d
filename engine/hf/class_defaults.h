#pragma once

#include <rapidjson/document.h>

#include <map>
#include <string>
#include <vector>

namespace assay {

// What transformers takes where a config.json of this kind, one of hf_models(), lacks a key. Sizes
// are among it only `with_sizes`: of a text_config, which may state those alone that differ.
rapidjson::Document class_defaults(const std::string& model_type, bool with_sizes);

// A kind of models of text and images or sound, whose text_config is a network that Assay may know.
struct TextPart {
  std::string text;            // its kind, where the text_config does not say
  bool flat = false;           // its keys may stand outside of a text_config, as in older files
  bool tied = false;           // the embedding is the output matrix, where the whole does not say
  bool tied_by_text = false;   // or where the text_config says so
  bool scales_logits = false;  // where its text's network does; else the whole does not
  std::vector<std::string> others;  // what names of tensors begin with that are not the text's
};

// By model_type.
const std::map<std::string, TextPart>& text_parts();
// Null for other kinds.
const TextPart* find_text_part(const std::string& model_type);

}  // namespace assay
