// Whole models on a device: the bits of the CPU, whatever the order of blocks and threads.

#include "engine/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "tests/support/backend.h"
#include "tests/support/paths.h"
#include "tests/support/recorder.h"

namespace assay {
namespace {

using testing_support::Backend;
using testing_support::Recorder;

struct Setup {
  Backend backend;
  std::string model;
  KvType kv_type;
  Math math = Math::kExact;
  std::string type = "q4_k_m";
};

void PrintTo(const Setup& setup, std::ostream* out) {
  *out << setup.model << (setup.kv_type == KvType::kF16 ? " f16" : " f32");
}

class DeviceSession : public testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    const std::string reason = testing_support::reason_to_skip(GetParam().backend);
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  DeviceSession()
      : model_(std::make_shared<Gguf>(source_path("golden/") + GetParam().model + "/" +
                                      GetParam().model + "-" + GetParam().type + ".gguf")) {}

  // Logits after `count` tokens, the last of them on its own.
  std::vector<float> logits(Kernels& kernels, int64_t batch, Probe* probe, size_t count = 11) {
    Session session(model_, kernels,
                    {.capacity = 11, .batch = batch, .kv_type = GetParam().kv_type});
    const std::vector<int32_t> tokens{11, 48, 85, 122, 159, 196, 233, 20, 57, 94, 131};
    session.eval({tokens.data(), count - 1}, probe);
    const auto last = session.eval({tokens.data() + count - 1, 1}, probe);
    return {last.begin(), last.end()};
  }

  std::unique_ptr<Kernels> kernels(uint64_t seed) {
    return testing_support::make_kernels(GetParam().backend, pool_, seed, GetParam().math);
  }

  Model model_;
  ThreadPool pool_{1};
};

std::string setup_name(const testing::TestParamInfo<Setup>& test) {
  std::string name = test.param.model + (test.param.kv_type == KvType::kF16 ? "_f16" : "_f32") +
                     (test.param.math == Math::kFast ? "_fast" : "");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<Setup> setups(Backend backend) {
  return {{backend, "tinyllama", KvType::kF16},
          {backend, "gpt2", KvType::kF32},
          {backend, "qwen3", KvType::kF32},
          {backend, "olmo2", KvType::kF16},
          {backend, "granite", KvType::kF32},
          {backend, "phi3", KvType::kF32},
          {backend, "gemma3", KvType::kF32, Math::kExact, "f32"},
          {backend, "gemma4", KvType::kF32, Math::kExact, "f32"},
          {backend, "gemma4-moe", KvType::kF16, Math::kExact, "f32"},
          {backend, "gemma4-ple", KvType::kF32, Math::kExact, "f32"},
          {backend, "cohere2", KvType::kF16, Math::kExact, "f32"},
          {backend, "llama4", KvType::kF32, Math::kExact, "f32"},
          {backend, "phimoe", KvType::kF16, Math::kExact, "f32"},
          {backend, "mpt", KvType::kF32, Math::kExact, "f32"},
          {backend, "qwen3moe", KvType::kF32, Math::kExact, "f32"},
          {backend, "qwen3next", KvType::kF32, Math::kExact, "f32"},
          {backend, "tinyllama", KvType::kF16, Math::kFast},
          {backend, "gpt2", KvType::kF32, Math::kFast},
          {backend, "tinyllama", KvType::kF32, Math::kFast, "f16"},
          {backend, "gpt2", KvType::kF16, Math::kFast, "f16"}};
}

INSTANTIATE_TEST_SUITE_P(Emulated, DeviceSession, testing::ValuesIn(setups(Backend::kEmulated)),
                         setup_name);
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceSession, testing::ValuesIn(setups(Backend::kCuda)), setup_name);

// What is chosen and begun ahead: the decoder's work, whatever the type and the math. Emulated, one
// setup of each kind of network.
class DeviceSteps : public DeviceSession {};

std::set<std::string> kinds_of_steps() {
  return {"tinyllama", "gpt2", "phi3", "gemma3", "qwen3moe"};
}

std::vector<Setup> setups_of_steps() {
  std::vector<Setup> all = setups(Backend::kEmulated);
  std::erase_if(all, [kinds = kinds_of_steps()](const Setup& setup) {
    return !kinds.contains(setup.model) || (setup.math == Math::kFast && setup.type != "f16");
  });
  return all;
}

// What would break: a kind of network whose model is not among the setups any more.
TEST(DeviceStepsSetups, HaveEachKindOfNetwork) {
  std::set<std::string> found;
  for (const auto& setup : setups_of_steps()) found.insert(setup.model);
  EXPECT_EQ(found, kinds_of_steps());
}

INSTANTIATE_TEST_SUITE_P(Emulated, DeviceSteps, testing::ValuesIn(setups_of_steps()), setup_name);
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceSteps, testing::ValuesIn(setups(Backend::kCuda)), setup_name);

// Weights that are not copied, or copied wrongly; checkpoints that are taken before the kernels
// are done; a result that hangs on the order of blocks and threads, or on the batch.
TEST_P(DeviceSession, HasTheBitsOfTheCpuForEverySeedAndBatch) {
  const auto cpu = make_cpu_kernels(pool_, best_instruction_set(), GetParam().math);
  Recorder expected;
  const std::vector<float> want = logits(*cpu, 512, &expected);
  ASSERT_FALSE(expected.records.empty());
  for (const uint64_t seed : {0U, 4321U}) {
    const auto kernels = this->kernels(seed);
    Recorder recorder;
    EXPECT_EQ(logits(*kernels, seed == 0 ? 512 : 3, &recorder), want) << "seed " << seed;
    EXPECT_EQ(recorder.records, expected.records) << "seed " << seed;
    EXPECT_EQ(logits(*kernels, 4, nullptr), want) << "not logged, seed " << seed;
  }
}

