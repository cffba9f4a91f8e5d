// A Hugging Face folder shows itself as the GGUF file of the same weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "engine/gguf.h"
#include "engine/hf/folder.h"
#include "engine/model.h"
#include "tests/support/hf_builder.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::floats;
using testing_support::HfFolder;
using testing_support::HfTensors;
using testing_support::llama;
using testing_support::llama_config;
using testing_support::safetensors;

// The first element of each row of a matrix of `columns`, over `columns`: the row it was.
std::vector<int> rows_of(const Gguf& gguf, const std::string& name) {
  const std::vector<float> values = floats(gguf, name);
  const auto columns = static_cast<size_t>(gguf.find_tensor(name)->columns());
  std::vector<int> rows;
  for (size_t i = 0; i < values.size(); i += columns) {
    rows.push_back(static_cast<int>(values[i]) / static_cast<int>(columns));
  }
  return rows;
}

std::vector<int> in_order(int count) {
  std::vector<int> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// Rows that rotate together are half a head apart in the folder, neighbours in llama's files. With
// other rows every angle would turn the wrong pair.
TEST_F(HfFolder, LlamaRowsOfQAndKBecomeNeighbours) {
  HfTensors tensors = llama();
  for (const char* name : {"q", "k", "v", "o"}) {
    const bool is_wide = *name == 'q' || *name == 'o';
    tensors[fmt::format("model.layers.0.self_attn.{}_proj.bias", name)] = {{is_wide ? 8 : 4}};
  }
  const Gguf gguf = open(llama_config(R"(, "attention_bias": true)"), tensors);
  EXPECT_THAT(rows_of(gguf, "blk.0.attn_q.weight"), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(floats(gguf, "blk.0.attn_q.bias"), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(rows_of(gguf, "blk.0.attn_k.weight"), ElementsAre(0, 2, 1, 3));
  EXPECT_EQ(rows_of(gguf, "blk.0.attn_v.weight"), in_order(4));
  EXPECT_EQ(rows_of(gguf, "blk.0.ffn_down.weight"), in_order(8));
  EXPECT_EQ(gguf.find_tensor("blk.0.ffn_down.weight")->dims, (std::vector<int64_t>{6, 8}));
  EXPECT_EQ(refusal(), "");
}

// Breaks if an architecture whose published models have no biases left out those of one that has.
TEST_F(HfFolder, BiasesOfTheAttentionAreThoseThatTheConfigAsksFor) {
  HfTensors tensors = llama();
  for (const char* name : {"q", "k"}) {
    tensors[fmt::format("model.layers.0.self_attn.{}_norm.weight", name)] = {{4}};
  }
  const std::string without = R"(, "head_dim": 4)";
  EXPECT_EQ(open(llama_config(without, "qwen3"), tensors).find_tensor("blk.0.attn_q.bias"),
            nullptr);
  EXPECT_EQ(refusal(), "");
  for (const char* name : {"q", "k", "v", "o"}) {
    const bool is_wide = *name == 'q' || *name == 'o';
    tensors[fmt::format("model.layers.0.self_attn.{}_proj.bias", name)] = {{is_wide ? 8 : 4}};
  }
  const Gguf gguf = open(llama_config(without + R"(, "attention_bias": true)", "qwen3"), tensors);
  EXPECT_EQ(floats(gguf, "blk.0.attn_q.bias").size(), 8);
  EXPECT_EQ(floats(gguf, "blk.0.attn_output.bias").size(), 8);
  EXPECT_EQ(refusal(), "");
  const Model model(std::make_shared<Gguf>(folder_));
  EXPECT_NE(model.layers[0].linear(Checkpoint::kAttnOut).bias, nullptr);
}

// qwen2's files have them as the folder does.
TEST_F(HfFolder, RowsOfOtherArchitecturesStay) {
  HfTensors tensors = llama();
  for (const char* name : {"q", "k", "v"}) {
    tensors[fmt::format("model.layers.0.self_attn.{}_proj.bias", name)] = {{*name == 'q' ? 8 : 4}};
  }
  EXPECT_EQ(rows_of(open(llama_config("", "qwen2"), tensors), "blk.0.attn_q.weight"), in_order(8));
  EXPECT_EQ(refusal(), "");
}

HfTensors gpt2(const std::string& prefix) {
  HfTensors tensors = {{prefix + "wte.weight", {{3, 4}}}, {prefix + "wpe.weight", {{16, 4}}}};
  const auto add = [&](const std::string& module, std::vector<int64_t> shape) {
    tensors[prefix + module + ".bias"] = {{shape.back()}};
    tensors[prefix + module + ".weight"] = {std::move(shape)};
  };
  add("ln_f", {4});
  add("h.0.ln_1", {4});
  add("h.0.ln_2", {4});
  add("h.0.attn.c_attn", {4, 12});
  add("h.0.attn.c_proj", {4, 4});
  add("h.0.mlp.c_fc", {4, 16});
  add("h.0.mlp.c_proj", {16, 4});
  return tensors;
}
const std::string kGpt2 = R"({"model_type": "gpt2", "vocab_size": 3, "n_embd": 4, "n_layer": 1,
    "n_head": 2, "n_positions": 16, "layer_norm_epsilon": 0.5})";

// gpt2's modules hold the transpose. Its first files have neither the prefix nor a head, and masks.
TEST_F(HfFolder, Gpt2MatricesAreTransposed) {
  HfTensors tensors = gpt2("");
  tensors["h.0.attn.bias"] = {{1, 1, 16, 16}};
  for (const HfTensors& each : {gpt2("transformer."), tensors}) {
    const Gguf gguf = open(kGpt2, each);
    EXPECT_EQ(gguf.find_tensor("blk.0.attn_qkv.weight")->dims, (std::vector<int64_t>{4, 12}));
    const std::vector<float> qkv = floats(gguf, "blk.0.attn_qkv.weight");
    EXPECT_EQ(std::vector<float>(qkv.begin(), qkv.begin() + 5),
              (std::vector<float>{0, 12, 24, 36, 1}));
    EXPECT_EQ(rows_of(gguf, "token_embd.weight"), in_order(3));
    EXPECT_EQ(refusal(), "");
  }
}

HfTensors gptneox() {
  HfTensors tensors = {{"gpt_neox.embed_in.weight", {{3, 8}}}, {"embed_out.weight", {{3, 8}}}};
  const auto add = [&](const std::string& module, std::vector<int64_t> shape) {
    tensors["gpt_neox." + module + ".bias"] = {{shape.front()}};
    tensors["gpt_neox." + module + ".weight"] = {std::move(shape)};
  };
  add("final_layer_norm", {8});
  add("layers.0.input_layernorm", {8});
  add("layers.0.post_attention_layernorm", {8});
  add("layers.0.attention.query_key_value", {24, 8});
  add("layers.0.attention.dense", {8, 8});
  add("layers.0.mlp.dense_h_to_4h", {6, 8});
  add("layers.0.mlp.dense_4h_to_h", {8, 6});
  return tensors;
}
std::string neox_config(const std::string& more) {
  return R"({"model_type": "gpt_neox", "rotary_pct": 0.5, "layer_norm_eps": 0.5, "vocab_size": 3,
      "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2,
      "max_position_embeddings": 16)" +
         more + "}";
}

