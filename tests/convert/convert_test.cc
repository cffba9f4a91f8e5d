#include "assay/convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
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
    header.ranks = Rank{.tp = 2, .ep = 3};  // how many of the other kinds, it does not say
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
      record.summary = Summary{-1.5, 0.1, 0.123456789, 3e200, 7, {{7, 0.1F}, {2, 3}}, 2, true, 1};
      record.sketch = Sketch{};
      record.sketch->fill(1.0 / 3);
      if (t == 1) record.sketch->at(5) = std::nan("");
      append_record_line(text, record);
    }
    record.values.clear();  // another number of values
    record.checkpoint = "logits";
    record.token_idx = 3;
    record.summary = Summary{std::nan(""), std::nan(""), std::nan(""), 0, -1, {}, 5, true, {}};
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
    record = Record();
    record.checkpoint = "logprobs";
    record.token_idx = 9;
    record.dtype = "f32";
    record.shape = {1, 151936};
    record.n = 151936;
    record.top = {{151935, -0.1F}, {0, -2.5F}, {7, -infinity}};
    record.sequence = "chat-7";
    record.step = 3;
    record.phase = Phase::kDecode;
    record.rank = Rank{.tp = 1, .pp = 0, .ep = 2};
    record.dims = "t h[tp]";
    append_record_line(text, record);
    return put("log.jsonl", text);
  }

  // Checkpoints of names that are taken in the files, or look like one with a number of values.
  std::string put_taken_names() {
    return put("log.jsonl", line("a#2", 0, {1, 2, 3, 4, 5}) + line("a", 0, {6, 7, 8}) +
                                line("a", 1, {9, 10}) + line("a#2", 1, {11, 12}) +
                                line("a#2#2", 0, {13}) + line("__metadata__", 0, {14}) +
                                line("assay.records", 0, {15, 16}) + line("assay.counts", 0, {17}));
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

// Breaks if a record whose shape is that of what is logged of it were read before its values.
TEST_F(ConvertTest, TheShapeOfALoggedHeadComesBack) {
  Record record;
  record.checkpoint = "logits";
  record.dtype = "f32";
  record.shape = {1, 2};
  record.n = 9;
  record.values = {1, 2};
  std::string text;
  append_record_line(text, record);
  log_to_arrays(put("head.jsonl", text), path("a.npz"));
  EXPECT_EQ(log_of(path("a.npz")), text);
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
assert npz['assay.counts'].tolist() == [6, 6, 6, 0, 2, 0]
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
assert arrays['assay.counts'].tolist() == [6, 6, 6, 0, 2, 0]
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
assert table['token_idx'].to_pylist() == [0, 1, 2, 3, 9, 9]
assert [len(v) for v in table['values'].to_pylist()] == [6, 6, 6, 0, 2, 0]
assert table['summary'].to_pylist()[0]['l2'] == 3e200
assert table['n'].to_pylist()[4] == 2 and table['team'].to_pylist() == [None] * 4 + ['t', None]
last = {key: column[5] for key, column in table.to_pydict().items()}
assert [last[key] for key in ('sequence', 'step', 'phase', 'dims')] == [
    'chat-7', 3, 'decode', 't h[tp]']
assert last['rank'] == {'tp': 1, 'pp': 0, 'ep': 2} and last['n'] == 151936
assert [pair['id'] for pair in last['top']] == [151935, 0, 7]
)",
                path("a.parquet"));
  const std::string taken = put_taken_names();
  log_to_parquet(taken, path("a.parquet"));
  text.clear();
  parquet_to_log(path("a.parquet"), path("b"), [&](std::string_view part) { text += part; });
  EXPECT_EQ(text, contents(taken));
  EXPECT_THAT(error_of([&] { parquet_to_log(log, path("b"), [](std::string_view) {}); }),
              HasSubstr("log.jsonl: "));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

// Breaks if files in the current folder were run: a log may come with a folder of another user.
TEST_F(ConvertTest, NoModuleOfTheCurrentFolderIsRun) {
  const std::string log = put_log();
  for (const std::string name :
       {"json", "mmap", "re", "struct", "pyarrow", "encodings", "sitecustomize", "usercustomize"}) {
    put(name + ".py", "open('" + path("ran") + "', 'a').write('" + name + "\\n')\n");
  }
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const std::string said = error_of([&] { log_to_parquet(log, path("a.parquet")); });
  std::filesystem::current_path(before);
  EXPECT_THAT(said, testing::AnyOf("no error", HasSubstr("pyarrow is not installed")));
  EXPECT_FALSE(std::filesystem::exists(path("ran"))) << contents(path("ran"));
}

// Files that ask for more than they hold.
class HostileArrays : public ConvertTest {
 protected:
  // `arrays`: name, type, shape and where its data begins, as JSON. The data is `data`.
  std::string put_safetensors(const std::string& arrays, const std::string& data) {
    const size_t length = arrays.size();
    std::string text;
    for (int i = 0; i < 8; ++i) text += static_cast<char>((length >> (8 * i)) & 0xFF);
    return put("h.safetensors", text + arrays + data);
  }

