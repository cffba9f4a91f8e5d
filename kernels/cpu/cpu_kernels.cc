#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/cpu/functions.h"
#include "kernels/cpu/integers/functions.h"
#include "kernels/cpu/processor.h"
#include "kernels/cpu/streams.h"
#include "kernels/kernels.h"
#include "kernels/memory.h"

namespace assay {
namespace {

// Below this many elements, waking the other threads takes longer than the loop.
constexpr int64_t kElementsWorthThreads = int64_t{16} * 1024;

constexpr int64_t kLineBytes = 64;  // of the cache
constexpr int64_t kLineFloats = 16;

// One token.
void convolve(const ConvCall& call, int64_t token) {
  const int64_t width = call.width;
  const int64_t last = call.first_position + token;
  const int64_t first = std::max<int64_t>(0, last - call.taps + 1);
  const auto* k = static_cast<const float*>(call.kv.k);
  const auto* v = static_cast<const float*>(call.kv.v);
  for (int64_t c = 0; c < width; ++c) {
    const float* own = call.weight + (c + 1) * call.taps - 1;  // the weight of the token itself
    double sum = call.bias == nullptr ? 0.0F : call.bias[c];
    for (int64_t p = first; p <= last; ++p) {
      const double product =
          static_cast<double>(k[p * width + c]) * (v == nullptr ? 1.0F : v[p * width + c]);
      sum += own[p - last] * product;
    }
    const double gate = call.x == nullptr ? 1.0F : call.x[token * width + c];
    call.out[token * width + c] = static_cast<float>(gate * sum);
  }
}

class CpuKernels final : public Kernels {
 public:
  // `integers`: for fast math; null for exact.
  CpuKernels(ThreadPool& pool, std::string_view name, const cpu::Functions& functions,
             const cpu::IntegerFunctions* integers)
      : pool_(pool), name_(name), f_(functions), integers_(integers) {}

  std::string_view name() const override { return name_; }

  void run(const GetRowsCall& call) override {
    const WeightMatrix& table = call.table;
    share(call.n_ids, table.columns, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        f_.dequantize_row(table.type, table.slice(call.ids[i], 1).data, table.columns,
                          call.out + i * table.columns);
      }
    });
  }

  void run(std::span<const MatmulCall> calls) override;

  void run(const NormCall& call) override {
    const int64_t width = call.width;
    const auto normalize = [&](int64_t first, int64_t count) {
      const float* x = call.x + first * call.x_stride();
      const float* weight = call.weight + first % call.n_weights * width;
      float* out = call.out + first * width;
      if (call.kind == NormKind::kRms) {
        f_.rms_norm(x, weight, call.eps, count, width, out);
      } else {
        f_.layer_norm(x, weight, call.bias, call.eps, count, width, out);
      }
    };
    share(call.n_tokens, width, [&](int64_t first, int64_t last) {
      if (call.n_weights == 1 && call.x_stride() == width) return normalize(first, last - first);
      for (int64_t row = first; row < last; ++row) normalize(row, 1);
    });
  }

  void run(const RopeCall& call) override;

  void run(const HeadsCall& call) override {
    const HeadParts& parts = call.parts;
    share(call.n_tokens * call.n_heads, parts.head_dim(), [&](int64_t first, int64_t last) {
      float* out = call.out + first * parts.head_dim();
      for (int64_t row = first; row < last; ++row) {
        out = std::copy_n(call.own + row * parts.own_dim + parts.own_first, parts.own_count, out);
        if (call.shared == nullptr) continue;
        const float* shared = call.shared + row / call.n_heads * parts.shared_dim;
        out = std::copy_n(shared + parts.shared_first, parts.shared_count, out);
      }
    });
  }

  void run(const StoreKvCall& call) override {
    share(call.count, 1, [&](int64_t first, int64_t last) {
      if (call.type == KvType::kF32) {
        auto* const out = static_cast<float*>(call.destination);
        std::copy(call.x + first, call.x + last, out + first);
      } else {
        auto* const out = static_cast<uint16_t*>(call.destination);
        f_.store_f16(call.x + first, last - first, out + first);
      }
    });
  }

