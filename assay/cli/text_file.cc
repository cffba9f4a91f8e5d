#include "assay/cli/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/input_file.h"
#include "base/interrupt.h"

namespace assay {
namespace {

constexpr size_t kMaxTextBytes = size_t{256} << 20;

}  // namespace

std::string read_text_file(const std::string& path) {
  const auto close = [](std::FILE* file) {
    if (file != stdin) std::fclose(file);
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(
      path == "-" ? stdin : std::fopen(path.c_str(), "rb"), close);
  if (!file) {
    const int error = errno;
    throw Error(std::string("cannot open: ") + std::strerror(error), path, open_hint(error));
  }
  std::string text;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    check_interrupted();
    if (text.size() + count > kMaxTextBytes) {
      throw Error("is longer than 256 MiB", path, "give a shorter text");
    }
    text.append(buffer, count);
  }
  if (std::ferror(file.get()) != 0) {
    if (errno == EISDIR) throw Error("is a directory", path, "give the path of a file");
    throw Error(std::string("cannot read: ") + std::strerror(errno), path);
  }
  return text;
}

}  // namespace assay