// Each head has its q, k and v together; files have all of q, then k, then v.
TEST_F(HfFolder, GptNeoXHeadsAreRegrouped) {
  const Gguf gguf = open(neox_config(""), gptneox());
  EXPECT_THAT(rows_of(gguf, "blk.0.attn_qkv.weight"),
              ElementsAre(0, 1, 2, 3, 12, 13, 14, 15, 4, 5, 6, 7, 16, 17, 18, 19, 8, 9, 10, 11, 20,
                          21, 22, 23));
  EXPECT_EQ(floats(gguf, "blk.0.attn_qkv.bias")[4], 12.0F);
  EXPECT_NE(gguf.find_tensor("output.weight"), nullptr);
  EXPECT_TRUE(gguf.get_bool("gptneox.use_parallel_residual", false));
  EXPECT_EQ(refusal(), "");
}

// phi3 has q, k and v, and gate and up, as its files have them.
TEST_F(HfFolder, Phi3StaysAsItIs) {
  HfTensors tensors = llama();
  std::erase_if(tensors, [](const auto& each) {
    return each.first.find("gate_proj") != std::string::npos ||
           each.first.find("up_proj") != std::string::npos ||
           (each.first.find("self_attn") != std::string::npos &&
            each.first.find("o_proj") == std::string::npos);
  });
  tensors["model.layers.0.self_attn.qkv_proj.weight"] = {{16, 8}};
  tensors["model.layers.0.mlp.gate_up_proj.weight"] = {{12, 8}};
  const Gguf gguf = open(llama_config("", "phi3"), tensors);
  EXPECT_EQ(rows_of(gguf, "blk.0.attn_qkv.weight"), in_order(16));
  EXPECT_EQ(rows_of(gguf, "blk.0.ffn_up.weight"), in_order(12));
  EXPECT_EQ(refusal(), "");
}

