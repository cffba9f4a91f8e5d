"""Bugs that were looked at and not made again: (project#number of each, what was wrong, why not)."""

MEMORY = "what was read depends on the memory"
SERVING = "it takes several requests, or a cache from which tokens were removed"
FORMAT = "quantised types that are not of GGUF"
BLOCKS = "the models that bugs are made in are of float32"
CAUSE = "the thread does not say what was computed"
SMALL = "no other result in a tiny model"
ENTRY = "an entry says it; not made again"

LOOKED_AT = (
    ("vllm-project/vllm#2064", "blocks of a full window were written over", MEMORY),
    ("tanishqkumar/ssd#23", "a prefix in pages was read as if it were in one piece", MEMORY),
    ("GeeeekExplorer/nano-vllm#213", "a chunk read slots that nothing had been written to", MEMORY),
    ("vllm-project/vllm-ascend#6558", "what attention gave was not written to its place", MEMORY),
    ("vllm-project/vllm#50427 vllm-project/vllm#45500 state-spaces/mamba#1015 state-spaces/mamba#884 "
     "thu-ml/SageAttention#386 fla-org/flash-linear-attention#1080 ikawrakow/ik_llama.cpp#1458",
     "offsets overflowed 32 bits", MEMORY),
    ("ggml-org/llama.cpp#13438", "threads did not wait for each other", MEMORY),
    ("sgl-project/sglang#22688", "parts of attention without keys were merged as if they had some", SERVING),
    ("ggml-org/llama.cpp#3825 ggml-org/llama.cpp#4097 ggml-org/llama.cpp#5652",
     "keys that are moved after tokens were removed turned by the wrong angle", SERVING),
    ("vllm-project/vllm#55178 sgl-project/sglang#33450 sgl-project/sglang#29973 vllm-project/vllm#35275 "
     "NVIDIA/TensorRT-LLM#14509",
     "the state of Mamba was of other tokens than the cache said", SERVING),
    ("sgl-project/sglang#19086 vllm-project/vllm#52516", "heads of the cache went to the wrong rank", SERVING),
    ("unslothai/unsloth#3795", "positions of all rows of a batch were those of the longest", SERVING),
    ("vllm-project/vllm-ascend#1492 LMCache/lmcache-vllm#27", "a prefix from the cache was attended to wrongly", CAUSE),
    ("vllm-project/vllm#38966 ModelCloud/GPTQModel#2350 pytorch/executorch#21773 vllm-project/vllm-xpu-kernels#57",
     "zero points one off, underflowing, or read as another type", FORMAT),
    ("ggml-org/llama.cpp#3276 ggml-org/llama.cpp#27007 ggml-org/llama.cpp#8455",
     "a backend's product of K blocks", CAUSE),
    ("EricLBuehler/mistral.rs#1278 huggingface/candle#1935 huggingface/candle#1582 ml-explore/mlx-lm#1896 "
     "paiml/realizar#94 vllm-project/vllm#14896",
     "groups of experts, rotations, norms of q and k, prompts in one piece, windows of some layers", CAUSE),
    ("huggingface/text-generation-inference#1036 GeeeekExplorer/nano-vllm#99 huggingface/transformers#43756",
     "a bias for each rank, rotations in the other layers", "what they report is not so, or was not confirmed"),
    ("sgl-project/sglang#20967 vllm-project/vllm#38191",
     "weights of a norm were cut for the wrong number of ranks", CAUSE),
    ("flashinfer-ai/flashinfer#3875", "a weight is lost where a large bias is added and subtracted in float32", SMALL),
    ("flashinfer-ai/flashinfer#2168",
     "experts of other groups, masked with 0, before negative ones: which is not defined", SMALL),
    ("anthony-chaudhary/fak#4837", "cut the gate of gpt-oss's experts on both sides, not above alone", SMALL),
    ("PaddlePaddle/PaddleFleet#1299", "weights that are divided by their sum twice", SMALL),
    ("huggingface/transformers#44397", "scores are not divided by the number of the layer",
     "no network of Assay's has that scale; the reverse is an entry"),
    ("paiml/aprender#2115 paiml/aprender#1924 ml-explore/mlx#3664 1bit-MONSTER/1bit-MONSTER#734",
     "scales of Q3_K and Q2_K, the head of Q4_1's blocks and the order of Q6_K's elements were read wrongly", BLOCKS),
    ("ml-explore/mlx-swift-lm#333 huggingface/transformers#45253",
     "layers that share keys and values computed their own without a cache, of matrices that the network has not",
     "no file of transformers has these weights"),
    ("huggingface/transformers#45940 huggingface/transformers#37574",
     "slots of a static window's cache that are empty, or moved one token too early", CAUSE),
    ("vllm-project/vllm#7880", "logits of ranks of a GGUF file", CAUSE),
    ("ggml-org/llama.cpp#1925", "an RMSNorm without weights twice", SMALL),
    ("sgl-project/sglang#10466 huggingface/transformers#40842",
     "the eps of the L2 norm of linear attention was added to the root, or once more", SMALL),
    ("HabanaAI/vllm-fork#275", "exp() of scores overflowed", "any comparison fails with NaN"),
    ("unslothai/unsloth-zoo#600 lablup/mlxcel#412", "infinities in float16, NaN beyond a window",
     "any comparison fails with NaN"),
    ("NVIDIA/TensorRT-LLM#3491 AI-Hypercomputer/maxtext#1611",
     "Llama 4 without its temperature, and its norms before the rotation", ENTRY),
    ("ollama/ollama#12348 ollama/ollama#13445", "a linear factor that a file states wrongly was applied", ENTRY),
)  # fmt: skip
