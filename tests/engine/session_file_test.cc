// Session::save and Session::restore.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/sha256.h"
#include "base/thread_pool.h"
#include "engine/session.h"
#include "tests/support/backend.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::Backend;

// Where the numbers of the file's head stand, see engine/session_file.cc.
constexpr size_t kKvType = 72;
constexpr size_t kLayers = 80;
constexpr size_t kPositionBytes = 88;
constexpr size_t kStateBytes = 96;
constexpr size_t kPositions = 104;
constexpr size_t kFactors = 112;
constexpr size_t kHashDigits = 64;

class SessionFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  static std::shared_ptr<const Gguf> gguf(const std::string& model, const std::string& type) {
    return std::make_shared<Gguf>(source_path("golden/") + model + "/" + model + "-" + type +
                                  ".gguf");
  }

  Session session(const Model& model, int64_t capacity = 16, KvType type = KvType::kF32) {
    return Session(model, *kernels_, {.capacity = capacity, .kv_type = type});
  }

  static std::vector<float> copy(std::span<const float> logits) {
    return {logits.begin(), logits.end()};
  }

  std::string read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  // The file with another number in its head, and a hash that fits, as only intent makes it.
  void write_forged(std::string bytes, size_t at, uint64_t value) const {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    bytes.resize(bytes.size() - kHashDigits);
    bytes += sha256_hex(std::as_bytes(std::span(bytes.data(), bytes.size())));
    write(bytes);
  }

  const std::vector<int32_t> tokens_{1, 2, 3, 4, 5, 6, 7};
  const std::string path_ = testing::TempDir() + "session_file";
  ThreadPool pool_{1};
  std::unique_ptr<Kernels> kernels_ = make_cpu_kernels(pool_);
  Model model_{gguf("tinyllama", "q4_k_m")};
};

// A restored session would answer otherwise than the one that was saved.
TEST_F(SessionFile, RestoredSessionContinuesWithTheSameBits) {
  for (const char* name : {"tinyllama", "gpt2", "phi3", "gemma4", "gemma4-moe", "gemma4-ple",
                           "gemma3n", "lfm2", "qwen35", "llama4"}) {
    for (const KvType type : {KvType::kF32, KvType::kF16}) {
      const bool in_blocks = std::set<std::string>{"lfm2",       "qwen35",  "gemma4", "gemma4-moe",
                                                   "gemma4-ple", "gemma3n", "llama4"}
                                 .count(name) == 0;
      const Model model(gguf(name, in_blocks ? "q4_k_m" : "f32"));
      Session first = session(model, 16, type);
      first.eval({tokens_.data(), 4});
      first.save(path_);
      const std::vector<float> want = copy(first.eval({tokens_.data() + 4, 3}));
      Session second = session(model, 16, type);
      second.eval({tokens_.data() + 3, 3});  // is forgotten
      second.restore(path_);
      EXPECT_EQ(second.n_positions(), 4);
      EXPECT_EQ(copy(second.eval({tokens_.data() + 4, 3})), want) << name;
    }
  }
}

TEST_F(SessionFile, AnotherBackendGoesOnWithTheSameBits) {
  const std::string reason = testing_support::reason_to_skip(Backend::kEmulated);
  if (!reason.empty()) GTEST_SKIP() << reason;
  Session first = session(model_);
  first.eval({tokens_.data(), 4});
  first.save(path_);
  const std::vector<float> want = copy(first.eval({tokens_.data() + 4, 3}));
  const auto emulated = testing_support::make_kernels(Backend::kEmulated, pool_);
  Session second(model_, *emulated, {.capacity = 16});
  second.restore(path_);
  EXPECT_EQ(copy(second.eval({tokens_.data() + 4, 3})), want);
  second.save(path_);
  EXPECT_EQ(copy(first.eval({tokens_.data(), 2})), copy(second.eval({tokens_.data(), 2})));
}

TEST_F(SessionFile, ANewSessionCanBeSavedAndRestored) {
  session(model_).save(path_);
  Session second = session(model_);
  second.restore(path_);
  EXPECT_EQ(second.n_positions(), 0);
  const std::vector<float> got = copy(second.eval(tokens_));
  EXPECT_EQ(got, copy(session(model_).eval(tokens_)));
}

