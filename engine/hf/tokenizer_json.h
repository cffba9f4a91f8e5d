#pragma once

#include <optional>
#include <string>

#include "engine/tokenizer/vocabulary.h"

namespace assay {

// The vocabulary of a Hugging Face folder, from its tokenizer.json (the format of the `tokenizers`
// library), and which tokens end a text from tokenizer_config.json, generation_config.json and
// config.json. Empty if there is no tokenizer.json. Throws Error that names the file and what in it
// is damaged, UnknownTokenizer where it is another kind: Assay has byte-level BPE with the patterns
// of pre_tokenizer_specs.cc, and BPE over characters with bytes for the others, as Llama 2 has it.
std::optional<Vocabulary> read_tokenizer_json(const std::string& folder);

}  // namespace assay
