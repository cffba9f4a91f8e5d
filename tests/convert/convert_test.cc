#include "assay/convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "assay/log/log_writer.h"
#include "assay/log/record_text.h"
#include "tests/compare/log_files.h"
#include "tests/support/python.h"

namespace assay {
namespace {

using testing::HasSubstr;

class ConvertTest : public LogFiles {
 protected:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // A log with all that records may hold, and records of a checkpoint of several sizes.
  std::string put_log() {
    const float infinity = std::numeric_limits<float>::infinity();
    LogHeader header;
    header.model = {"m\"", "ab", "llama", "F32"};
    header.tokens = {1, 2, 3};
    header.prompt = "two\nlines\xE2\x80\xA8 caf\xC3\xA9";
    header.engine = "assay";
    std::string text = header_line(header);
    Record record;
    for (int64_t t = 0; t < 3; ++t) {
      record = Record();
      record.checkpoint = "logits";
      record.token_idx = t;
      record.dtype = "f32";
      record.shape = {1, 151936};
      record.n = 151936;
      record.values = {0.1F, -1e-45F, infinity, std::nanf(""), static_cast<float>(t), -0.0F};
      record.summary = Summary{-1.5, 0.1, 0.123456789, 3e200, 7, {{7, 0.1F}, {2, 3}}, 2, 1};
      record.sketch = Sketch{};
      record.sketch->fill(1.0 / 3);
      if (t == 1) record.sketch->at(5) = std::nan("");
      append_record_line(text, record);
    }
    record.values.clear();  // another number of values
    record.checkpoint = "logits";
    record.token_idx = 3;
    record.summary = Summary{std::nan(""), std::nan(""), std::nan(""), 0, -1, {}, 5, {}};
    record.sketch.reset();
    append_record_line(text, record);
    record = Record();
    record.checkpoint = "layer_0/\"odd\" \xE2\x82\xAC";
    record.token_idx = 9;
    record.dtype = "bf16";
    record.shape = {2, 1};
    record.n = 2;
    record.values = {1, 2};
    record.ts = "2025-01-01";
    record.team = "t";
    record.source = "s";
    record.file = "f.cc";
    record.line = 12;
    append_record_line(text, record);
    return put("log.jsonl", text);
  }

  static std::string log_of(const std::string& arrays) {
    std::string text;
    arrays_to_log(arrays, [&](std::string_view part) { text += part; });
    return text;
  }

  static void expect_python(const std::string& python, const std::string& code,
                            const std::string& argument) {
    const auto [exit_code, text] = run_program({python, "-c", "import sys\n" + code, argument});
    EXPECT_EQ(exit_code, 0) << text;
  }
};

TEST_F(ConvertTest, ArraysGiveTheLogBack) {
  const std::string log = put_log();
  for (const std::string name : {"a.npz", "a.safetensors"}) {
    log_to_arrays(log, path(name));
    EXPECT_EQ(log_of(path(name)), contents(log)) << name;
  }
}

// Breaks if the line of a record were written otherwise than LogWriter does.
TEST_F(ConvertTest, ALogOfOursComesBackByteForByte) {
  const std::string log = path("ours.jsonl");
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 5);
  LogWriter writer(log, {.team = "ours", .head_values = 50, .summary = true, .sketch = true});
  writer.write_header({.model = {.name = "m", .sha256 = "", .arch = "", .type = ""},
                       .tokens = {},
                       .prompt = {},
                       .engine = "",
                       .backend = "",
                       .math = ""});
  for (int64_t i = 0; i < 40; ++i) {
    std::vector<float> values(static_cast<size_t>(i * 3));
    for (float& value : values) value = normal(random);
    writer.write(i % 2 == 0 ? "layer_0_output" : "logits", i, values);
  }
  writer.close();
  for (const std::string name : {"a.npz", "a.safetensors"}) {
    log_to_arrays(log, path(name));
    EXPECT_EQ(log_of(path(name)), contents(log));
  }
}

TEST_F(ConvertTest, NumpyReadsTheArrays) {
  const std::string python = python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "numpy: python3-numpy is not installed";
  log_to_arrays(put_log(), path("a.npz"));
  expect_python(python, R"(
import numpy as np
npz = np.load(sys.argv[1], allow_pickle=False)
logits = npz['logits']
assert logits.dtype == np.float32 and logits.shape == (3, 6), logits
assert logits[1, :3].tobytes() == np.array([0.1, -1e-45, np.inf], np.float32).tobytes()
assert np.isnan(logits[:, 3]).all() and logits[:, 4].tolist() == [0, 1, 2]
assert npz['logits#0'].shape == (1, 0)
assert npz['layer_0/"odd" €'].tolist() == [[1, 2]]
assert npz['assay.counts'].tolist() == [6, 6, 6, 0, 2]
)",
                path("a.npz"));
}

// What numpy writes again, compressed, is read.
TEST_F(ConvertTest, ArchivesOfNumpyAreRead) {
  const std::string python = python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "numpy: python3-numpy is not installed";
  const std::string log = put_log();
  log_to_arrays(log, path("a.npz"));
  expect_python(python, R"(
import numpy as np
arrays = dict(np.load(sys.argv[1]))
arrays['more'] = np.zeros(3, np.complex64)
np.savez_compressed(sys.argv[1], **arrays)
)",
                path("a.npz"));
  EXPECT_EQ(log_of(path("a.npz")), contents(log));
}

