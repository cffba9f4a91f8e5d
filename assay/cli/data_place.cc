#include "assay/cli/data_place.h"

#include <filesystem>
#include <system_error>

namespace assay {

namespace fs = std::filesystem;

std::string data_place(const std::string& name) {
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  const fs::path installed = program.parent_path() / "../share/assay" / name;
  if (fs::exists(installed, none)) return installed.lexically_normal().string();
  return (fs::path(ASSAY_SOURCE_DIR) / name).string();
}

std::string default_suite() {
  return data_place("conform/suite");
}

}  // namespace assay
