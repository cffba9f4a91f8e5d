// A model file from outside either loads or is refused with an Error; nothing else may happen.

#include <memory>

#include "base/error.h"
#include "engine/model.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const assay::testing_support::MemoryFile file(data, size);
    const assay::Model model(std::make_shared<assay::Gguf>(file.path()));
  } catch (const assay::Error&) {
  }
  return 0;
}
