#include "base/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace assay {
namespace {

// The processors of one group. A quota of version 2 may be "max", one of version 1 below 0.
std::optional<double> quota_of(const std::string& folder) {
  double quota = 0;  // each in microseconds
  double period = 0;
  if (std::ifstream both(folder + "/cpu.max"); both) {
    both >> quota >> period;
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  return quota / period;
}

// Whether `list`, separated by commas, has `name`.
bool lists(const std::string& list, const std::string& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root) {
  const std::string groups = root + "/sys/fs/cgroup";
  std::optional<double> least;
  std::ifstream mine(root + "/proc/self/cgroup");
  // A line is HIERARCHY:CONTROLLERS:PATH; version 2 has no controllers.
  for (std::string line; std::getline(mine, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_version_2 = controllers.empty();
    if (!is_version_2 && !lists(controllers, "cpu")) continue;
    for (const std::string mount : {"", "/unified", "/cpu", "/cpu,cpuacct"}) {
      if (is_version_2 != (mount.empty() || mount == "/unified")) continue;
      // In a container the path may be that of the host, and the group's folder the mount itself.
      std::string path = line.substr(second + 1);
      while (true) {
        const std::optional<double> quota = quota_of(groups + mount + path);
        if (quota && !(least && *least <= *quota)) least = quota;
        if (path.empty()) break;
        path.resize(std::min(path.find_last_of('/'), path.size() - 1));
      }
    }
  }
  return least;
}

}  // namespace assay
