#include "assay/log/log_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <regex>
#include <sstream>
#include <thread>
#include <utility>

#include "assay/log/log_reader.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "tests/log/unlocked.h"
#include "tests/support/temporary_folder.h"

namespace {

int error_of_close = 0;  // of the next one

}  // namespace

// The linker puts this in the place of the C library's (--wrap).
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): the linker's names
extern "C" {
int __real_close(int file);
int __wrap_close(int file) {
  const int result = __real_close(file);
  if (error_of_close == 0) return result;
  errno = std::exchange(error_of_close, 0);
  return -1;
}
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

namespace assay {
namespace {

using testing::HasSubstr;

class LogWriterTest : public TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    path_ = path("log.jsonl");
  }

  std::string contents() const { return TemporaryFolder::contents(path_); }
  std::vector<std::string> lines() const {
    std::istringstream text(contents());
    std::vector<std::string> all;
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }

  std::string path_;
};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(LogWriterTest, WritesTheRecordOfTheContract) {
  LogWriter log(path_, {.team = "ours", .head_values = 2, .summary = true, .sketch = false});
  log.write("logits", 18, std::vector<float>{1.5F, -2, 0.1F});
  EXPECT_EQ(contents(),
            "{\"checkpoint\":\"logits\",\"token_idx\":18,\"team\":\"ours\",\"dtype\":\"f32\","
            "\"shape\":[1,3],\"n\":3,\"values\":[1.5,-2],\"summary\":{\"min\":-2,\"max\":1.5,"
            "\"mean\":-0.13333333283662796,\"l2\":2.501999200698918,\"argmax\":0,"
            "\"top\":[[0,1.5],[2,0.1],[1,-2]],\"nonfinite\":0}}\n");
}

// Breaks if ids of experts were logged as anything but whole numbers.
TEST_F(LogWriterTest, WholeNumbersHaveTheirType) {
  LogWriter log(path_, {.team = "", .head_values = kAllValues, .summary = false});
  log.write("layer_0_experts", 0, std::vector<float>{127, 0, 31}, "i32");
  EXPECT_EQ(contents(),
            "{\"checkpoint\":\"layer_0_experts\",\"token_idx\":0,\"dtype\":\"i32\","
            "\"shape\":[1,3],\"values\":[127,0,31]}\n");
}

// Breaks if a reader could not tell that the engine did not choose its experts itself.
TEST_F(LogWriterTest, AHeaderSaysWhoseRoutingItIsAndWhatWasAskedFor) {
  LogHeader header;
  header.routing = kRoutingReplayed;
  header.checkpoints = "layers,layer_*_q";
  LogWriter log(path_, {});
  log.write_header(header);
  log.write("logits", 0, std::vector<float>{1});
  LogReader reader(path_);
  ASSERT_NE(reader.next(), nullptr);
  EXPECT_EQ(reader.header()->routing, "replayed");
  EXPECT_EQ(reader.header()->checkpoints, "layers,layer_*_q");
}

TEST_F(LogWriterTest, SketchHasSixtyFourNumbersAndBringsTheSummary) {
  LogWriter log(path_, {.team = "", .head_values = 1, .summary = false, .sketch = true});
  log.write("logits", 0, std::vector<float>{1, 2, 3});
  rapidjson::Document record;
  record.Parse(lines().at(0).c_str());
  ASSERT_FALSE(record.HasParseError());
  EXPECT_EQ(record["sketch"].Size(), 64U);
  EXPECT_TRUE(record.HasMember("summary"));
  EXPECT_FALSE(record.HasMember("team"));
}

// Breaks if a float were printed with too few digits: bit-exact goldens could not be distinguished.
TEST_F(LogWriterTest, FloatsReadBackToTheSameBits) {
  std::mt19937 random(5);
  std::vector<float> values = {0.0F, -0.0F, std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::max(), 1e10F};
  while (values.size() < 200000) {  // enough to be shared among threads
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::abs(value) <= std::numeric_limits<float>::max()) values.push_back(value);
  }
  LogWriter log(path_, {.team = "", .head_values = kAllValues, .summary = false, .sketch = false});
  log.write("x", 0, values);
  const std::string text = contents();
  const char* at = text.c_str() + text.find("\"values\":[") + 10;
  for (const float value : values) {
    float read = 0;
    at = std::from_chars(at, text.c_str() + text.size(), read).ptr + 1;
    ASSERT_EQ(std::bit_cast<uint32_t>(read), std::bit_cast<uint32_t>(value)) << value;
  }
}

