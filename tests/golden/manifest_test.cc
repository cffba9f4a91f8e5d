#include "assay/golden/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/compare/log_files.h"
#include "tests/golden/manifest_text.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ManifestTest : public LogFiles {};

TEST_F(ManifestTest, EverythingInItIsRead) {
  const std::string path = put("manifest.json", manifest_text());
  EXPECT_TRUE(is_golden_manifest(path));
  const GoldenManifest manifest = read_golden_manifest(path);
  EXPECT_EQ(manifest.folder(), folder_ + "/");
  EXPECT_EQ(manifest.model, "tiny");
  EXPECT_EQ(manifest.arch, "llama");
  EXPECT_EQ(manifest.prompts.at("haiku").text, "a b");
  EXPECT_THAT(manifest.prompts.at("haiku").tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(manifest.padding_ids, ElementsAre(7));
  EXPECT_EQ(manifest.oracles.at("numpy"), "2.4.6");
  EXPECT_EQ(manifest.command, "python -m generate tiny");
  EXPECT_EQ(manifest.tolerance.k, 3);
  EXPECT_EQ(manifest.tolerance.floor, "f32_vs_f64");
  ASSERT_EQ(manifest.files.size(), 2U);
  const GoldenFile& file = manifest.files[0];
  EXPECT_EQ(file.type, "F32");
  EXPECT_EQ(file.gguf, "tiny-f32.gguf");
  EXPECT_EQ(file.sha256, kShaA);
  EXPECT_EQ(file.source, "");
  EXPECT_EQ(file.floors.at("output").at("f32_vs_f64").max, 2e-6);
  EXPECT_EQ(file.floors.at("output").at("f32_vs_f64").p99, 1e-6);
  EXPECT_EQ(file.floors.at("logits").at("f32_vs_f64").regret, 0.5);
  EXPECT_EQ(file.floors_by_checkpoint.at("layer_0_output").at("f32_vs_f64").max, 1e-6);
  ASSERT_EQ(file.logs.size(), 2U);
  EXPECT_EQ(file.logs[0].file, "f32.jsonl");
  EXPECT_EQ(file.logs[0].prompt, "haiku");
  EXPECT_EQ(file.logs[0].set, "layers");
  EXPECT_FALSE(file.logs[0].positions.has_value());
  EXPECT_THAT(file.logs[0].greedy, ElementsAre(5, 6));
  EXPECT_THAT(file.logs[0].greedy_gaps, ElementsAre(0.5, 1));
  EXPECT_EQ(file.logs[0].argmax_min_gap, 0.25);
  EXPECT_EQ(file.logs[0].text, "d");
  EXPECT_THAT(*file.logs[1].positions, ElementsAre(0));
  EXPECT_EQ(manifest.files[1].source, "the wheel llm-tiny 0.1");
  EXPECT_EQ(manifest.files[1].command, "");
  ASSERT_EQ(manifest.files[1].texts.size(), 1U);
  EXPECT_EQ(manifest.files[1].texts[0].prompt, "long");
  EXPECT_THAT(manifest.files[1].texts[0].greedy, ElementsAre(8));
}

// A skipped test says how to get the file: a command that is lost here is unknown to the user.
TEST_F(ManifestTest, TheCommandThatMakesAFileIsKept) {
  const GoldenManifest manifest = read_golden_manifest(
      put("manifest.json",
          manifest_text({{R"("wheel": {"package": "llm-tiny", "version": "0.1"})",
                          R"("source": {"made": "from another", "command": "make it --now"})"}})));
  EXPECT_EQ(manifest.files[0].command, "");
  EXPECT_EQ(manifest.files[1].command, "make it --now");
  EXPECT_EQ(manifest.files[1].source, "made from another, command make it --now");
}

// A log's or model's name could otherwise reach a file outside the folder, and a mistyped or
// hostile manifest loosen a test or crash it.
TEST_F(ManifestTest, ErrorsNameFileAndKey) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } cases[] = {
      {"\"schema\": 2", "\"schema\": 1", "'schema' is 1, this program reads 2; record the golden"},
      {"\"schema\": 2", "\"schema\": 3", "'schema' is 3, this program reads 2; use a newer"},
      {"\"schema\": 2", "\"schema\": 2e400", "not valid JSON"},
      {"\"schema\": 2", "\"schema\": \"2\"", "'schema' is not a whole number"},
      {"\"a_note\"", "\"model\"", "the document has the key 'model' twice"},
      {"\"model\": \"tiny\"", "\"model\": \"../x\"", "'model' is not a plain file name"},
      {"\"tokens\": [4]", "\"tokens\": []", "'prompts.long.tokens' is empty"},
      {"\"tokens\": [4]", "\"tokens\": [-1]", "'prompts.long.tokens[0]' is not a whole number"},
      {"\"tokens\": [4]", "\"tokens\": [1e99]", "'prompts.long.tokens[0]' is not a whole number"},
      {"\"padding_ids\"", "\"padding\"", "'padding_ids' is missing"},
      {"{\"numpy\": \"2.4.6\"}", "{}", "'oracles' is empty"},
      {"\"2.4.6\"", "2", "'oracles.numpy' is not a string"},
      {"\"k\": 3", "\"k\": 0", "'tolerance.k' is not a finite number of 1 or more"},
      {"\"k\": 3", "\"k\": NaN", "not valid JSON"},
      {"\"k\": 3", "\"k\": 1e308", "'tolerance.k' is 1e+308, it is 10 at most"},
      {"\"why\"", "\"reason\"", "'tolerance.why' is missing"},
      {"\"Q4_1\"", "\"F32\"", "'files[1].type' is that of another file"},
      {"\"tiny-q4_1.gguf\"", "\"/etc/passwd\"", "'files[1].gguf' is not a plain file name"},
      {"\"tiny-q4_1.gguf\"", "\"..\"", "'files[1].gguf' is not a plain file name"},
      {"SHA_A", "abc", "'files[0].sha256' is not a SHA-256"},
      {"{\"max\": 2e-6", "{\"maximum\": 2e-6", "'files[0].floors.output.f32_vs_f64.max' is miss"},
      {"{\"max\": 2e-6", "{\"max\": -1", "'files[0].floors.output.f32_vs_f64.max' is not a finite"},
      {"{\"max\": 2e-6", "{\"max\": 1e-7", "has a p99 above its max"},
      {"{\"max\": 2e-6", "{\"max\": 1e9", "f32_vs_f64.max' is 1000000000, and zeros are off by 1"},
      {"{\"max\": 2e-6", "{\"max\": 1e308", "lets anything pass; measure it again"},
      {"{\"max\": 2e-6", "{\"max\": 1e999", "not valid JSON"},
      {"{\"max\": 2e-6", "{\"max\": 0.4",
       "'tolerance' allows 1.2000000000000002 at 'output' of F32, 3 times its floor f32_vs_f64"},
      {"\"long.jsonl\"", "\"f32.jsonl\"", "'files[0].logs[1].file' names a log that another entry"},
      {"\"prompt\": \"long\"", "\"prompt\": \"none\"", "'none' is not one of the manifest's"},
      {"\"positions\": [0]", "\"positions\": [1]",
       "'files[0].logs[1].positions[0]' is not a whole"},
      {"\"positions\": [0]", "\"positions\": [0, 0]", "logs[1].positions[1]' "},
      {"\"greedy\": [5, 6]", "\"greedy\": [5]", "'files[0].logs[0].greedy' has 1 token"},
      {"\"greedy\": [5, 6],", "", "'files[0].logs[0].greedy' is missing"},
      {"[0.5, 1]", "[0.5]", "'files[0].logs[0].greedy_gaps' is not as long"},
      {"[8]", "[]", "'files[1].texts[0].greedy' is empty"},
      {"\"floors_by_checkpoint\"", "\"floors_by_chekpoint\"",
       "'files[0]' has the key 'floors_by_chekpoint': is it 'floors_by_checkpoint'?"},
      {"\"layer_0_output\"", "\"layer_0_ouput\"",
       "'files[0].floors_by_checkpoint.layer_0_ouput' is of no checkpoint that a network has"},
      {"{\"layer_0_output\": {\"f32_vs_f64\"", "{\"layer_0_output\": {\"f32_vs_f46\"",
       "the floor 'f32_vs_f64', of which 'floors_by_checkpoint' of F32 has none at "
       "'layer_0_output'"},
      {"{\"output\"", "{\"outputs\"", "'files[0].floors.outputs' is of no checkpoint"},
      {"\"positions\": [0]", "\"position\": [0]", "'files[0].logs[1]' has the key 'position': is"},
      {"\"logs\": []", "\"logs\": {}", "'files[1].logs' is not an array"},
  };
  for (const auto& test : cases) {
    const std::string path = put("manifest.json", manifest_text({{test.from, test.to}}));
    EXPECT_THAT(error_of([&] { read_golden_manifest(path); }),
                AllOf(HasSubstr(test.message), HasSubstr(path)))
        << test.from << " -> " << test.to;
  }
}

TEST_F(ManifestTest, ReportsFilesThatAreNotManifests) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string(200000, '['), std::string("\xff\xfe"), manifest_text().substr(0, 900)}) {
    const std::string path = put("manifest.json", text);
    EXPECT_THAT(error_of([&] { read_golden_manifest(path); }), HasSubstr(path));
  }
  EXPECT_THAT(error_of([&] { read_golden_manifest(folder_ + "/none"); }), HasSubstr("cannot open"));
  EXPECT_THAT(error_of([&] { read_golden_manifest(folder_); }), HasSubstr(folder_));
  EXPECT_FALSE(is_golden_manifest(put("policy.json", "{\"default\": {\"rel_l2\": 1}}")));
}

TEST(CheckpointKind, IsTheNameWithoutItsLayer) {
  EXPECT_EQ(checkpoint_kind("layer_17_q_rope"), "q_rope");
  EXPECT_EQ(checkpoint_kind("logits"), "logits");
}

}  // namespace
}  // namespace assay
