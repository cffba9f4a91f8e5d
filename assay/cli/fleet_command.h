#pragma once

#include <string>
#include <vector>

namespace assay {

struct NewRuns {
  std::string dataset = {};
  std::vector<std::string> logs = {};
  std::string commit = {};
  std::string night = {};   // empty: today
  int n_threads = 0;        // 0: one per processor
  bool prints_runs = true;  // their names on standard output
};

// Adds logs to the dataset of a fleet. The script that does so takes the place of this process, and
// its exit code is the program's; returns never. Throws Error if there is no Python.
int add_to_fleet(const NewRuns& runs);

}  // namespace assay