  void run(const AttentionCall& call) override;

  void run(const ConvCall& call) override {
    share(call.n_tokens, call.taps * call.width, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) convolve(call, t);
    });
  }

  void run(const DeltaCall& call) override {
    const DeltaShape& shape = call.shape;
    share(shape.n_value_heads, call.n_tokens * shape.key_dim * shape.value_dim,
          [&](int64_t first, int64_t last) {
            std::vector<double> scratch(static_cast<size_t>(2 * shape.key_dim));
            for (int64_t h = first; h < last; ++h) f_.delta_head(call, h, scratch.data());
          });
  }

  void run(const SsmCall& call) override {
    const DeltaShape& shape = call.shape;
    share(shape.n_value_heads, call.n_tokens * shape.key_dim * shape.value_dim,
          [&](int64_t first, int64_t last) {
            std::vector<double> scratch(static_cast<size_t>(3 * shape.key_dim));
            for (int64_t h = first; h < last; ++h) f_.ssm_head(call, h, scratch.data());
          });
  }

  void run(const ActivateCall& call) override {
    share(call.count, 1, [&](int64_t first, int64_t last) { f_.activate(call, first, last); });
  }

  void run(const AddCall& call) override {
    share(call.count, 1, [&](int64_t first, int64_t last) {
      const float* a = call.a == nullptr ? nullptr : call.a + first;
      if (a != nullptr && call.scale == 1.0F) {
        f_.add(a, call.b + first, last - first, call.out + first);
      } else {
        f_.add_scaled(a, call.b + first, call.scale, last - first, call.out + first);
      }
    });
  }

  void run(const CutoffCall& call) override {
    share(call.n_tokens, call.width, [&](int64_t first, int64_t last) {
      f_.cut_off(call.x + first * call.width, call.factor, last - first, call.width,
                 call.out + first * call.width);
    });
  }

  void run(const StreamsCall& call) override {
    share(call.n_tokens, call.n_streams * call.width, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) cpu::run_streams(call, t);
    });
  }

  void run(const SpreadCall& call) override {
    share(call.n_tokens * call.n_used, call.width, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        f_.add_scaled(nullptr, call.x + row / call.n_used * call.width, call.weights[row],
                      call.width, call.out + row * call.width);
      }
    });
  }

  void run(const MixCall& call) override {
    share(call.n_tokens, call.n_used * call.width, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        const float* weights = call.weights == nullptr ? nullptr : call.weights + t * call.n_used;
        f_.mix(call.x + t * call.n_used * call.width, weights, call.n_used, call.width,
               call.out + t * call.width);
      }
    });
  }
  using Kernels::run;

 private:
  // A part of a call, whose scores have one scale.
  void attend(const AttentionCall& a);

  // Calls body(first, last) for pieces of [0, count), each of `width` elements, on all threads if
  // that is worth their while.
  template <class Body>
  void share(int64_t count, int64_t width, const Body& body) {
    if (count * width < kElementsWorthThreads) {
      if (count > 0) body(0, count);
      return;
    }
    pool_.parallel_for(count, width == 1 ? 1024 : 1, std::cref(body));
  }

  // Calls body(thread, scratch) once a thread, each with so many bytes of scratch of its own.
  template <class Body>
  void on_each_thread(int64_t bytes, const Body& body) {
    const int64_t n_threads = pool_.n_threads();
    const int64_t apart = (bytes + kLineBytes - 1) / kLineBytes * kLineFloats;
    float* const scratch = room(scratch_, apart * n_threads);
    const auto piece = [&](int64_t first, int64_t last) {
      for (int64_t thread = first; thread < last; ++thread) body(thread, scratch + thread * apart);
    };
    pool_.parallel_for(n_threads, 1, std::cref(piece));
  }

  // A thread's part of [0, count), borders at multiples of `grain`.
  std::pair<int64_t, int64_t> part(int64_t thread, int64_t count, int64_t grain) const {
    const int64_t units = (count + grain - 1) / grain;
    const int64_t n_threads = pool_.n_threads();
    return {units * thread / n_threads * grain,
            std::min(count, units * (thread + 1) / n_threads * grain)};
  }

  bool is_exact() const { return integers_ == nullptr; }
  Rounding rounding(const WeightMatrix& w) const {
    return is_exact() ? Rounding::kNone : rounding_of(w.type);
  }
  const uint8_t* round_activations(const MatmulCall& m, Buffer<uint8_t>& out);

  // At least `count` elements, with any content. Grows by half, as attention wants a little more
  // every few tokens.
  template <class T>
  static T* room(Buffer<T>& buffer, int64_t count) {
    const size_t had = buffer.size();
    if (had < static_cast<size_t>(count)) {
      buffer = {};
      buffer = Buffer<T>(host_memory(), std::max(static_cast<size_t>(count), had + had / 2));
    }
    return buffer.data();
  }

  ThreadPool& pool_;
  std::string_view name_;
  const cpu::Functions& f_;
  const cpu::IntegerFunctions* integers_;
  Buffer<uint8_t> activations_[kRoundings];  // of the products at hand, by Rounding
  Buffer<float> scratch_;
};

