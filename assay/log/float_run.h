#pragma once

#include <cstddef>
#include <span>

namespace assay {

struct FloatRun {
  const char* at;  // the first element that was not read
  size_t count;    // how many were
};

// Reads elements of a JSON array of numbers, from the first of them at `at`, as long as they are of
// the form -?D.D, of at most 15 digits, and followed by a comma and at most one space: nearly all
// of a log. Each becomes the nearest float, as by read_number(), three times as fast. Stops where
// `values` is nearly full; reads none where the processor lacks AVX2.
//
// At least 16 bytes before `at` and kLinePadding bytes after `end` may be read.
FloatRun read_usual_floats(const char* at, const char* end, std::span<float> values);

// Fewer values than this are too little room for read_usual_floats().
inline constexpr size_t kFloatRunRoom = 64;
inline constexpr size_t kFloatRunBefore = 16;

}  // namespace assay
