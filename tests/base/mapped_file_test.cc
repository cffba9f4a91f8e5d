#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

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

TEST(MappedFile, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT([] { MappedFile("/no/such/file"); },
              ThrowsMessage<Error>(HasSubstr("/no/such/file: cannot open: No such file")));
  EXPECT_THAT([] { MappedFile{testing::TempDir()}; },
              ThrowsMessage<Error>(HasSubstr("not a regular file")));
  EXPECT_THAT([] { MappedFile(write("empty", "")); },
              ThrowsMessage<Error>(HasSubstr("the file is empty")));
}

}  // namespace
}  // namespace assay
