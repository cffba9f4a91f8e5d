// A model file from outside either loads or is refused with an Error; nothing else may happen.

#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.h"
#include "engine/model.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/fuzz/memory_file.h"

namespace {

// What an Error says is for people: there is something of it.
template <class Load>
void attempt(const Load& load) {
  try {
    load();
  } catch (const assay::Error& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attempt([&] {
    const assay::testing_support::MemoryFile file(data, size);
    const auto gguf = std::make_shared<const assay::Gguf>(file.path());
    attempt([&] {
      const auto tokenizer = assay::Tokenizer::from_gguf(*gguf);
      if (tokenizer) tokenizer->encode("a <s>b\n123", true);
    });
    attempt([&] { const assay::Model model(gguf); });
  });
  return 0;
}
