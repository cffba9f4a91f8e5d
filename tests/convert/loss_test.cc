// A conversion rejects, or warns of, what it would lose or invent.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "assay/convert/convert.h"
#include "assay/convert/npz_writer.h"
#include "tests/compare/log_files.h"
#include "tests/support/python.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class LossTest : public LogFiles {
 protected:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  static std::string log_of(const std::string& arrays) {
    std::string text;
    arrays_to_log(arrays, [&](std::string_view part) { text += part; });
    return text;
  }

  // Whether Python with these modules has run `code`, which has the path of `name` in sys.argv[1].
  bool run_python(const std::string& module, const std::string& name, const std::string& code) {
    const std::string python = python_with(module);
    if (python.empty()) return false;
    const auto [exit_code, text] = run_program({python, "-c", "import sys\n" + code, path(name)});
    EXPECT_EQ(exit_code, 0) << text;
    setenv("ASSAY_PYTHON", python.c_str(), 1);
    return true;
  }

  // Has this shell script run where Python would: $3 is the mode, $4 the input, $5 the output.
  void use_python(const std::string& script) {
    const std::string program = put("python", "#!/bin/sh\n" + script + "\n");
    fs::permissions(program, fs::perms(0755));
    setenv("ASSAY_PYTHON", program.c_str(), 1);
  }

  // Logs of one record each, with a summary that lacks something, and a whole one.
  static std::vector<std::string> summaries_in_part() {
    std::vector<std::string> logs;
    for (const std::string summary :
         {R"("l2":3,"argmax":1)", R"("max":2)", R"("min":1,"top":[[1,2]])", R"("nonfinite":1)", "",
          R"("min":-1e+300,"max":1e+300)",
          R"("min":1,"max":2,"mean":1.5,"l2":3,"argmax":1,"top":[[1,2]],"nonfinite":0)"}) {
      logs.push_back(line("logits", 0, {1, 2}, ",\"summary\":{" + summary + "}"));
    }
    return logs;
  }

  void expect_written_behind_a_link(const std::string& ending,
                                    const std::function<void(const std::string&)>& write) {
    fs::create_directories(path("there"));
    put("there/real" + ending, "old");
    const std::string link = path("link" + ending);
    fs::create_symlink("there/real" + ending, link);
    write(link);
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_GT(fs::file_size(path("there/real" + ending)), 100U);
    for (const auto& entry : fs::directory_iterator(path("there"))) {
      EXPECT_EQ(entry.path().stem(), "real") << "left beside it";
    }
  }
};

TEST_F(LossTest, WarnsOfATornLastLine) {
  const std::string log = put("log.jsonl", line("logits", 0, {1}) + "{\"checkpoint\":\"lo");
  for (const std::string name : {"a.npz", "a.safetensors"}) {
    EXPECT_THAT(log_to_arrays(log, path(name)), ElementsAre(HasSubstr("log.jsonl:2")));
    EXPECT_EQ(log_of(path(name)), line("logits", 0, {1}));
  }
  EXPECT_THAT(log_to_arrays(put("log.jsonl", line("logits", 0, {1})), path("a.npz")), IsEmpty());
}

