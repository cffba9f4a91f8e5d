#include "tests/support/paths.h"

namespace assay {

std::string source_path(const std::string& file) {
  return std::string(ASSAY_SOURCE_DIR) + "/" + file;
}

std::string program_path(const std::string& name) {
  return std::string(ASSAY_PROGRAMS) + "/" + name;
}

}  // namespace assay
