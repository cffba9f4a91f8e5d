#pragma once

#include <string>
#include <utility>
#include <vector>

namespace assay {

inline const std::string kShaA(64, 'a');
inline const std::string kShaB(64, 'b');

// A whole manifest with something in each of its parts, after replacing each `first` by `second`.
inline std::string manifest_text(
    const std::vector<std::pair<std::string, std::string>>& replacements = {}) {
  std::string text = R"({
    "schema": 2, "model": "tiny", "arch": "llama", "a_note": [],
    "prompts": {"haiku": {"text": "a b", "tokens": [1, 2, 3]}, "long": {"text": "c", "tokens": [4]}},
    "padding_ids": [7], "oracles": {"numpy": "2.4.6"}, "command": "python -m generate tiny",
    "tolerance": {"k": 3, "floor": "f32_vs_f64", "why": "measured"},
    "files": [
      {"type": "F32", "gguf": "tiny-f32.gguf", "sha256": "SHA_A",
       "floors": {"output": {"f32_vs_f64": {"max": 2e-6, "p99": 1e-6}},
                  "embedding": {"f32_vs_f64": {"max": 0}},
                  "logits": {"f32_vs_f64": {"max": 4e-6, "regret": 0.5},
                             "bf16_vs_f64": {"max": 1e-2}}},
       "floors_by_checkpoint": {"layer_0_output": {"f32_vs_f64": {"max": 1e-6}}},
       "logs": [{"file": "f32.jsonl", "sha256": "SHA_B", "prompt": "haiku", "set": "layers",
                 "positions": null, "n_predict": 2, "greedy": [5, 6], "greedy_gaps": [0.5, 1],
                 "argmax_min_gap": 0.25, "text": "d"},
                {"file": "long.jsonl", "sha256": "SHA_B", "prompt": "long", "set": "ops",
                 "positions": [0], "n_predict": 0}]},
      {"type": "Q4_1", "gguf": "tiny-q4_1.gguf", "sha256": "SHA_B",
       "wheel": {"package": "llm-tiny", "version": "0.1"},
       "floors": {"logits": {"f32_vs_f64": {"max": 1e-5}}}, "logs": [],
       "texts": [{"prompt": "long", "greedy": [8]}]}]})";
  const auto replace_all = [&](const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      text.replace(at, from.size(), to);
      at += to.size();
    }
  };
  for (const auto& [from, to] : replacements) replace_all(from, to);
  replace_all("SHA_A", kShaA);
  replace_all("SHA_B", kShaB);
  return text;
}

}  // namespace assay
