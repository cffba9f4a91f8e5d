#include "base/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/interrupt.h"
#include "base/thread_pool.h"

namespace assay {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path,
                       const std::string& hint = {}) {
  throw Error(what + ": " + std::strerror(errno), path, hint);
}

// Bytes available without making other programs swap; 0 if the system does not report it.
size_t available_memory() {
  std::ifstream table("/proc/meminfo");
  std::string line;
  while (std::getline(table, line)) {
    constexpr std::string_view kKey = "MemAvailable:";
    if (line.starts_with(kKey)) {
      return std::strtoull(line.c_str() + kKey.size(), nullptr, 10) * 1024;
    }
  }
  return 0;
}

// What one thread reads or maps at a time.
constexpr int64_t kPiece = int64_t{2} << 20U;

size_t page_start(size_t byte) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return byte / page * page;
}

}  // namespace

bool has_room_for(size_t bytes) {
  return bytes <= available_memory() / 2;
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  MappedFile opened;  // closes the file if what follows throws
  int64_t bytes = 0;
  opened.fd_ = open_regular_file(path, bytes);
  if (bytes == 0) throw Error("the file is empty", path);
  const auto size = static_cast<size_t>(bytes);
  void* mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, opened.fd_, 0);
  if (mapping == MAP_FAILED) {
    fail("cannot map into memory", path, "use a smaller file or a machine with more memory");
  }
  fd_ = std::exchange(opened.fd_, -1);
  data_ = static_cast<const std::byte*>(mapping);
  size_ = size;
}

void MappedFile::read_into_memory(size_t first, ThreadPool& pool) {
  first = page_start(first);
  const size_t count = size_ - first;
  if (!has_room_for(count)) return;
  void* const memory = mmap(const_cast<std::byte*>(data_) + first, count, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (memory == MAP_FAILED) {
    fail(fmt::format("no memory for its {} bytes", count), path_,
         "use a smaller file or a machine with more memory");
  }
  madvise(memory, count, MADV_HUGEPAGE);  // without them, small pages do
  pool.parallel_for(static_cast<int64_t>(count), kPiece, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      check_interrupted();
      const auto wanted = static_cast<size_t>(std::min(kPiece, end - begin));
      const ssize_t got = pread(fd_, static_cast<std::byte*>(memory) + begin, wanted,
                                static_cast<off_t>(first) + begin);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("cannot read", path_);
      if (got == 0) throw Error("the file became shorter while it was read", path_);
      begin += got;
    }
  });
  mprotect(memory, count, PROT_READ);
}

void MappedFile::map_pages(size_t first, ThreadPool& pool) const {
  first = page_start(first);
  const size_t count = size_ - first;
#if defined(MADV_POPULATE_READ)
  pool.parallel_for(static_cast<int64_t>(count), kPiece, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += kPiece) {
      check_interrupted();
      madvise(const_cast<std::byte*>(data_) + first + begin,
              static_cast<size_t>(std::min(kPiece, end - begin)),
              MADV_POPULATE_READ);  // where it fails, pages are mapped when they are read
    }
  });
#endif
}

void MappedFile::release_pages(size_t end) {
  madvise(const_cast<std::byte*>(data_), page_start(end), MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) close(fd_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept {
  *this = std::move(other);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace assay
