#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "assay/mistakes/mistake.h"

namespace assay::mistakes {
namespace {

// With other weights, of which `edit` is given each channel's [taps].
KernelHooks weighted(std::function<void(std::span<float> weights)> edit) {
  return {.conv = [edit = std::move(edit)](const OpContext&, ConvCall call, Kernels& kernels) {
    std::vector<float> weight(call.weight, call.weight + call.width * call.taps);
    for (int64_t i = 0; i < call.width; ++i) {
      edit({weight.data() + i * call.taps, static_cast<size_t>(call.taps)});
    }
    call.weight = weight.data();
    kernels.run(call);
  }};
}

Injected fault(std::string name, FaultGroup group, std::string what) {
  return {std::move(name), group, std::move(what), Checkpoint::kConv, needs_conv};
}

}  // namespace

std::vector<Mistake> conv_mistakes() {
  return {
      {.cause = "transpose",
       .text = plainly("gives the first of the convolution's weights to the token itself, and the "
                       "last to the earliest"),
       .edit = weighted([](std::span<float> weights) { std::ranges::reverse(weights); }),
       .faults = {fault("conv-reversed", FaultGroup::kAttention,
                        "the weights of a convolution are in reverse order")}},
      {.cause = "kv_shift",
       .text = plainly("convolves the tokens up to the one before"),
       .edit = {.conv =
                    [](const OpContext&, ConvCall call, Kernels& kernels) {
                      --call.first_position;
                      kernels.run(call);
                    }},
       .faults = {fault("conv-late", FaultGroup::kCache,
                        "a convolution reads its positions one slot late")}},
      {.cause = "kv_shift",
       .text = plainly("convolves each token alone, without those before it"),
       .edit = weighted([](std::span<float> weights) {
         std::ranges::fill(weights.first(weights.size() - 1), 0.0F);
       }),
       .faults = {fault("conv-without-state", FaultGroup::kCache,
                        "a convolution reads no earlier position")}}};
}

}  // namespace assay::mistakes