// Gemma's norms are stored less one; bfloat16 is widened first, so that 1 + w is not rounded to it.
TEST_F(HfFolder, GemmaNormsGetOneAdded) {
  HfTensors tensors = llama();
  tensors["model.norm.weight"] = {{8}, "BF16", {0.00390625F, -1.0F, 0, 1, 2, 3, 4, 5}};
  const Gguf gguf = open(llama_config(R"(, "head_dim": 4)", "gemma"), tensors);
  EXPECT_THAT(floats(gguf, "output_norm.weight"), ElementsAre(1.00390625F, 0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(floats(gguf, "blk.0.ffn_norm.weight")[1], 2.0F);
  EXPECT_EQ(rows_of(gguf, "token_embd.weight"), in_order(3));
  EXPECT_EQ(refusal(), "");
}

// Matrices keep their type, also where their rows move.
TEST_F(HfFolder, HalfPrecisionStays) {
  for (const char* dtype : {"BF16", "F16"}) {
    HfTensors tensors = llama();
    for (auto& [name, tensor] : tensors) tensor.dtype = dtype;
    const Gguf gguf = open(llama_config(), tensors);
    const TensorType type = *dtype == 'B' ? TensorType::kBF16 : TensorType::kF16;
    for (const GgufTensor& tensor : gguf.tensors()) EXPECT_EQ(tensor.type, type) << tensor.name;
    const std::string v = tensors["model.layers.0.self_attn.v_proj.weight"].bytes();
    EXPECT_EQ(std::memcmp(gguf.find_tensor("blk.0.attn_v.weight")->data.data(), v.data(), v.size()),
              0);
    EXPECT_EQ(refusal(), "");
  }
}

HfTensors with_experts(HfTensors tensors) {
  std::erase_if(tensors,
                [](const auto& each) { return each.first.find("mlp") != std::string::npos; });
  return tensors;
}
const std::string kExperts = R"(, "num_local_experts": 2, "num_experts_per_tok": 1)";

// An expert in the place of another, or gate in that of up, would compute something else.
TEST_F(HfFolder, ExpertsOneByOneBecomeOneTensor) {
  HfTensors tensors = with_experts(llama());
  const std::string moe = "model.layers.0.block_sparse_moe.";
  tensors[moe + "gate.weight"] = {{2, 8}};
  for (const auto& [name, value] : {std::pair("0.w1", 1), {"0.w3", 2}, {"1.w1", 3}, {"1.w3", 4}}) {
    tensors[moe + "experts." + name + ".weight"] = {
        {6, 8}, "F32", std::vector<float>(48, static_cast<float>(value))};
  }
  tensors[moe + "experts.0.w2.weight"] = tensors[moe + "experts.1.w2.weight"] = {{8, 6}};
  const Gguf gguf = open(llama_config(kExperts, "mixtral"), tensors);
  EXPECT_EQ(gguf.find_tensor("blk.0.ffn_up_exps.weight")->dims, (std::vector<int64_t>{8, 6, 2}));
  EXPECT_EQ(floats(gguf, "blk.0.ffn_gate_exps.weight")[47], 1.0F);
  EXPECT_EQ(floats(gguf, "blk.0.ffn_gate_exps.weight")[48], 3.0F);
  EXPECT_EQ(floats(gguf, "blk.0.ffn_up_exps.weight")[48], 4.0F);
  EXPECT_EQ(refusal(), "");
  tensors.erase(moe + "experts.1.w3.weight");
  EXPECT_THAT(refusal(llama_config(kExperts, "mixtral"), tensors),
              HasSubstr("tensor '" + moe + "experts.1.w3.weight' is missing"));
}

// granitemoe has gate above up, as qwen3_5_moe has in modules of its own; gpt_oss has them in turn,
// and the transpose.
TEST_F(HfFolder, GateAndUpOfAllExpertsAreTakenApart) {
  HfTensors tensors = with_experts(llama());
  const std::string moe = "model.layers.0.block_sparse_moe.";
  tensors[moe + "router.layer.weight"] = {{2, 8}};
  tensors[moe + "input_linear.weight"] = {{2, 12, 8}};
  tensors[moe + "output_linear.weight"] = {{2, 8, 6}};
  const Gguf halves = open(llama_config(kExperts, "granitemoe"), tensors);
  EXPECT_THAT(rows_of(halves, "blk.0.ffn_up_exps.weight"),
              ElementsAre(6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23));
  EXPECT_EQ(rows_of(halves, "blk.0.ffn_gate_exps.weight")[6], 12);
  EXPECT_EQ(refusal(), "");

  tensors = with_experts(llama());
  const std::string layer = "model.layers.0.";
  tensors[layer + "mlp.gate.weight"] = {{2, 8}};
  tensors[layer + "mlp.experts.gate_up_proj"] = {{2, 12, 8}};
  tensors[layer + "mlp.experts.down_proj"] = {{2, 8, 6}};
  tensors[layer + "self_attn.q_norm.weight"] = tensors[layer + "self_attn.k_norm.weight"] = {{4}};
  const Gguf joined = open(llama_config(kExperts + ", \"head_dim\": 4", "qwen3_moe"), tensors);
  EXPECT_EQ(floats(joined, "blk.0.ffn_up_exps.weight"), floats(halves, "blk.0.ffn_up_exps.weight"));
  EXPECT_EQ(floats(joined, "blk.0.ffn_gate_exps.weight"),
            floats(halves, "blk.0.ffn_gate_exps.weight"));
  EXPECT_EQ(refusal(), "");

  tensors = with_experts(llama());
  tensors[layer + "self_attn.sinks"] = {{2}};
  tensors[layer + "mlp.router.weight"] = {{2, 8}};
  tensors[layer + "mlp.router.bias"] = {{2}};
  tensors[layer + "mlp.experts.gate_up_proj"] = {{2, 8, 12}};
  tensors[layer + "mlp.experts.gate_up_proj_bias"] = {{2, 12}};
  tensors[layer + "mlp.experts.down_proj"] = {{2, 6, 8}};
  tensors[layer + "mlp.experts.down_proj_bias"] = {{2, 8}};
  for (const char* name : {"q", "k", "v", "o"}) {
    tensors[fmt::format("{}self_attn.{}_proj.bias", layer, name)] = {
        {*name == 'q' || *name == 'o' ? 8 : 4}};
  }
  const Gguf turns = open(llama_config(kExperts + ", \"head_dim\": 4", "gpt_oss"), tensors);
  const std::vector<float> up = floats(turns, "blk.0.ffn_up_exps.weight");
  EXPECT_EQ(up[0], 1.0F);        // input 0 of output 0
  EXPECT_EQ(up[1], 13.0F);       // input 1
  EXPECT_EQ(up[8], 3.0F);        // output 1
  EXPECT_EQ(up[48], 96.0F + 1);  // of the next expert
  EXPECT_EQ(floats(turns, "blk.0.ffn_down_exps.weight")[1], 8.0F);
  EXPECT_THAT(floats(turns, "blk.0.ffn_gate_exps.bias"),
              ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22));
  EXPECT_EQ(refusal(), "");
}

TEST_F(HfFolder, ShardsAreOneModel) {
  HfTensors first = llama();
  HfTensors second;
  second.insert(first.extract("model.norm.weight"));
  put("config.json", llama_config());
  const auto index = [&](const std::string& norm) {
    std::string map = fmt::format(R"("model.norm.weight": "{}")", norm);
    for (const auto& each : first) map += fmt::format(R"(, "{}": "a.safetensors")", each.first);
    put("model.safetensors.index.json", fmt::format(R"({{"weight_map": {{{}}}}})", map));
  };
  put("a.safetensors", safetensors(first));
  put("b.safetensors", safetensors(second));
  index("b.safetensors");
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(floats(Gguf(folder_), "output_norm.weight")[3], 3.0F);
  index("a.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("tensor 'model.norm.weight' is not in a.safetensors"));
  for (const char* name : {"../b.safetensors", "/etc/passwd", "b.bin", ""}) {
    index(name);
    EXPECT_THAT(refusal(), HasSubstr("which is not a safetensors file of this folder")) << name;
  }
  index("b.safetensors");
  put("b.safetensors", safetensors(first));
  EXPECT_THAT(refusal(), HasSubstr("is in " + path("a.safetensors") + " too"));
  std::filesystem::remove(path("b.safetensors"));
  EXPECT_THAT(refusal(), HasSubstr(path("b.safetensors") + ": cannot open"));
}

// A tied matrix may be in the files as well, and is not tied if it is another one; one that is
// stated and missing is damage.
TEST_F(HfFolder, TheOutputMatrixIsTiedAsStated) {
  HfTensors tensors = llama();
  EXPECT_THAT(refusal(llama_config(R"(, "tie_word_embeddings": false)"), tensors),
              HasSubstr("tensor 'lm_head.weight' is missing"));
  tensors["lm_head.weight"] = {.shape = {3, 8}, .values = {7}};
  EXPECT_NE(open(llama_config(), tensors).find_tensor("output.weight"), nullptr);
  const std::string tied = llama_config(R"(, "tie_word_embeddings": true)");
  EXPECT_NE(open(tied, tensors).find_tensor("output.weight"), nullptr);
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  EXPECT_EQ(open(tied, tensors).find_tensor("output.weight"), nullptr);
}

TEST_F(HfFolder, TensorsThatDoNotFitAreNamed) {
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  HfTensors tensors = llama();
  tensors["model.layers.0.mlp.extra.weight"] = {{2}};
  EXPECT_THAT(refusal(llama_config(), tensors),
              AllOf(HasSubstr(path("model.safetensors")), HasSubstr("'model.layers.0.mlp.extra")));
  tensors = llama();
  tensors.erase(q);
  EXPECT_THAT(refusal(llama_config(), tensors), HasSubstr("tensor '" + q + "' is missing"));
  tensors[q] = {{7, 8}};
  EXPECT_THAT(refusal(llama_config(), tensors),
              HasSubstr("tensor '" + q + "' has the shape [7, 8], config.json says 8 rows"));
  tensors[q] = {{8, 7}};
  EXPECT_THAT(refusal(llama_config(), tensors), HasSubstr("'blk.0.attn_q.weight' has the shape"));
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {0, 8}, {1, 1, 1, 8, 8}}) {
    tensors[q] = {shape};
    EXPECT_THAT(refusal(llama_config(), tensors), HasSubstr("tensor '" + q + "' has the shape ["));
  }
}

