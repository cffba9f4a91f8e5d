#include "engine/weight_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Memory that the host may not use, and that has room for `limit` bytes of weights.
class FakeDevice final : public Memory {
 public:
  explicit FakeDevice(size_t limit = SIZE_MAX) : limit_(limit) {}

  bool on_host() const override { return false; }
  void reserve(std::span<const size_t> sizes) override {
    reserved.assign(sizes.begin(), sizes.end());
    size_t total = 0;
    for (const size_t size : sizes) total += size;
    if (total > limit_) throw Error("the device has no memory for " + std::to_string(total));
  }
  void* allocate(size_t bytes) override {
    allocated.push_back(bytes);
    return host_memory().allocate(bytes);
  }
  void release(void* address) noexcept override { host_memory().release(address); }
  void upload(const void* from, size_t bytes, void* to) override { std::memcpy(to, from, bytes); }
  void download(const void* from, size_t bytes, void* to) override { std::memcpy(to, from, bytes); }

  std::vector<size_t> reserved;
  std::vector<size_t> allocated;

 private:
  size_t limit_;
};

std::string path_of(const std::string& model) {
  const std::string stem = source_path("golden/") + model + "/" + model;
  const std::string quantised = stem + "-q4_k_m.gguf";
  return std::filesystem::exists(quantised) ? quantised : stem + "-f32.gguf";
}

// Weights that are copied piece by piece fail when half of them are there.
TEST(WeightCopyTest, ReservesEverythingBeforeCopying) {
  for (const std::string name : {"tinyllama", "qwen2.5", "qwen3", "olmo2", "granite", "phi3",
                                 "gpt2", "gpt-oss", "phi2", "deepseek3", "lfm2", "qwen35", "gemma4",
                                 "gemma4-moe", "gemma4-ple", "gemma3n", "llama4", "phimoe"}) {
    const Model model(std::make_shared<Gguf>(path_of(name)));
    FakeDevice device;
    const WeightCopy copy(model, device);
    EXPECT_FALSE(device.reserved.empty());
    std::sort(device.reserved.begin(), device.reserved.end());
    std::sort(device.allocated.begin(), device.allocated.end());
    EXPECT_EQ(device.reserved, device.allocated) << name;
    const WeightMatrix& matrix = copy.weights().layers[1].linear(Checkpoint::kAttnOut).weight;
    const auto bytes = static_cast<size_t>(matrix.rows) * row_bytes(matrix.type, matrix.columns);
    EXPECT_EQ(
        std::memcmp(matrix.data, model.layers[1].linear(Checkpoint::kAttnOut).weight.data, bytes),
        0)
        << name;
    EXPECT_NE(matrix.data, model.layers[1].linear(Checkpoint::kAttnOut).weight.data);
  }
}

// The message must name the weights, their file, and the device's error.
TEST(WeightCopyTest, OutOfMemoryErrorNamesTheModel) {
  const Model model(std::make_shared<Gguf>(path_of("tinyllama")));
  FakeDevice device(1000);
  EXPECT_THAT([&] { const WeightCopy copy(model, device); },
              ThrowsMessage<Error>(AllOf(HasSubstr("tinyllama-q4_k_m.gguf: the weights do not fit"),
                                         HasSubstr("the device has no memory for"))));
  EXPECT_TRUE(device.allocated.empty());
}

}  // namespace
}  // namespace assay
