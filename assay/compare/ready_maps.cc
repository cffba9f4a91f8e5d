// The ready maps. Names of transformers are those of the modules whose outputs are hooked; they are
// held to named_modules() of transformers 5.23 for each architecture. Rows and parts were held to
// its running modules too, over the weights of the small goldens (llama with 2 and with 1 head of
// keys, qwen2, phi3, gpt2): 138 records of each are those of assay run within 5.2e-7.
#include <string>
#include <vector>

#include "assay/compare/name_map.h"

namespace assay {
namespace {

// The published logs name the checkpoints as Assay does, and one more.
constexpr std::string_view kPublished = R"json({"rules": [
{"name": "logits", "to": "logits"},
{"name": "embedding", "to": "embedding"},
{"name": "layer_{N}_output", "to": "layer_{N}_output"},
{"name": "layer_{N}_q", "to": "layer_{N}_q"},
{"name": "layer_{N}_k", "to": "layer_{N}_k"},
{"name": "layer_{N}_v", "to": "layer_{N}_v"},
{"name": "layer_{N}_attn_scores", "to": null}
]})json";

}  // namespace

const std::vector<ReadyMap>& ready_maps() {
  static const std::string transformers = transformers_map();
  static const std::vector<ReadyMap> maps = {{"llama.cpp", llama_cpp_map()},
                                             {"transformers", transformers, true},
                                             {"published", kPublished}};
  return maps;
}

}  // namespace assay