// Breaks if NaN were written bare, as 0 or as null.
TEST_F(LogWriterTest, NonfiniteValuesAreStrings) {
  const float infinity = std::numeric_limits<float>::infinity();
  LogWriter log(path_, {.team = "", .head_values = kAllValues, .summary = false, .sketch = false});
  log.write("x", 0, std::vector<float>{std::nanf(""), infinity, -infinity});
  EXPECT_THAT(contents(), HasSubstr("\"values\":[\"NaN\",\"Infinity\",\"-Infinity\"]"));
}

TEST_F(LogWriterTest, HeaderIsValidJsonWhateverThePrompt) {
  LogWriter log(path_, {});
  log.write_header({.model = {.name = "m\"\\", .sha256 = "ab", .arch = "llama", .type = "Q4_1"},
                    .tokens = {1, 2},
                    .prompt = "line\n\x01 caf\xC3\xA9 \xFF\xC3",
                    .engine = "assay",
                    .backend = "cpu",
                    .math = "exact"});
  rapidjson::Document header;
  header.Parse<rapidjson::kParseValidateEncodingFlag>(lines().at(0).c_str());
  ASSERT_FALSE(header.HasParseError());
  EXPECT_EQ(header["assay"].GetInt(), 1);
  EXPECT_STREQ(header["model"]["name"].GetString(), "m\"\\");
  EXPECT_STREQ(header["prompt"].GetString(), "line\n\x01 caf\xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(header["tokens"][1].GetInt(), 2);
}

TEST_F(LogWriterTest, HeaderComesFirst) {
  LogWriter log(path_, {});
  log.write("x", 0, std::vector<float>{1});
  EXPECT_THAT(error_of([&] { log.write_header({}); }), HasSubstr("first line"));
}

TEST_F(LogWriterTest, RefusesAShapeThatDoesNotHoldTheValues) {
  LogWriter log(path_, {});
  const std::vector<float> values = {1, 2, 3};
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {1, 4}, {-1, -3}, {}, {int64_t{1} << 62, int64_t{1} << 62, 3}}) {
    EXPECT_THAT(error_of([&] { log.write("x", 0, shape, values); }), HasSubstr("do not fit"));
  }
  EXPECT_THAT(error_of([&] { log.write("x", -1, values); }), HasSubstr("token_idx"));
  EXPECT_EQ(contents(), "");
}

// Breaks if opening a log emptied the one that another engine is writing.
TEST_F(LogWriterTest, ASecondWriterIsRefusedAndDestroysNothing) {
  LogWriter log(path_, {});
  log.write("x", 0, std::vector<float>{1});
  const std::string before = contents();
  EXPECT_THAT(error_of([&] { LogWriter second(path_, {}); }), HasSubstr("another writer"));
  EXPECT_EQ(contents(), before);
}

// Breaks if a run that is started again were refused while the last one's helper still writes.
TEST_F(LogWriterTest, ALockThatEndsSoonIsWaitedFor) {
  auto log = std::make_unique<LogWriter>(path_, LogOptions{});
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    log.reset();
  });
  EXPECT_NO_THROW(LogWriter(path_, {}));
  end.join();
}

// Breaks if a log that another process emptied passed for whole.
TEST_F(LogWriterTest, ALogThatWasEmptiedIsAnError) {
  LogWriter log(path_, {});
  log.write("x", 0, std::vector<float>{1});
  std::filesystem::resize_file(path_, 0);
  log.write("x", 1, std::vector<float>{1});
  EXPECT_THAT(error_of([&] { log.close(); }), HasSubstr("was emptied or cut while it was written"));
  EXPECT_EQ(lines().size(), 1U);
}

TEST_F(LogWriterTest, StartsFromAnEmptyFile) {
  std::ofstream(path_) << "old";
  LogWriter log(path_, {});
  EXPECT_EQ(contents(), "");
}

