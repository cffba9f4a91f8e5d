// A tokenizer.json from outside is a vocabulary that gives text ids, or is refused with an Error.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/hf/tokenizer_json.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/fuzz/scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const assay::fuzz::ScratchFolder folder;
  std::ofstream(folder.path + "/tokenizer.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    std::optional<assay::Vocabulary> vocabulary = assay::read_tokenizer_json(folder.path);
    if (!vocabulary) std::abort();
    const assay::Tokenizer tokenizer(*std::move(vocabulary));
    for (const int32_t id : tokenizer.encode(" a <s>b\n123\xff", true)) {
      if (id < 0 || id >= tokenizer.n_tokens()) std::abort();
      tokenizer.token_bytes(id);
    }
  } catch (const assay::Error& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
  return 0;
}
