#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace assay {

class ThreadPool;

// A whole file mapped read-only into memory.
class MappedFile {
 public:
  // Throws Error if `path` is missing, not readable, not a regular file, or empty.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Replaces the mapping, from the page of byte `first` on, by memory of our own, in large pages
  // where the system has them: it is read up to 1.3 times as fast, and what happens to that part of
  // the file from now on does not matter. Addresses stay. Does nothing if that would take more than
  // half of the memory that the system has left. `pool` shares the work. Throws Error if the file
  // has become shorter; the bytes may not be used then.
  void read_into_memory(size_t first, ThreadPool& pool);

  // Gives back what memory the pages before that of byte `end` take, none of which may have been
  // read into memory; they are mapped again when they are looked at.
  void release_pages(size_t end);

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile() = default;

  std::string path_;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace assay