TEST_F(LogWriterTest, NamesTheFileThatCannotBeOpened) {
  const std::string missing = folder_ + "/none/log.jsonl";
  EXPECT_THAT(error_of([&] { LogWriter log(missing, {}); }), HasSubstr(missing));
  EXPECT_THAT(error_of([&] { LogWriter log(folder_, {}); }), HasSubstr("Is a directory"));
}

TEST_F(LogWriterTest, AFullDiskIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "system: no /dev/full here";
  LogWriter log("/dev/full", {});
  const auto write = [&] { log.write("x", 0, std::vector<float>{1}); };
  EXPECT_THAT(error_of(write), HasSubstr("/dev/full: cannot write: No space left on device"));
  EXPECT_THAT(error_of(write), HasSubstr("/dev/full"));
}

// Breaks if a record cut short by a full disk stayed in the file: the next would be glued to it.
TEST_F(LogWriterTest, ARecordThatDoesNotFitIsTakenBack) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const LogOptions options = {.team = "", .head_values = kAllValues, .summary = false};
    LogWriter log(path_, options);
    log.write("x", 0, std::vector<float>{1});
    const std::string error = error_of([&] { log.write("x", 1, std::vector<float>(1000, 1)); });
    _exit(error.find("File too large") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(lines().size(), 1U);
  EXPECT_EQ(contents().back(), '\n');
}

TEST_F(LogWriterTest, AfterCloseNothingIsWritten) {
  LogWriter log(path_, {});
  log.close();
  log.close();
  EXPECT_THAT(error_of([&] { log.write("x", 0, std::vector<float>{1}); }), HasSubstr("closed"));
}

// NFS and quotas report some errors only at close. Breaks if a log that lacks records passed for
// whole.
TEST_F(LogWriterTest, AnErrorAtCloseIsReported) {
  LogWriter log(path_, {});
  log.write("x", 0, std::vector<float>{1});
  error_of_close = ENOSPC;
  EXPECT_THAT(
      error_of([&] { log.close(); }),
      HasSubstr("log.jsonl: cannot write: No space left on device; records may be missing"));
  EXPECT_EQ(log.close(), "") << "closed twice";
}

TEST_F(LogWriterTest, AnErrorAtCloseOfARestoredLogIsReported) {
  LogWriter log(path_, {});
  log.write("x", 0, std::vector<float>{1});
  std::filesystem::remove(path_);
  error_of_close = EDQUOT;
  EXPECT_THAT(error_of([&] { log.close(); }),
              HasSubstr("log.jsonl: was removed while it was written, and cannot be written again: "
                        "Disk quota exceeded"));
}

// Linux has closed the file then.
TEST_F(LogWriterTest, ASignalAtCloseIsNoError) {
  LogWriter log(path_, {});
  log.write("x", 0, std::vector<float>{1});
  error_of_close = EINTR;
  EXPECT_EQ(log.close(), "");
  EXPECT_EQ(lines().size(), 1U);
}

// Breaks if records of two threads were mixed within a line.
TEST_F(LogWriterTest, RecordsOfManyThreadsStayWhole) {
  LogWriter log(path_, {.team = "", .head_values = kAllValues, .summary = true, .sketch = true});
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log, t] {
        const std::vector<float> values(500, static_cast<float>(t));
        for (int i = 0; i < 100; ++i) log.write("x", t * 100 + i, values);
      });
    }
  }
  log.flush();
  const std::vector<std::string> all = lines();
  EXPECT_EQ(all.size(), 400U);
  for (const std::string& line : all) {
    rapidjson::Document record;
    record.Parse(line.c_str());
    ASSERT_FALSE(record.HasParseError());
    const auto values = record["values"].GetArray();
    ASSERT_EQ(values.Size(), 500U);
    EXPECT_EQ(values[0].GetInt(), record["token_idx"].GetInt() / 100);
  }
}

