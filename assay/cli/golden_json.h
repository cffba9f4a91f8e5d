#pragma once

#include <string>
#include <vector>

#include "assay/golden/verify.h"

namespace assay {

// {"goldens":[{"model","verified","problems":[...],"absent_models":[...],"fixtures":[{"type",
// "prompt","set","log","state"}...]}...]}
std::string golden_json(const std::vector<GoldenCheck>& checks);

}  // namespace assay
