"""llama.cpp's own quantiser: Q8_0 and Q4_K_M files from F32, and any type back to F32."""

import llama_cpp

FILE_TYPES = {
    "F32": llama_cpp.LLAMA_FTYPE_ALL_F32,
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q4_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
}


def quantise(source, target, type_name):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = FILE_TYPES[type_name]
    params.nthread = 1
    params.allow_requantize = type_name == "F32"
    status = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), params)
    if status != 0:
        raise RuntimeError(f"llama.cpp could not quantise {source.name} to {type_name} (status {status})")
