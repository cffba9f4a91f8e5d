#include "base/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

class CpuQuota : public TemporaryFolder {
 protected:
  // The quota of a system that has these files.
  std::optional<double> quota_with(const Files& files) const {
    fs::remove_all(folder_);
    for (const auto& [name, text] : files) {
      fs::create_directories(fs::path(path(name)).parent_path());
      put(name, text);
    }
    return cpu_quota(folder_);
  }
};

constexpr const char* kGroup = "proc/self/cgroup";

// What would break: a container with two of 64 processors, in which 64 threads wait for each other.
TEST_F(CpuQuota, OfAContainer) {
  EXPECT_EQ(quota_with({{kGroup, "0::/\n"}, {"sys/fs/cgroup/cpu.max", "150000 100000\n"}}), 1.5);
  EXPECT_EQ(quota_with({{kGroup, "0::/\n"}, {"sys/fs/cgroup/cpu.max", "max 100000\n"}}),
            std::nullopt);
  // The host's path, which a container does not see.
  EXPECT_EQ(quota_with({{kGroup, "5:cpu,cpuacct:/docker/0123\n"},
                        {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"},
                        {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}}),
            0.5);
}

// What would break: a service whose limit is that of the slice above it.
TEST_F(CpuQuota, IsTheLeastOfAllGroupsAbove) {
  EXPECT_EQ(quota_with({{kGroup, "0::/system.slice/x.service\n"},
                        {"sys/fs/cgroup/system.slice/cpu.max", "200000 100000\n"},
                        {"sys/fs/cgroup/system.slice/x.service/cpu.max", "max 100000\n"}}),
            2.0);
  const Files version_1 = {{kGroup, "9:name=systemd:/a\n2:cpuacct:/a\n1:cpu:/a/b\n0::/\n"},
                           {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                           {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
                           {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "400000\n"},
                           {"sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"},
                           {"sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "30000\n"},
                           {"sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "10000\n"}};
  EXPECT_EQ(quota_with(version_1), 3.0);
  Files other = version_1;
  other[kGroup] = "4:cpuset:/a/b\n";  // a controller whose name begins with cpu
  EXPECT_EQ(quota_with(other), std::nullopt);
}

// What would break: a program that does not start where a file has something else.
TEST_F(CpuQuota, WhatIsNoQuotaIsNoLimit) {
  EXPECT_EQ(quota_with({}), std::nullopt);
  for (const char* text : {"", "\n", "max\n", "0 100000\n", "-5 100000\n", "100000 0\n", "100000\n",
                           "nan 100000\n", "a b\n"}) {
    EXPECT_EQ(quota_with({{kGroup, "0::/\n"}, {"sys/fs/cgroup/cpu.max", text}}), std::nullopt)
        << text;
  }
  for (const char* lines : {"", "0:", "x", "0::\n", "::\n", "0::/../../..\n"}) {
    EXPECT_EQ(quota_with({{kGroup, lines}}), std::nullopt) << lines;
  }
}

}  // namespace
}  // namespace assay
