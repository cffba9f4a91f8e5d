#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/mutate/fault.h"

namespace assay {

// All faults, in the order in which the network comes to them.
const std::vector<Fault>& fault_catalogue();

// Throws Error that names the nearest ones if there is no such fault.
const Fault& find_fault(const std::string& name);

// A mistake that no log and no text can show, which is why it is not in the catalogue.
struct UnobservableFault {
  std::string_view what;
  std::string_view why;
};
std::span<const UnobservableFault> unobservable_faults();

namespace mutate {

// Faults outside of the network, which are injected only.
std::vector<Fault> token_faults();
std::vector<Fault> sampling_faults();

}  // namespace mutate
}  // namespace assay
