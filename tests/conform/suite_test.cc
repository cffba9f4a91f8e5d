// The suite of features: each is loud, and each of its mistakes is distinguishable from all others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "assay/conform/feature.h"
#include "assay/conform/feature_model.h"
#include "assay/conform/judge.h"
#include "assay/conform/work_folder.h"
#include "assay/record/run.h"
#include "base/error.h"
#include "base/json_file.h"
#include "engine/gguf.h"
#include "tests/support/named_case.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kSuiteFolder = source_path("conform/suite");
constexpr uintmax_t kMostBytes = 2'000'000;

// Of a file, or of all in a folder.
uintmax_t bytes_of(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return std::filesystem::file_size(path);
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) bytes += entry.file_size();
  return bytes;
}

const std::vector<Feature>& suite() {
  static const std::vector<Feature> features = [] {
    const std::string name = testing_support::named_case();
    return read_suite(kSuiteFolder, {name.empty() ? "*" : name});
  }();
  return features;
}

class TemporaryModels : public TemporaryFolder {
 protected:
  // The log of Assay's engine.
  std::string log_of(const Feature& feature, const std::string& model,
                     const std::string& checkpoints) const {
    RunOptions options;
    options.model_path = model;
    options.tokens = feature.tokens;
    options.n_predict = 0;
    options.backend = "cpu";
    LogOptions whole;
    whole.head_values = kAllValues;
    options.log.emplace(LogRequest{path("log.jsonl"), whole, CheckpointSet(checkpoints)});
    run(options, {});
    return path("log.jsonl");
  }
};

class EachFeature : public TemporaryModels, public testing::WithParamInterface<size_t> {
 protected:
  const Feature& feature() const { return suite()[GetParam()]; }

  std::string log_of(const std::string& model) const {
    return TemporaryModels::log_of(feature(), model, "logits");
  }

  TableCell judged(const std::string& log) const {
    TableCell cell;
    cell.log = log;
    judge(feature(), find_precision("float32", "test"), path("model"), cell);
    return cell;
  }
};

std::string name_of(const testing::TestParamInfo<size_t>& info) {
  return suite()[info.param].name;
}

INSTANTIATE_TEST_SUITE_P(Suite, EachFeature, testing::Range(size_t{0}, suite().size()), name_of);

// Breaks if an engine that loads no model without a tokenizer were given none, or other ids.
TEST_P(EachFeature, HasATokenizer) {
  const SuiteModel model = WorkFolder(path("work")).write_model(feature());
  const rapidjson::Document tokenizer =
      read_json_file(model.folder + "/tokenizer.json", kMostBytes, "");
  EXPECT_TRUE(std::filesystem::exists(model.folder + "/tokenizer_config.json"));
  if (!feature().files.empty()) return;  // its own
  const rapidjson::Value& words = tokenizer["model"]["vocab"];
  for (const int32_t token : feature().tokens) {
    EXPECT_EQ(words[("t" + std::to_string(token)).c_str()].GetInt(), token);
  }
}

// From the folder and from the GGUF file, which are small.
TEST_P(EachFeature, IsHonouredByAssay) {
  write_feature_folder(feature(), feature().config, {}, path("model"));
  EXPECT_LT(bytes_of(path("model")), kMostBytes);
  const TableCell from_folder = judged(log_of(path("model")));
  EXPECT_EQ(from_folder.finding, Finding::kHonoured) << from_folder.text;
  EXPECT_EQ(from_folder.error->positions, std::ssize(feature().tokens));
  EXPECT_EQ(from_folder.error->positions, from_folder.error->total);
  if (!feature().has_gguf) return;
  write_feature_gguf(feature(), path("model"), path("model.gguf"));
  EXPECT_LT(bytes_of(path("model.gguf")), kMostBytes);
  const TableCell from_gguf = judged(log_of(path("model.gguf")));
  EXPECT_EQ(from_gguf.finding, Finding::kHonoured) << from_gguf.text;
}

// An engine that makes a mistake of the case gets this text, or beside others that
// compute the same.
TEST_P(EachFeature, TellsItsMistakesApart) {
  write_feature_folder(feature(), feature().config, {}, path("model"));
  for (const Counterfactual& mistake : feature().counterfactuals) {
    write_feature_folder(feature(), patched_config(feature().config, mistake.patch),
                         mistake.tensors, path("engine"));
    const TableCell verdict = judged(log_of(path("engine")));
    EXPECT_THAT(verdict.text, HasSubstr(mistake.text));
    EXPECT_EQ(verdict.cause, mistake.name) << mistake.text;
    EXPECT_TRUE(verdict.finding == Finding::kIgnored || verdict.finding == Finding::kMisread)
        << mistake.text;
  }
}

