#pragma once

#include <string>
#include <vector>

namespace assay {

// What assay golden does with Assay's own engine: snapshots.json and fast_floors.json.
struct MeasuredArguments {
  std::string root;  // the folder of all goldens
  bool snapshots = false;
  bool fast_floors = false;
  int n_threads = 0;
};

// Runs the engine and makes what differs wait; says what. Whether anything waits.
bool record_measured(const MeasuredArguments& arguments, const std::string& model);

// Runs the engine and holds it to the snapshots of each model, and the floors of its fast to those
// that it has; reports for each case that differs which checkpoint is the first that changed, or
// how many floors rise and fall. The exit code.
int verify_measured(const MeasuredArguments& arguments, const std::vector<std::string>& models);

// Says what accepting the snapshots that wait will change, in floors.
void print_snapshot_changes(const std::string& folder);

}  // namespace assay
