#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;

// Every kind of input that a user may give by mistake, or an attacker on purpose, to both commands.
// Each test breaks if the program crashed, hung, passed it or did not say where the fault is.
class HostileLogs : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    good_text_ = line("logits", 0, {1, 2, 3});
    good_ = put("good.jsonl", good_text_);
  }

  // The log holds `text`; `message` follows its name.
  void expect_refused(const std::string& text, const std::string& message) {
    const std::string path = put("bad.jsonl", text);
    expect_error({"compare", good_, path}, path + message);
    expect_error({"compare", path, good_}, path + message);
    expect_error({"analyze", path}, path + message);
  }

  std::string good_text_;
  std::string good_;
};

TEST_F(HostileLogs, Good) {
  EXPECT_EQ(run({"compare", good_, good_}).exit_code, 0);
}

TEST_F(HostileLogs, Missing) {
  const std::string path = folder_ + "/none.jsonl";
  const std::string message = path + ": cannot open: No such file or directory; check the path";
  expect_error({"compare", good_, path}, message);
  expect_error({"compare", path, good_}, message);
  expect_error({"analyze", path}, message);
}

TEST_F(HostileLogs, Empty) {
  const char* message = ": the log holds no records; check that the engine logged to this file";
  expect_refused("", message);
  expect_refused("\n\r\n \n", message);
  expect_refused("{\"assay\":1,\"tokens\":[1]}\n", message);
}

TEST_F(HostileLogs, Cut) {
  const std::string path = put("bad.jsonl", good_text_.substr(0, 40));
  EXPECT_EQ(run({"compare", good_, path}).exit_code, 2);
  expect_refused(
      good_text_.substr(0, 40) + "\n" + good_text_,
      ":1: is not valid JSON at byte 41: Missing a closing quotation mark in string; each line of "
      "a log is one JSON object");
}

TEST_F(HostileLogs, Binary) {
  expect_refused(std::string("\x7F"
                             "ELF\x02\x01\x01\0\0\0\0",
                             11) +
                     "\n",
                 ":1: is not valid JSON at byte 1: Invalid value; each line of a log is one JSON "
                 "object");
  expect_refused(std::string(1000000, '\0'),
                 ":1: is not valid JSON at byte 1: The document is empty; each line of a log is "
                 "one JSON object");
}

TEST_F(HostileLogs, HugeNumbers) {
  const std::string head = R"({"checkpoint":"logits","dtype":"f32","shape":[1],)";
  expect_refused(
      head + R"("token_idx":0,"values":[1e400]})" + "\n",
      ":1: 'values': 1e400 is beyond the range of a 32-bit float (element 0); values are "
      "32-bit floats, or \"NaN\", \"Infinity\", \"-Infinity\"");
  expect_refused(head + R"("token_idx":99999999999999999999,"values":[1]})" + "\n",
                 ":1: 'token_idx' is 1e+20, not an integer; write it as in \"token_idx\":0");
  expect_refused(head + R"("token_idx":1e400,"values":[1]})" + "\n",
                 ":1: is not valid JSON at byte 62: Number too big to be stored in double; each "
                 "line of a log is one JSON object");
  const std::string last =
      put("last.jsonl", head + R"("token_idx":9223372036854775807,"values":[1]})" + "\n");
  EXPECT_EQ(run({"compare", last, last}).exit_code, 0);
  EXPECT_EQ(run({"compare", last, last, "--align", "1"}).exit_code, 2);
}

TEST_F(HostileLogs, NotUtf8) {
  expect_refused("{\"checkpoint\":\"caf\xE9\",\"token_idx\":0}\n",
                 ":1: is not valid JSON at byte 19: Invalid encoding in string; each line of a log "
                 "is one JSON object");
}

TEST_F(HostileLogs, Duplicated) {
  const std::string twice = put("twice.jsonl", good_text_ + good_text_);
  EXPECT_EQ(run({"compare", good_, twice}).exit_code, 0);
  const std::string path = put("bad.jsonl", good_text_ + line("logits", 0, {1, 2, 4}));
  expect_error({"compare", good_, path},
               path +
                   ":2: 'logits' at token 0 was logged before, in line 1, with other values: "
                   "value 2 was 3 and is 4; keep the log of each run in its own file");
}

