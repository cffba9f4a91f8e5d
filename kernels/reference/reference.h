#pragma once

#include <functional>
#include <optional>
#include <span>

#include "kernels/kernels.h"

// The ops of kernels.h as plain loops that accumulate in double and round once at the end.
namespace assay::reference {

void run(const GetRowsCall& call);
void run(const MatmulCall& call);
void run(const NormCall& call);
void run(const RopeCall& call);
void run(const HeadsCall& call);
void run(const StoreKvCall& call);
void run(const AttentionCall& call);

// What an attention can do in another way than its call says: what mistakes in it are made of
// (assay/mistakes/). Rows, queries and keys are positions.
struct AttentionVariant {
  int64_t n_keys = 0;                                         // with keys and values
  std::function<bool(int64_t query, int64_t key)> sees = {};  // empty: as the call says
  // Of keys that a query sees by `sees`, and not as the call says; nothing: as of all others.
  std::optional<double> unseen_score = {};
  std::function<int64_t(int64_t head)> kv_head = {};  // that a query head reads
  std::function<int64_t(int64_t key)> k_row = {};     // that is read; below 0: zeros
  std::function<int64_t(int64_t key)> v_row = {};
  // Which key a query reads in the place of one that it sees.
  std::function<int64_t(int64_t query, int64_t key)> read = {};
  // Applied to what the cache holds of a position: [heads, head_dim].
  using RoundRow = std::function<void(std::span<float> row, int64_t head_dim)>;
  RoundRow round_k = {};
  RoundRow round_v = {};
  float (*round_score)(float) = nullptr;
  bool round_before_scale = false;
  float (*round_weight)(float) = nullptr;  // the softmax's, before the values are multiplied
  bool round_before_division = false;      // by their sum
  bool subtract_max = true;                // false: exp() in float, which overflows beyond 88
  bool divide = true;
};
void run(const AttentionCall& call, const AttentionVariant& variant);

void run(const ConvCall& call);
void run(const DeltaCall& call);
void run(const SsmCall& call);

double silu(double x);
double gelu_tanh(double x);
double gelu(double x);

void run(const ActivateCall& call);
void run(const AddCall& call);
void run(const CutoffCall& call);
void run(const StreamsCall& call);
void run(const SpreadCall& call);
void run(const MixCall& call);

}  // namespace assay::reference