void CpuKernels::run(std::span<const MatmulCall> calls) {
  if (calls.empty() || calls.front().n_tokens == 0) return;
  int64_t scratch_bytes = 0;
  const uint8_t* activations[kRoundings] = {};
  for (const MatmulCall& m : calls) {
    const Rounding own = rounding(m.w);
    const bool rounds = own != Rounding::kNone;
    const int64_t bytes =
        rounds ? integers_->scratch(m) * int64_t{sizeof(float)} : f_.matmul_scratch(m, is_exact());
    scratch_bytes = std::max(scratch_bytes, bytes);
    const uint8_t*& rounded = activations[static_cast<size_t>(own)];
    if (rounds && rounded == nullptr) {
      rounded = round_activations(m, activations_[static_cast<size_t>(own)]);
    }
  }
  on_each_thread(scratch_bytes, [&](int64_t thread, float* scratch) {
    for (const MatmulCall& m : calls) {
      const Rounding own = rounding(m.w);
      const auto [first, last] = part(thread, m.w.rows, own == Rounding::kNone ? 4 : 16);
      if (first >= last) continue;
      if (own == Rounding::kNone) {
        f_.matmul_rows(m, is_exact(), first, last, scratch);
      } else {
        integers_->matmul_rows(m, activations[static_cast<size_t>(own)], first, last, scratch);
      }
    }
  });
}

// m.x, rounded, in `out`.
const uint8_t* CpuKernels::round_activations(const MatmulCall& m, Buffer<uint8_t>& out) {
  uint8_t* const x = room(out, integers_->activation_bytes(m));
  const int64_t pieces = integers_->activation_pieces(m);
  share(pieces, m.n_tokens * m.w.columns / pieces,
        [&](int64_t first, int64_t last) { integers_->round_activations(m, first, last, x); });
  return x;
}

void CpuKernels::run(const RopeCall& call) {
  const int64_t head_dim = call.head_dim;
  const int64_t rotary_dim = call.rotary_dim;
  const int64_t first_turned = call.first_turned;
  const int64_t end_turned = first_turned + rotary_dim;
  const int64_t pairs = rotary_dim / 2;
  const int64_t step = call.pairing == RopePairing::kAdjacent ? 2 : 1;
  const int64_t distance = call.pairing == RopePairing::kAdjacent ? 1 : pairs;
  const auto turn = [&](const float* head, const float* angles, float* turned) {
    for (int64_t p = 0; p < pairs; ++p) {
      const float cos = angles[2 * p];
      const float sin = angles[2 * p + 1];
      const float a = head[step * p];
      const float b = head[step * p + distance];
      turned[step * p] = a * cos - b * sin;
      turned[step * p + distance] = a * sin + b * cos;
    }
  };
  share(call.n_tokens, call.n_heads * head_dim, [&](int64_t first, int64_t last) {
    for (int64_t i = first * call.n_heads; i < last * call.n_heads; ++i) {
      const float* head = call.x + i * head_dim;
      float* out = call.out + i * head_dim;
      turn(head + first_turned, call.cos_sin + i / call.n_heads * rotary_dim, out + first_turned);
      if (out == head) continue;
      std::copy_n(head, first_turned, out);
      std::copy(head + end_turned, head + head_dim, out + end_turned);
    }
  });
}

