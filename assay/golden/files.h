#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/new_file.h"
#include "base/replace_file.h"

namespace assay {

// Of the file's bytes, in hexadecimal. Throws Error if it cannot be read or is empty.
std::string file_sha256(const std::string& path);

bool file_exists(const std::string& path);

// Names of the regular files in a folder, sorted. Throws Error if it cannot be read.
std::vector<std::string> files_in(const std::string& folder);

// Like replace_file(), with the bytes of the file `from`.
void replace_file_with_copy(const std::string& from, const std::string& path);

// Removes a file, which may be missing. Throws Error.
void remove_file(const std::string& path);

// A lock for changing the files of a folder.
class FolderLock {
 public:
  // Throws Error if the folder cannot be opened or written to, or another process holds the lock.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace assay
