// What another tool saved of a run: tensors by name, with shape and type. Each format becomes this
// (dump_files.h), and this becomes a log (dump_log.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/convert/array_file.h"
#include "assay/log/record.h"

namespace assay {

struct DumpTensor {
  std::string name;  // as the tool has it, without step, rank and sequence
  ArrayInfo info;
  std::shared_ptr<ArrayReader> reader;
  std::string array;  // its name there
  std::string file;   // that the reader reads
  // The forward pass, and which call of several in it.
  std::pair<int64_t, int64_t> step = {0, 0};
  std::optional<int64_t> token_idx = {};  // where the tool says it
  std::optional<Rank> rank = {};
  std::string sequence = {};  // empty: the tool does not say it
  std::string dims = {};      // the axes, where the tool says them
};

struct Dump {
  std::vector<DumpTensor> tensors;
  std::string engine;  // the tool, where it is known
  std::vector<std::string> warnings;
};

}  // namespace assay
