// The texts of a record that take time, for assay_tap/native.py: by the code of assay_tap.h where
// the row is of floats, and in the same order of sums where it is of doubles.
#define ASSAY_TAP_IMPLEMENTATION
#define ASSAY_TAP_STATIC
#include "tap/assay_tap.h"

namespace {

// A row that floats cannot hold: `wide` has its elements, `narrow` the nearest floats. An element
// counts as finite if its float is.
struct WideRow {
  const double* wide;
  const float* narrow;
  size_t n;

  double finite_or_0(size_t i) const {
    return i < n && assay_tap_is_finite(narrow[i]) != 0 ? wide[i] : 0.0;
  }
};

void keep_if_among_largest(const WideRow& row, size_t i, assay_tap_summary* s) {
  const double value = row.wide[i];
  if (s->count == ASSAY_TAP_TOP && !(value > row.wide[s->top[ASSAY_TAP_TOP - 1]])) return;
  int place = s->count < ASSAY_TAP_TOP ? s->count++ : ASSAY_TAP_TOP - 1;
  for (; place > 0 && value > row.wide[s->top[place - 1]]; --place) {
    s->top[place] = s->top[place - 1];
  }
  s->top[place] = i;
}

// As assay_tap_summarize(). Not inlined: arithmetic must not cross a change of the float mode.
__attribute__((noinline)) assay_tap_summary summarize(const WideRow& row) {
  assay_tap_summary s = {};
  double least[ASSAY_TAP_LANES];
  for (double& each : least) each = HUGE_VAL;
  for (size_t i = 0; i < row.n; ++i) {
    const double value = row.finite_or_0(i);
    const size_t lane = i % ASSAY_TAP_LANES;
    s.sums[lane] += value;
    s.squares[lane] += value * value;
    if (assay_tap_is_finite(row.narrow[i]) == 0) {
      ++s.nonfinite;
      continue;
    }
    if (value < least[lane]) least[lane] = value;  // of -0 and 0 the first in a lane
    keep_if_among_largest(row, i, &s);
  }
  for (int j = 1; j < ASSAY_TAP_LANES; ++j) {
    s.sums[0] += s.sums[j];
    s.squares[0] += s.squares[j];
    if (least[j] < least[0]) least[0] = least[j];
  }
  s.least[0] = static_cast<float>(least[0]);
  return s;
}

// As assay_tap_sketch(), and not inlined either.
__attribute__((noinline)) void make_sketch(const WideRow& row, double* sketch) {
  constexpr size_t kFours = 8;
  double table[kFours][16];
  uint64_t words[kFours][4];
  double all = 0;
  for (int k = 0; k < ASSAY_TAP_SKETCH; ++k) sketch[k] = 0;
  for (size_t i = 0; i < row.n; i += 4 * kFours) {
    for (size_t g = 0; g < kFours; ++g) {
      double* sums = table[g];
      sums[0] = 0;
      for (size_t j = 0; j < 4; ++j) {
        const double value = row.finite_or_0(i + 4 * g + j);
        const size_t half = size_t{1} << j;
        for (size_t subset = 0; subset < half; ++subset) sums[subset + half] = sums[subset] + value;
      }
      all += sums[15];
      assay_tap_places(i + 4 * g, words[g]);
    }
    for (int k = 0; k < ASSAY_TAP_SKETCH; ++k) {
      double sum = sketch[k];
#pragma GCC unroll 8
      for (size_t g = 0; g < kFours; ++g) sum += table[g][words[g][k % 4] >> (k - k % 4) & 15];
      sketch[k] = sum;
    }
  }
  for (int k = 0; k < ASSAY_TAP_SKETCH; ++k) sketch[k] = 2 * sketch[k] - all;
}

}  // namespace

extern "C" {

// A row of n elements: narrow[n], and wide[n] or NULL where the floats are its elements.
__attribute__((visibility("default"))) void assay_tap_row_sketch(const float* narrow,
                                                                 const double* wide, size_t n,
                                                                 double* sketch) {
  const uint32_t mode = assay_tap_set_float_mode(ASSAY_TAP_FLOAT_MODE);
  if (wide != nullptr) {
    make_sketch({wide, narrow, n}, sketch);
  } else {
    assay_tap_sketch(narrow, n, sketch);
  }
  (void)assay_tap_set_float_mode(mode);
}

// [first values of the row]; returns the length. `to` has room for 17 bytes a value and 64 more.
__attribute__((visibility("default"))) size_t assay_tap_row_values(const float* narrow, size_t head,
                                                                   char* to) {
  return static_cast<size_t>(assay_tap_write_floats(to, narrow, head) - to);
}

// {"min":...}; returns the length, which is below 1024.
__attribute__((visibility("default"))) size_t assay_tap_row_summary(const float* narrow,
                                                                    const double* wide, size_t n,
                                                                    char* to) {
  (void)pthread_once(&assay_tap_powers_once, assay_tap_make_powers);
  const uint32_t mode = assay_tap_set_float_mode(ASSAY_TAP_FLOAT_MODE);
  char* end = nullptr;
  if (wide != nullptr) {
    const assay_tap_summary s = summarize({wide, narrow, n});
    end = assay_tap_print_summary(to, &s, narrow, n);
  } else {
    end = assay_tap_write_summary(to, narrow, n);
  }
  (void)assay_tap_set_float_mode(mode);
  return static_cast<size_t>(end - to);
}

// [64 numbers]; returns the length, which is below 2048.
__attribute__((visibility("default"))) size_t assay_tap_row_print_sketch(const double* sketch,
                                                                         char* to) {
  (void)pthread_once(&assay_tap_powers_once, assay_tap_make_powers);
  return static_cast<size_t>(assay_tap_print_sketch(to, sketch) - to);
}

}  // extern "C"
