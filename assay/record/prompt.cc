#include "assay/record/prompt.h"

#include "base/error.h"
#include "engine/hf/folder.h"

namespace assay {

std::vector<int32_t> encode_prompt(const std::string& prompt, const Tokenizer* tokenizer,
                                   const std::string& model_path) {
  if (tokenizer == nullptr) {
    throw Error(is_folder(model_path) ? "the folder has no tokenizer.json to read the prompt with"
                                      : "the file has no vocabulary to read the prompt with",
                model_path, "give the prompt as ids with --tokens");
  }
  std::vector<int32_t> tokens = tokenizer->encode(prompt, true);
  if (tokens.empty()) {
    throw Error(prompt.empty() ? "the prompt is empty"
                               : "the vocabulary has no token for any byte of the prompt",
                "--prompt", "give some text");
  }
  return tokens;
}

std::vector<bool> choosable_tokens(const Tokenizer* tokenizer, int64_t n_vocab) {
  std::vector<bool> choosable(static_cast<size_t>(n_vocab), true);
  if (tokenizer == nullptr) return choosable;
  for (size_t id = 0; id < choosable.size(); ++id) {
    choosable[id] = tokenizer->is_choosable(static_cast<int32_t>(id));
  }
  return choosable;
}

}  // namespace assay