// A header from outside may say anything.
TEST_F(HfFolder, HostileFilesAreRefusedInOneLine) {
  write(llama_config(), llama());
  const auto with = [&](const std::string& bytes) {
    put("model.safetensors", bytes);
    const std::string message = refusal();
    EXPECT_THAT(message, HasSubstr(path("model.safetensors: ")));
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  };
  const auto tensor = [&](const std::string& entry) {
    return with(safetensors(R"({"t\u001b": )" + entry + "}", std::string(16, '\0')));
  };
  EXPECT_THAT(with("1234567"), HasSubstr("too short"));
  EXPECT_THAT(with(std::string(8, '\xFF')), HasSubstr("its header has 18446744073709551615 bytes"));
  EXPECT_THAT(with(safetensors("{", "")), HasSubstr("is not valid JSON"));
  EXPECT_THAT(with(safetensors("[]", "")), HasSubstr("is not a JSON object"));
  EXPECT_THAT(with(safetensors(std::string(100000, '['), "")), HasSubstr("is not valid JSON"));
  EXPECT_THAT(tensor("3"), HasSubstr(R"(tensor 't\x1b' has no 'dtype')"));
  EXPECT_THAT(tensor(R"({"dtype": "Q4", "shape": [4], "data_offsets": [0, 16]})"),
              HasSubstr("has the dtype 'Q4'"));
  EXPECT_THAT(tensor(R"({"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]})"),
              HasSubstr("has a shape of other numbers"));
  EXPECT_THAT(tensor(R"({"dtype": "F32", "shape": [4611686018427387904, 8],
                         "data_offsets": [0, 16]})"),
              HasSubstr("has a shape that overflows"));
  EXPECT_THAT(tensor(R"({"dtype": "F32", "shape": [4], "data_offsets": [0, 20]})"),
              HasSubstr("has the data_offsets 0 and 20 in 16 bytes"));
  EXPECT_THAT(tensor(R"({"dtype": "F32", "shape": [4], "data_offsets": [16, 0]})"),
              HasSubstr("has the data_offsets"));
  EXPECT_THAT(tensor(R"({"dtype": "F32", "shape": [3], "data_offsets": [0, 16]})"),
              HasSubstr("has 16 bytes of data, its shape says 12"));
  EXPECT_THAT(tensor(R"({"dtype": "F32", "shape": [3], "data_offsets": [4, 16]})"),
              HasSubstr("does not begin where"));
  EXPECT_THAT(tensor(R"({"dtype": "F32", "shape": [3], "data_offsets": [0, 12]})"),
              HasSubstr("after its last tensor"));
  const std::string whole = safetensors(llama());
  for (size_t size = 1; size < whole.size(); size += 97) with(whole.substr(0, size));
}

