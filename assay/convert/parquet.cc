#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "assay/convert/convert.h"
#include "assay/convert/python_script.h"
#include "base/error.h"
#include "base/new_file.h"

namespace assay {

extern const std::string_view kParquetScript;  // parquet.py, embedded by CMake

namespace {

void run_script(const std::string& mode, const std::string& input, const std::string& output,
                const std::string& file) {
  run_python(kParquetScript, {mode, input, output}, file,
             "Parquet needs python3 with pyarrow; name another in ASSAY_PYTHON");
}

}  // namespace

std::vector<std::string> log_to_parquet(const std::string& log, const std::string& parquet) {
  const std::string place = place_of(parquet);
  const ScriptFolder folder(parquet);
  const std::string arrays = folder.path("arrays.safetensors");
  const std::string part = folder.path("part.parquet");
  std::vector<std::string> warnings = log_to_arrays(log, arrays);
  run_script("to-parquet", arrays, part, parquet);
  if (std::rename(part.c_str(), place.c_str()) != 0) {
    throw Error(std::string("cannot write: ") + std::strerror(errno), parquet);
  }
  return warnings;
}

void parquet_to_log(const std::string& parquet, const std::string& beside,
                    const std::function<void(std::string_view)>& sink) {
  const ScriptFolder folder(beside);
  const std::string arrays = folder.path("arrays.safetensors");
  run_script("to-safetensors", parquet, arrays, parquet);
  arrays_to_log(arrays, sink);
}

}  // namespace assay