// Breaks if the text of a long log depended on who makes it: with a guard, by one thread or four,
// with records that the guard takes and records that are too large for it, alone and with others.
TEST_F(LogWriterTest, ThreadsThatHelpWriteTheSameBytes) {
  std::vector<float> values(20000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const auto log_with = [&](ThreadPool* pool) {
    LogWriter log(path_, {.team = "t", .head_values = 20, .summary = true, .sketch = true}, pool);
    for (int64_t i = 0; i < 800; ++i) {
      const size_t width = i % 50 == 3 ? values.size() : static_cast<size_t>(100 + 10 * (i % 40));
      log.write("x", i, std::span(values).first(width));
      if (i % 100 == 99) log.flush();
    }
    log.close();
    return contents();
  };
  const std::string alone = log_with(nullptr);
  EXPECT_EQ(std::ranges::count(alone, '\n'), 800);
  EXPECT_GT(alone.size(), size_t{1} << 20);
  ThreadPool pool(4);
  EXPECT_EQ(log_with(&pool), alone);
}

// Breaks if a part were written after one that could not be, or were written twice.
TEST_F(LogWriterTest, ALongLogThatDoesNotFitEndsWithAWholeRecord) {
  const std::vector<float> values(500, 0.1F);
  const auto log_all = [&](LogWriter& log) {
    for (int64_t i = 0; i < 2000; ++i) log.write("x", i, values);
    log.flush();
  };
  const LogOptions options = {.team = "t", .head_values = 100};
  {
    LogWriter log(path_, options);
    log_all(log);
  }
  const std::string whole = contents();
  ASSERT_GT(whole.size(), size_t{1200000});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1000000, 1000000};
    setrlimit(RLIMIT_FSIZE, &limit);
    ThreadPool pool(4);
    LogWriter log(path_, options, &pool);
    const std::string error = error_of([&] { log_all(log); });
    const std::string again = error_of([&] { log.write("x", 0, values); });
    log.close();
    _exit(error.find("File too large") != std::string::npos && again == error ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const std::string written = contents();
  EXPECT_EQ(written.back(), '\n');
  EXPECT_EQ(written, whole.substr(0, whole.rfind('\n', 999999) + 1));
}

// How the process may end. Each must leave every record that was logged before.
class LogWriterEnd : public LogWriterTest, public testing::WithParamInterface<const char*> {};

// The log is so long that a guard has its last records.
TEST_P(LogWriterEnd, LosesNoFinishedRecord) {
  constexpr size_t kRecords = 1500;
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ThreadPool pool(2);
    LogWriter log(path_, {.team = "", .head_values = kAllValues, .summary = false}, &pool);
    const std::vector<float> values(200, 0.1F);
    for (int64_t i = 0;; ++i) {
      log.write("x", i, values);
      if (::write(told[1], "x", 1) != 1) _exit(1);
      if (i + 1 < int64_t{kRecords} || GetParam() == std::string("kill")) continue;
      if (GetParam() == std::string("exit")) std::exit(0);
      signal(SIGABRT, SIG_DFL);
      std::abort();
    }
  }
  ::close(told[1]);
  size_t finished = 0;
  for (char byte; finished < kRecords && read(told[0], &byte, 1) == 1;) ++finished;
  if (GetParam() == std::string("kill")) kill(child, SIGKILL);
  for (char byte; read(told[0], &byte, 1) == 1;) ++finished;
  ::close(told[0]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  wait_until_unlocked(path_);
  const std::vector<std::string> all = lines();
  ASSERT_GE(all.size(), finished);
  for (size_t i = 0; i < finished; ++i) {
    rapidjson::Document record;
    record.Parse(all[i].c_str());
    ASSERT_FALSE(record.HasParseError()) << i;
    EXPECT_EQ(record["values"].Size(), 200U);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LogWriterEnd, testing::Values("exit", "abort", "kill"),
                         [](const auto& test) { return std::string(test.param); });

// Breaks if goldens, which ask for none, had times, or if they stood elsewhere than the taps have
// them.
TEST_F(LogWriterTest, TimesAreWrittenWhereTheyAreAskedFor) {
  const std::vector<float> values = {1, 2, 3};
  LogWriter(path_, {.team = "t"}).write("logits", 4, values);
  const std::string bare = contents();
  LogWriter(path_, {.team = "t", .times = true}).write("logits", 4, values);
  const std::regex time(
      R"re((,"token_idx":4),"ts":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"(,"team"))re");
  EXPECT_NE(contents(), bare);
  EXPECT_EQ(std::regex_replace(contents(), time, "$1$2"), bare);
}

}  // namespace
}  // namespace assay
