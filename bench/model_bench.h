#pragma once

namespace assay::bench {

// Benchmarks of every model file that the goldens in the current folder name and that is here
// (golden/*, tests/published/golden/*), and of the file that ASSAY_BENCH_MODEL names:
//   prefill/MODEL/TYPE/MATH/TOKENS  a prompt at once
//   decode/MODEL/TYPE/MATH/TOKENS   one token after so many others
//   load/MODEL/TYPE                 opening the model beside reading its file
// prefill and decode report the memory that they took (see `peak_of_limit`).
void register_models();

// The models are kept one at a time; the last one until this.
void unload_model();

}  // namespace assay::bench