// Memory could be read or written out of bounds, or a damaged state taken for a good one.
TEST_F(SessionFile, RejectsDamagedAndForgedFilesUnchanged) {
  Session saved = session(model_, 16);
  saved.eval({tokens_.data(), 2});
  saved.save(path_);
  const std::string good = read();
  Session own = session(model_, 16);
  own.eval({tokens_.data(), 3});
  const std::vector<float> want = copy(session(model_, 16).eval({tokens_.data(), 4}));
  const auto refuses = [&](const std::string& message) {
    EXPECT_THAT([&] { own.restore(path_); },
                ThrowsMessage<Error>(AllOf(HasSubstr(path_), HasSubstr(message))));
  };
  write("");
  refuses("");
  for (const size_t size : {1U, 8U, 100U, 120U, 184U, 500U}) {
    write(good.substr(0, size));
    refuses(size < 184 ? "not a saved session" : "cut off or damaged");
  }
  write(good.substr(0, good.size() - 1));
  refuses("cut off or damaged");
  write(good + "x");
  refuses("cut off or damaged");
  for (size_t at = 8; at < good.size(); at += 397) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write(bytes);
    refuses("cut off or damaged");
  }
  const struct {
    size_t at;
    uint64_t value;
    const char* message;
  } forged[] = {
      {kKvType, 1, "keys and values of another type"},
      {kKvType, 77, "keys and values of another type"},
      {kLayers, 1, "other shapes than its model"},
      {kLayers, UINT64_MAX, "other shapes than its model"},
      {kPositionBytes, UINT64_MAX / 2 + 2, "cut off or damaged"},
      {kStateBytes, 4, "cut off or damaged"},
      {kStateBytes, UINT64_MAX, "cut off or damaged"},
      {kPositions, UINT64_MAX / 2, "cut off or damaged"},
      {kFactors, UINT64_MAX / 4 + 1, "cut off or damaged"},
  };
  for (const auto& test : forged) {
    write_forged(good, test.at, test.value);
    refuses(test.message);
  }
  // The product fits the size, the shape does not.
  std::string bytes = good;
  uint64_t position_bytes = 0;
  std::memcpy(&position_bytes, bytes.data() + kPositionBytes, sizeof(position_bytes));
  position_bytes *= 2;
  std::memcpy(bytes.data() + kPositionBytes, &position_bytes, sizeof(position_bytes));
  write_forged(bytes, kPositions, 1);
  refuses("other shapes than its model");
  EXPECT_EQ(own.n_positions(), 3);
  EXPECT_EQ(copy(own.eval({tokens_.data() + 3, 1})), want);
}

TEST_F(SessionFile, RejectsAStateThatDoesNotFit) {
  Session saved = session(model_, 16);
  saved.eval(tokens_);
  saved.save(path_);
  const Model other(gguf("tinyllama", "q8_0"));
  Session of_other = session(other);
  EXPECT_THAT([&] { of_other.restore(path_); },
              ThrowsMessage<Error>(HasSubstr("the session is of another model file")));
  Session small = session(model_, 6);
  EXPECT_THAT([&] { small.restore(path_); },
              ThrowsMessage<Error>(HasSubstr("has 7 positions, there is room for 6")));
  Session half = session(model_, 16, KvType::kF16);
  EXPECT_THAT([&] { half.restore(path_); }, ThrowsMessage<Error>(HasSubstr("of the same kv_type")));
  EXPECT_THAT([&] { half.save("/none/state"); }, ThrowsMessage<Error>(HasSubstr("/none/state")));
  EXPECT_THAT([&] { half.restore("/none/state"); }, ThrowsMessage<Error>(HasSubstr("/none/state")));
}

// phi3 rotates by other factors where there is room for more than its original context.
TEST_F(SessionFile, RejectsRotaryFactorsOfAnotherCapacity) {
  const Model model(gguf("phi3", "q4_k_m"));
  ASSERT_GT(model.config().context_length, model.config().rope_original_context_length);
  Session saved = session(model, 16);
  saved.eval(tokens_);
  saved.save(path_);
  Session longer = session(model, model.config().context_length);
  EXPECT_THAT([&] { longer.restore(path_); },
              ThrowsMessage<Error>(HasSubstr("rotary factors are those of another capacity")));
}

}  // namespace
}  // namespace assay
