// Small files that people write by hand: policies, manifests, name maps. Any text
// gives what it says or an Error in words.
#include <cstdlib>
#include <string>

#include "assay/compare/name_map.h"
#include "assay/compare/policy.h"
#include "assay/golden/manifest.h"
#include "base/error.h"
#include "tests/fuzz/memory_file.h"

namespace {

constexpr const char* kName = "layer_3_output";

void read(uint8_t kind, const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const assay::testing_support::MemoryFile file(data, size);
  switch (kind % 3) {
    case 0: {
      const assay::Tolerance tolerance = assay::Policy::from_file(file.path()).tolerance(kName);
      // A limit is a number of 0 or more: anything else would pass what it should not.
      if (tolerance.rel_l2 && !(*tolerance.rel_l2 >= 0)) std::abort();
      break;
    }
    case 1:
      assay::parse_golden_manifest(text, "manifest.json");
      break;
    default:
      assay::NameMap::load(file.path()).find(kName);
  }
}

}  // namespace

// The first byte says which kind of file the rest is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    read(data[0], data + 1, size - 1);
  } catch (const assay::Error& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
  return 0;
}
