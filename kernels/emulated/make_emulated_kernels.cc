#include "base/error.h"
#include "kernels/cuda/ops.h"
#include "kernels/emulated/emulated.h"

namespace assay {

bool has_emulated_kernels() {
  return true;
}

std::unique_ptr<Kernels> make_emulated_kernels(uint64_t seed, Math math) {
  return emulated::make_kernels("emulated", std::make_unique<emulated::Device>(seed), math);
}

EmulatedCounts emulated_counts(Kernels& kernels) {
  const auto* device = dynamic_cast<emulated::Device*>(&kernels.memory());
  if (device == nullptr) throw Error("these kernels are not emulated", "emulated_counts");
  return device->counts();
}

}  // namespace assay
