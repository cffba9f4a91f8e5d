#include "assay/convert/npz_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/compare/log_files.h"
#include "tests/support/python.h"

namespace assay {
namespace {

using testing::HasSubstr;

template <typename Number>
void add(ArrayWriter& writer, const std::string& name, ArrayType type,
         const std::vector<int64_t>& shape, const std::vector<Number>& values) {
  writer.add(name, type, shape, [values](std::string& piece) {
    piece.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
  });
}

void add(ArrayWriter& writer, const std::string& name, const std::vector<int64_t>& shape,
         const std::vector<float>& values) {
  add(writer, name, ArrayType::kFloat32, shape, values);
}

class NpzWriterTest : public LogFiles {
 protected:
  std::string path() const { return folder_ + "/arrays.npz"; }

  // Runs `code` with numpy as np and the archive as npz.
  void expect_numpy(const std::string& code) {
    const std::string python = python_with("numpy");
    if (python.empty()) GTEST_SKIP() << "numpy: python3-numpy is not installed";
    const auto [exit_code, text] = run_program(
        {python, "-c",
         "import sys, numpy as np\nnpz = np.load(sys.argv[1], allow_pickle=False)\n" + code,
         path()});
    EXPECT_EQ(exit_code, 0) << text;
  }
};

TEST_F(NpzWriterTest, NumpyLoadsTheSameArrays) {
  NpzWriter writer(path());
  add(writer, "logits", {2, 3},
      {1, -2.5F, 0.1F, std::numeric_limits<float>::quiet_NaN(),
       std::numeric_limits<float>::infinity(), 1e-45F});
  add(writer, "layer_0_output.sketch", ArrayType::kFloat64, {1, 2},
      std::vector<double>{0.1, -1e300});
  writer.add("tokens", {3}, std::vector<int64_t>{-1, 0, int64_t{1} << 40});
  add(writer, "empty", {0, 4}, {});
  add(writer, "scalar", {}, {7});
  writer.close();
  expect_numpy(R"(
assert sorted(npz.files) == ['empty', 'layer_0_output.sketch', 'logits', 'scalar', 'tokens']
want = np.array([[1, -2.5, 0.1], [np.nan, np.inf, 1e-45]], np.float32)
assert npz['logits'].dtype == np.float32 and npz['logits'].shape == (2, 3)
assert npz['logits'].tobytes() == want.tobytes()
assert npz['layer_0_output.sketch'].tobytes() == np.array([[0.1, -1e300]]).tobytes()
assert npz['tokens'].dtype == np.int64 and npz['tokens'].tolist() == [-1, 0, 2**40]
assert npz['empty'].shape == (0, 4) and npz['scalar'].shape == () and npz['scalar'] == 7
)");
}

// Breaks if data were asked for before close(), or pieces were joined wrongly.
TEST_F(NpzWriterTest, DataComesInPiecesWhenTheArchiveIsWritten) {
  NpzWriter writer(path());
  int64_t next = 0;
  writer.add("counts", ArrayType::kInt64, {100000}, [&](std::string& bytes) {
    for (int i = 0; i < 1000; ++i, ++next) {
      bytes.append(reinterpret_cast<const char*>(&next), sizeof(next));
    }
  });
  EXPECT_EQ(next, 0);
  writer.close();
  expect_numpy("assert (npz['counts'] == np.arange(100000)).all()");
}

// Breaks if the length of the header did not go over to 32 bits.
TEST_F(NpzWriterTest, AShapeOfManyDimensionsHasALongHeader) {
  NpzWriter writer(path());
  add(writer, "deep", std::vector<int64_t>(30000, 1), {3});
  writer.close();
  const std::string python = python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "numpy: python3-numpy is not installed";
  const auto [exit_code, text] = run_program(
      {python, "-c",
       "import sys, zipfile, numpy.lib.format as f\n"
       "file = zipfile.ZipFile(sys.argv[1]).open('deep.npy')\n"
       "assert f.read_magic(file) == (2, 0)\n"
       "assert f.read_array_header_2_0(file, max_header_size=10**6)[0] == (1,) * 30000\n",
       path()});
  EXPECT_EQ(exit_code, 0) << text;
}

TEST_F(NpzWriterTest, SaysWhatIsWrong) {
  EXPECT_THAT(error_of([&] {
                NpzWriter writer(folder_ + "/none/a.npz");
                add(writer, "x", {1}, {1});
                writer.close();
              }),
              HasSubstr("/none/a.npz: "));
  NpzWriter writer(path());
  add(writer, "x", {1}, {1});
  EXPECT_THAT(error_of([&] { add(writer, "x", {1}, {1}); }), HasSubstr("'x'"));
  EXPECT_THAT(error_of([&] { add(writer, "y", {-1}, {1}); }), HasSubstr("(-1)"));
  EXPECT_THAT(error_of([&] {
                add(writer, "z", {int64_t{1} << 40, int64_t{1} << 40}, {1});
              }),
              HasSubstr("no size"));
}

// Breaks if half an archive were left, or the reason lost.
TEST_F(NpzWriterTest, AnErrorOfASourceIsThrownAndNoFileIsLeft) {
  for (const bool too_much : {true, false}) {
    NpzWriter writer(path());
    writer.add("x", ArrayType::kFloat32, {2}, [&](std::string& bytes) {
      if (!too_much) throw Error("the log broke");
      bytes.append(12, 'x');
    });
    EXPECT_THAT(error_of([&] { writer.close(); }),
                HasSubstr(too_much ? "does not match its shape" : "the log broke"));
    EXPECT_FALSE(std::filesystem::exists(path()));
  }
}

}  // namespace
}  // namespace assay
