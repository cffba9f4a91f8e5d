#include "assay/convert/log_arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/compare/log_files.h"
#include "tests/support/python.h"

namespace assay {
namespace {

using testing::HasSubstr;

class LogArraysTest : public LogFiles {
 protected:
  void expect_numpy(const std::string& log, const std::string& code) {
    const std::string python = python_with("numpy");
    if (python.empty()) GTEST_SKIP() << "numpy: python3-numpy is not installed";
    const std::string npz = folder_ + "/a.npz";
    write_log_as_npz(put("a.jsonl", log), npz);
    const auto [exit_code, text] = run_program(
        {python, "-c",
         "import sys, numpy as np\nnpz = np.load(sys.argv[1], allow_pickle=False)\n" + code, npz});
    EXPECT_EQ(exit_code, 0) << text;
  }
};

TEST_F(LogArraysTest, EachCheckpointIsAnArrayByToken) {
  expect_numpy(line("logits", 1, {4, 5, 6}) + line("layer_0_q", 1, {7, std::nanf("")}) +
                   line("logits", 0, {1, 2, 3}) + line("layer_0_q", 0, {8, INFINITY}),
               R"(
assert sorted(npz.files) == ['layer_0_q', 'logits', 'token_idx']
assert npz['logits'].dtype == np.float32 and npz['logits'].tolist() == [[1, 2, 3], [4, 5, 6]]
assert npz['layer_0_q'][0].tolist() == [8, np.inf]
assert npz['layer_0_q'][1][0] == 7 and np.isnan(npz['layer_0_q'][1][1])
assert npz['token_idx'].tolist() == [0, 1]
)");
}

TEST_F(LogArraysTest, RecordsOfOtherTokensAndLengths) {
  expect_numpy(line("logits", 5, {1, 2, 3}) + line("q", 7, {1}) + line("q", 2, {4, 5}), R"(
assert sorted(npz.files) == ['logits', 'logits.token_idx', 'q', 'q.token_idx']
assert npz['q.token_idx'].tolist() == [2, 7] and npz['logits.token_idx'].tolist() == [5]
assert npz['q'][0].tolist() == [4, 5] and npz['q'][1][0] == 1 and np.isnan(npz['q'][1][1])
)");
}

TEST_F(LogArraysTest, EmptyRecordsAndStrangeNames) {
  expect_numpy(line("../a b\\n\u00e9", 0, {}) + line("x", 0, {1}), R"(
assert npz['../a b\né'].shape == (1, 0) and npz['x'].shape == (1, 1)
)");
}

// Breaks if a log of 137 KB made an archive of 100 MB.
TEST_F(LogArraysTest, AnArchiveOfLittleButFillIsRefused) {
  std::string log = line("a", 0, std::vector<float>(50000, 1));
  for (int token = 1; token < 500; ++token) log += line("a", token, {1});
  const std::string path = put("a.jsonl", log);
  EXPECT_EQ(error_of([&] { write_log_as_npz(path, folder_ + "/a.npz"); }),
            path +
                ": the 50499 values of 'a' would be padded with NaN to 25000000, because one of "
                "its records has 50000; assay convert keeps records of each size apart");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/a.npz"));
}

TEST_F(LogArraysTest, RefusesToOverwriteItsInput) {
  const std::string log = put("a.jsonl", line("x", 0, {1}));
  EXPECT_THAT(error_of([&] { write_log_as_npz(log, log); }), HasSubstr("overwrite the log"));
  EXPECT_THAT(error_of([&] { write_log_as_npz(log, folder_ + "/none/a.npz"); }),
              HasSubstr("/none/a.npz"));
}

}  // namespace
}  // namespace assay
