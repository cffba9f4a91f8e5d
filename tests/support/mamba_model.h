#pragma once

#include <string>

#include "tests/support/tiny_model.h"

namespace assay::testing_support {

// One layer of Mamba alone: 16 channels with states of 3, and steps that are products of 2 numbers.
inline void become_mamba(TinyModel& model) {
  model.become("mamba");
  model.ints["mamba.feed_forward_length"] = 0;
  model.ints["mamba.ssm.conv_kernel"] = 3;
  model.ints["mamba.ssm.state_size"] = 3;
  model.ints["mamba.ssm.time_step_rank"] = 2;
  model.ints["mamba.ssm.inner_size"] = 16;
  std::erase_if(model.tensors, [](const auto& tensor) {
    return tensor.first.starts_with("blk.0.") && tensor.first != "blk.0.attn_norm.weight";
  });
  model.tensors["blk.0.ssm_in.weight"] = {{8, 32}};
  model.tensors["blk.0.ssm_conv1d.weight"] = {{3, 16}};
  model.tensors["blk.0.ssm_conv1d.bias"] = {{16}};
  model.tensors["blk.0.ssm_x.weight"] = {{16, 2 + 3 + 3}};
  model.tensors["blk.0.ssm_dt.weight"] = {{2, 16}};
  model.tensors["blk.0.ssm_dt.bias"] = model.tensors["blk.0.ssm_d"] = {{16}};
  model.tensors["blk.0.ssm_a"] = {{3, 16}};
  model.below_zero.insert("blk.0.ssm_a");
  model.tensors["blk.0.ssm_out.weight"] = {{16, 8}};
}

}  // namespace assay::testing_support