// Breaks if a log came back without one of the user's own keys, and without a warning.
TEST_F(LossTest, WarnsOfKeysThatAreNotKept) {
  const std::string header =
      R"({"assay":1,"model":{"arch":"llama","quant":"x"},"extra":[1],"team":"t"})"
      "\n";
  const std::string log =
      put("log.jsonl",
          header + line("a", 0, {1}, R"(,"note":"x","ts":1.5,"team":{"id":4},"line":"12")") +
              line("a", 1, {1}, R"(,"note":{"note":2},"ts":"then","line":3,"engine":"e")") +
              line("a", 2, {1}, R"(,"team":null,"summary":{"l2":1,"p99":2,"top":[[0,1],5]})"));
  for (const std::string name : {"a.npz", "a.safetensors"}) {
    EXPECT_THAT(log_to_arrays(log, path(name)),
                ElementsAre(log + ": left out keys that are unknown or of a wrong type: "
                                  "engine in 1 line, extra in 1 "
                                  "line, line in 1 line, model.quant in 1 "
                                  "line, note in 2 lines, summary.p99 in 1 line, summary.top in 1 "
                                  "line, team in 2 lines, ts in 1 line"));
  }
  // Names of any number and length do not fill the terminal.
  std::string many = line("a", 0, {1});
  for (int i = 0; i < 100; ++i)
    many += line("a", i + 1, {1}, ",\"key" + std::to_string(100 + i) + "\":0");
  EXPECT_THAT(log_to_arrays(put("log.jsonl", many), path("a.npz")),
              ElementsAre(AllOf(HasSubstr("key115 in 1 line, and further keys 84 times"),
                                Not(HasSubstr("key116")))));
  // Kept keys, and keys without content, are no loss.
  EXPECT_THAT(
      log_to_arrays(put("log.jsonl", line("a", 0, {1}, R"(,"team":null,"ts":"t","line":1)")),
                    path("a.npz")),
      IsEmpty());
  const std::string whole =
      put("log.jsonl", R"({"assay":1,"model":{"name":"m"},"routing":"replayed",)"
                       R"("sampling":"temp 1","checkpoints":"ops"})"
                       "\n" +
                           line("a", 0, {1}));
  EXPECT_THAT(log_to_arrays(whole, path("a.npz")), IsEmpty());
  EXPECT_THAT(log_of(path("a.npz")), AllOf(HasSubstr(R"("routing":"replayed","sampling":"temp 1")"),
                                           HasSubstr(R"("checkpoints":"ops")")));
}

// Breaks if a value of a 64-bit log silently became 0, or if real zeros gave a warning.
TEST_F(LossTest, WarnsOfValuesThatBecomeZero) {
  const auto record = [](int token_idx, const std::string& values) {
    return R"({"checkpoint":"a","token_idx":)" + std::to_string(token_idx) +
           R"(,"dtype":"f64","shape":[4],"values":[)" + values + "]}\n";
  };
  const std::string zeros = record(0, "0, -0.0,0e9,1.5e-45") + record(1, "1e-40,0.0E+1,-0,10.0");
  EXPECT_THAT(log_to_arrays(put("zeros.jsonl", zeros), path("a.npz")), IsEmpty());
  const std::string log = put("log.jsonl", zeros + record(2, "0,1e-60,1,2") +
                                               record(3, "1,2,3,-0.5E-70 ") + record(4, "1,2,3,4"));
  const auto told = ElementsAre(log +
                                ": nonzero values below 1.4e-45, the least of 32-bit floats, "
                                "became 0 in 2 lines");
  for (const std::string name : {"a.npz", "a.safetensors"}) {
    EXPECT_THAT(log_to_arrays(log, path(name)), told);
  }
}

// Breaks if summary members that a log lacks were invented.
TEST_F(LossTest, WritesOnlyTheSummaryMembersOfTheLog) {
  for (const std::string& text : summaries_in_part()) {
    const std::string log = put("log.jsonl", text);
    for (const std::string name : {"a.npz", "a.safetensors"}) {
      log_to_arrays(log, path(name));
      EXPECT_EQ(log_of(path(name)), text);
    }
  }
}

TEST_F(LossTest, WritesOnlyTheSummaryMembersOfTheLogToParquet) {
  const std::string python = python_with("pyarrow.parquet");
  if (python.empty()) GTEST_SKIP() << "python: the package pyarrow is not installed";
  setenv("ASSAY_PYTHON", python.c_str(), 1);
  for (const std::string& text : summaries_in_part()) {
    log_to_parquet(put("log.jsonl", text), path("a.parquet"));
    std::string back;
    parquet_to_log(path("a.parquet"), path("b"), [&](std::string_view part) { back += part; });
    EXPECT_EQ(back, text);
  }
}

