#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "assay/log/record.h"

namespace assay {

// Why a value is no value of the tensor.
enum class GarbageReason : uint8_t {
  kNonfinite,
  kMagnitude,     // far out of the tensor's scale
  kHeapMetadata,  // words that a memory allocator wrote into a freed block
  kPadding,       // logits that are masked, or beyond the vocabulary
};

std::string_view garbage_reason_name(GarbageReason reason);

inline constexpr int64_t kUnknownIndex = -1;  // in the part of a tensor that is not logged

struct Garbage {
  int64_t index = 0;
  float value = 0;
  GarbageReason reason = GarbageReason::kNonfinite;
};

// Finds a tensor's garbage by what the values are, never by where the tensor stands in the log.
// What is found of one reason is in the order of the indices.
//
// - nonfinite: NaN and infinities, but for padding.
// - padding: in `logits` of which all values are there, two or more -Infinity at the end, and at
//   any place what is far below all other values: -1e4, or the least number of a type, which masks
//   a token or fills a row beyond the vocabulary.
// - heap_metadata: the first 16 bytes of a freed block hold two words of its allocator, mostly
//   pointers. As floats, each is a pair (2i, 2i + 1): the low half any float, the high half of a
//   user-space address (0x00005… or 0x00007…) a denormal, which "%.6f" prints as 0.000000. So a
//   pair is one if its second value is such a denormal and no other is, or if it is zero and the
//   first is at least kHeapScale times the scale of a tensor that is hardly ever zero elsewhere. In
//   a record with one such pair, pairs of zeros in the first 16 and the last 8 bytes are of the
//   same kind (null pointers; size words, denormal too).
// - magnitude: at least kMagnitudeScale times the scale, or where too few values give one,
//   kNormScale times the norm that the record states.
//
// The scale is the median of |x| over a sample of the non-zero values of the tensor without its
// first four and last two values. Activations of real models reach some 1e5 times their median (Sun
// et al., "Massive activations in large language models", 2024), which is why kMagnitudeScale is
// larger.
std::vector<Garbage> find_garbage(const Record& record);

// The largest of the listed values with which logits are masked or padded, far below all others;
// -Infinity where none are.
float most_mask(const Record& record);

// The scale that find_garbage() holds the values against; 0 where the record is too short to tell.
double usual_magnitude(const Record& record);

// Where garbage is listed, one reason in one record lists at most this many values and the further
// ones are only counted: a tensor may be all NaN.
inline constexpr int kMaxListed = 64;

inline constexpr double kHeapScale = 100;
inline constexpr double kMagnitudeScale = 1e7;
inline constexpr double kNormScale = 1e3;
inline constexpr double kNotComputed = 1e7;  // massive activations are below 1e6

}  // namespace assay