TEST_F(ConvertTest, TheSafetensorsPackageReadsTheArrays) {
  const std::string python = python_with("safetensors.numpy");
  if (python.empty()) GTEST_SKIP() << "python: the package safetensors is not installed";
  const std::string log = put_log();
  log_to_arrays(log, path("a.safetensors"));
  expect_python(python, R"(
from safetensors.numpy import load_file, save_file
arrays = load_file(sys.argv[1])
assert arrays['logits'].shape == (3, 6) and arrays['logits'][2, 4] == 2
assert arrays['assay.counts'].tolist() == [6, 6, 6, 0, 2]
save_file(arrays, sys.argv[1], metadata={'by': 'the test'})
)",
                path("a.safetensors"));
  EXPECT_EQ(log_of(path("a.safetensors")), contents(log));
}

TEST_F(ConvertTest, ParquetGivesTheLogBack) {
  const std::string python = python_with("pyarrow.parquet");
  if (python.empty()) GTEST_SKIP() << "python: the package pyarrow is not installed";
  setenv("ASSAY_PYTHON", python.c_str(), 1);
  const std::string log = put_log();
  log_to_parquet(log, path("a.parquet"));
  std::string text;
  parquet_to_log(path("a.parquet"), path("b"), [&](std::string_view part) { text += part; });
  EXPECT_EQ(text, contents(log));
  expect_python(python, R"(
import pyarrow.parquet as pq
table = pq.read_table(sys.argv[1])
assert table['token_idx'].to_pylist() == [0, 1, 2, 3, 9]
assert [len(v) for v in table['values'].to_pylist()] == [6, 6, 6, 0, 2]
assert table['summary'].to_pylist()[0]['l2'] == 3e200
assert table['n'].to_pylist()[4] == 2 and table['team'].to_pylist() == [None] * 4 + ['t']
)",
                path("a.parquet"));
  EXPECT_THAT(error_of([&] { parquet_to_log(log, path("b"), [](std::string_view) {}); }),
              HasSubstr("log.jsonl: "));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

// Breaks if what stands in the current folder were run: a log may come with a folder of somebody
// else's.
TEST_F(ConvertTest, NoModuleOfTheCurrentFolderIsRun) {
  const std::string log = put_log();
  for (const std::string name :
       {"json", "mmap", "struct", "pyarrow", "encodings", "sitecustomize", "usercustomize"}) {
    put(name + ".py", "open('" + path("ran") + "', 'a').write('" + name + "\\n')\n");
  }
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const std::string said = error_of([&] { log_to_parquet(log, path("a.parquet")); });
  std::filesystem::current_path(before);
  EXPECT_THAT(said, testing::AnyOf("no error", HasSubstr("pyarrow is not installed")));
  EXPECT_FALSE(std::filesystem::exists(path("ran"))) << contents(path("ran"));
}

TEST_F(ConvertTest, APythonThatIsMissingIsTold) {
  setenv("ASSAY_PYTHON", "/nonexistent/python", 1);
  EXPECT_THAT(error_of([&] { log_to_parquet(put_log(), path("a.parquet")); }),
              HasSubstr("a.parquet: cannot run /nonexistent/python"));
  unsetenv("ASSAY_PYTHON");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

// Files from outside: each must give a log or an Error, and nothing else.
TEST_F(ConvertTest, DamagedFilesAreErrors) {
  const std::string log = put_log();
  std::mt19937 random(2);
  for (const std::string name : {"a.npz", "a.safetensors"}) {
    log_to_arrays(log, path(name));
    const std::string whole = contents(path(name));
    for (int round = 0; round < 400; ++round) {
      std::string damaged = whole;
      if (round % 2 == 0) {
        damaged.resize(random() % whole.size());
      } else {
        for (int i = 0; i < 3; ++i) {
          damaged[random() % whole.size()] = static_cast<char>(random());
        }
      }
      const std::string file = put("damaged" + name, damaged);
      const std::string error = error_of([&] { log_of(file); });
      if (round % 2 == 0) {
        EXPECT_THAT(error, HasSubstr(file));
      }
    }
  }
}

// Breaks if a bit that was flipped in an array became another log: an archive has checksums.
TEST_F(ConvertTest, AFlippedBitInAnArchiveIsNoticed) {
  log_to_arrays(put_log(), path("a.npz"));
  const std::string whole = contents(path("a.npz"));
  const size_t first = whole.find("\x93NUMPY");
  ASSERT_NE(first, std::string::npos);
  std::string damaged = whole;
  damaged[first + 128] = static_cast<char>(damaged[first + 128] ^ 1);  // the first value
  const std::string file = put("flipped.npz", damaged);
  EXPECT_THAT(error_of([&] { log_of(file); }), HasSubstr("is cut off or damaged"));
}

TEST_F(ConvertTest, WhatIsNoLogIsTold) {
  const std::string text = put("x.npz", "no archive");
  EXPECT_THAT(error_of([&] { log_of(text); }), HasSubstr("x.npz: cannot read the archive"));
  const std::string huge = put("x.safetensors", std::string(8, '\x7F') + "{}");
  EXPECT_THAT(error_of([&] { log_of(huge); }), HasSubstr("length of its header"));
  const std::string empty = put("y.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(error_of([&] { log_of(empty); }), HasSubstr("the array 'assay.records' is missing"));
  EXPECT_THAT(error_of([&] { log_to_arrays(put("e.jsonl", ""), path("a.npz")); }),
              HasSubstr("no records"));
}

}  // namespace
}  // namespace assay
