#include "assay/synth/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "assay/synth/random_weights.h"
#include "assay/synth/tensor_list.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/session.h"
#include "kernels/reference/dequantize.h"

namespace assay {
namespace {

using testing::HasSubstr;

SynthConfig config_of(const std::string& name) {
  return load_config(ASSAY_SOURCE_DIR "/tests/data/synth/" + name + ".json");
}

std::string path_of(const std::string& name) {
  std::string path = testing::TempDir() + "/" + name + ".gguf";
  std::filesystem::remove(path);
  return path;
}

SynthOptions options_for(const std::string& name, const char* type = "Q4_K_M") {
  SynthOptions options;
  options.path = path_of(name);
  options.type = find_file_type(type);
  return options;
}

// Where the bits of a twin change, its goldens belong to another model. The hashes were made on one
// processor; that they hold on every other one and under every compiler is what this asks.
TEST(Synth, TheSameBytesEverywhere) {
  SynthOptions options = options_for("bytes");
  options.seed = 51;
  options.n_threads = 1;
  const SynthResult one = synthesise(config_of("llama"), options, {});
  options.n_threads = 3;
  EXPECT_EQ(synthesise(config_of("llama"), options, {}).sha256, one.sha256);
  EXPECT_EQ(one.sha256, "ef0a96b54b208b0d0a48073f30ec6ad2046a951e7d5e8ddbd26b9f645cf7732e");
  options.seed = 52;
  EXPECT_NE(synthesise(config_of("llama"), options, {}).sha256, one.sha256);
  options.seed = 51;
  options.type = find_file_type("Q3_K_M");
  EXPECT_EQ(synthesise(config_of("qwen2"), options, {}).sha256,
            "f4be58228dc2a431ad6ed9854ce15f20826a8debfea5b2182d72b7476ce2ba59");
}

class EveryModel : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

// A file that the engine rejects, or whose values explode or are the same for every token, tests
// nothing.
TEST_P(EveryModel, RunsWithSaneValuesAndDiverseChoices) {
  const auto& [name, type] = GetParam();
  const SynthOptions options = options_for(std::string(name) + "_" + type, type);
  synthesise(config_of(name), options, {});
  const auto gguf = std::make_shared<Gguf>(options.path);
  EXPECT_EQ(file_type_name(*gguf), type);
  const Model model(gguf);
  ThreadPool pool(1);
  const auto kernels = make_cpu_kernels(pool);
  std::set<int64_t> chosen;
  Session session(model, *kernels, {.capacity = 16});
  for (int32_t token = 0; token < 16; ++token) {
    const int32_t id = token * 19 + 3;
    const auto logits = session.eval({&id, 1}, nullptr);
    double square = 0.0;
    for (const float value : logits) {
      square += static_cast<double>(value) * static_cast<double>(value);
    }
    const double deviation = std::sqrt(square / static_cast<double>(logits.size()));
    EXPECT_TRUE(deviation > 1.5 && deviation < 6.0) << deviation;
    chosen.insert(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  EXPECT_GE(chosen.size(), 8U);
}

INSTANTIATE_TEST_SUITE_P(
    Small, EveryModel,
    testing::Combine(testing::Values("llama", "qwen2", "qwen3", "olmo2", "granite", "phi3", "gpt2"),
                     testing::Values("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                     "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K")),
    [](const auto& test) {
      return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param);
    });

// The values in the file would be others than the seed says.
TEST(Synth, AnF32FileHoldsTheNumbersDrawn) {
  const SynthConfig config = config_of("gpt2");
  SynthOptions options = options_for("values", "F32");
  options.seed = 9;
  const SynthResult result = synthesise(config, options, {});
  const Gguf gguf(options.path);
  EXPECT_EQ(result.bytes, std::filesystem::file_size(options.path));
  for (const SynthTensor& tensor : tensor_list(config)) {
    const GgufTensor* stored = gguf.find_tensor(tensor.name);
    ASSERT_NE(stored, nullptr) << tensor.name;
    ASSERT_EQ(stored->dims, tensor.dims) << tensor.name;
    const auto count = static_cast<size_t>(tensor.rows() * tensor.columns());
    std::vector<float> want(count);
    RandomWeights(9, tensor.name)
        .draw(0, static_cast<int64_t>(count), tensor.mean, tensor.deviation, want.data());
    std::vector<float> got(count);
    dequantize_row(stored->type, stored->data.data(), static_cast<int64_t>(count), got.data());
    EXPECT_EQ(got, want) << tensor.name;
  }
}

// A twin could not be given the published prompt as text.
TEST(Synth, AVocabularyIsCopied) {
  const std::string source = ASSAY_SOURCE_DIR "/golden/tinyllama/tinyllama-f32.gguf";
  const Gguf vocabulary(source);
  SynthConfig config = config_of("llama");
  SynthOptions options = options_for("vocabulary");
  options.vocab_path = source;
  EXPECT_THAT([&] { synthesise(config, options, {}); },
              testing::ThrowsMessage<Error>(HasSubstr("the model has 320")));
  EXPECT_FALSE(std::filesystem::exists(options.path));
  config.model.n_vocab =
      static_cast<int64_t>(vocabulary.get_strings("tokenizer.ggml.tokens").size());
  synthesise(config, options, {});
  const Gguf made(options.path);
  size_t keys = 0;
  for (const auto& [key, value] : vocabulary.metadata()) {
    if (!key.starts_with("tokenizer.")) continue;
    ++keys;
    ASSERT_NE(made.find(key), nullptr) << key;
    if (const auto* array = std::get_if<GgufArray>(&value)) {
      EXPECT_TRUE(array->items == std::get<GgufArray>(*made.find(key)).items) << key;
    }
  }
  EXPECT_GE(keys, 5U);
  EXPECT_EQ(made.get_strings("tokenizer.ggml.tokens"),
            vocabulary.get_strings("tokenizer.ggml.tokens"));
  EXPECT_EQ(made.get_int("tokenizer.ggml.eos_token_id"),
            vocabulary.get_int("tokenizer.ggml.eos_token_id"));
}

TEST(Synth, AnUnwritableFileIsReportedAndNothingIsLeft) {
  SynthOptions options = options_for("nowhere");
  options.path = testing::TempDir() + "/no/such/folder/model.gguf";
  EXPECT_THROW(synthesise(config_of("gpt2"), options, {}), Error);
  options.path = testing::TempDir();
  EXPECT_THAT([&] { synthesise(config_of("gpt2"), options, {}); },
              testing::ThrowsMessage<Error>(HasSubstr("is a directory")));
  SynthConfig huge = config_of("llama");
  huge.model.n_layers = 4000;
  huge.model.feed_forward_length = 1 << 19;
  huge.model.embedding_length = 1 << 19;
  options = options_for("huge", "F32");
  EXPECT_THAT([&] { synthesise(huge, options, {}); },
              testing::ThrowsMessage<Error>(HasSubstr("are free")));
  EXPECT_FALSE(std::filesystem::exists(options.path));
}

}  // namespace
}  // namespace assay
