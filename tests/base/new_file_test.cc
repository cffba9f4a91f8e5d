#include "base/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/interrupt.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class NewFileTest : public TemporaryFolder {
 protected:
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  static void write(const std::string& path, std::string_view text) {
    NewFile file(path);
    file.write(text);
    file.finish();
  }
};

TEST_F(NewFileTest, IsThereWhenItIsFinishedAndNotBefore) {
  std::ofstream(path("a")) << "before";
  {
    NewFile file(path("a"));
    file.write("new ");
    file.write("text");
    EXPECT_EQ(contents(path("a")), "before");
    file.finish();
    EXPECT_EQ(contents(path("a")), "new text");
  }
  EXPECT_EQ(contents(path("a")), "new text");
  EXPECT_EQ(n_files(), 1U);
}

TEST_F(NewFileTest, UnfinishedItLeavesNothing) {
  {
    NewFile file(path("a"));
    file.write("text");
    EXPECT_EQ(n_files(), 1U);
  }
  EXPECT_EQ(n_files(), 0U);
}

// Breaks if a link became a file, and what it names stayed old.
TEST_F(NewFileTest, ALinkStaysOne) {
  fs::create_directory(path("there"));
  std::ofstream(path("there/a")) << "before";
  fs::create_symlink("there/a", path("link"));
  write(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(contents(path("there/a")), "new");
  fs::create_symlink("nowhere", path("dangling"));
  write(path("dangling"), "new");
  EXPECT_EQ(contents(path("dangling")), "new");
}

// Process numbers come again: breaks if what a killed process left stopped another.
TEST_F(NewFileTest, FilesOfAKilledProcessDoNotGetInTheWay) {
  const std::string left = path(".assay." + std::to_string(getpid()) + ".0" + kTemporarySuffix);
  std::ofstream(left) << "cut";
  write(path("a"), "text");
  EXPECT_EQ(contents(path("a")), "text");
  EXPECT_EQ(contents(left), "cut");
}

TEST_F(NewFileTest, InTheFolderOfTheProcess) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write("a", "text");
  fs::current_path(before);
  EXPECT_EQ(contents(path("a")), "text");
}

TEST_F(NewFileTest, ImpossiblePathsAreReportedBeforeAnyWork) {
  EXPECT_THAT([&] { NewFile file(folder_); },
              ThrowsMessage<Error>(HasSubstr(folder_ + ": is a directory; give a file")));
  const std::string nowhere = path("none/a");
  EXPECT_THAT([&] { NewFile file(nowhere); },
              ThrowsMessage<Error>(HasSubstr(nowhere + ": cannot create: No such file")));
  for (const size_t length : {size_t{NAME_MAX + 1}, size_t{PATH_MAX}}) {
    EXPECT_THAT([&] { NewFile file(path(std::string(length, 'n'))); },
                ThrowsMessage<Error>(HasSubstr("File name too long")));
  }
  EXPECT_EQ(n_files(), 0U);
  write(path(std::string(NAME_MAX, 'n')), "text");
  EXPECT_EQ(n_files(), 1U);
}

TEST_F(NewFileTest, AnInterruptedOneLeavesNothing) {
  const auto interrupted = [&] {
    try {
      NewFile file(path("a"));
      file.write("text");
      interrupt(SIGTERM);
      file.write("more");
    } catch (const Interrupted& ended) {
      _exit(ended.signal == SIGTERM && n_files() == 0 ? 0 : 1);
    }
    _exit(2);
  };
  EXPECT_EXIT(interrupted(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace assay
