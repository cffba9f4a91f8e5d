#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace assay::fuzz {

// A folder that goes with the process.
struct ScratchFolder {
  ScratchFolder() {
    if (mkdtemp(path.data()) == nullptr) std::abort();
  }
  ~ScratchFolder() {
    std::error_code none;
    std::filesystem::remove_all(path, none);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string path = (std::filesystem::temp_directory_path() / "assay_fuzz_XXXXXX").string();
};

}  // namespace assay::fuzz
