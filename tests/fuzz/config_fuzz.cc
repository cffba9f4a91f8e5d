// A model's config.json from outside says what its tensors are, or is refused with an Error.
#include <cstdlib>
#include <string>

#include "assay/synth/synth.h"
#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const assay::SynthConfig config = assay::parse_config(text, "config.json");
    // Every network has an embedding at the least.
    if (!(assay::count_parameters(config) > 0)) std::abort();
  } catch (const assay::Error& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
  return 0;
}
