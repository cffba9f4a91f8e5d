#include "base/mapped_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/thread_pool.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string write(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(MappedFile, HoldsTheBytes) {
  MappedFile file(write("mapped", "abc"));
  ASSERT_EQ(file.bytes().size(), 3U);
  EXPECT_EQ(file.bytes()[2], std::byte{'c'});
  const MappedFile moved(std::move(file));
  EXPECT_EQ(moved.bytes()[0], std::byte{'a'});
}

// A model that another program replaces while it runs would change its weights between two tokens.
TEST(MappedFile, PagesReadIntoMemoryStayWhenTheFileChanges) {
  const std::string text = std::string(5000, 'a') + std::string(3'000'000, 'b');
  const std::string path = write("kept", text);
  MappedFile file(path);
  const std::byte* const address = file.bytes().data();
  ThreadPool pool(2);
  file.read_into_memory(5000, pool);
  std::filesystem::resize_file(path, 4096);
  EXPECT_EQ(file.bytes().data(), address);
  ASSERT_EQ(file.bytes().size(), text.size());
  EXPECT_EQ(std::memcmp(address, text.data(), text.size()), 0);
}

TEST(MappedFile, ReleasedPagesAreMappedAgain) {
  const std::string text = std::string(5000, 'a') + std::string(5000, 'b');
  MappedFile file(write("released", text));
  ThreadPool pool(2);
  file.read_into_memory(5000, pool);
  file.release_pages(5000);
  EXPECT_EQ(std::memcmp(file.bytes().data(), text.data(), text.size()), 0);
}

TEST(MappedFile, AFileThatWasCutIsNotRead) {
  const std::string path = write("cut", std::string(3'000'000, 'a'));
  MappedFile file(path);
  std::filesystem::resize_file(path, 2'000'000);
  ThreadPool pool(2);
  EXPECT_THAT([&] { file.read_into_memory(0, pool); },
              ThrowsMessage<Error>(HasSubstr("cut: the file became shorter while it was read")));
}

#if defined(MADV_POPULATE_READ)
// The KB of the mapping that begins at `address` which are mapped to memory.
int64_t resident_kb(const void* address) {
  std::ifstream table("/proc/self/smaps");
  std::string line;
  const std::string begin = fmt::format("{:x}-", reinterpret_cast<uintptr_t>(address));
  while (std::getline(table, line) && line.find(begin) != 0) {
  }
  while (std::getline(table, line)) {
    if (line.starts_with("Rss:")) return std::stoll(line.substr(4));
  }
  return -1;
}

TEST(MappedFile, PagesAreMappedAtOnce) {
  if (madvise(nullptr, 0, MADV_POPULATE_READ) != 0) GTEST_SKIP() << "Linux before 5.14";
  const MappedFile file(write("at_once", std::string(8'000'000, 'a')));
  ThreadPool pool(2);
  ASSERT_EQ(resident_kb(file.bytes().data()), 0);
  file.map_pages(5000, pool);
  EXPECT_GE(resident_kb(file.bytes().data()), (8'000'000 - 5000) / 1024);
}
#endif

// What is left of it can be read.
TEST(MappedFile, AFileThatWasCutIsMappedAsFarAsItReaches) {
  const std::string path = write("cut_at_once", std::string(3'000'000, 'a'));
  const MappedFile file(path);
  std::filesystem::resize_file(path, 4096);
  ThreadPool pool(2);
  file.map_pages(0, pool);
  EXPECT_EQ(file.bytes()[4095], std::byte{'a'});
}

TEST(MappedFile, ReportsErrorAndPlace) {
  EXPECT_THAT([] { MappedFile("/no/such/file"); },
              ThrowsMessage<Error>(HasSubstr(
                  "/no/such/file: cannot open: No such file or directory; check the path")));
  EXPECT_THAT([] { MappedFile{testing::TempDir()}; },
              ThrowsMessage<Error>(HasSubstr("is a directory; give the path of a file")));
  EXPECT_THAT([] { MappedFile{"/dev/null"}; },
              ThrowsMessage<Error>(HasSubstr("is not a regular file; give the path of a file")));
  EXPECT_THAT([] { MappedFile(write("empty", "")); },
              ThrowsMessage<Error>(HasSubstr("the file is empty")));
}

}  // namespace
}  // namespace assay
