// Recording and accepting, cut off at every step.

#include "assay/golden/change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>

#include "assay/golden/files.h"
#include "assay/golden/verify.h"
#include "tests/compare/log_files.h"
#include "tests/golden/tiny_golden.h"

namespace {

// The program dies at the rename(2) or renameat(2) with this number, before or after it. Negative:
// never.
int renames_left = -1;
bool die_after = false;

}  // namespace

// The linker puts these in the place of the C library's (--wrap).
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): the linker's names
extern "C" int __real_rename(const char* from, const char* to);
extern "C" int __real_renameat(int from_folder, const char* from, int to_folder, const char* to);

namespace {

template <class Rename>
int rename_or_die(const Rename& rename) {
  const bool last = renames_left >= 0 && renames_left-- == 0;
  if (last && !die_after) _exit(9);
  const int result = rename();
  if (last) _exit(9);
  return result;
}

}  // namespace

extern "C" int __wrap_rename(const char* from, const char* to) {
  return rename_or_die([&] { return __real_rename(from, to); });
}
extern "C" int __wrap_renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return rename_or_die([&] { return __real_renameat(from_folder, from, to_folder, to); });
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

namespace assay {
namespace {

using testing::HasSubstr;

class ChangeTest : public LogFiles {
 protected:
  void SetUp() override {
    LogFiles::SetUp();
    golden_ = std::make_unique<TinyGolden>(folder_ + "/golden");
    before_ = golden_->contents();
    // What the golden is to become: two logs and the manifest change.
    ASSERT_EQ(golden_->write_to(folder_ + "/out", "1e-5", ""), 0);
    ASSERT_EQ(system(("cp " + folder_ + "/out/tiny/* " + golden_->folder()).c_str()), 0);
    after_ = golden_->contents();
    for (const auto& [name, text] : after_) staged_[name] = folder_ + "/out/tiny/" + name;
    reset();
  }

  void reset() {
    std::filesystem::remove_all(golden_->folder());
    std::filesystem::create_directories(golden_->folder());
    for (const auto& [name, text] : before_) put("golden/tiny/" + name, text);
  }

  // Whether `body` was done before the program died.
  static bool done_before_death(int at, bool after, const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      renames_left = at;
      die_after = after;
      try {
        body();
      } catch (const Error& error) {
        std::fputs(error.what(), stderr);
        _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9) << WEXITSTATUS(status);
    return WEXITSTATUS(status) == 0;
  }

  std::vector<std::string> problems() { return verify_golden(golden_->root(), "tiny").problems; }

  std::unique_ptr<TinyGolden> golden_;
  std::map<std::string, std::string> before_;
  std::map<std::string, std::string> after_;
  std::map<std::string, std::string> staged_;
};

// A mixture of old and new must never verify, and the next accept must complete it.
TEST_F(ChangeTest, AnInterruptedAcceptIsReportedAndCompletedByTheNext) {
  int cuts = 0;
  int mixtures = 0;
  for (const bool after : {false, true}) {
    bool done = false;
    for (int at = 0; !done; ++at) {
      SCOPED_TRACE(testing::Message() << "rename " << at << (after ? " done" : " not done"));
      reset();
      make_pending(golden_->folder(), staged_);
      done = done_before_death(at, after, [&] { accept_pending(golden_->folder()); });
      if (done) {
        EXPECT_EQ(golden_->contents(), after_);
        break;
      }
      ++cuts;
      const auto found = golden_->contents();
      bool is_before = true;
      bool is_after = true;
      for (const auto& [name, text] : before_) is_before = is_before && found.at(name) == text;
      for (const auto& [name, text] : after_) is_after = is_after && found.at(name) == text;
      EXPECT_EQ(problems().empty(), is_before || is_after);
      if (!is_before && !is_after) {
        ++mixtures;
        EXPECT_THAT(problems().front(), HasSubstr("assay golden accept tiny"));
      }
      if (!is_after) accept_pending(golden_->folder());
      EXPECT_EQ(golden_->contents(), after_);
      EXPECT_TRUE(problems().empty());
    }
  }
  EXPECT_GE(cuts, 6);
  EXPECT_GE(mixtures, 2);
}

// Breaks if pending files were removed after some of them had been installed: new logs would belong
// to the old manifest, and nothing would be left to complete the change.
TEST_F(ChangeTest, AnAcceptThatWasCutOffCannotBeRejected) {
  int refused = 0;
  for (const bool after : {false, true}) {
    for (int at = 0;; ++at) {
      SCOPED_TRACE(testing::Message() << "rename " << at << (after ? " done" : " not done"));
      reset();
      make_pending(golden_->folder(), staged_);
      if (done_before_death(at, after, [&] { accept_pending(golden_->folder()); })) break;
      const auto found = golden_->contents();
      try {
        reject_pending(golden_->folder());
        const auto left = golden_->contents();
        EXPECT_TRUE(left == before_ || left == after_);
        EXPECT_TRUE(problems().empty());
      } catch (const Error& error) {
        ++refused;
        EXPECT_THAT(error.what(), HasSubstr("assay golden accept tiny"));
        EXPECT_EQ(golden_->contents(), found) << "something was removed";
        accept_pending(golden_->folder());
        EXPECT_EQ(golden_->contents(), after_);
      }
    }
  }
  EXPECT_GE(refused, 2);
}

// Half a recording must not pass for a whole one, and the golden stays unchanged.
TEST_F(ChangeTest, RecordingCutOffAnywhereLeavesTheGoldenAndIsDoneByTheNext) {
  int cuts = 0;
  for (const bool after : {false, true}) {
    bool done = false;
    for (int at = 0; !done; ++at) {
      SCOPED_TRACE(testing::Message() << "rename " << at << (after ? " done" : " not done"));
      reset();
      done = done_before_death(at, after, [&] { make_pending(golden_->folder(), staged_); });
      EXPECT_TRUE(problems().empty());
      for (const auto& [name, text] : before_) EXPECT_EQ(golden_->contents().at(name), text);
      if (done) break;
      ++cuts;
      try {
        accept_pending(golden_->folder());
        EXPECT_EQ(golden_->contents(), after_);  // all was there
      } catch (const Error&) {
        for (const auto& [name, text] : before_) EXPECT_EQ(golden_->contents().at(name), text);
      }
      reset();
      EXPECT_FALSE(done_before_death(at, after, [&] { make_pending(golden_->folder(), staged_); }));
      make_pending(golden_->folder(), staged_);
      accept_pending(golden_->folder());
      EXPECT_EQ(golden_->contents(), after_);
    }
  }
  EXPECT_GE(cuts, 4);
}

TEST_F(ChangeTest, TwoAtOnceAreRefused) {
  make_pending(golden_->folder(), staged_);
  const FolderLock held(golden_->folder());
  for (const auto& change : std::vector<std::function<void()>>{
           [&] { accept_pending(golden_->folder()); }, [&] { reject_pending(golden_->folder()); },
           [&] { make_pending(golden_->folder(), staged_); }}) {
    EXPECT_THAT(error_of(change), HasSubstr("another assay is at work in this folder"));
  }
}

}  // namespace
}  // namespace assay
