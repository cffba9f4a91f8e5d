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
#include <tuple>
#include <vector>

#include "assay/synth/random_weights.h"
#include "assay/synth/tensor_list.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/session.h"
#include "kernels/reference/dequantize.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;

SynthConfig config_of(const std::string& name) {
  return load_config(source_path("tests/data/synth/") + name + ".json");
}

// The names of all configs: each architecture has one.
std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/data/synth"))) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
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

class EveryModel : public testing::TestWithParam<std::tuple<std::string, const char*>> {};

// A file that the engine rejects, or whose values explode or are the same for every token, tests
// nothing.
TEST_P(EveryModel, RunsWithSaneValuesAndDiverseChoices) {
  const auto& [name, type] = GetParam();
  const SynthOptions options = options_for(name + "_" + type, type);
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
    const double deviation = std::sqrt(square / static_cast<double>(logits.size())) /
                             static_cast<double>(model.config().logit_factor());
    EXPECT_TRUE(deviation > 1.5 && deviation < 6.0) << deviation;
    chosen.insert(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  EXPECT_GE(chosen.size(), 8U);
}

std::string test_name(const testing::TestParamInfo<std::tuple<std::string, const char*>>& test) {
  std::string name = std::get<0>(test.param) + "_" + std::get<1>(test.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Types, EveryModel,
                         testing::Combine(testing::Values("llama", "qwen2", "mixtral"),
                                          testing::Values("F32", "F16", "BF16", "Q8_0", "Q4_0",
                                                          "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K_M",
                                                          "Q4_K_M", "Q5_K_M", "Q6_K")),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Families, EveryModel,
                         testing::Combine(testing::ValuesIn(families()),
                                          testing::Values("F16", "Q4_K_M")),
                         test_name);

class EveryFamily : public testing::TestWithParam<std::string> {};

// Breaks if a tensor of one of the two were missing or misshapen, which both readers refuse, or if
// its rows were in another order: the engine would compute another network with it.
TEST_P(EveryFamily, AFolderIsTheSameModelAsAFile) {
  const SynthConfig config = config_of(GetParam());
  SynthOptions options = options_for(GetParam() + "_file", "F32");
  synthesise(config, options, {});
  const Gguf file(options.path);
  options.path = testing::TempDir() + "/" + GetParam() + "_folder";
  options.folder = true;
  const SynthResult result = synthesise(config, options, {});
  EXPECT_EQ(result.bytes, std::filesystem::file_size(result.path));
  const auto folder = std::make_shared<const Gguf>(options.path);
  EXPECT_EQ(folder->tensors().size(), file.tensors().size());
  for (const GgufTensor& tensor : file.tensors()) {
    const GgufTensor* same = folder->find_tensor(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_EQ(same->dims, tensor.dims) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(same->data, tensor.data)) << tensor.name;
  }
  EXPECT_NO_THROW(const Model model(folder));
  std::filesystem::remove_all(options.path);
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily, testing::ValuesIn(families()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
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
  const std::string source = source_path("golden/tinyllama/tinyllama-f32.gguf");
  const Gguf vocabulary(source);
  const SynthConfig config = config_of("llama");
  SynthOptions options = options_for("vocabulary");
  options.vocab_path = source;
  EXPECT_THAT([&] { synthesise(config, options, {}); },
              testing::ThrowsMessage<Error>(HasSubstr("the model has 320")));
  EXPECT_FALSE(std::filesystem::exists(options.path));
  std::string json = config.json;
  const size_t count = vocabulary.get_strings("tokenizer.ggml.tokens").size();
  json.replace(json.find(": 320"), 5, ": " + std::to_string(count));
  synthesise(parse_config(json, "config.json"), options, {});
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
  const auto huge = [&](const char* layers) {
    std::string json = config_of("llama").json;
    json.replace(json.find(": 16,"), 5, layers);
    json.replace(json.find(": 256"), 5, ": 524288");
    json.replace(json.find(": 512"), 5, ": 524288");
    synthesise(parse_config(json, "config.json"), options, {});
  };
  options = options_for("huge", "F32");
  EXPECT_THAT([&] { huge(": 400,"); }, testing::ThrowsMessage<Error>(HasSubstr("are free")));
  EXPECT_THAT([&] { huge(": 4000,"); },
              testing::ThrowsMessage<Error>(HasSubstr("more than 1125899906842624 parameters")));
  EXPECT_FALSE(std::filesystem::exists(options.path));
}

}  // namespace
}  // namespace assay