TEST_F(HfFolder, FoldersWithoutAModelAreRefused) {
  EXPECT_THAT(refusal(), HasSubstr(folder_ + ": is a directory without config.json"));
  put("config.json", llama_config());
  EXPECT_THAT(refusal(), HasSubstr("holds neither model.safetensors nor"));
  std::string bytes = safetensors(llama());
  bytes.replace(bytes.find(R"("model.norm.weight":{"dtype":"F32")"), 34,
                R"("model.norm.weight":{"dtype":"I32")");
  put("model.safetensors", bytes);
  EXPECT_THAT(refusal(), HasSubstr("tensor 'model.norm.weight' has the dtype I32"));
}

// The hash tells two models with the same weights apart by what config.json says.
TEST_F(HfFolder, TheHashCoversConfigAndWeights) {
  const std::string one = open(llama_config(), llama()).sha256();
  EXPECT_NE(open(llama_config(" "), llama()).sha256(), one);
  HfTensors tensors = llama();
  tensors["model.norm.weight"].values = {1.0F};
  EXPECT_NE(open(llama_config(), tensors).sha256(), one);
  EXPECT_EQ(open(llama_config(), llama()).sha256(), one);
  EXPECT_EQ(open(llama_config(), llama()).get_string("general.name"),
            std::filesystem::path(folder_).filename().string());
}

