#pragma once

#include <string>
#include <variant>

#include "engine/hf/config.h"

namespace assay::testing_support {

// What a config.json of four narrow layers says, with `more` behind their sizes.
inline HfConfig small_config(const std::string& type, const std::string& more) {
  return read_hf_config(R"({"model_type": ")" + type +
                            R"(", "vocab_size": 5, "hidden_size": 16, "num_hidden_layers": 4,
                                "num_attention_heads": 4, "num_key_value_heads": 2,
                                "intermediate_size": 6, "max_position_embeddings": 64)" +
                            more + "}",
                        "config.json");
}

// The number or flag of a key that it gives.
template <class Number>
Number stated(const HfConfig& config, const std::string& key) {
  return std::get<Number>(config.metadata.at(key));
}

}  // namespace assay::testing_support
