#pragma once

#include <string>

namespace assay {

// Writes the values of the log at `log_path` as an NPZ archive at `npz_path`: for each checkpoint
// one float32 array [records, values], by token_idx, where records that hold fewer values than
// others are filled up with NaN. The positions are in the int64 array "token_idx", or, where the
// checkpoints are not all at the same ones, in "CHECKPOINT.token_idx" for each. Needs memory for
// one record at a time. Throws Error if the log cannot be read or the archive not be written, or
// would be mostly such NaN: a log of one wide record and many short ones asks for any size.
void write_log_as_npz(const std::string& log_path, const std::string& npz_path);

}  // namespace assay
