#pragma once

#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "assay/log/record.h"

namespace assay {

// The .jsonl files in and below a folder, sorted; those that links lead to among them. `error` says
// why the folder cannot be read.
std::vector<std::string> logs_below(const std::string& folder, std::error_code& error);

// The files of the log of one run: `path` itself or, of a folder, the .jsonl files in and below it,
// sorted. Throws Error if a folder cannot be read, has none, or has more than 65,536.
std::vector<std::string> run_files(const std::string& path);

// The headers of the files of one run, as one.
struct RunHeader {
  std::optional<LogHeader> header;  // without tokens and sequences
  // Those that the headers name. Of files with different tokens, and no names, each is a sequence
  // with the file's name.
  std::vector<LogHeader::Sequence> sequences;
  bool lists_sequences = false;  // whether a header lists several by their names
  // Of each file, the sequence of its records that state none; empty where they are of "0".
  std::vector<std::string> default_sequence;
};

// `headers`: of each of `files`. Throws Error, with the file, if they are not of one run: another
// model, engine, math or number of ranks, or other tokens for a sequence of the same name.
RunHeader agree_on_header(const std::vector<std::string>& files,
                          std::vector<std::optional<LogHeader>> headers);

}  // namespace assay
