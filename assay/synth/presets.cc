#include "assay/synth/presets.h"

namespace assay {
namespace {

constexpr Preset kPresets[] = {
    {"tinyllama-1.1b", R"({
       "_name_or_path": "TinyLlama-1.1B", "model_type": "llama", "vocab_size": 32000,
       "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
       "num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 2048,
       "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false})"},
    {"llama-3-8b", R"({
       "_name_or_path": "Llama-3-8B", "model_type": "llama", "vocab_size": 128256,
       "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192,
       "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": false})"},
    {"qwen2.5-0.5b", R"({
       "_name_or_path": "Qwen2.5-0.5B", "model_type": "qwen2", "vocab_size": 151936,
       "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
       "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 32768,
       "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true})"},
    {"phi-3-mini-4k", R"({
       "_name_or_path": "Phi-3-mini-4k", "model_type": "phi3", "vocab_size": 32064,
       "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096,
       "original_max_position_embeddings": 4096, "sliding_window": 2047,
       "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false})"},
    {"gpt2-124m", R"({
       "_name_or_path": "GPT-2 124M", "model_type": "gpt2", "vocab_size": 50257, "n_embd": 768,
       "n_layer": 12, "n_head": 12, "n_positions": 1024, "layer_norm_epsilon": 1e-5})"},
};

}  // namespace

std::span<const Preset> presets() {
  return kPresets;
}

}  // namespace assay
