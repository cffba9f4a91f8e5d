// Whole models on a device: the bits of the CPU, whatever the order of blocks and threads.

#include "engine/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "tests/support/backend.h"
#include "tests/support/recorder.h"

namespace assay {
namespace {

using testing_support::Backend;
using testing_support::Recorder;

struct Setup {
  Backend backend;
  std::string model;
  KvType kv_type;
};

void PrintTo(const Setup& setup, std::ostream* out) {
  *out << setup.model << (setup.kv_type == KvType::kF16 ? " f16" : " f32");
}

class DeviceSession : public testing::TestWithParam<Setup> {
 protected:
  DeviceSession()
      : model_(std::make_shared<Gguf>(std::string(ASSAY_SOURCE_DIR) + "/golden/" +
                                      GetParam().model + "/" + GetParam().model + "-q4_k_m.gguf")) {
  }

  // Logits after eleven tokens, the last of them on its own.
  std::vector<float> logits(Kernels& kernels, int64_t batch, Probe* probe) {
    Session session(model_, kernels,
                    {.capacity = 11, .batch = batch, .kv_type = GetParam().kv_type});
    const std::vector<int32_t> tokens{11, 48, 85, 122, 159, 196, 233, 20, 57, 94, 131};
    session.eval({tokens.data(), 10}, probe);
    const auto last = session.eval({tokens.data() + 10, 1}, probe);
    return {last.begin(), last.end()};
  }

  Model model_;
};

std::string setup_name(const testing::TestParamInfo<Setup>& test) {
  return test.param.model + (test.param.kv_type == KvType::kF16 ? "_f16" : "_f32");
}

std::vector<Setup> setups(Backend backend) {
  return {{backend, "tinyllama", KvType::kF16},
          {backend, "gpt2", KvType::kF32},
          {backend, "phi3", KvType::kF32}};
}

INSTANTIATE_TEST_SUITE_P(Emulated, DeviceSession, testing::ValuesIn(setups(Backend::kEmulated)),
                         setup_name);
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceSession, testing::ValuesIn(setups(Backend::kCuda)), setup_name);

// Weights that are not copied, or copied wrongly; checkpoints that are taken before the kernels
// are done; a result that hangs on the order of blocks and threads, or on the batch.
TEST_P(DeviceSession, HasTheBitsOfTheCpuForEverySeedAndBatch) {
  const std::string reason = testing_support::reason_to_skip(GetParam().backend);
  if (!reason.empty()) GTEST_SKIP() << reason;
  ThreadPool pool(1);
  Recorder expected;
  const std::vector<float> want = logits(*make_cpu_kernels(pool), 512, &expected);
  ASSERT_FALSE(expected.records.empty());
  for (const uint64_t seed : {0U, 1U, 4321U}) {
    const auto kernels = testing_support::make_kernels(GetParam().backend, pool, seed);
    Recorder recorder;
    EXPECT_EQ(logits(*kernels, seed == 0 ? 512 : 3, &recorder), want) << "seed " << seed;
    EXPECT_EQ(recorder.records, expected.records) << "seed " << seed;
    EXPECT_EQ(logits(*kernels, 4, nullptr), want) << "not logged, seed " << seed;
  }
}

}  // namespace
}  // namespace assay
