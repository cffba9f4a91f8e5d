#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/calls.h"
#include "kernels/memory.h"
#include "kernels/stream_calls.h"

namespace assay {

class FusedKernels;
class Library;

// One function an op (calls.h); the engine calls nothing else to compute. No result depends on the
// number of threads or on how tokens are split over calls: each element is computed from its own
// inputs in one fixed order of sums. All addresses are of memory(), those of weights and ids too.
class Kernels {
 public:
  virtual ~Kernels() = default;

  // "reference", "cuda", "emulated", or the instruction set in use: "avx512-amx",
  // "avx512-vnni", "avx512", "avx-vnni", "avx2", "portable". Of a decorator that of what it
  // decorates.
  virtual std::string_view name() const = 0;

  // Where the arrays of this backend are.
  virtual Memory& memory() { return host_memory(); }

  // Several ops in one for a single token; null where single ops do as well.
  virtual FusedKernels* fused() { return nullptr; }

  // Not null in Math::kLibrary.
  virtual Library* library() { return nullptr; }

  virtual void run(const GetRowsCall& call) = 0;
  // Products of one input: `x`, `n_tokens` and the columns are those of the first.
  virtual void run(std::span<const MatmulCall> calls) = 0;
  void run(const MatmulCall& call) { run(std::span(&call, 1)); }
  virtual void run(const NormCall& call) = 0;
  virtual void run(const RopeCall& call) = 0;
  virtual void run(const HeadsCall& call) = 0;
  virtual void run(const StoreKvCall& call) = 0;
  virtual void run(const AttentionCall& call) = 0;
  virtual void run(const ConvCall& call) = 0;
  virtual void run(const DeltaCall& call) = 0;
  virtual void run(const SsmCall& call) = 0;
  virtual void run(const ActivateCall& call) = 0;
  virtual void run(const AddCall& call) = 0;
  virtual void run(const CutoffCall& call) = 0;
  virtual void run(const StreamsCall& call) = 0;
  virtual void run(const SpreadCall& call) = 0;
  virtual void run(const MixCall& call) = 0;
  // These are computed in double on the host, by every backend.
  virtual void run(const IndexCall& call);
  virtual void run(const SelectCall& call);
  virtual void run(const WeighCall& call);
};

// An attention whose queries see some positions alone, by others of gathered keys and values: with
// the bits of the same keys one after the other. For backends whose attention reads all.
void run_indexed(Kernels& kernels, const AttentionCall& call);

class ThreadPool;

// Naive loops that accumulate in double: what the fast kernels are tested against.
std::unique_ptr<Kernels> make_reference_kernels();

// kAvxVnni is AVX2, kAvx512Vnni AVX-512, with instructions for int8 products; kAmx is kAvx512Vnni
// with those for int8 products of whole tiles.
enum class InstructionSet : uint8_t { kPortable, kAvx2, kAvxVnni, kAvx512, kAvx512Vnni, kAmx };

// The best instruction set that both the processor and the operating system offer.
InstructionSet best_instruction_set();

// kExact: weights as stored, dequantised to float; products with weights that are not stored in
// blocks, and attention, are summed in double and rounded to float once, all else is in float.
// Norms sum in double in every math. kFast: activations are rounded to whole numbers, whose
// products are summed exactly: to 8 bits where weights are stored in blocks, and where they are F16
// or BF16 to 14 bits, as those weights are, with a scale for each 32.
// Either gives the same bits for any number of threads, any split of tokens over calls, and on
// every instruction set. kLibrary: kFast, but products with kLibraryTokens and more are by cuBLAS
// (library.h), of inputs rounded to F16, or BF16 where the weights are: their bits depend on how
// tokens are split over calls.
enum class Math : uint8_t { kExact, kFast, kLibrary };
inline constexpr int64_t kLibraryTokens = 32;

// SIMD kernels. `pool` must outlive them. Throws Error if this processor lacks `set`, and for
// kLibrary.
std::unique_ptr<Kernels> make_cpu_kernels(ThreadPool& pool,
                                          InstructionSet set = best_instruction_set(),
                                          Math math = Math::kExact);

}  // namespace assay
