#pragma once

#include <optional>
#include <string>

namespace assay {

// The processors whose time this process may use by its control groups, which is how containers
// are limited: 1.5 for 150 ms of each 100 ms. Nothing where there is no limit, or none is known.
// The least of its group and those above, of version 2 (cpu.max) and 1 (cpu.cfs_quota_us): the
// kernel's Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst.
//
// root: the folder that has proc and sys; empty for the system's own.
std::optional<double> cpu_quota(const std::string& root = "");

}  // namespace assay