// Otherwise a case for a type would show nothing of it.
TEST_P(EachFeature, HasItsTypesInTheGgufFile) {
  if (!feature().has_gguf) return;
  write_feature_folder(feature(), feature().config, {}, path("model"));
  write_feature_gguf(feature(), path("model"), path("model.gguf"));
  std::set<TensorType> types;
  for (const FeatureTensor& tensor : feature().tensors) {
    if (tensor.shape.size() > 1) types.insert(tensor.type);
  }
  const Gguf file(path("model.gguf"));
  for (const GgufTensor& tensor : file.tensors()) {
    const bool fits =
        tensor.dims.size() == 1 ? tensor.type == TensorType::kF32 : types.contains(tensor.type);
    EXPECT_TRUE(fits) << tensor.name;
  }
}

class GgufFiles : public TemporaryFolder {};

// llama.cpp reads no others.
TEST_F(GgufFiles, HaveLatentKeysAndValuesApart) {
  const std::vector<Feature> features = read_suite(kSuiteFolder, {"family_deepseek_v3"});
  const Feature& feature = features.front();
  write_feature_folder(feature, feature.config, {}, path("model"));
  write_feature_gguf(feature, path("model"), path("model.gguf"));
  const Gguf file(path("model.gguf"));
  EXPECT_EQ(file.find_tensor("blk.0.attn_kv_b.weight"), nullptr);
  ASSERT_NE(file.find_tensor("blk.0.attn_k_b.weight"), nullptr);
  ASSERT_NE(file.find_tensor("blk.0.attn_v_b.weight"), nullptr);
  EXPECT_THAT(file.find_tensor("blk.0.attn_k_b.weight")->dims, testing::ElementsAre(48, 32, 2));
  EXPECT_THAT(file.find_tensor("blk.0.attn_v_b.weight")->dims, testing::ElementsAre(32, 32, 2));
}

class WithoutKnownMistakes : public TemporaryModels {
 protected:
  // On the log of an engine to which the feature's config says something else, where the feature
  // lists no mistakes.
  TableCell judged(const std::string& name, const std::string& patch) const {
    std::vector<Feature> features = read_suite(kSuiteFolder, {name});
    Feature& feature = features.front();
    feature.counterfactuals.clear();
    write_feature_folder(feature, feature.config, {}, path("model"));
    write_feature_folder(feature, patched_config(feature.config, patch), {}, path("engine"));
    TableCell cell;
    cell.log = log_of(feature, path("engine"), "layers");
    judge(feature, find_precision("float32", "test"), path("model"), cell);
    return cell;
  }
};

// Breaks if the catalogue's mistake changed a setting that no rotation reads.
TEST_F(WithoutKnownMistakes, BordersOfYarnsRampAreNamed) {
  const TableCell rounded = judged("yarn_truncate", R"({"rope_scaling":{"truncate":true}})");
  EXPECT_EQ(rounded.cause, "rope_scaling") << rounded.text;
  EXPECT_THAT(rounded.text, HasSubstr(" rounds the borders of YaRN's ramp to whole pairs"));
  const TableCell unrounded = judged("yarn", R"({"rope_scaling":{"truncate":false}})");
  EXPECT_EQ(unrounded.cause, "rope_scaling") << unrounded.text;
  EXPECT_THAT(unrounded.text,
              HasSubstr(" does not round the borders of YaRN's ramp to whole pairs"));
}

TEST(Suite, HasWhatItShould) {
  EXPECT_GE(suite().size(), 60U);
  std::set<std::string> groups;
  for (const Feature& feature : suite()) groups.insert(feature.group);
  EXPECT_GE(groups.size(), 8U);
  // What has none is known by what cannot be confused: shapes.
  EXPECT_GE(std::ranges::count_if(
                suite(), [](const Feature& each) { return !each.counterfactuals.empty(); }),
            60);
}