  // The archive that `code` fills, z being a ZipFile; most memory that reading it took, in bytes.
  int64_t memory_to_read(const std::string& code, const std::string& message) {
    expect_python("python3", R"(
import struct, zipfile
def head(code, shape):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }" % (code, shape)
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
)" + code,
                  path("h.npz"));
    const auto status = [](const std::string& key) {
      std::ifstream file("/proc/self/status");
      for (std::string word; file >> word;) {
        int64_t kib = 0;
        if (word == key && file >> kib) return kib * 1024;
      }
      return int64_t{0};
    };
    std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
    const int64_t before = status("VmRSS:");
    EXPECT_THAT(error_of([&] { arrays_to_log(path("h.npz"), [](std::string_view) {}); }),
                HasSubstr(message));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0 * before;  // sanitizers keep what was given back
#else
    return status("VmHWM:") - before;
#endif
  }
};

// Records that are 200 MB of one byte, as Python writes it.
std::string repeated(const std::string& byte) {
  return R"(
    with z.open("assay.records.npy", "w") as f:
        f.write(head("|u1", 200 << 20))
        for _ in range(200): f.write(b")" +
         byte + R"(" * (1 << 20))
    z.writestr("assay.counts.npy", head("<i8", 0))
)";
}

// Breaks if 1.4 MB of compressed lines were in memory at once: 519 MB.
TEST_F(HostileArrays, TextIsReadLineByLine) {
  EXPECT_LT(memory_to_read(repeated("\\n"), "no error"), 32 << 20);
}

TEST_F(HostileArrays, ALineWithoutEndIsRefused) {
  EXPECT_LT(memory_to_read(repeated(" "), "'assay.records': a line is longer than 16 MiB"),
            64 << 20);
}

// Breaks if all entries stayed open: 4,000 took 64 MB.
TEST_F(HostileArrays, EntriesAreOpenWhileTheyAreRead) {
  EXPECT_LT(memory_to_read(R"(
    for i in range(4000): z.writestr("%d.npy" % i, head("|u1", 0))
)",
                           "the array 'assay.records' is missing"),
            16 << 20);
}

// Breaks if one range could hold the values of many arrays: 128 KB made 90 MB.
TEST_F(HostileArrays, SafetensorsThatShareBytesAreRefused) {
  const auto array = [](const std::string& name, int begin) {
    return "\"" + name + R"(":{"dtype":"F32","shape":[1,2],"data_offsets":[)" +
           std::to_string(begin) + "," + std::to_string(begin + 8) + "]}";
  };
  const auto error = [&](const std::string& arrays) {
    const std::string file = put_safetensors("{" + arrays + "}", std::string(16, 'x'));
    return error_of([&] { log_of(file); });
  };
  EXPECT_THAT(error(array("a", 0) + "," + array("b", 0)),
              HasSubstr("the arrays 'a' and 'b' share bytes of the file"));
  EXPECT_THAT(error(array("b", 4) + "," + array("a", 0)),
              HasSubstr("the arrays 'a' and 'b' share bytes of the file"));
  EXPECT_THAT(error(array("a", 0) + "," + array("a", 8)), HasSubstr("names 'a' twice"));
  EXPECT_THAT(error(array("a", 0) + "," + array("b", 8) +
                    R"(,"c":{"dtype":"F32","shape":[0],"data_offsets":[4,4]})"),
              HasSubstr("the array 'assay.records' is missing"));
}

TEST_F(ConvertTest, ReportsAMissingPython) {
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

TEST_F(ConvertTest, NoTwoCheckpointsShareAnArray) {
  const std::string log = put_taken_names();
  for (const std::string name : {"a.npz", "a.safetensors"}) {
    log_to_arrays(log, path(name));
    EXPECT_EQ(log_of(path(name)), contents(log)) << name;
  }
}

// Breaks if the values of a checkpoint were lost on the way.
TEST_F(ConvertTest, ANameThatAnArchiveCannotHoldIsRefused) {
  for (const std::string& name :
       {std::string("a\\u0000b"), std::string("\\u001b[31m"), std::string(65532, 'n')}) {
    const std::string log = put("log.jsonl", line(name, 0, {1}));
    EXPECT_THAT(error_of([&] { log_to_arrays(log, path("a.npz")); }),
                HasSubstr("an NPZ archive cannot hold an array of the name"));
    EXPECT_FALSE(std::filesystem::exists(path("a.npz")));
    log_to_arrays(log, path("a.safetensors"));
    EXPECT_EQ(log_of(path("a.safetensors")), contents(log));
  }
  const std::string most = put("log.jsonl", line(std::string(65531, 'n'), 0, {1}));
  log_to_arrays(most, path("a.npz"));
  EXPECT_EQ(log_of(path("a.npz")), contents(most));
}

// Breaks if lines were joined wrongly where a piece of the text ends: there are several of a MiB.
TEST_F(ConvertTest, RecordsOfSeveralPiecesComeBack) {
  std::string text;
  Record record;
  record.checkpoint = "a";
  record.dtype = "f32";
  record.shape = {1};
  record.n = 1;
  record.values = {1};
  for (size_t i = 0; i < 40; ++i) {
    record.ts = std::string(90'000 + i * 997, 'x');
    append_record_line(text, record);
  }
  const std::string log = put("log.jsonl", text);
  for (const std::string name : {"a.npz", "a.safetensors"}) {
    log_to_arrays(log, path(name));
    EXPECT_TRUE(log_of(path(name)) == text) << name;
  }
}

TEST_F(ConvertTest, ReportsFilesThatAreNotLogs) {
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
