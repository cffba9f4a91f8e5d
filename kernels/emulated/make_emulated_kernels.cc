#include "base/error.h"
#include "kernels/cuda/ops.h"
#include "kernels/emulated/emulated.h"

namespace assay {

bool has_emulated_kernels() {
  return true;
}

namespace {

emulated::Device& device_of(Kernels& kernels) {
  auto* const device = dynamic_cast<emulated::Device*>(&kernels.memory());
  if (device == nullptr) throw Error("these kernels are not emulated", "emulated device");
  return *device;
}

}  // namespace

std::unique_ptr<Kernels> make_emulated_kernels(uint64_t seed, Math math, bool counts_instructions) {
  return emulated::make_kernels("emulated",
                                std::make_unique<emulated::Device>(emulated::Device::Options{
                                    .seed = seed, .counts = counts_instructions}),
                                math);
}

EmulatedCounts emulated_counts(Kernels& kernels) {
  return device_of(kernels).counts();
}

std::map<std::string, KernelCounts> take_instruction_counts(Kernels& kernels) {
  return device_of(kernels).take_instruction_counts();
}

}  // namespace assay
