#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/dump/dump_log.h"
#include "assay/log/record.h"

namespace assay {

// Files of `llama-perplexity --kl-divergence-base`: log-probabilities over the whole vocabulary, in
// codes of 16 bits, of the second half of each chunk of a text. A chunk is a sequence, evaluated
// from position 0.

// Whether `path` is such a file, by its first bytes.
bool is_base_logprobs(const std::string& path);

// The header of its log: the tokens that the model was given in each chunk. The file has those of
// the text, whose first one llama.cpp replaces in each chunk where the model adds BOS;
// `options.bos` says so, or, without it, the first token of all, if it is one of the first or last
// ids and no other of the file equals it. Adds to `warnings` what was assumed. Throws Error if the
// file's header or its size is wrong.
LogHeader base_logprobs_header(const std::string& path, const DumpOptions& options,
                               std::vector<std::string>& warnings);

// Passes the file to `sink` as a log, row by row: a record `logprobs` for each position that it
// has, with all values, or, where some are clipped, with the list of all others in `top`: a code of
// 0 is then no value, but a bound. Throws Error as base_logprobs_header() does, or if a row holds
// no log-probabilities.
ImportedDump base_logprobs_to_log(const std::string& path, const DumpOptions& options,
                                  const std::function<void(std::string_view)>& sink);

}  // namespace assay
