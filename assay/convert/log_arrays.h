#pragma once

#include <string>

namespace assay {

// Writes the values of the log at `log_path` as an NPZ archive at `npz_path`: for each checkpoint
// one float32 array [records, values], by token_idx, with shorter records padded with NaN. The
// positions are in the int64 array "token_idx", or, if they differ between checkpoints, in
// "CHECKPOINT.token_idx" for each. Needs memory for one record at a time. Throws Error if the log
// cannot be read or the archive cannot be written, or if it would be mostly padding: one wide
// record among many short ones could require any size.
void write_log_as_npz(const std::string& log_path, const std::string& npz_path);

}  // namespace assay