// Breaks if a model were run without what its config.json asks for.
TEST_F(HfFolder, WhatTheConfigAsksForIsThere) {
  EXPECT_THAT(refusal(llama_config(R"(, "attention_bias": true)"), llama()),
              HasSubstr("tensor 'model.layers.0.self_attn.q_proj.bias' is missing"));
  EXPECT_THAT(refusal(llama_config(R"(, "mlp_bias": true)"), llama()),
              HasSubstr("proj.bias' is missing"));
  HfTensors tensors = llama();
  tensors["model.embed_tokens.weight"].shape = {2, 8};
  EXPECT_THAT(refusal(llama_config(), tensors),
              HasSubstr("vocab_size is 3, and the embedding has 2 rows"));
}

// Breaks if a model were run with a bias or a norm that its config.json switches off: transformers
// leaves such tensors out.
TEST_F(HfFolder, WhatTheConfigDoesNotAskForIsRefused) {
  HfTensors tensors = llama();
  tensors["model.layers.0.self_attn.q_proj.bias"] = {{8}};
  EXPECT_THAT(refusal(llama_config(), tensors),
              HasSubstr("q_proj.bias' is there, and config.json does not ask for it"));
  tensors = llama();
  tensors.erase("model.layers.0.post_attention_layernorm.weight");
  tensors.erase("lm_head.weight");
  const std::string normed = R"(, "layer_norm_eps": 1e-5, "use_qk_norm": true)";
  EXPECT_THAT(refusal(llama_config(normed, "cohere"), tensors),
              HasSubstr("layer 0 lacks self_attn.k_norm.weight, which config.json asks for"));
  tensors["model.layers.0.self_attn.q_norm.weight"] = {{2, 4}};
  tensors["model.layers.0.self_attn.k_norm.weight"] = {{1, 4}};
  EXPECT_EQ(refusal(llama_config(normed, "cohere"), tensors), "");
  EXPECT_THAT(refusal(llama_config(R"(, "layer_norm_eps": 1e-5)", "cohere"), tensors),
              HasSubstr("layer 0 has self_attn.k_norm.weight, which config.json does not ask for"));
}

}  // namespace
}  // namespace assay