TEST_F(LossTest, RowsThatNoRecordHasAreRefused) {
  const std::string records =
      "{\"checkpoint\":\"a\",\"token_idx\":0,\"dtype\":\"f32\",\"shape\":"
      "[2],\"values\":[]}\n";
  for (const int64_t rows : {1, 2}) {
    NpzWriter writer(path("a.npz"));
    writer.add("a", ArrayType::kFloat32, {rows, 2},
               [](std::string& bytes) { bytes.assign(8, '\0'); });
    writer.add("assay.counts", {1}, std::vector<int64_t>{2});
    writer.add("assay.records", ArrayType::kUint8, {std::ssize(records)},
               [&](std::string& bytes) { bytes = records; });
    writer.close();
    EXPECT_THAT(error_of([&] { log_of(path("a.npz")); }),
                HasSubstr(rows == 1 ? "no error" : "the array 'a' has 2 rows, the records use 1"));
  }
}

// Breaks if many arrays could share one range of a file: 385 KB made 218 MB.
TEST_F(LossTest, ArchivesWhoseEntriesShareBytesOrNamesAreRefused) {
  log_to_arrays(put("log.jsonl", line("a", 0, std::vector<float>(5000, 1.5F))), path("a.npz"));
  ASSERT_TRUE(run_python("struct", "a.npz", R"(
import struct
data = open(sys.argv[1], 'rb').read()
end = data.rindex(b'PK\5\6')
count, size, at = struct.unpack('<HII', data[end + 10:end + 20])
first = data[at:at + 46 + sum(struct.unpack('<HHH', data[at + 28:at + 34]))]
assert b'a.npy' in first
directory = b''.join(first.replace(b'a.npy', b'%c.npy' % (98 + i)) for i in range(20)) + data[at:at + size]
data = data[:at] + directory + data[end:end + 8] + struct.pack('<HHII', count + 20, count + 20, len(directory), at) + data[end + 20:]
open(sys.argv[1], 'wb').write(data)
)"));
  EXPECT_THAT(error_of([&] { log_of(path("a.npz")); }),
              HasSubstr("a.npz: entries of the archive share bytes"));
  log_to_arrays(put("log.jsonl", line("a", 0, {1})), path("b.npz"));
  ASSERT_TRUE(run_python("zipfile", "b.npz", R"(
import warnings, zipfile
warnings.simplefilter('ignore')
with zipfile.ZipFile(sys.argv[1]) as z:
    arrays = [(info, z.read(info)) for info in z.infolist()]
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    for info, data in arrays + arrays[:1]: z.writestr(info.filename, data)
)"));
  EXPECT_THAT(error_of([&] { log_of(path("b.npz")); }),
              HasSubstr("b.npz: the archive has 'a.npy' twice"));
}

TEST_F(LossTest, ValuesThatAreNullOrTooLargeAreRefused) {
  const std::string make = R"(
import pyarrow as pa, pyarrow.parquet as pq
rows = ROWS
pq.write_table(pa.table({'checkpoint': ['embedding', 'logits', 'logits'], 'token_idx': [0, 0, 1],
                         'values': pa.array(rows, pa.list_(pa.TYPE()))}), sys.argv[1])
)";
  const struct {
    const char* rows;
    const char* type;
    const char* message;
  } cases[] = {
      {"[[1, 2], [3], []]", "float64", "no error"},
      {"[[1, 2], [float('inf')], [float('nan')]]", "float64", "no error"},
      {"[[1, 2], [3, None], []]", "float32", "row 2, checkpoint 'logits': a value is null"},
      {"[[1, 2], [3], None]", "float64", "row 3, checkpoint 'logits': 'values' is null"},
      {"[[1, 2], [3], [-1e39]]", "float64",
       "row 3, checkpoint 'logits': the value -1e+39 is beyond a 32-bit float"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.rows);
    std::string code = make;
    code.replace(code.find("ROWS"), 4, test.rows);
    code.replace(code.find("TYPE"), 4, test.type);
    if (!run_python("pyarrow.parquet", "a.parquet", code)) {
      GTEST_SKIP() << "python: the package pyarrow is not installed";
    }
    EXPECT_THAT(
        error_of([&] { parquet_to_log(path("a.parquet"), path("b"), [](std::string_view) {}); }),
        HasSubstr(test.message));
  }
}

// Breaks if the link were replaced: what others read behind it would stay as it was.
TEST_F(LossTest, BehindASymbolicLinkTheFileIsWritten) {
  const std::string log = put("log.jsonl", line("logits", 0, {1}));
  for (const std::string ending : {".npz", ".safetensors"}) {
    expect_written_behind_a_link(ending,
                                 [&](const std::string& link) { log_to_arrays(log, link); });
  }
}

TEST_F(LossTest, BehindASymbolicLinkTheParquetFileIsWritten) {
  const std::string log = put("log.jsonl", line("logits", 0, {1}));
  const std::string python = python_with("pyarrow.parquet");
  if (python.empty()) GTEST_SKIP() << "python: the package pyarrow is not installed";
  setenv("ASSAY_PYTHON", python.c_str(), 1);
  expect_written_behind_a_link(".parquet",
                               [&](const std::string& link) { log_to_parquet(log, link); });
}

// Breaks if the names of unfinished files were predictable: anyone who may write to the folder
// could have any file of the user overwritten through a symbolic link of that name.
TEST_F(LossTest, NoUnfinishedFileIsWrittenThroughALinkThatWaitsForIt) {
  const std::string victim = put("victim", "precious");
  for (const std::string ending : {".tmp", ".safetensors"}) {
    fs::create_symlink(victim, path("a.parquet." + std::to_string(getpid()) + ending));
    fs::create_symlink(victim, path("b.jsonl." + std::to_string(getpid()) + ending));
  }
  const std::string log = put("log.jsonl", line("logits", 0, {1}));
  use_python("stat -c %a \"$(dirname \"$5\")\" > " + path("mode") + "; echo made > \"$5\"");
  log_to_parquet(log, path("a.parquet"));
  EXPECT_EQ(contents(path("a.parquet")), "made\n");
  EXPECT_EQ(contents(path("mode")), "700\n");
  EXPECT_THAT(error_of([&] {
                parquet_to_log(path("a.parquet"), path("b.jsonl"), [](std::string_view) {});
              }),
              HasSubstr("arrays.safetensors: "));  // "made" is not a warning's
  EXPECT_EQ(contents(victim), "precious");
  for (const auto& entry : fs::directory_iterator(folder_)) EXPECT_FALSE(entry.is_directory());
  unsetenv("ASSAY_PYTHON");
}

// Breaks if a module that somebody put beside a log ran: Python takes an empty entry of PYTHONPATH,
// which "PYTHONPATH=$PYTHONPATH:/mine" often leaves, for the current folder.
TEST_F(LossTest, NoModuleOfTheCurrentFolderRuns) {
  put("json.py", "open('ran', 'w')\n");
  put("sitecustomize.py", "open('ran', 'w')\n");
  const std::string log = put("log.jsonl", line("logits", 0, {1}));
  fs::create_directories(path("mine"));
  put("mine/of_mine.py", "");
  put("mine/pyarrow.py", "import of_mine, sys\nsys.exit('pyarrow of ' + __file__)\n");
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  for (const std::string& entries :
       {std::string(":"), fmt::format(":{}::", path("mine")), path("mine") + ":"}) {
    setenv("PYTHONPATH", entries.c_str(), 1);
    const std::string error = error_of([&] { log_to_parquet(log, path("a.parquet")); });
    if (entries != ":") {
      EXPECT_THAT(error, HasSubstr("pyarrow of " + path("mine/pyarrow.py")));
    }
    EXPECT_FALSE(fs::exists(path("ran"))) << entries;
  }
  unsetenv("PYTHONPATH");
  fs::current_path(before);
}

// Breaks if only the beginning of Python's output were kept: the reason is its last line.
TEST_F(LossTest, ReportsPythonsLastLine) {
  use_python(
      "i=0; while [ $i -lt 2000 ]; do echo trace trace trace trace >&2; i=$((i+1)); done\n"
      "echo the reason >&2; exit 1");
  const std::string log = put("log.jsonl", line("logits", 0, {1}));
  EXPECT_THAT(error_of([&] { log_to_parquet(log, path("a.parquet")); }),
              HasSubstr("a.parquet: the reason"));
  unsetenv("ASSAY_PYTHON");
}

}  // namespace
}  // namespace assay
