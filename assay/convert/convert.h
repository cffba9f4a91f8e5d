#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// A log as arrays and back: values, token_idx, dtype, shape, n, header, summary, sketch and what
// else a Record and a LogHeader hold. Other keys, and values of another type than these have, are
// left out, which a warning tells. `values` and those of `top` become the nearest 32-bit floats,
// whatever `dtype` says; a warning tells where one of `values` that is not 0 becomes 0.
//
// An NPZ or safetensors file holds one float32 array [records, values] for each checkpoint, named
// as it is; records with another number of values than the checkpoint's first go to one named
// NAME#VALUES, as do all of a checkpoint whose own name ends so or is taken. `assay.records` is the
// log without its values as UTF-8 text (bytes), `assay.counts` the number of values of each record.

// Reads the log twice; memory grows with the number of records, not with their values. Returns what
// of the log was lost, each in one sentence. Throws Error.
std::vector<std::string> log_to_arrays(const std::string& log, const std::string& arrays);

// Gives the log's lines to `sink`. Throws Error where the file is not as above, or holds rows of a
// checkpoint that no record has.
void arrays_to_log(const std::string& arrays, const std::function<void(std::string_view)>& sink);

// The same for Parquet, one row a record (convert/parquet.py says which columns), by pyarrow in the
// Python that the environment's ASSAY_PYTHON names, or python3. Throw Error where there is none. A
// safetensors file stands beside `parquet` meanwhile.
std::vector<std::string> log_to_parquet(const std::string& log, const std::string& parquet);
void parquet_to_log(const std::string& parquet, const std::string& beside,
                    const std::function<void(std::string_view)>& sink);

}  // namespace assay
