#pragma once

#include <string>
#include <vector>

#include "assay/dump/dump.h"
#include "base/error.h"

namespace assay {

// Whether `path` is what other tools or `assay convert` save, by its ending (.npy, .npz,
// .safetensors, .safetensors.index.json, .parquet, .pt, .pth, .bin), by what it holds (is_printed,
// is_base_logprobs, read_server_response) or, of a folder, by the endings of the files below it; a
// folder that holds a .jsonl is a log.
bool is_dump(const std::string& path);

// Of a dump for which --layers was given.
Error no_hidden_states(const std::string& path);

// The tensors of `path`. NumPy's and safetensors files are read here; pickles and folders of single
// tensors go through dump.py in the Python that ASSAY_PYTHON names, or python3, and a file in the
// folder `work`. `vllm_layers`: the ids of the layers that vLLM was asked for, for its files of
// hidden states; without, these are numbered. Throws Error if a file is damaged, of no known
// format, or a pickle of more than tensors.
Dump open_dump(const std::string& path, const std::string& work,
               const std::vector<int64_t>& vllm_layers);

}  // namespace assay