// Token by token: what fused kernels give, and where they are replayed from a recording.
TEST_P(DeviceSession, DecodingHasTheBitsOfTheCpu) {
  constexpr size_t kCount = 5;
  const auto cpu = make_cpu_kernels(pool_, best_instruction_set(), GetParam().math);
  Recorder expected;
  const std::vector<float> want = logits(*cpu, 1, &expected, kCount);
  const auto kernels = this->kernels(99);
  Recorder recorder;
  EXPECT_EQ(logits(*kernels, 1, &recorder, kCount), want);
  EXPECT_EQ(recorder.records, expected.records);
  EXPECT_EQ(logits(*kernels, 1, nullptr, kCount), want) << "replayed";
  Recorder one({{"layer_1_k_rope", 3}, {"layer_0_ffn_out", 4}});
  EXPECT_EQ(logits(*kernels, 1, &one, kCount), want) << "with two checkpoints seen";
}

// A token that is chosen on the device: by the logits of another token, by padding, or otherwise
// than the Sampler does.
TEST_P(DeviceSteps, TheDeviceChoosesAsTheSampler) {
  std::vector<bool> choosable(static_cast<size_t>(model_.config().n_vocab), true);
  const auto generate = [&](Kernels& kernels) {
    Session session(model_, kernels, {.capacity = 30, .kv_type = GetParam().kv_type});
    session.set_choosable(choosable);
    const std::vector<int32_t> prompt{11, 48, 85};
    session.eval(prompt);
    std::vector<int32_t> chosen{122};
    while (chosen.size() < 8) chosen.push_back(session.eval_greedy(chosen.back()));
    return chosen;
  };
  const auto cpu = make_cpu_kernels(pool_, best_instruction_set(), GetParam().math);
  const auto kernels = this->kernels(0);
  const std::vector<int32_t> want = generate(*cpu);
  EXPECT_EQ(generate(*kernels), want);
  for (const int32_t id : want) choosable[static_cast<size_t>(id)] = false;
  EXPECT_EQ(generate(*kernels), generate(*cpu)) << "without those chosen before";
  choosable.assign(choosable.size(), false);
  const auto refuses =
      testing::ThrowsMessage<Error>(testing::HasSubstr("no token that may be chosen"));
  EXPECT_THAT([&] { generate(*kernels); }, refuses);
  Session session(model_, *kernels, {.capacity = 30, .kv_type = GetParam().kv_type});
  EXPECT_THAT([&] { session.eval_greedy(11); }, refuses)
      << "nothing was said of what may be chosen";
}

// A device begins with the token that it chose before anyone asks for it. If the sequence goes on
// otherwise, or its keys and values become others, that step must not count.
TEST_P(DeviceSteps, AStepBegunTooEarlyChangesNothing) {
  const auto kernels = this->kernels(0);
  const SessionOptions options = {.capacity = 12, .kv_type = GetParam().kv_type};
  const std::vector<bool> choosable(static_cast<size_t>(model_.config().n_vocab), true);
  const std::vector<int32_t> prompt{11, 48, 85};
  const auto fresh = [&](const std::vector<int32_t>& tokens) {
    Session session(model_, *kernels, options);
    session.set_choosable(choosable);
    const auto logits = session.eval(tokens);
    return std::vector<float>(logits.begin(), logits.end());
  };
  Session session(model_, *kernels, options);
  session.set_choosable(choosable);
  session.eval(prompt);
  const int32_t next = session.eval_greedy(122);
  const int32_t other = next == 7 ? 8 : 7;
  const auto logits = session.eval({&other, 1});
  EXPECT_EQ(std::vector<float>(logits.begin(), logits.end()), fresh({11, 48, 85, 122, other}));

  // As many positions and the same next token, but after another prompt.
  const std::string path = testing::TempDir() + "a_step_begun_too_early";
  Session saved(model_, *kernels, options);
  saved.eval(std::vector<int32_t>{159, 196, 233, 20});
  saved.save(path);
  saved.set_choosable(choosable);
  const int32_t want = saved.eval_greedy(next);
  session.clear();
  session.eval(prompt);
  ASSERT_EQ(session.eval_greedy(122), next);
  session.restore(path);
  EXPECT_EQ(session.eval_greedy(next), want);
  session.clear();
  session.eval(prompt);
  ASSERT_EQ(session.eval_greedy(122), next);
  std::vector<bool> others = choosable;
  others[static_cast<size_t>(session.eval_greedy(next))] = false;
  session.clear();
  session.eval(prompt);
  session.eval_greedy(122);
  session.set_choosable(others);
  EXPECT_TRUE(others[static_cast<size_t>(session.eval_greedy(next))]) << "chosen by older rules";

  // To the last position that there is room for.
  std::vector<int32_t> chosen{other};
  while (session.n_positions() < session.capacity()) {
    chosen.push_back(session.eval_greedy(chosen.back()));
  }
  EXPECT_THROW(session.eval_greedy(chosen.back()), Error);
}

}  // namespace
}  // namespace assay
