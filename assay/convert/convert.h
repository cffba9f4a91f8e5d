#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// A log as arrays and back: values, token_idx, dtype, shape, n, header, summary, sketch and all
// else that a Record and a LogHeader hold. Other keys, and values of a wrong type, are left out
// with a warning. `values` and those of `top` become the nearest 32-bit floats, whatever `dtype`
// says; a nonzero value that becomes 0 gives a warning.
//
// An NPZ or safetensors file holds one float32 array [records, values] for each checkpoint, with
// its name; records with another number of values than the checkpoint's first go to an array named
// NAME#VALUES, as do all records of a checkpoint whose own name ends like that or is reserved.
// `assay.records` is the log without its values as UTF-8 text (bytes), `assay.counts` the number of
// values of each record.

// Reads the log twice; memory grows with the number of records, not with their values. Returns what
// was lost, one sentence each. Throws Error.
std::vector<std::string> log_to_arrays(const std::string& log, const std::string& arrays);

// Passes the log's lines to `sink`. Throws Error if the file does not have this form, or holds rows
// that no record uses.
void arrays_to_log(const std::string& arrays, const std::function<void(std::string_view)>& sink);

// The same for Parquet, one row per record (convert/parquet.py lists the columns), by pyarrow in
// the Python that the environment's ASSAY_PYTHON names, or python3. Throw Error if there is none.
// They use a temporary safetensors file beside `parquet`.
std::vector<std::string> log_to_parquet(const std::string& log, const std::string& parquet);
void parquet_to_log(const std::string& parquet, const std::string& beside,
                    const std::function<void(std::string_view)>& sink);

}  // namespace assay
