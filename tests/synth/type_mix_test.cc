#include "assay/synth/type_mix.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "tests/support/paths.h"

namespace assay {
namespace {

const std::string kFolder = source_path("tests/data/synth/");

// What llama.cpp's quantiser gave to the matrices of one config under one mix.
struct Expected {
  std::map<std::string, std::string> other;  // matrices that do not have the mix's base type
  size_t n_tensors = 0;
};

std::map<std::pair<std::string, std::string>, Expected> read_expected() {
  std::map<std::pair<std::string, std::string>, Expected> all;
  std::ifstream file(kFolder + "type_mix.txt");
  std::string config;
  std::string mix;
  std::string tensor;
  std::string type;
  while (file >> config >> mix >> tensor >> type) {
    Expected& expected = all[{config, mix}];
    if (tensor == "-") {
      expected.n_tensors = std::stoul(type);
    } else {
      expected.other[tensor] = type;
    }
  }
  return all;
}

size_t n_configs() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json") ++count;
  }
  return count;
}

std::string name_of(TensorType type) {
  return std::string(tensor_type_info(type).name);
}

// A twin would not have the sizes and the precision of the published file that it replaces.
TEST(TypeMix, EachTensorHasTheTypeThatLlamaCppGivesIt) {
  const auto all = read_expected();
  EXPECT_EQ(all.size(), (n_configs() - 1) * 16);  // llama.cpp does not load deepseek2-lite
  for (const auto& [key, expected] : all) {
    const auto& [name, mix_name] = key;
    const SynthConfig config = load_config(kFolder + name + ".json");
    const FileType* mix = find_file_type(mix_name);
    ASSERT_NE(mix, nullptr) << mix_name;
    std::vector<SynthTensor> tensors = tensor_list(config);
    EXPECT_EQ(tensors.size(), expected.n_tensors) << name;
    choose_types(config, *mix, false, tensors);
    for (const SynthTensor& tensor : tensors) {
      const auto found = expected.other.find(tensor.name);
      const std::string want = found != expected.other.end() ? found->second
                               : !tensor.is_matrix           ? "F32"
                                                             : name_of(mix->base);
      EXPECT_EQ(name_of(tensor.type), want) << name << " " << mix_name << " " << tensor.name;
    }
  }
}

TEST(TypeMix, PureGivesEveryMatrixTheBaseType) {
  const SynthConfig config = load_config(kFolder + "llama.json");
  std::vector<SynthTensor> tensors = tensor_list(config);
  choose_types(config, *find_file_type("Q4_K_M"), true, tensors);
  for (const SynthTensor& tensor : tensors) {
    EXPECT_EQ(name_of(tensor.type), tensor.is_matrix ? "Q4_K" : "F32") << tensor.name;
  }
}

}  // namespace
}  // namespace assay