TEST_F(HostileLogs, Crlf) {
  ASSERT_EQ(good_text_.back(), '\n');
  std::string text = good_text_;
  text.back() = '\r';
  text += '\n';
  EXPECT_EQ(run({"compare", good_, put("crlf.jsonl", text)}).exit_code, 0);
}

TEST_F(HostileLogs, PermissionDenied) {
  chmod(folder_.c_str(), 0755);
  chmod(good_.c_str(), 0);
  // Root may read everything, so there the program runs as nobody.
  const auto user = geteuid() == 0 ? std::optional<uid_t>(65534) : std::nullopt;
  const Outcome outcome = run({"analyze", good_}, user);
  if (outcome.exit_code == 127)
    GTEST_SKIP() << "user: another user cannot run " << program_path("assay");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "assay: " + good_ +
                             ": cannot open: Permission denied; ask for permission to read it\n");
}

TEST_F(HostileLogs, NoFile) {
  const std::string empty = folder_ + "/empty";
  ASSERT_EQ(mkdir(empty.c_str(), 0700), 0);
  expect_error({"analyze", empty},
               empty + ": the folder holds no *.jsonl; give the folder with the logs of one run");
  expect_error({"analyze", "/dev/zero"},
               "/dev/zero: is not a regular file; give the path of a file");
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_error({"analyze", pipe}, pipe + ": is not a regular file; give the path of a file");
}

TEST_F(HostileLogs, DeeplyNested) {
  expect_refused("{\"a\":" + std::string(1000000, '[') + "\n",
                 ":1: nested too deeply; each line of a log is one JSON object");
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  expect_refused(objects + "\n", ":1: nested too deeply; each line of a log is one JSON object");
}

TEST_F(HostileLogs, ALineWithoutEnd) {
  // 300 MB of one line, as a sparse file: refused without holding it.
  const std::string path = put("bad.jsonl", "{\"checkpoint\":\"");
  std::filesystem::resize_file(path, 300'000'000);
  expect_error({"analyze", path},
               path +
                   ":1: the line is longer than 256 MiB; log fewer values, or check that the "
                   "file is a log");
}

TEST_F(HostileLogs, ShapesThatDoNotFit) {
  const std::string head = R"({"checkpoint":"logits","token_idx":0,"dtype":"f32","values":[1,2],)";
  expect_refused(head + "\"shape\":[1]}\n",
                 ":1: 2 values, but 'shape' says 1; log the shape of what is logged, or its size "
                 "as n");
  expect_refused(head + "\"shape\":[4294967296,4294967296]}\n",
                 ":1: the shape [4294967296,4294967296] has no element count; give dimensions of 0 "
                 "or more whose product fits 63 bits");
}

// Breaks if text from a log could move the cursor or change the terminal's title.
TEST_F(HostileLogs, MessagesCannotCommandTheTerminal) {
  const std::string path =
      put("bad.jsonl",
          "{\"checkpoint\":\"q\",\"token_idx\":0,\"dtype\":\"f\",\"shape\":\"\\u001b]0;x\","
          "\"values\":[1]}\n");
  const Outcome outcome = run({"analyze", path});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("\x1b")));
}

// Breaks if JSON on a terminal could turn its text around, hide it, or give it commands: U+009B is
// what ESC [ is, U+202E turns the direction.
TEST_F(HostileLogs, JsonHasNothingThatATerminalObeys) {
  const std::string name =
      "a\xc2\x9b"
      "2J\xe2\x80\xae\xe2\x80\x8b\xc2\xad\xf3\xa0\x81\x81z";
  const std::string log = put("seen.jsonl", line(name, 0, {1, 2}) + line("logits", 0, {1, 2}));
  const std::string escaped = "a\\u009b2J\\u202e\\u200b\\u00ad\\udb40\\udc41z";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"compare", log, log, "--format", "json"}, {"analyze", log, "--stats", "--json"}}) {
    const std::string out = run(command).out;
    EXPECT_THAT(out, testing::HasSubstr(escaped)) << command[0];
    for (const char* raw : {"\xc2\x9b", "\xe2\x80\xae", "\xe2\x80\x8b", "\xc2\xad", "\xf3\xa0"}) {
      EXPECT_THAT(out, testing::Not(testing::HasSubstr(raw))) << command[0];
    }
  }
}

}  // namespace
}  // namespace assay
