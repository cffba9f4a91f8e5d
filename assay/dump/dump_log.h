#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

struct DumpOptions {
  std::vector<int64_t> vllm_layers = {};  // see open_dump()
  std::vector<std::string> skip = {};     // globs of tensors that are left out
  std::string team = {};                  // of the records; empty: none
  int64_t vocabulary = 0;                 // tokens, for a server's response; 0: not given
  // Of base_logprobs.h: the first token of each chunk, in place of the text's; -1: the text's own.
  std::optional<int64_t> bos = {};
  std::string work = ".";  // the folder for temporary files
};

// A tensor of a dump as its log has it: the name, and the elements of one token.
struct DumpedName {
  std::string name;
  int64_t width = 0;
};

struct ImportedDump {
  std::vector<DumpedName> names;      // in the order of the dump, each once
  std::vector<std::string> warnings;  // what was left out, and what was assumed
};

// Passes the dump at `path` to `sink` as a log, a record a tensor and token. Files of
// `assay convert` become what they were. The axis of tokens is found by the shapes; a tensor that
// has none (a weight) is left out with a warning, and one that cannot be read is an error. Throws
// Error.
ImportedDump dump_to_log(const std::string& path, const DumpOptions& options,
                         const std::function<void(std::string_view)>& sink);

}  // namespace assay