TEST(Suite, FeaturesAreChosenByGlobs) {
  const std::vector<Feature> chosen = read_suite(kSuiteFolder, {"yarn_b*", "tied_head"});
  std::set<std::string> names;
  for (const Feature& feature : chosen) names.insert(feature.name);
  EXPECT_THAT(names, testing::ElementsAre("tied_head", "yarn_beta_fast", "yarn_beta_slow"));
  EXPECT_THAT(
      [] {
        read_suite(kSuiteFolder, {"yarn*", "nosuch*"});
      },
      ThrowsMessage<Error>(HasSubstr("'nosuch*' matches no feature")));
}

TEST(Suite, PatchesAreMergePatches) {
  EXPECT_EQ(patched_config(R"({"a":1,"b":{"c":2,"d":3}})", R"({"a":null,"b":{"c":[4]},"e":5})"),
            R"({"b":{"c":[4],"d":3},"e":5})");
}

class Cases : public TemporaryFolder {
 protected:
  void expect_error(const std::string& text, const std::string& message) {
    std::filesystem::create_directories(path("suite/one"));
    put("suite/one/case.json", text);
    EXPECT_THAT([&] { read_suite(path("suite"), {}); },
                ThrowsMessage<Error>(AllOf(HasSubstr("one/case.json"), HasSubstr(message))))
        << text;
  }

  // A case with one member in place of a right one.
  static std::string with(const std::string& key, const std::string& value) {
    const std::vector<std::pair<std::string, std::string>> right = {
        {"feature", "\"one\""},
        {"group", "\"g\""},
        {"title", "\"t\""},
        {"states", "[]"},
        {"config", "{}"},
        {"seed", "1"},
        {"tensors", R"([["w",[4,4],0.0,0.1]])"},
        {"tokens", "[1,2]"},
        {"counterfactuals", "[]"}};
    std::string text;
    for (const auto& [name, usual] : right) {
      text += (text.empty() ? "{\"" : ",\"") + name + "\":" + (name == key ? value : usual);
    }
    return text + "}";
  }
};

TEST_F(Cases, ThatAreWrongAreNamed) {
  expect_error("{", "case.json");
  expect_error(with("feature", "\"two\""), "'feature' is not the name of the folder");
  expect_error(with("title", "\"\""), "title");
  expect_error(with("config", "[]"), "'config' is not an object");
  expect_error(with("seed", "-1"), "seed");
  expect_error(with("tokens", "[]"), "'tokens' is empty");
  expect_error(with("tokens", "[1.5]"), "tokens");
  expect_error(with("tensors", R"([["w",[4,4],0.0]])"), "is not [name, shape, mean, deviation]");
  expect_error(with("tensors", R"([["w",[0],0.0,0.1]])"), "tensors");
  expect_error(with("tensors", R"([["w",[1048576,1048576],0.0,0.1]])"), "has too many elements");
  expect_error(with("tensors", R"([["w",[1,1,1,1,1],0.0,0.1]])"), "has more than 4 sizes");
  expect_error(with("tensors", R"([["w",[],0,0.1,"Q4_K"]])"),
               "is 'Q4_K', whose rows are whole blocks of 256");
  expect_error(with("tensors", R"([["w",[4],1e9,0.1]])"), "is not a number of at most");
  expect_error(with("tensors", R"([["w",[4],0,0.1,"Q9"]])"), "is 'Q9'");
  expect_error(with("tensors", R"([["w",[256],1,0.1,"IQ2_S"]])"),
               "is not 0, as the blocks of IQ2_S are random");
  expect_error(with("tensors", R"([["w",[64],0,0.1,"IQ2_S"]])"),
               "is 'IQ2_S', whose rows are whole blocks of 256");
  expect_error(with("tensors", R"([["w",[256,32],0,0.1,"Q4_K"]])"),
               "is 'Q4_K', whose rows are whole blocks of 256");
  expect_error(with("counterfactuals", R"([{"verdict":"wrong","name":"n","text":"t"}])"),
               "is 'wrong'");
  expect_error(with("counterfactuals", R"([{"verdict":"ignored","name":"n","text":""}])"), "text");
  expect_error(
      with("counterfactuals", R"([{"verdict":"ignored","name":"n","text":"t","config":[]}])"),
      "'counterfactuals[0].config' is not an object");
}

TEST_F(Cases, ThatAreMissingAreNamed) {
  EXPECT_THAT([&] { read_suite(path("nosuch"), {}); },
              ThrowsMessage<Error>(HasSubstr("holds no folder with a case.json")));
  EXPECT_THAT([&] { read_suite(folder_, {}); },
              ThrowsMessage<Error>(HasSubstr("holds no folder with a case.json")));
}

}  // namespace
}  // namespace assay
