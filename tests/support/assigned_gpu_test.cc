#include "tests/support/assigned_gpu.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/python.h"

namespace assay::testing_support {
namespace {

// Tests of several GPUs would share the first.
TEST(AssignedGpu, IsWhatCtestNames) {
  EXPECT_EQ(assigned_gpus("id:0,slots:1"), "0");
  EXPECT_EQ(assigned_gpus("id:13,slots:1"), "13");
  EXPECT_EQ(assigned_gpus("id:0,slots:1;id:2,slots:1"), "0,2");
  EXPECT_EQ(assigned_gpus("id:3"), "3");
}

// An empty CUDA_VISIBLE_DEVICES hides every GPU.
TEST(AssignedGpu, IsNoneWhereCtestNamesNone) {
  for (const char* group : {"", ";", "slots:1", "0"}) EXPECT_EQ(assigned_gpus(group), "") << group;
}

TEST(AssignedGpu, IsWhatTheProgramSees) {
  if (std::getenv("CTEST_RESOURCE_GROUP_0_GPUS") == nullptr) {
    const auto [code, output] =
        run_program({"env", "CTEST_RESOURCE_GROUP_0_GPUS=id:5,slots:1", "CUDA_VISIBLE_DEVICES=0",
                     std::filesystem::read_symlink("/proc/self/exe").string(),
                     "--gtest_filter=AssignedGpu.IsWhatTheProgramSees"});
    EXPECT_EQ(code, 0) << output;
    return;
  }
  EXPECT_STREQ(std::getenv("CUDA_VISIBLE_DEVICES"), "5");
}

}  // namespace
}  // namespace assay::testing_support
