#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "assay/mistakes/matrix.h"
#include "kernels/half.h"
#include "kernels/kernels.h"

// The ops of a transformer on rows of logged tensors, with everything that engines get wrong as a
// parameter. Sums are in double; each result is rounded to float once.
namespace assay::mistakes {

enum class Activation : uint8_t {
  kSilu,
  kGeluTanh,
  kGeluErf,   // x * Phi(x)
  kGeluFast,  // x * sigmoid(1.702 x)
  kRelu,
  kReluSquared,
  kClampedSwiglu,  // gated, and not of the gate alone: see ActivationKind
  kXielu,          // by the numbers of the call
  kSigmoid,
  kTanh,
  kIdentity,
};
inline constexpr Activation kActivations[] = {
    Activation::kSilu,          Activation::kGeluTanh, Activation::kGeluErf,
    Activation::kGeluFast,      Activation::kRelu,     Activation::kReluSquared,
    Activation::kClampedSwiglu, Activation::kXielu,    Activation::kSigmoid,
    Activation::kTanh,          Activation::kIdentity,
};

const char* activation_name(Activation activation);
Activation activation_of(ActivationKind kind);

struct RopeSettings {
  RopePairing pairing = RopePairing::kAdjacent;
  int64_t head_dim = 0;
  int64_t first_turned = 0;               // element of a head
  std::vector<double> frequencies;        // [rotary_dim / 2] radians a position
  double base = 0;                        // that they come of, before any factors; 0 where unknown
  double factor = 1.0;                    // multiplies cos and sin
  bool backwards = false;                 // turns by the negative of each angle
  bool sine_for_cosine = false;           // and the other way round
  float (*round)(float) = nullptr;        // applied to cos and sin
  float (*round_angle)(float) = nullptr;  // position times frequency
};

// Frequency i is base^(-i / pairs), as published.
std::vector<double> rope_frequencies(double base, size_t pairs);
// The base of such frequencies; nothing where they are others, as with long context factors.
std::optional<double> rope_base(const std::vector<double>& frequencies);

// cos and sin of each position's angles, as RopeCall::cos_sin; positions need not be whole.
std::vector<float> rope_table(const RopeSettings& settings, const std::vector<double>& positions);
// The rotation of x[rows, heads * head_dim] with that table.
RopeCall rope_call(const Matrix& x, const RopeSettings& settings, const std::vector<float>& table,
                   Matrix& out);
// x rotated; row i stands at positions[i].
Matrix rope(const Matrix& x, const RopeSettings& settings, const std::vector<double>& positions);

// With the kind, eps, weights (null: all 1) and bias of `call`.
Matrix norm(const Matrix& x, NormCall call);

// act(call.x) * call.up, or act(call.x) where `up` is null: by the kernel, if it knows
// `activation`.
void activate(ActivateCall call, Activation activation, Kernels& kernels);
// The call for up, and for the gate where there is one.
ActivateCall activate_call(const Matrix* gate, const Matrix& up, Matrix& out);

// The row of `all` at which `part` of it begins.
int64_t first_row(const WeightMatrix& all, const WeightMatrix& part);

// f(element) of each.
Matrix map(const Matrix& x, const std::function<float(float)>& f);

// A 16-bit type that an engine may keep numbers in.
struct Rounding {
  const char* type;
  float (*round)(float);  // to the nearest number of the type
};
inline constexpr Rounding kF16Rounding = {
    "f16", [](float x) { return float_from_f16(f16_from_float(x)); }};
inline constexpr Rounding kBf16Rounding = {
    "bf16", [](float x) { return float_from_bf16(bf16_from_float(x)); }};
inline constexpr Rounding kRoundings[] = {kF16Rounding, kBf16Rounding};

// Ten bits of a float's mantissa, as tensor cores multiply: the nearest, ties away from zero, or
// the lower bits cut off.
inline constexpr Rounding kTf32Rounding = {
    "tf32", [](float x) { return float_from_bits((float_bits(x) + 0x1000U) & 0xFFFFE000U); }};
inline constexpr Rounding kCutTf32 = {"tf32, cutting the low bits off", [](float x) {
                                        return float_from_bits(float_bits(x) & 0xFFFFE000U);
                                      }};

// An 8-bit float of Micikevicius et al., "FP8 formats for deep learning", 2022.
float round_fp8(float x, int mantissa_bits, int least_exponent, float largest);
inline constexpr Rounding kFp8Roundings[] = {
    {"8-bit floats (e4m3)", [](float x) { return round_fp8(x, 3, -6, 448); }},
    {"8-bit floats (e5m2)", [](float x) { return round_fp8(x, 2, -14, 57344); }}};

}  // namespace assay::mistakes
