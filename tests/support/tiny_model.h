#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/gguf_builder.h"

namespace assay::testing_support {

// A llama model of one layer and eight-wide rows, with no vocabulary if none is given; tests spoil
// it before it is written. Values are small and all different.
struct TinyModel {
  struct Tensor {
    std::vector<uint64_t> dims;
  };
  std::string architecture = "llama";
  std::map<std::string, uint32_t> ints = {
      {"llama.block_count", 1},          {"llama.embedding_length", 8},
      {"llama.feed_forward_length", 12}, {"llama.context_length", 16},
      {"llama.attention.head_count", 2}, {"llama.attention.head_count_kv", 1}};
  std::map<std::string, float> floats = {{"llama.attention.layer_norm_rms_epsilon", 1e-5F}};
  std::map<std::string, double> doubles;  // a key of floats gives way to its namesake here
  std::map<std::string, bool> booleans;
  std::map<std::string, std::string> texts = {{"tokenizer.ggml.model", "no_vocab"}};
  std::vector<std::string> vocabulary;  // five tokens, as SentencePiece has them
  std::map<std::string, std::vector<std::string>> strings;
  std::map<std::string, std::vector<float>> float_lists;
  std::map<std::string, std::vector<int32_t>> int_lists;
  std::map<std::string, Tensor> tensors = {
      {"token_embd.weight", {{8, 5}}},    {"output.weight", {{8, 5}}},
      {"output_norm.weight", {{8}}},      {"blk.0.attn_norm.weight", {{8}}},
      {"blk.0.attn_q.weight", {{8, 8}}},  {"blk.0.attn_k.weight", {{8, 4}}},
      {"blk.0.attn_v.weight", {{8, 4}}},  {"blk.0.attn_output.weight", {{8, 8}}},
      {"blk.0.ffn_norm.weight", {{8}}},   {"blk.0.ffn_gate.weight", {{8, 12}}},
      {"blk.0.ffn_up.weight", {{8, 12}}}, {"blk.0.ffn_down.weight", {{12, 8}}}};
  std::map<std::string, float> fill;  // tensors that hold one value throughout
  std::set<std::string> below_zero;   // tensors without a value above 0

  // The same hyperparameters in a file of another architecture.
  void become(const std::string& other) {
    const auto rename = [&](auto& keys) {
      auto renamed = keys;
      renamed.clear();
      for (const auto& [key, value] : keys) renamed[other + key.substr(key.find('.'))] = value;
      keys = renamed;
    };
    architecture = other;
    rename(ints);
    rename(floats);
  }

  std::string write(const std::string& path) const {
    GgufBuilder builder;
    builder.text("general.architecture", architecture);
    for (const auto& [key, value] : ints) builder.u32(key, value);
    for (const auto& [key, value] : floats) {
      if (!doubles.contains(key)) builder.f32(key, value);
    }
    for (const auto& [key, value] : doubles) builder.f64(key, value);
    for (const auto& [key, value] : booleans) builder.boolean(key, value);
    for (const auto& [key, value] : texts) builder.text(key, value);
    if (!vocabulary.empty()) {
      builder.strings("tokenizer.ggml.tokens", vocabulary);
      builder.floats("tokenizer.ggml.scores", std::vector<float>(vocabulary.size(), 0.0F));
      builder.ints("tokenizer.ggml.token_type", std::vector<int32_t>(vocabulary.size(), 1));
    }
    for (const auto& [key, values] : strings) builder.strings(key, values);
    for (const auto& [key, values] : float_lists) builder.floats(key, values);
    for (const auto& [key, values] : int_lists) builder.ints(key, values);
    double phase = 0.0;
    for (const auto& [name, tensor] : tensors) {
      size_t count = 1;
      for (const uint64_t dim : tensor.dims) count *= dim;
      std::vector<float> values(count);
      const auto constant = fill.find(name);
      for (float& value : values) {
        phase += 1.0;
        value = constant != fill.end() ? constant->second
                                       : static_cast<float>(std::sin(phase * 1.7) * 0.5);
        if (below_zero.contains(name)) value = -std::abs(value);
      }
      builder.f32_tensor(name, tensor.dims, values);
    }
    return builder.write(path);
  }
};

}  // namespace assay::testing_support
