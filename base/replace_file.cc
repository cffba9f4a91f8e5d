#include "base/replace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/new_file.h"

namespace assay {
namespace {

// Returns when the names in the folder of `path` are on the disk, if the file system supports that.
void sync_folder(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const int descriptor =
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

void replace_file(std::string_view bytes, const std::string& path) {
  NewFile file(path);
  file.write(bytes);
  file.sync();
  file.finish();
  sync_folder(path);
}

void move_file(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    throw Error(std::string("cannot put it in place: ") + std::strerror(errno), to,
                "check permissions and room on the disk");
  }
  sync_folder(to);
}

}  // namespace assay
