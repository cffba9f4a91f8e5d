#include "assay/golden/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/sha256.h"

namespace assay {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int code) {
  throw Error(what + ": " + std::strerror(code), path, "check permissions and room on the disk");
}

}  // namespace

std::string file_sha256(const std::string& path) {
  return sha256_hex(MappedFile(path).bytes());
}

bool file_exists(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code none;
    if (std::filesystem::is_regular_file(entry->symlink_status(none))) {
      names.push_back(entry->path().filename().string());
    }
  }
  if (error) throw Error("cannot read the folder: " + error.message(), folder, "check the path");
  std::sort(names.begin(), names.end());
  return names;
}

void replace_file_with_copy(const std::string& from, const std::string& path) {
  const MappedFile file(from);
  replace_file({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

void remove_file(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) fail("cannot remove", path, errno);
}

FolderLock::FolderLock(const std::string& folder) {
  const std::string path = folder.empty() ? "." : folder;
  fd_ = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) fail("cannot open the folder", path, errno);
  const bool writable = access(path.c_str(), W_OK) == 0;
  if (writable && flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int code = errno;
  close(fd_);
  if (!writable) fail("cannot write to the folder", path, code);
  throw Error("another assay is at work in this folder", path, "wait until it is done");
}

FolderLock::~FolderLock() {
  close(fd_);
}

}  // namespace assay
