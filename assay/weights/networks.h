#pragma once

#include <optional>
#include <string>

#include "engine/gguf.h"
#include "engine/model_config.h"

namespace assay {

// What two files ask an engine to compute, with the defaults of what they leave out. The files must
// outlive this.
class Networks {
 public:
  Networks(const Gguf& ref, const Gguf& got);

  // Whether the two are of one network; false where Assay cannot tell.
  bool are_one() const { return are_one_; }

  // Whether one of the files would be of another network, or of none, if it stated the key as the
  // other does.
  bool depends_on(const std::string& key) const;

  // Whether the key is one of those that a file states of the latent vectors themselves where it
  // has attn_k_b and attn_v_b, and of heads where it has attn_kv_b; and each file states it as it
  // has to.
  bool is_of_latent_form(const std::string& key) const;

 private:
  const Gguf& ref_;
  const Gguf& got_;
  std::optional<ModelConfig> ref_config_;  // nothing where Assay does not run it
  std::optional<ModelConfig> got_config_;
  bool are_one_ = false;
};

// Whether the two compute the same, up to the rounding of a number to float.
bool is_one_network(const ModelConfig& a, ModelConfig b);

}  // namespace assay