void CpuKernels::run(const AttentionCall& a) {
  if (a.indexed != nullptr) return run_indexed(*this, a);
  for (int64_t done = 0; done < a.n_tokens;) {
    const AttentionCall part = a.part(done, a.n_tokens);
    attend(part);
    done += part.n_tokens;
  }
}

void CpuKernels::attend(const AttentionCall& a) {
  const AttentionShape& shape = a.shape;
  const int64_t heads = shape.n_heads / shape.n_kv_heads;  // that read one key-value head
  if (a.n_tokens == 1) {
    // All see the same keys, which a thread reads once for several heads.
    on_each_thread(f_.attention_scratch(a, is_exact()), [&](int64_t thread, float* scratch) {
      auto [first, last] = part(thread, shape.n_heads, 1);
      while (first < last) {
        const int64_t begin = first % heads;
        const int64_t end = std::min({heads, begin + f_.max_query_tile, begin + last - first});
        f_.attend(a, is_exact(), first / heads, begin, end, scratch);
        first += end - begin;
      }
    });
    return;
  }
  const int64_t queries = a.n_tokens * heads;
  // Full tiles read each key once for several queries; smaller ones give all threads work.
  int64_t tile = f_.max_query_tile;
  while (tile > 1 &&
         shape.n_kv_heads * ((queries + tile - 1) / tile) < int64_t{2} * pool_.n_threads()) {
    tile /= 2;
  }
  const int64_t tiles = (queries + tile - 1) / tile;
  on_each_thread(f_.attention_scratch(a, is_exact()), [&](int64_t thread, float* scratch) {
    const auto [first, last] = part(thread, shape.n_kv_heads * tiles, 1);
    for (int64_t i = first; i < last; ++i) {
      // Late tokens see more keys than early ones: tiles are taken from both ends in turn, so that
      // the threads' shares weigh the same.
      const int64_t slot = i % tiles;
      const int64_t index = slot % 2 == 0 ? slot / 2 : tiles - 1 - slot / 2;
      f_.attend(a, is_exact(), i / tiles, index * tile, std::min(queries, (index + 1) * tile),
                scratch);
    }
  });
}

// What runs on an instruction set.
struct Implementation {
  std::string_view name;
  const cpu::Functions& (*functions)();
  const cpu::IntegerFunctions& (*integers)();
};

Implementation implementation(InstructionSet set) {
#if defined(__x86_64__)
  switch (set) {
    case InstructionSet::kAmx:
      return {"avx512-amx", avx512::functions, amx::integer_functions};
    case InstructionSet::kAvx512Vnni:
      return {"avx512-vnni", avx512::functions, avx512vnni::integer_functions};
    case InstructionSet::kAvx512:
      return {"avx512", avx512::functions, avx2::integer_functions};
    case InstructionSet::kAvxVnni:
      return {"avx-vnni", avx2::functions, avxvnni::integer_functions};
    case InstructionSet::kAvx2:
      return {"avx2", avx2::functions, avx2::integer_functions};
    case InstructionSet::kPortable:
      break;
  }
#endif
  return {"portable", portable::functions, portable::integer_functions};
}

}  // namespace

std::unique_ptr<Kernels> make_cpu_kernels(ThreadPool& pool, InstructionSet set, Math math) {
  if (!cpu::processor_has(set)) {
    throw Error("this processor lacks the instruction set asked for", {},
                "leave the choice to Assay");
  }
  if (math == Math::kLibrary) {
    throw Error("'library' is cuBLAS, which --backend cpu does not use", "--math",
                "give --backend cuda, or use --math fast");
  }
  const Implementation found = implementation(set);
  return std::make_unique<CpuKernels>(pool, found.name, found.functions(),
                                      math == Math::kFast ? &found.integers() : nullptr);
}

}  // namespace assay
