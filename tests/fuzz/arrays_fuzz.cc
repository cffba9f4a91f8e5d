// Any NPZ archive or safetensors file is a log's arrays or refused with an Error, and what comes of
// it is a log.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "assay/convert/convert.h"
#include "assay/log/log_reader.h"
#include "base/error.h"
#include "tests/fuzz/memory_file.h"

namespace {

using assay::testing_support::MemoryFile;

// Names with the two endings for whatever file is open as kDescriptor.
class Names {
 public:
  static constexpr int kDescriptor = 1000;

  Names() : folder_(std::filesystem::temp_directory_path() / "assay_fuzz_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    for (const std::string& name : {npz(), safetensors()}) {
      std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(kDescriptor), name);
    }
  }
  ~Names() { std::filesystem::remove_all(folder_); }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  std::string npz() const { return folder_ + "/a.npz"; }
  std::string safetensors() const { return folder_ + "/a.safetensors"; }

 private:
  std::string folder_;
};

void check_log(const std::string& text) {
  const MemoryFile file(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  assay::LogReader reader(file.path());
  while (reader.next() != nullptr) {
  }
  if (!reader.warnings().empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Names names;
  const MemoryFile file(data, size);
  if (dup2(file.descriptor(), Names::kDescriptor) < 0) std::abort();
  const bool is_zip = size >= 2 && data[0] == 'P' && data[1] == 'K';
  std::string log;
  try {
    assay::arrays_to_log(is_zip ? names.npz() : names.safetensors(),
                         [&](std::string_view lines) { log += lines; });
  } catch (const assay::Error& error) {
    if (std::string(error.what()).empty()) std::abort();
    return 0;
  }
  check_log(log);
  return 0;
}
