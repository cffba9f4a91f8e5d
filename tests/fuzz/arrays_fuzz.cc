// Any NPZ archive, NumPy array, safetensors file or file of llama-perplexity is a log's arrays,
// another tool's dump, or refused with an Error, and what comes of it is a log.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "assay/convert/convert.h"
#include "assay/dump/dump_log.h"
#include "assay/log/log_reader.h"
#include "base/error.h"
#include "tests/fuzz/memory_file.h"

namespace {

using assay::testing_support::MemoryFile;

// Names with the three endings for whatever file is open as kDescriptor.
class Names {
 public:
  static constexpr int kDescriptor = 1000;

  Names() : folder_(std::filesystem::temp_directory_path() / "assay_fuzz_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
    for (const std::string& name : {npy(), npz(), safetensors()}) {
      std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(kDescriptor), name);
    }
  }
  ~Names() { std::filesystem::remove_all(folder_); }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  const std::string& folder() const { return folder_; }
  std::string npy() const { return folder_ + "/a.npy"; }
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

using Sink = std::function<void(std::string_view)>;

void try_to_log(const std::function<void(const Sink&)>& convert) {
  std::string log;
  try {
    convert([&](std::string_view lines) { log += lines; });
  } catch (const assay::Error& error) {
    if (std::string(error.what()).empty()) std::abort();
    return;
  }
  check_log(log);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Names names;
  const MemoryFile file(data, size);
  if (dup2(file.descriptor(), Names::kDescriptor) < 0) std::abort();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string path = bytes.starts_with("PK")          ? names.npz()
                           : bytes.starts_with("\x93NUMPY") ? names.npy()
                                                            : names.safetensors();
  try_to_log([&](const Sink& sink) { assay::arrays_to_log(path, sink); });
  try_to_log([&](const Sink& sink) {
    assay::dump_to_log(path, {.vllm_layers = {}, .skip = {}, .team = "a", .work = names.folder()},
                       sink);
  });
  return 0;
}
