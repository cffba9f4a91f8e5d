#pragma once

#include <string>
#include <vector>

namespace assay {

// The differences between two manifests, one sentence for each key, whether a program reads it or
// not: "files[F32].logs[f32.jsonl].greedy[1]: 6 -> 7". The command is given whole, because a shell
// runs it; other long values are truncated. Hashes of logs are omitted, and floors, which
// floor_changes() reports. Throws Error, naming `path`, if a text is not JSON.
std::vector<std::string> manifest_changes(const std::string& before, const std::string& after,
                                          const std::string& path);

}  // namespace assay
