#pragma once

#include <string>
#include <string_view>

namespace assay {

// The suffix of unfinished files, which a kill may leave behind.
inline constexpr const char* kTemporarySuffix = ".tmp.new";

// A file that appears at its place whole, when finish() returns, or not at all: until then it has a
// temporary name in the same folder, and it is removed if it is not finished. If `path` is a
// symbolic link, it replaces the file that the link names.
class NewFile {
 public:
  // Throws Error naming `path` if that is a folder, or if nothing can be created beside it.
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // These throw Error naming the path, and Interrupted.
  void write(std::string_view bytes);
  void sync();  // returns when all that was written is on the disk
  void finish();

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void create();
  void close_all();

  std::string path_;  // as the user gave it
  std::string name_;  // of the finished file in its folder
  std::string temporary_;
  int folder_ = -1;
  int file_ = -1;
};

// Where a file of this path is written: the target of a symbolic link.
std::string place_of(const std::string& path);

// Writes all of `bytes`; false if that fails, and errno says why. Throws Interrupted.
bool write_all(int file, std::string_view bytes);

}  // namespace assay
