// In every test program: a test runs on the GPU that ctest gave it (RESOURCE_GROUPS gpus:1), not
// all of them on the first.

#include "tests/support/assigned_gpu.h"

#include <cstdlib>

namespace assay::testing_support {

std::string assigned_gpus(std::string_view resource_group) {
  std::string ids;
  while (!resource_group.empty()) {
    const size_t end = resource_group.find(';');
    const std::string_view gpu = resource_group.substr(0, end);
    resource_group.remove_prefix(end == std::string_view::npos ? resource_group.size() : end + 1);
    if (!gpu.starts_with("id:")) continue;
    const std::string_view id = gpu.substr(3, gpu.find(',') - 3);
    if (!ids.empty()) ids += ',';
    ids += id;
  }
  return ids;
}

namespace {

// Before main(), and so before the first call of CUDA, which reads it once.
const bool kIsSet = [] {
  const char* group = std::getenv("CTEST_RESOURCE_GROUP_0_GPUS");
  const std::string ids = assigned_gpus(group == nullptr ? "" : group);
  return !ids.empty() && setenv("CUDA_VISIBLE_DEVICES", ids.c_str(), 1) == 0;
}();

}  // namespace
}  // namespace assay::testing_support
