#include "assay/cli/text_file.h"

#include <filesystem>

#include "base/mapped_file.h"

namespace assay {

std::string read_text_file(const std::string& path) {
  std::error_code ignored;
  // An empty file is no error here: an empty text has its own meaning to each command.
  if (std::filesystem::is_regular_file(path, ignored) &&
      std::filesystem::file_size(path, ignored) == 0) {
    return {};
  }
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace assay
