#pragma once

#include <string>
#include <string_view>

namespace assay::testing_support {

// What CUDA_VISIBLE_DEVICES has to be for a test to use the GPUs that ctest gave it: the ids, with
// commas, of CTEST_RESOURCE_GROUP_0_GPUS, such as "id:0,slots:1" or "id:0,slots:1;id:2,slots:1".
// Empty where it names none.
std::string assigned_gpus(std::string_view resource_group);

}  // namespace assay::testing_support
