#include "engine/rope_sections.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/model.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_model.h"

namespace assay {
namespace {

using testing_support::TinyModel;

class RopeSections : public TemporaryFolder {};

// Breaks if pairs of a head that llama.cpp leaves as they are in text were turned, or others not:
// those of the fourth section, and of one of three in turn that has run out.
TEST_F(RopeSections, PairsWithoutOneOfThreeAreNotTurned) {
  const auto turned = [&](const std::string& arch, const std::vector<int32_t>& sections) {
    TinyModel tiny;
    tiny.become(arch);
    for (const auto& [name, size] : {std::pair("q", uint64_t{8}), std::pair("k", uint64_t{4})}) {
      tiny.tensors[fmt::format("blk.0.attn_{}.bias", name)] = {{size}};
      tiny.tensors[fmt::format("blk.0.attn_{}_norm.weight", name)] = {{4}};
    }
    tiny.tensors["blk.0.attn_v.bias"] = {{4}};
    const char* none = arch == "qwen2vl" ? "_norm.weight" : ".bias";
    std::erase_if(tiny.tensors, [&](const auto& tensor) {
      return tensor.first.starts_with("blk.0.attn_") && tensor.first != "blk.0.attn_norm.weight" &&
             tensor.first.ends_with(none);
    });
    if (!sections.empty()) tiny.int_lists[arch + ".rope.dimension_sections"] = sections;
    const Model model(std::make_shared<Gguf>(tiny.write(path("model.gguf"))));
    EXPECT_EQ(model.rope_factors_short, model.rope_factors_long);
    std::string all;
    for (const float factor : model.rope_factors_short) all += factor == 1.0F ? '1' : '0';
    return all;
  };
  for (const std::string arch : {"qwen2vl", "qwen3vl"}) {
    EXPECT_EQ(turned(arch, {}), "") << "all";
    EXPECT_EQ(turned(arch, {1, 1, 0, 0}), "") << "all";
  }
  EXPECT_EQ(turned("qwen2vl", {0, 1, 0, 1}), "10");
  EXPECT_EQ(turned("qwen2vl", {0, 1, 1, 0}), "") << "joined";
  EXPECT_EQ(turned("qwen3vl", {0, 1, 1, 0}), "01") << "in turn";
  EXPECT_EQ(turned("qwen3vl", {1, 0, 0, 1}), "10");
}

}  // namespace
}  // namespace assay
