#pragma once

#include <string>
#include <vector>

namespace assay {

// What differs between two manifests, one sentence for each key, whether a program reads it or not:
// "files[F32].logs[f32.jsonl].greedy[1]: 6 -> 7". The command is given whole, because a shell runs
// it; other long values are cut. Left out are the hashes of logs, and the floors, of which
// floor_changes() tells. Throws Error, naming `path`, if a text is no JSON.
std::vector<std::string> manifest_changes(const std::string& before, const std::string& after,
                                          const std::string& path);

}  // namespace assay
