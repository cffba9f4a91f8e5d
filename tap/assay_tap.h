// assay_tap.h: logs tensors of any engine for language models, as Assay compares them.
//
// C99, C++11 or CUDA; GCC or Clang; POSIX; nothing else. In exactly one source file of the engine,
// before its other includes:
//
//   #define ASSAY_TAP_IMPLEMENTATION
//   #include "assay_tap.h"
//
// and the plain include elsewhere. Then, where a tensor of a token has been computed:
//
//   if (assay_tap_on()) assay_tap_log("layer_0_output", position, hidden, 576);
//
// The environment says what to log; without ORCH_LOG_FILE nothing is logged:
//
//   ORCH_LOG_FILE          the log; emptied by the first record, and by nothing else
//   ORCH_LOG_TEAM          the engine's name in each record
//   ORCH_LOG_VALUES        how many leading values a record holds, or `all` (default 10)
//   ASSAY_LOG_CHECKPOINTS  `logits` (default), `layers`, `ops` (all), or comma-separated globs
//   ASSAY_LOG_TS           `off`: records do not say when they were logged, so that a run that
//                          computes the same writes the same bytes (default `on`)
//
// Each record has the head of the tensor, a summary, and a sketch: 64 projections that represent
// the whole tensor. It is written by one write(2) before the call returns: exit, abort or a kill
// loses no finished record and tears at most the last line. Calls may come from any thread. A child
// of fork() may go on logging to the same file; lines stay whole.
//
// If the log cannot be written, one line on standard error says why, the engine continues, and
// nothing more is logged; the log ends with its last whole record. The first invalid call is also
// reported there; it is rejected, and logging continues. SIGPIPE and SIGXFSZ caused by the log or
// by a message are suppressed. An item of ASSAY_LOG_CHECKPOINTS that matches no name that the
// engine asked for is reported when its first log is closed or it calls exit(). Define
// ASSAY_TAP_ON_ERROR(message) to report errors in another way.
//
// With -ffast-math a compiler may change the last bits of sums; NaN stays NaN, and on x86-64
// denormal numbers are summarised exactly.
#ifndef ASSAY_TAP_H
#define ASSAY_TAP_H

#if defined(ASSAY_TAP_IMPLEMENTATION) && !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1  // flock() and O_CLOEXEC with -std=c99
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// With ASSAY_TAP_STATIC all functions are private to the file that includes the implementation;
// with ASSAY_TAP_WITHOUT_LOG there are only those that write numbers, summaries and sketches.
#ifdef ASSAY_TAP_STATIC
#define ASSAY_TAP_API static __attribute__((unused))
#else
#define ASSAY_TAP_API
#endif

// Element types. Types narrower than a float are widened, which loses nothing.
enum { ASSAY_TAP_F32 = 0, ASSAY_TAP_F16 = 1, ASSAY_TAP_BF16 = 2 };

// Where in a run a tensor belongs: which sequence of a batch, which forward pass, which part of it
// on which process. Begin with `assay_tap_coordinates at = ASSAY_TAP_COORDINATES;`, which says
// nothing; what is not said is not logged.
enum { ASSAY_TAP_PREFILL = 1, ASSAY_TAP_DECODE = 2 };
typedef struct {
  int64_t tp, pp, ep, sp;  // tensor, pipeline, expert and sequence parallel; from 0
} assay_tap_rank;
typedef struct {
  const char* sequence;        // a name, or a number as text; NULL: 0
  int64_t step;                // number of the forward pass, from 0; negative: not said
  int phase;                   // ASSAY_TAP_PREFILL or ASSAY_TAP_DECODE; 0: not said
  const assay_tap_rank* rank;  // NULL: not said
  const char* dims;            // the axes of the shape, as in "t h[tp]"; NULL: not said
} assay_tap_coordinates;
#define ASSAY_TAP_COORDINATES \
  { NULL, -1, 0, NULL, NULL }

// One of several sequences of a log.
typedef struct {
  const char* name;       // as in assay_tap_coordinates; NULL: 0
  const int32_t* tokens;  // [n_tokens], the prompt's, without padding
  size_t n_tokens;
} assay_tap_sequence;

// The optional first line of a log; NULL is logged as an empty string, a NULL prompt not at all.
typedef struct {
  const char* model_name;
  const char* model_sha256;
  const char* model_arch;
  const char* model_type;  // of the weights: F32, Q4_K, ...
  const int32_t* tokens;   // [n_tokens], the prompt's
  size_t n_tokens;
  const char* prompt;
  const char* engine;
  const char* backend;
  const char* math;
  const char* checkpoints;  // which are to be logged, as ASSAY_LOG_CHECKPOINTS; NULL: not said
} assay_tap_header;

#ifndef ASSAY_TAP_WITHOUT_LOG

// 1 if the environment asks for a log, else 0. After the first call it costs one load.
ASSAY_TAP_API int assay_tap_on(void);

// 1 if `checkpoint` should be logged: ask before copying a tensor for the log. Also 1 for a name
// that is NULL or empty, which assay_tap_log() rejects.
ASSAY_TAP_API int assay_tap_wants(const char* checkpoint);

// Logs values[n], the whole tensor `checkpoint` (`layer_0_output`; Assay's docs/add-an-engine.md
// has the names) at the token position `token_idx` >= 0, as the shape [1, n]. Returns 1 if it was
// logged, 0 if it was not asked for, -1 on failure: when the log cannot be written, and for an
// invalid call: a name that is NULL or empty, a negative token_idx or dimension, a rank below 0 or
// above 8, more than 2^56 values, a NULL pointer to values or shape that are not empty, an unknown
// type. The first of these in a log is reported by ASSAY_TAP_ON_ERROR; logging continues, and
// assay_tap_error() stays NULL.
ASSAY_TAP_API int assay_tap_log(const char* checkpoint, int64_t token_idx, const float* values,
                                size_t n);

// The same for any shape (`rank` dimensions, 0 to 8) and element type.
ASSAY_TAP_API int assay_tap_log_tensor(const char* checkpoint, int64_t token_idx, int type,
                                       const void* values, const int64_t* shape, int rank);

// The same at other coordinates than those of a run of one sequence on one process. An empty
// sequence, an unknown phase, a number in `rank` that is negative or above 32767, or `dims` that
// are no names of the axes of the shape, is an invalid call.
ASSAY_TAP_API int assay_tap_log_at(const assay_tap_coordinates* at, const char* checkpoint,
                                   int64_t token_idx, int type, const void* values,
                                   const int64_t* shape, int rank);

// Writes the first line. Returns as assay_tap_log(); -1 if anything has been logged before. A NULL
// header, or NULL tokens when n_tokens is not 0, is an invalid call.
ASSAY_TAP_API int assay_tap_log_header(const assay_tap_header* header);

// The same for a log of `n` sequences, whose tokens replace those of `header`. An empty name is an
// invalid call.
ASSAY_TAP_API int assay_tap_log_batch_header(const assay_tap_header* header,
                                             const assay_tap_sequence* sequences, size_t n);

// Opens a log that an engine's own flags ask for, instead of the environment: before the first call
// of any other function. `values` and `checkpoints` as in the environment; NULL is the default.
// Returns 1, or -1.
ASSAY_TAP_API int assay_tap_open(const char* path, const char* team, const char* values,
                                 const char* checkpoints);

// Ends the log of this process. Optional: nothing is buffered. The environment is read again after
// it: queries leave the log as it is, another record overwrites it. Processes made by fork() that
// have logged and not closed keep the file: until they close it, or end, none may overwrite it. Do
// not call it while other threads log.
ASSAY_TAP_API void assay_tap_close(void);

// Why logging stopped; NULL if nothing has failed. Does not open a log.
ASSAY_TAP_API const char* assay_tap_error(void);

#endif  // ASSAY_TAP_WITHOUT_LOG

// Writes `value` in the shortest form that reads back to the same bits, the same text as C++'s
// std::to_chars(); values that are not finite as "NaN", "Infinity", "-Infinity" with the quotes.
// Returns the length, at most ASSAY_TAP_NUMBER_SIZE; no '\0' follows.
#define ASSAY_TAP_NUMBER_SIZE 32
ASSAY_TAP_API size_t assay_tap_print_float(char* to, float value);
ASSAY_TAP_API size_t assay_tap_print_double(char* to, double value);

#if (defined(__CUDACC__) || defined(ASSAY_TAP_CUDA)) && !defined(ASSAY_TAP_WITHOUT_LOG)
#include <cuda_runtime_api.h>
// The same as assay_tap_log_tensor() for `values` on the device: waits for `stream`, copies, logs.
// `host` is room for the tensor on the host, `bytes` its size.
static __attribute__((unused)) int assay_tap_log_device(const char* checkpoint, int64_t token_idx,
                                                        int type, const void* values,
                                                        const int64_t* shape, int rank, void* host,
                                                        size_t bytes, cudaStream_t stream) {
  if (!assay_tap_wants(checkpoint)) return 0;
  if (cudaMemcpyAsync(host, values, bytes, cudaMemcpyDeviceToHost, stream) != cudaSuccess ||
      cudaStreamSynchronize(stream) != cudaSuccess) {
    return -1;
  }
  return assay_tap_log_tensor(checkpoint, token_idx, type, host, shape, rank);
}
#endif

#ifdef __cplusplus
}
#endif

#ifdef ASSAY_TAP_IMPLEMENTATION

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

#if !defined(O_CLOEXEC) || !defined(LOCK_EX) || !defined(MAP_ANONYMOUS)
#error "include assay_tap.h before other headers, or define _DEFAULT_SOURCE for the whole file"
#endif
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "assay_tap.h is for little-endian machines"
#endif

#ifndef ASSAY_TAP_ON_ERROR
#define ASSAY_TAP_ON_ERROR(message) ((void)fprintf(stderr, "assay_tap: %s\n", (message)))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ASSAY_TAP_SKETCH 64
#define ASSAY_TAP_TOP 5
#define ASSAY_TAP_RANK 8

// ---- Numbers as text -------------------------------------------------------------------------
// R. Giulietti, "The Schubfach way to render doubles", 2020. A float c * 2^q is the middle of the
// interval of reals that round to it; the shortest decimal in it is one of four, found with one
// product by a power of ten of 128 bits. The powers are computed once, exactly.

__extension__ typedef unsigned __int128 assay_tap_u128;

#define ASSAY_TAP_MIN_POWER (-292)
#define ASSAY_TAP_MAX_POWER 324

typedef struct {
  uint64_t high;
  uint64_t low;
} assay_tap_power;

// 10^e = m * 2^s with m of 128 bits, its highest bit set, rounded up; [e - ASSAY_TAP_MIN_POWER].
static assay_tap_power assay_tap_powers[ASSAY_TAP_MAX_POWER - ASSAY_TAP_MIN_POWER + 1];
static pthread_once_t assay_tap_powers_once = PTHREAD_ONCE_INIT;
static char assay_tap_pairs[200];  // "00" to "99"

#define ASSAY_TAP_LIMBS 40  // of 32 bits, lowest first: 10^324 has 1077 bits

// The highest 128 bits of a number, rounded up if `inexact` or if lower bits are set.
static assay_tap_power assay_tap_top_bits(const uint32_t* limbs, int inexact) {
  int top = ASSAY_TAP_LIMBS - 1;
  while (limbs[top] == 0) --top;
  const int shift = __builtin_clz(limbs[top]);
  uint32_t words[4];
  for (int i = 0; i < 4; ++i) {
    const uint64_t a = top - i >= 0 ? limbs[top - i] : 0;
    const uint64_t b = top - i >= 1 ? limbs[top - i - 1] : 0;
    words[i] = (uint32_t)((((a << 32) | b) << shift) >> 32);
  }
  for (int i = top - 5; i >= 0; --i) inexact |= limbs[i] != 0;
  if (top >= 4) inexact |= (limbs[top - 4] << shift) != 0;
  assay_tap_power power;
  power.high = ((uint64_t)words[0] << 32) | words[1];
  power.low = ((uint64_t)words[2] << 32) | words[3];
  if (inexact && ++power.low == 0) ++power.high;
  return power;
}

static void assay_tap_make_powers(void) {
  uint32_t limbs[ASSAY_TAP_LIMBS] = {1};
  for (int e = 0; e <= ASSAY_TAP_MAX_POWER; ++e) {
    assay_tap_powers[e - ASSAY_TAP_MIN_POWER] = assay_tap_top_bits(limbs, 0);
    uint64_t carry = 0;
    for (int i = 0; i < ASSAY_TAP_LIMBS; ++i) {
      carry += (uint64_t)limbs[i] * 10;
      limbs[i] = (uint32_t)carry;
      carry >>= 32;
    }
  }
  // floor(floor(x / 10) / 10) = floor(x / 100): quotients of a power of two stay exact floors.
  memset(limbs, 0, sizeof(limbs));
  limbs[ASSAY_TAP_LIMBS - 1] = 0x80000000U;
  for (int e = -1; e >= ASSAY_TAP_MIN_POWER; --e) {
    uint64_t rest = 0;
    for (int i = ASSAY_TAP_LIMBS - 1; i >= 0; --i) {
      rest = (rest << 32) | limbs[i];
      limbs[i] = (uint32_t)(rest / 10);
      rest %= 10;
    }
    assay_tap_powers[e - ASSAY_TAP_MIN_POWER] = assay_tap_top_bits(limbs, 1);
  }
  for (int i = 0; i < 100; ++i) {
    assay_tap_pairs[2 * i] = (char)('0' + i / 10);
    assay_tap_pairs[2 * i + 1] = (char)('0' + i % 10);
  }
}

// floor(log10(2^e)), floor(log10(3/4 * 2^e)) and floor(log2(10^e)) for all exponents of doubles.
static int assay_tap_log10_pow2(int e) {
  return (e * 1262611) >> 22;
}
static int assay_tap_log10_3_4_pow2(int e) {
  return (e * 1262611 - 524031) >> 22;
}
static int assay_tap_log2_pow10(int e) {
  return (e * 1741647) >> 19;
}

// digits * 10^exponent
typedef struct {
  uint64_t digits;
  int exponent;
} assay_tap_decimal;

// From four times the value and the borders of its interval, in units of 10^k and rounded to odd:
// one digit fewer if there is such a decimal in the interval, else the nearest.
//
// Written without data-dependent branches, like the next functions.
static inline assay_tap_decimal assay_tap_choose(uint64_t low, uint64_t middle, uint64_t high,
                                                 uint64_t out, int k) {
  assay_tap_decimal decimal;
  const uint64_t s = middle >> 2;
  const uint64_t tens = s / 10;
  const uint64_t low_fits = low + out <= 40 * tens;
  const uint64_t high_fits = 40 * tens + 40 + out <= high;
  const uint64_t shorter = low_fits ^ high_fits;
  const uint64_t s_fits = low + out <= 4 * s;
  const uint64_t t_fits = 4 * s + 4 + out <= high;
  const uint64_t above = middle - 4 * s > 2 - (s & 1);  // in the middle, the even one
  const uint64_t up = (s_fits ^ t_fits) != 0 ? t_fits : above;
  decimal.digits = shorter != 0 ? tens + high_fits : s + up;
  decimal.exponent = k + (int)shorter;
  return decimal;
}

static uint64_t assay_tap_round_64(assay_tap_power power, uint64_t c) {
  const uint64_t x = (uint64_t)(((assay_tap_u128)power.low * c) >> 64);
  const assay_tap_u128 y = (assay_tap_u128)power.high * c + x;
  return (uint64_t)(y >> 64) | ((uint64_t)y > 1);
}

static uint64_t assay_tap_round_32(uint64_t power, uint32_t c) {
  const assay_tap_u128 y = (assay_tap_u128)power * c;
  return (uint64_t)(y >> 64) | ((uint32_t)((uint64_t)y >> 32) > 1);
}

// c * 2^q, where `edge` says that the float below is nearer than the one above.
static assay_tap_decimal assay_tap_shortest_64(uint64_t c, int q, int edge) {
  const int k = edge ? assay_tap_log10_3_4_pow2(q) : assay_tap_log10_pow2(q);
  const int shift = q + assay_tap_log2_pow10(-k) + 1;
  const assay_tap_power power = assay_tap_powers[-k - ASSAY_TAP_MIN_POWER];
  return assay_tap_choose(assay_tap_round_64(power, (4 * c - 2 + (uint64_t)edge) << shift),
                          assay_tap_round_64(power, (4 * c) << shift),
                          assay_tap_round_64(power, (4 * c + 2) << shift), c & 1, k);
}

static assay_tap_decimal assay_tap_shortest_32(uint32_t c, int q, int edge) {
  const int k = edge ? assay_tap_log10_3_4_pow2(q) : assay_tap_log10_pow2(q);
  const int shift = q + assay_tap_log2_pow10(-k) + 1;
  const uint64_t power = assay_tap_powers[-k - ASSAY_TAP_MIN_POWER].high + 1;
  return assay_tap_choose(assay_tap_round_32(power, (4 * c - 2 + (uint32_t)edge) << shift),
                          assay_tap_round_32(power, (4 * c) << shift),
                          assay_tap_round_32(power, (4 * c + 2) << shift), c & 1, k);
}

// The eight digits of a number below 10^8, the first in the lowest byte, each 0 to 9: quotients by
// 10000, 100 and 10 of all parts at once, by multiplication with rounded reciprocals.
static uint64_t assay_tap_eight_digits(uint32_t number) {
  const uint64_t fours = (uint64_t)(number / 10000) | ((uint64_t)(number % 10000) << 32);
  const uint64_t hundreds = ((fours * 10486) >> 20) & 0x0000007F0000007FU;
  const uint64_t pairs = hundreds | ((fours - 100 * hundreds) << 16);
  const uint64_t tens = ((pairs * 103) >> 10) & 0x000F000F000F000FU;
  return tens | ((pairs - 10 * tens) << 8);
}

static int assay_tap_digit_count(uint64_t number) {
  static const uint64_t kTens[] = {0,
                                   10U,
                                   100U,
                                   1000U,
                                   10000U,
                                   100000U,
                                   1000000U,
                                   10000000U,
                                   100000000U,
                                   1000000000U,
                                   10000000000U,
                                   100000000000U,
                                   1000000000000U,
                                   10000000000000U,
                                   100000000000000U,
                                   1000000000000000U,
                                   10000000000000000U,
                                   100000000000000000U};
  const int guess = ((64 - __builtin_clzll(number | 1)) * 1233) >> 12;  // log10(2) * 4096
  return guess + (number >= kTens[guess]);
}

// The digits with the first in text[0], which has room for 24; how many before trailing zeros.
static int assay_tap_write_digits(char* text, uint64_t digits, int count) {
  static const uint64_t kTens[] = {1U,      10U,      100U,      1000U,     10000U,
                                   100000U, 1000000U, 10000000U, 100000000U};
  const uint64_t zeros = 0x3030303030303030U;
  if (count <= 9) {
    const uint32_t nine = (uint32_t)(digits * kTens[9 - count]);
    const uint64_t word = assay_tap_eight_digits(nine % 100000000U);
    const uint64_t bytes = word | zeros;
    text[0] = (char)('0' + nine / 100000000U);
    memcpy(text + 1, &bytes, 8);
    return word == 0 ? 1 : 9 - __builtin_clzll(word) / 8;
  }
  uint64_t scaled = digits;  // to 17 digits
  if (count <= 17) {
    int missing = 17 - count;
    if (missing > 8) missing = 8;
    scaled *= kTens[missing];
  }
  const uint64_t high = assay_tap_eight_digits((uint32_t)(scaled / 100000000U % 100000000U));
  const uint64_t low = assay_tap_eight_digits((uint32_t)(scaled % 100000000U));
  const uint64_t high_bytes = high | zeros;
  const uint64_t low_bytes = low | zeros;
  text[0] = (char)('0' + scaled / 10000000000000000U);
  memcpy(text + 1, &high_bytes, 8);
  memcpy(text + 9, &low_bytes, 8);
  if (low != 0) return 17 - __builtin_clzll(low) / 8;
  return high == 0 ? 1 : 9 - __builtin_clzll(high) / 8;
}

static char* assay_tap_write_integer(char* to, uint64_t number) {
  char text[20];
  int at = 20;
  do {
    text[--at] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  memcpy(to, text + at, (size_t)(20 - at));
  return to + (20 - at);
}

// As std::to_chars(): fixed or scientific, whichever is shorter, fixed if level. `magnitude` is the
// value without its sign.
static inline char* assay_tap_layout(char* to, assay_tap_decimal decimal, double magnitude) {
  enum { kZeros = 8 };  // before the digits, for numbers below 1
  char text[48];
  memset(text, '0', sizeof(text));
  const int written = assay_tap_digit_count(decimal.digits);
  const int count = assay_tap_write_digits(text + kZeros, decimal.digits, written);
  const int point = written + decimal.exponent;  // digits before the point
  const int last = point - count;                // exponent of the last digit
  const int single = count == 1;
  if (last < -(count + 3 - single) || last > 5 - single) {
    int exponent = point - 1;
    to[0] = text[kZeros];
    to[1] = '.';
    memcpy(to + 2, text + kZeros + 1, 16);
    to += single ? 1 : count + 1;
    to[0] = 'e';
    to[1] = exponent < 0 ? '-' : '+';
    to += 2;
    if (exponent < 0) exponent = -exponent;
    if (exponent >= 100) {
      *to++ = (char)('0' + exponent / 100);
      exponent %= 100;
    }
    memcpy(to, assay_tap_pairs + (size_t)(2 * exponent), 2);
    return to + 2;
  }
  if (last >= 0) {  // a whole number: all of its digits, not only the shortest unique ones
    if (magnitude < 18446744073709551616.0) {
      return assay_tap_write_integer(to, (uint64_t)magnitude);
    }
    return to + snprintf(to, ASSAY_TAP_NUMBER_SIZE - 1, "%.0f", magnitude);
  }
  const int whole = point > 0 ? point : 1;
  const char* first = text + kZeros + point - whole;
  memcpy(to, first, 24);
  to[whole] = '.';
  memcpy(to + whole + 1, first + whole, 24);
  return to + (whole + 1 - last);
}

// The same for a float whose text is fixed and not whole, nearly all of a log: at most nine digits,
// which shifts place around the point, since memory that was just written cannot be read back at
// once in other sizes. NULL for other floats.
static inline char* assay_tap_layout_usual(char* to, assay_tap_decimal decimal) {
  static const uint32_t kTens[] = {100000000, 10000000, 1000000, 100000, 10000, 1000, 100, 10, 1};
  const int written = assay_tap_digit_count(decimal.digits);
  const uint32_t nine = (uint32_t)decimal.digits * kTens[written - 1];
  const uint64_t word = assay_tap_eight_digits(nine % 100000000U);
  const int count = 9 - (__builtin_clzll(word | 1) >> 3) - (word == 0);
  const int point = written + decimal.exponent;
  if (point < -2 || point >= count) return NULL;
  const int below = point <= 0;  // the number is below 1
  const uint64_t digits = word | 0x3030303030303030U;
  const uint64_t tail = digits >> ((8 * (point - 1 + below * (1 - point))) & 63);
  char* at = to + (below ? 2 - point : 0);
  char* after = below ? at + 1 : to + point + 1;  // where the tail goes
  memcpy(to, "0.000000", 8);
  at[0] = (char)('0' + nine / 100000000U);
  memcpy(at + 1, &digits, 8);
  memcpy(after, &tail, 8);
  to[below ? 1 : point] = '.';
  return to + count + 1 + (below ? 1 - point : 0);
}

static char* assay_tap_write_nonfinite(char* to, int is_nan, int negative) {
  const char* word = is_nan ? "\"NaN\"" : negative ? "\"-Infinity\"" : "\"Infinity\"";
  const size_t length = strlen(word);
  memcpy(to, word, length);
  return to + length;
}

// The powers must have been computed. At least 48 bytes may be written.
static char* assay_tap_write_float(char* to, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const uint32_t fraction = bits & 0x7FFFFFU;
  const int exponent = (int)((bits >> 23) & 0xFFU);
  const int negative = (int)(bits >> 31);
  if (exponent == 0xFF) return assay_tap_write_nonfinite(to, fraction != 0, negative);
  *to = '-';
  to += negative;
  if (exponent == 0 && fraction == 0) {
    *to = '0';
    return to + 1;
  }
  const assay_tap_decimal decimal =
      exponent == 0 ? assay_tap_shortest_32(fraction, -149, 0)
                    : assay_tap_shortest_32(fraction | 0x800000U, exponent - 150,
                                            fraction == 0 && exponent > 1);
  char* end = assay_tap_layout_usual(to, decimal);
  if (end != NULL) return end;
  return assay_tap_layout(to, decimal, (double)(negative ? -value : value));
}

static char* assay_tap_write_double(char* to, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const uint64_t fraction = bits & 0xFFFFFFFFFFFFFU;
  const int exponent = (int)((bits >> 52) & 0x7FFU);
  const int negative = (int)(bits >> 63);
  if (exponent == 0x7FF) return assay_tap_write_nonfinite(to, fraction != 0, negative);
  *to = '-';
  to += negative;
  if (exponent == 0 && fraction == 0) {
    *to = '0';
    return to + 1;
  }
  const assay_tap_decimal decimal =
      exponent == 0 ? assay_tap_shortest_64(fraction, -1074, 0)
                    : assay_tap_shortest_64(fraction | 0x10000000000000U, exponent - 1075,
                                            fraction == 0 && exponent > 1);
  return assay_tap_layout(to, decimal, negative ? -value : value);
}

static __attribute__((unused)) char* assay_tap_write_whole(char* to, int64_t value) {
  if (value < 0) *to++ = '-';
  return assay_tap_write_integer(to, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

// [a,b,...]: at most 17 bytes a value, and 64 more may be written.
static __attribute__((unused)) char* assay_tap_write_floats(char* to, const float* values,
                                                            size_t n) {
  (void)pthread_once(&assay_tap_powers_once, assay_tap_make_powers);
  *to++ = '[';
  for (size_t i = 0; i < n; ++i) {
    to = assay_tap_write_float(to, values[i]);
    *to++ = ',';
  }
  to -= n > 0;
  *to = ']';
  return to + 1;
}

ASSAY_TAP_API size_t assay_tap_print_float(char* to, float value) {
  char text[64];
  (void)pthread_once(&assay_tap_powers_once, assay_tap_make_powers);
  const size_t length = (size_t)(assay_tap_write_float(text, value) - text);
  memcpy(to, text, length);
  return length;
}

ASSAY_TAP_API size_t assay_tap_print_double(char* to, double value) {
  char text[64];
  (void)pthread_once(&assay_tap_powers_once, assay_tap_make_powers);
  const size_t length = (size_t)(assay_tap_write_double(text, value) - text);
  memcpy(to, text, length);
  return length;
}

// ---- Doubles as text, eight at a time --------------------------------------------------------

#if defined(__x86_64__) && !defined(__CUDACC__)
#define ASSAY_TAP_AVX512 1
#define ASSAY_TAP_TARGET __attribute__((target("avx512f,avx512dq")))

static int assay_tap_has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}

ASSAY_TAP_TARGET static inline __m512i assay_tap_shift_right(__m512i a, unsigned bits) {
  return _mm512_maskz_srli_epi64(0xFF, a, bits);
}

ASSAY_TAP_TARGET static inline __m512i assay_tap_shift_left(__m512i a, unsigned bits) {
  return _mm512_maskz_slli_epi64(0xFF, a, bits);
}

ASSAY_TAP_TARGET static inline __m512i assay_tap_all(uint64_t number) {
  return _mm512_set1_epi64((long long)number);
}

// The products of the low halves.
ASSAY_TAP_TARGET static inline __m512i assay_tap_times(__m512i a, __m512i b) {
  return _mm512_maskz_mul_epu32(0xFF, a, b);
}

// Numbers of 192 bits, the lowest word first.
typedef struct {
  __m512i words[3];
} assay_tap_wide;

// The low words of a * b; the high words go to `high`.
ASSAY_TAP_TARGET static inline __m512i assay_tap_product(__m512i a, __m512i b, __m512i* high) {
  const __m512i half = assay_tap_all(0xFFFFFFFFU);
  const __m512i a1 = assay_tap_shift_right(a, 32);
  const __m512i b1 = assay_tap_shift_right(b, 32);
  const __m512i low = assay_tap_times(a, b);
  const __m512i mixed = assay_tap_times(a, b1);
  const __m512i other = assay_tap_times(a1, b);
  const __m512i middle = _mm512_add_epi64(
      _mm512_add_epi64(assay_tap_shift_right(low, 32), _mm512_and_si512(mixed, half)),
      _mm512_and_si512(other, half));
  *high = _mm512_add_epi64(
      _mm512_add_epi64(assay_tap_times(a1, b1), assay_tap_shift_right(middle, 32)),
      _mm512_add_epi64(assay_tap_shift_right(mixed, 32), assay_tap_shift_right(other, 32)));
  return _mm512_or_si512(_mm512_and_si512(low, half), assay_tap_shift_left(middle, 32));
}

// The highest word, rounded to odd: its lowest bit is set if the middle one exceeds 1.
ASSAY_TAP_TARGET static inline __m512i assay_tap_to_odd(__m512i middle, __m512i high) {
  const __m512i one = assay_tap_all(1);
  return _mm512_mask_or_epi64(high, _mm512_cmpgt_epu64_mask(middle, one), high, one);
}

ASSAY_TAP_TARGET static inline __m512i assay_tap_sum_to_odd(const assay_tap_wide* a,
                                                            const assay_tap_wide* b) {
  const __m512i one = assay_tap_all(1);
  const __m512i low = _mm512_add_epi64(a->words[0], b->words[0]);
  const __mmask8 carry = _mm512_cmplt_epu64_mask(low, a->words[0]);
  const __m512i added = _mm512_mask_add_epi64(b->words[1], carry, b->words[1], one);
  const __m512i middle = _mm512_add_epi64(a->words[1], added);
  const __mmask8 carries = _mm512_cmplt_epu64_mask(middle, a->words[1]) |
                           _mm512_mask_cmpeq_epi64_mask(carry, added, _mm512_setzero_si512());
  const __m512i high = _mm512_add_epi64(a->words[2], b->words[2]);
  return assay_tap_to_odd(middle, _mm512_mask_add_epi64(high, carries, high, one));
}

ASSAY_TAP_TARGET static inline __m512i assay_tap_difference_to_odd(const assay_tap_wide* a,
                                                                   const assay_tap_wide* b) {
  const __m512i one = assay_tap_all(1);
  const __mmask8 borrow = _mm512_cmplt_epu64_mask(a->words[0], b->words[0]);
  const __m512i taken = _mm512_mask_add_epi64(b->words[1], borrow, b->words[1], one);
  const __m512i middle = _mm512_sub_epi64(a->words[1], taken);
  const __mmask8 borrows = _mm512_cmplt_epu64_mask(a->words[1], taken) |
                           _mm512_mask_cmpeq_epi64_mask(borrow, taken, _mm512_setzero_si512());
  const __m512i high = _mm512_sub_epi64(a->words[2], b->words[2]);
  return assay_tap_to_odd(middle, _mm512_mask_sub_epi64(high, borrows, high, one));
}

// number / 10^8 and number % 10^8, of numbers below 2^57. The quotient in double may be off by one.
ASSAY_TAP_TARGET static inline __m512i assay_tap_quotient(__m512i number, __m512i* rest) {
  const __m512i one = assay_tap_all(1);
  const __m512i divisor = assay_tap_all(100000000U);
  const __m512d wide = _mm512_maskz_cvtepu64_pd(0xFF, number);
  __m512i quotient = _mm512_maskz_cvttpd_epu64(0xFF, _mm512_mul_pd(wide, _mm512_set1_pd(1e-8)));
  __m512i left = _mm512_sub_epi64(number, _mm512_mullo_epi64(quotient, divisor));
  const __mmask8 below = _mm512_cmplt_epi64_mask(left, _mm512_setzero_si512());
  quotient = _mm512_mask_sub_epi64(quotient, below, quotient, one);
  left = _mm512_mask_add_epi64(left, below, left, divisor);
  const __mmask8 above = _mm512_cmpge_epi64_mask(left, divisor);
  *rest = _mm512_mask_sub_epi64(left, above, left, divisor);
  return _mm512_mask_add_epi64(quotient, above, quotient, one);
}

// assay_tap_eight_digits() of eight numbers.
ASSAY_TAP_TARGET static inline __m512i assay_tap_digits_avx512(__m512i number) {
  const __m512i myriads =
      assay_tap_shift_right(assay_tap_times(number, assay_tap_all(3518437209U)), 45);
  const __m512i units = _mm512_sub_epi64(number, assay_tap_times(myriads, assay_tap_all(10000)));
  const __m512i fours = _mm512_or_si512(myriads, assay_tap_shift_left(units, 32));
  const __m512i hundreds = _mm512_and_si512(
      assay_tap_shift_right(_mm512_mullo_epi32(fours, _mm512_set1_epi32(10486)), 20),
      assay_tap_all(0x0000007F0000007FU));
  const __m512i twos =
      _mm512_sub_epi32(fours, _mm512_mullo_epi32(hundreds, _mm512_set1_epi32(100)));
  const __m512i pairs = _mm512_or_si512(hundreds, assay_tap_shift_left(twos, 16));
  const __m512i tens =
      _mm512_and_si512(assay_tap_shift_right(_mm512_mullo_epi32(pairs, _mm512_set1_epi32(103)), 10),
                       assay_tap_all(0x000F000F000F000FU));
  const __m512i ones = _mm512_sub_epi64(pairs, _mm512_mullo_epi32(tens, _mm512_set1_epi32(10)));
  return _mm512_or_si512(tens, assay_tap_shift_left(ones, 8));
}

// As assay_tap_choose(), but all decimals are in units of 10^k: a shorter one ends with 0.
ASSAY_TAP_TARGET static inline __m512i assay_tap_choose_avx512(__m512i low, __m512i middle,
                                                               __m512i high, __m512i out) {
  const __m512i s = assay_tap_shift_right(middle, 2);
  __m512i rest;
  (void)assay_tap_quotient(s, &rest);
  const __m512i tenth =
      assay_tap_shift_right(assay_tap_times(rest, assay_tap_all(0xCCCCCCCDU)), 35);
  const __m512i digit = _mm512_sub_epi64(rest, assay_tap_times(tenth, assay_tap_all(10)));
  const __m512i tens = _mm512_sub_epi64(s, digit);
  const __m512i least = _mm512_add_epi64(low, out);
  const __m512i most = _mm512_sub_epi64(high, out);
  const __m512i tens4 = assay_tap_shift_left(tens, 2);
  const __m512i s4 = assay_tap_shift_left(s, 2);
  const __mmask8 low_fits = _mm512_cmple_epu64_mask(least, tens4);
  const __mmask8 high_fits =
      _mm512_cmple_epu64_mask(_mm512_add_epi64(tens4, assay_tap_all(40)), most);
  const __mmask8 shorter = low_fits ^ high_fits;
  const __mmask8 s_fits = _mm512_cmple_epu64_mask(least, s4);
  const __mmask8 t_fits = _mm512_cmple_epu64_mask(_mm512_add_epi64(s4, assay_tap_all(4)), most);
  const __m512i even = _mm512_sub_epi64(assay_tap_all(2), _mm512_and_si512(s, assay_tap_all(1)));
  const __mmask8 above = _mm512_cmpgt_epu64_mask(_mm512_sub_epi64(middle, s4), even);
  const __mmask8 one_fits = s_fits ^ t_fits;
  const __mmask8 up = (one_fits & t_fits) | (__mmask8)(~one_fits & above);
  __m512i chosen = _mm512_mask_add_epi64(s, up, s, assay_tap_all(1));
  chosen = _mm512_mask_mov_epi64(chosen, shorter, tens);
  return _mm512_mask_add_epi64(chosen, shorter & high_fits, chosen, assay_tap_all(10));
}

// Eight doubles of 17 digits each, which may end with zeros.
typedef struct {
  uint64_t first[8];  // the first digit; the other sixteen as assay_tap_eight_digits() has them
  uint64_t high[8];
  uint64_t low[8];
  int64_t point[8];  // digits before the point
  unsigned normal;   // bit i: number i is neither subnormal nor a power of two, and finite
} assay_tap_decimals;

ASSAY_TAP_TARGET static void assay_tap_shortest_avx512(const double* values,
                                                       assay_tap_decimals* to) {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i one = assay_tap_all(1);
  const __m512i bits = _mm512_loadu_si512(values);
  const __m512i fraction = _mm512_and_si512(bits, assay_tap_all(0xFFFFFFFFFFFFFU));
  const __m512i exponent = _mm512_and_si512(assay_tap_shift_right(bits, 52), assay_tap_all(0x7FF));
  __mmask8 normal = _mm512_cmpneq_epi64_mask(fraction, zero);
  normal = _mm512_mask_cmpneq_epi64_mask(normal, exponent, assay_tap_all(0x7FF));
  normal = _mm512_mask_cmpneq_epi64_mask(normal, exponent, zero);
  const __m512i c = _mm512_or_si512(fraction, assay_tap_all(0x10000000000000U));
  const __m512i q = _mm512_sub_epi64(exponent, assay_tap_all(1075));
  // As in assay_tap_log10_pow2() and assay_tap_log2_pow10().
  const __m512i k =
      _mm512_maskz_srai_epi64(0xFF, _mm512_mullo_epi64(q, assay_tap_all(1262611)), 22);
  const __m512i minus_k = _mm512_sub_epi64(zero, k);
  const __m512i log2 =
      _mm512_maskz_srai_epi64(0xFF, _mm512_mullo_epi64(minus_k, assay_tap_all(1741647)), 19);
  const __m512i shift = _mm512_add_epi64(_mm512_add_epi64(q, log2), one);
  const __m512i place = assay_tap_shift_left(
      _mm512_add_epi64(minus_k, assay_tap_all((uint64_t)-ASSAY_TAP_MIN_POWER)), 1);
  const __m512i power_high =
      _mm512_mask_i64gather_epi64(zero, normal, place, &assay_tap_powers[0].high, 8);
  const __m512i power_low =
      _mm512_mask_i64gather_epi64(zero, normal, place, &assay_tap_powers[0].low, 8);
  // The value in units of 10^k, and half of its interval: four and two times, with 128 bits below.
  const __m512i four_c =
      _mm512_maskz_sllv_epi64(0xFF, c, _mm512_add_epi64(shift, assay_tap_all(2)));
  const __m512i by = _mm512_add_epi64(shift, one);
  const __m512i back = _mm512_sub_epi64(assay_tap_all(64), by);
  assay_tap_wide value;
  assay_tap_wide half;
  __m512i carried;
  value.words[0] = assay_tap_product(power_low, four_c, &carried);
  value.words[1] = assay_tap_product(power_high, four_c, &value.words[2]);
  value.words[1] = _mm512_add_epi64(value.words[1], carried);
  value.words[2] = _mm512_mask_add_epi64(
      value.words[2], _mm512_cmplt_epu64_mask(value.words[1], carried), value.words[2], one);
  half.words[0] = _mm512_maskz_sllv_epi64(0xFF, power_low, by);
  half.words[1] = _mm512_or_si512(_mm512_maskz_sllv_epi64(0xFF, power_high, by),
                                  _mm512_maskz_srlv_epi64(0xFF, power_low, back));
  half.words[2] = _mm512_maskz_srlv_epi64(0xFF, power_high, back);
  const __m512i chosen = assay_tap_choose_avx512(
      assay_tap_difference_to_odd(&value, &half), assay_tap_to_odd(value.words[1], value.words[2]),
      assay_tap_sum_to_odd(&value, &half), _mm512_and_si512(c, one));
  const __mmask8 sixteen = _mm512_cmplt_epu64_mask(chosen, assay_tap_all(10000000000000000U));
  const __m512i digits = _mm512_mask_add_epi64(chosen, sixteen, assay_tap_shift_left(chosen, 3),
                                               assay_tap_shift_left(chosen, 1));
  const __m512i point = _mm512_add_epi64(k, assay_tap_all(17));
  __m512i low;
  const __m512i nine = assay_tap_quotient(digits, &low);
  const __m512i first =  // by 2^57 / 10^8
      assay_tap_shift_right(assay_tap_times(nine, assay_tap_all(1441151881U)), 57);
  const __m512i high = _mm512_sub_epi64(nine, assay_tap_times(first, assay_tap_all(100000000U)));
  _mm512_storeu_si512(to->first, first);
  _mm512_storeu_si512(to->high, assay_tap_digits_avx512(high));
  _mm512_storeu_si512(to->low, assay_tap_digits_avx512(low));
  _mm512_storeu_si512(to->point, _mm512_mask_sub_epi64(point, sixteen, point, one));
  to->normal = normal;
}

#define ASSAY_TAP_DOUBLES 64  // whose digits are computed before the first is laid out

typedef struct {
  char text[40];  // eight zeros, the digits, zeros
  int count;      // of digits; 0: not laid out as assay_tap_write_laid_out() does
  int point;
} assay_tap_digits;

ASSAY_TAP_TARGET static void assay_tap_digits_of_doubles(const double* values, size_t n,
                                                         assay_tap_digits* digits) {
  const uint64_t zeros = 0x3030303030303030U;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    assay_tap_decimals decimals;
    assay_tap_shortest_avx512(values + i, &decimals);
    for (size_t j = 0; j < 8; ++j) {
      assay_tap_digits* to = digits + i + j;
      const uint64_t high = decimals.high[j] | zeros;
      const uint64_t low = decimals.low[j] | zeros;
      memcpy(to->text, &zeros, 8);
      to->text[8] = (char)('0' + decimals.first[j]);
      memcpy(to->text + 9, &high, 8);
      memcpy(to->text + 17, &low, 8);
      memcpy(to->text + 25, &zeros, 8);
      const uint64_t word = decimals.low[j] != 0 ? decimals.low[j] : decimals.high[j];
      const int most = decimals.low[j] != 0 ? 17 : 9;
      const int count = most - (__builtin_clzll(word | 1) >> 3) - (word == 0);
      to->point = (int)decimals.point[j];
      const int fixed = to->point < count && to->point >= (count == 1) - 3;  // and not whole
      to->count = (decimals.normal >> j & 1) != 0 && fixed ? count : 0;
    }
  }
  for (; i < n; ++i) digits[i].count = 0;
}

// 16 and 24 bytes are copied where fewer are needed.
static inline char* assay_tap_write_laid_out(char* to, const assay_tap_digits* digits,
                                             int negative) {
  const int whole = digits->point > 0 ? digits->point : 1;
  const char* first = digits->text + 8 + digits->point - whole;
  *to = '-';
  to += negative;
  memcpy(to, first, 16);
  to[whole] = '.';
  memcpy(to + whole + 1, first + whole, 24);
  return to + (whole + 1 + digits->count - digits->point);
}
#endif

// [a,b,...]: at most 26 bytes a value, and 64 more may be written. The digits of many numbers are
// computed first, and then laid out: memory that was just written cannot be read back at once in
// other sizes.
static __attribute__((unused)) char* assay_tap_write_doubles(char* to, const double* values,
                                                             size_t n) {
  (void)pthread_once(&assay_tap_powers_once, assay_tap_make_powers);
  *to++ = '[';
#if defined(ASSAY_TAP_AVX512)
  assay_tap_digits digits[ASSAY_TAP_DOUBLES];
  const int fast = assay_tap_has_avx512();
  for (size_t i = 0; i < n; ++i) {
    const size_t j = i % ASSAY_TAP_DOUBLES;
    if (fast && j == 0) {
      const size_t left = n - i < ASSAY_TAP_DOUBLES ? n - i : ASSAY_TAP_DOUBLES;
      assay_tap_digits_of_doubles(values + i, left, digits);
    }
    to = fast && digits[j].count > 0 ? assay_tap_write_laid_out(to, digits + j, values[i] < 0)
                                     : assay_tap_write_double(to, values[i]);
    *to++ = ',';
  }
#else
  for (size_t i = 0; i < n; ++i) {
    to = assay_tap_write_double(to, values[i]);
    *to++ = ',';
  }
#endif
  to -= n > 0;
  *to = ']';
  return to + 1;
}

// ---- Summary and sketch of a tensor ----------------------------------------------------------
// All sums are in double, in an order that is the same on every processor. Elements that are not
// finite are skipped.

// An engine may have set the processor to flush denormal numbers to zero, as linking with
// -ffast-math does, to round differently, or to trap. Tensors are summarised (on x86-64) in the
// mode that a process starts with. Returns the engine's mode, to be restored.
static __attribute__((unused)) uint32_t assay_tap_set_float_mode(uint32_t mode) {
  uint32_t before = mode;
#if defined(__x86_64__)
  __asm__ __volatile__("stmxcsr %0" : "=m"(before) : : "memory");
  __asm__ __volatile__("ldmxcsr %0" : : "m"(mode) : "memory");
#endif
  return before;
}
#define ASSAY_TAP_FLOAT_MODE 0x1F80U

// Tests the bits: -ffast-math must not remove it.
static int assay_tap_is_finite(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (bits & 0x7F800000U) != 0x7F800000U;
}

static __attribute__((unused)) int64_t assay_tap_count_nan(const float* values, size_t n) {
  int64_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, values + i, sizeof(bits));
    count += (bits & 0x7FFFFFFFU) > 0x7F800000U;
  }
  return count;
}

#define ASSAY_TAP_LANES 8

// Element i goes into lane i % ASSAY_TAP_LANES.
typedef struct {
  double sums[ASSAY_TAP_LANES];
  double squares[ASSAY_TAP_LANES];
  float least[ASSAY_TAP_LANES];
  int64_t nonfinite;
  size_t top[ASSAY_TAP_TOP];  // the largest, largest first, of equal ones the lowest index first
  int count;                  // in top
  float fifth;                // the least of top; with fewer than five less than any float
} assay_tap_summary;

static void assay_tap_insert(const float* values, size_t i, assay_tap_summary* s) {
  const float value = values[i];
  if (!assay_tap_is_finite(value) || !(value > s->fifth)) return;
  int place = s->count < ASSAY_TAP_TOP ? s->count++ : ASSAY_TAP_TOP - 1;
  for (; place > 0 && value > values[s->top[place - 1]]; --place) s->top[place] = s->top[place - 1];
  s->top[place] = i;
  if (s->count == ASSAY_TAP_TOP) s->fifth = values[s->top[ASSAY_TAP_TOP - 1]];
}

static inline void assay_tap_summarize_lanes(const float* values, size_t i, int lanes,
                                             assay_tap_summary* s) {
  int larger = 0;
  for (int j = 0; j < lanes; ++j) {
    const float value = values[i + (size_t)j];
    const int finite = assay_tap_is_finite(value);
    const double wide = finite ? (double)value : 0.0;
    s->nonfinite += !finite;
    s->sums[j] += wide;
    s->squares[j] += wide * wide;
    s->least[j] = finite && value < s->least[j] ? value : s->least[j];
    larger |= finite && value > s->fifth;
  }
  if (!larger) return;
  for (int j = 0; j < lanes; ++j) assay_tap_insert(values, i + (size_t)j, s);
}

#if defined(ASSAY_TAP_AVX512)
// Sixteen values from `values` on, 0 where one is not finite or not in `wanted`; which are finite
// goes to `finite`.
ASSAY_TAP_TARGET static inline __m512 assay_tap_load_finite(const float* values, __mmask16 wanted,
                                                            __mmask16* finite) {
  const __m512i bits = _mm512_castps_si512(_mm512_maskz_loadu_ps(wanted, values));
  const __m512i exponent = _mm512_set1_epi32(0x7F800000);
  const __mmask16 in = _mm512_cmpneq_epi32_mask(_mm512_and_si512(bits, exponent), exponent);
  *finite = in;
  return _mm512_castsi512_ps(_mm512_maskz_mov_epi32(in, bits));
}

ASSAY_TAP_TARGET static inline __m256 assay_tap_first_eight(__m512 a) {
  return _mm512_maskz_extractf32x8_ps(0xFF, a, 0);
}

ASSAY_TAP_TARGET static inline __m256 assay_tap_last_eight(__m512 a) {
  return _mm512_maskz_extractf32x8_ps(0xFF, a, 1);
}

// The fifth largest of sixteen values, or less than that if some of them are equal.
ASSAY_TAP_TARGET static float assay_tap_fifth_of(__m512 x) {
  const __m512i next = _mm512_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0);
  const __m512i one = _mm512_set1_epi32(1);
  __m512i larger = _mm512_setzero_si512();  // how many of the others are
  __m512 other = x;
#pragma GCC unroll 15
  for (int j = 1; j < 16; ++j) {
    other = _mm512_maskz_permutexvar_ps(0xFFFF, next, other);
    larger = _mm512_mask_add_epi32(larger, _mm512_cmp_ps_mask(other, x, _CMP_GT_OQ), larger, one);
  }
  float lanes[16];
  _mm512_storeu_ps(lanes, x);
  unsigned first = _mm512_cmplt_epi32_mask(larger, _mm512_set1_epi32(ASSAY_TAP_TOP));
  float least = lanes[__builtin_ctz(first)];
  for (; first != 0; first &= first - 1) {
    const float lane = lanes[__builtin_ctz(first)];
    least = lane < least ? lane : least;
  }
  return least;
}

// The part of values[n] in whole groups of sixteen; returns its length. Each lane's largest value
// is one of its own, so the five largest of all are no less than the fifth of these.
ASSAY_TAP_TARGET static size_t assay_tap_summarize_avx512(const float* values, size_t n,
                                                          assay_tap_summary* s) {
  __m512d sums = _mm512_loadu_pd(s->sums);
  __m512d squares = _mm512_loadu_pd(s->squares);
  const __m512 above_all = _mm512_set1_ps(3.402823466e+38F);
  const __m512 below_all = _mm512_set1_ps(s->fifth);
  __m256 least = _mm256_loadu_ps(s->least);
  __m512 largest = below_all;
  const size_t whole = n - n % 16;
  for (size_t i = 0; i < whole; i += 16) {
    __mmask16 finite;
    const __m512 x = assay_tap_load_finite(values + i, 0xFFFF, &finite);
    const __m512d low = _mm512_maskz_cvtps_pd(0xFF, assay_tap_first_eight(x));
    const __m512d high = _mm512_maskz_cvtps_pd(0xFF, assay_tap_last_eight(x));
    sums = _mm512_add_pd(_mm512_add_pd(sums, low), high);
    // The square of a float is exact in double.
    squares = _mm512_fmadd_pd(high, high, _mm512_fmadd_pd(low, low, squares));
    const __m512 in = _mm512_mask_mov_ps(above_all, finite, x);
    least = _mm256_min_ps(assay_tap_first_eight(in), least);
    least = _mm256_min_ps(assay_tap_last_eight(in), least);
    largest = _mm512_mask_max_ps(largest, finite, x, largest);
    if (finite != 0xFFFF) s->nonfinite += 16 - __builtin_popcount(finite);
  }
  _mm512_storeu_pd(s->sums, sums);
  _mm512_storeu_pd(s->squares, squares);
  _mm256_storeu_ps(s->least, least);
  const __m512 enough = _mm512_set1_ps(assay_tap_fifth_of(largest));
  for (size_t i = 0; i < whole; i += 16) {
    __mmask16 finite;
    const __m512 x = assay_tap_load_finite(values + i, 0xFFFF, &finite);
    unsigned wanted = _mm512_mask_cmp_ps_mask(finite, x, enough, _CMP_GE_OQ);
    if (wanted == 0) continue;
    wanted &= _mm512_cmp_ps_mask(x, _mm512_set1_ps(s->fifth), _CMP_GT_OQ);
    for (; wanted != 0; wanted &= wanted - 1) {
      assay_tap_insert(values, i + (size_t)__builtin_ctz(wanted), s);
    }
  }
  return whole;
}
#endif

static __attribute__((unused)) void assay_tap_summarize(const float* values, size_t n,
                                                        assay_tap_summary* s) {
  memset(s, 0, sizeof(*s));
  for (int j = 0; j < ASSAY_TAP_LANES; ++j) s->least[j] = 3.402823466e+38F;
  const uint32_t below_all = 0xFF800000U;  // minus infinity
  memcpy(&s->fifth, &below_all, sizeof(s->fifth));
  size_t i = 0;
#if defined(ASSAY_TAP_AVX512)
  if (assay_tap_has_avx512()) i = assay_tap_summarize_avx512(values, n, s);
#endif
  for (; i + ASSAY_TAP_LANES <= n; i += ASSAY_TAP_LANES) {
    assay_tap_summarize_lanes(values, i, ASSAY_TAP_LANES, s);
  }
  assay_tap_summarize_lanes(values, i, (int)(n - i), s);
  for (int j = 1; j < ASSAY_TAP_LANES; ++j) {
    s->sums[0] += s->sums[j];
    s->squares[0] += s->squares[j];
    if (s->least[j] < s->least[0]) s->least[0] = s->least[j];
  }
}

// The 64 signs of element i: SplitMix64 of i + 1.
static inline uint64_t assay_tap_signs(uint64_t i) {
  uint64_t z = i + 1 + 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// sketch[k] is the sum of +-values[i], plus where bit k of the signs of i is set: twice the sum of
// those, less the sum of all. Alon, Matias and Szegedy, "The space complexity of approximating the
// frequency moments", STOC 1996.
//
// Four elements are added at a time. The sums of their sixteen subsets, each in the order of the
// elements, are a table, and bit k of their signs is the index into it: a lookup and an addition
// for each k. Beyond the end elements count as 0.
#define ASSAY_TAP_BLOCK 128  // elements whose table indices are computed before the lookups
#define ASSAY_TAP_FOURS (ASSAY_TAP_BLOCK / 4)
#define ASSAY_TAP_ROWS 4

// Nibble p of words[r] is the index for k = 4 * p + r: the bits of four words, transposed in
// squares of four by four. i: the first of the four elements.
static inline void assay_tap_places(uint64_t i, uint64_t words[4]) {
  const uint64_t ones = 0x5555555555555555U;
  const uint64_t twos = 0x3333333333333333U;
  const uint64_t a = assay_tap_signs(i);
  const uint64_t b = assay_tap_signs(i + 1);
  const uint64_t c = assay_tap_signs(i + 2);
  const uint64_t d = assay_tap_signs(i + 3);
  const uint64_t even_ab = (a & ones) | ((b & ones) << 1);
  const uint64_t odd_ab = ((a >> 1) & ones) | (b & ~ones);
  const uint64_t even_cd = (c & ones) | ((d & ones) << 1);
  const uint64_t odd_cd = ((c >> 1) & ones) | (d & ~ones);
  words[0] = (even_ab & twos) | ((even_cd & twos) << 2);
  words[1] = (odd_ab & twos) | ((odd_cd & twos) << 2);
  words[2] = ((even_ab >> 2) & twos) | (even_cd & ~twos);
  words[3] = ((odd_ab >> 2) & twos) | (odd_cd & ~twos);
}

// The sums of k = 4 * p + r for all p: `first_row` <= r < `last_row`. All four rows are a sketch;
// threads may share them.
//
// plus[k]: the sum of the elements whose bit k is set. Gives the sum of all.
static inline double assay_tap_plus_portable(const float* values, size_t n, int first_row,
                                             int last_row, double* plus) {
  enum { kFours = 8 };
  double table[kFours][16];
  uint64_t words[kFours][4];
  double all = 0;
  double totals[ASSAY_TAP_SKETCH] = {0};
  for (size_t i = 0; i < n; i += 4 * kFours) {
    for (size_t g = 0; g < kFours; ++g) {
      const size_t first = i + 4 * g;
      double* sums = table[g];
      sums[0] = 0;
      for (size_t j = 0; j < 4; ++j) {
        const float value = first + j < n ? values[first + j] : 0.0F;
        const double wide = assay_tap_is_finite(value) ? (double)value : 0.0;
        for (size_t subset = 0; subset < (size_t)1 << j; ++subset) {
          sums[subset + ((size_t)1 << j)] = sums[subset] + wide;
        }
      }
      all += sums[15];
      assay_tap_places(first, words[g]);
    }
    for (int p = 0; p < ASSAY_TAP_SKETCH; p += 4) {
      for (int r = first_row; r < last_row; ++r) {
        double sum = totals[p + r];
#if !defined(__CUDACC__)
#pragma GCC unroll 8
#endif
        for (int g = 0; g < kFours; ++g) sum += table[g][words[g][r] >> p & 15];
        totals[p + r] = sum;
      }
    }
  }
  for (int p = 0; p < ASSAY_TAP_SKETCH; p += 4) {
    for (int r = first_row; r < last_row; ++r) plus[p + r] = totals[p + r];
  }
  return all;
}

#if defined(ASSAY_TAP_AVX512)
// The bits of a where `where` has ones, those of b elsewhere.
ASSAY_TAP_TARGET static inline __m512i assay_tap_choose_bits(__m512i where, __m512i a, __m512i b) {
  return _mm512_ternarylogic_epi64(where, a, b, 0xCA);
}

// assay_tap_signs() of i, i + 4, ... i + 28
ASSAY_TAP_TARGET static inline __m512i assay_tap_signs_avx512(uint64_t i) {
  const __m512i fours = _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28);
  const __m512i first = _mm512_set1_epi64((long long)(i + 1 + 0x9E3779B97F4A7C15U));
  __m512i z = _mm512_add_epi64(first, fours);
  z = _mm512_mullo_epi64(_mm512_xor_si512(z, assay_tap_shift_right(z, 30)),
                         _mm512_set1_epi64((long long)0xBF58476D1CE4E5B9U));
  z = _mm512_mullo_epi64(_mm512_xor_si512(z, assay_tap_shift_right(z, 27)),
                         _mm512_set1_epi64((long long)0x94D049BB133111EBU));
  return _mm512_xor_si512(z, assay_tap_shift_right(z, 31));
}

// assay_tap_places() of eight fours: words[r][g] is words[r] of the elements from i + 4 * g on.
ASSAY_TAP_TARGET static void assay_tap_places_avx512(uint64_t i, uint64_t words[4][ASSAY_TAP_FOURS],
                                                     size_t g) {
  const __m512i ones = _mm512_set1_epi64(0x5555555555555555);
  const __m512i twos = _mm512_set1_epi64(0x3333333333333333);
  const __m512i a = assay_tap_signs_avx512(i);
  const __m512i b = assay_tap_signs_avx512(i + 1);
  const __m512i c = assay_tap_signs_avx512(i + 2);
  const __m512i d = assay_tap_signs_avx512(i + 3);
  const __m512i even_ab = assay_tap_choose_bits(ones, a, assay_tap_shift_left(b, 1));
  const __m512i odd_ab = assay_tap_choose_bits(ones, assay_tap_shift_right(a, 1), b);
  const __m512i even_cd = assay_tap_choose_bits(ones, c, assay_tap_shift_left(d, 1));
  const __m512i odd_cd = assay_tap_choose_bits(ones, assay_tap_shift_right(c, 1), d);
  const __m512i low_even = assay_tap_choose_bits(twos, even_ab, assay_tap_shift_left(even_cd, 2));
  const __m512i low_odd = assay_tap_choose_bits(twos, odd_ab, assay_tap_shift_left(odd_cd, 2));
  const __m512i high_even = assay_tap_choose_bits(twos, assay_tap_shift_right(even_ab, 2), even_cd);
  const __m512i high_odd = assay_tap_choose_bits(twos, assay_tap_shift_right(odd_ab, 2), odd_cd);
  _mm512_storeu_si512(words[0] + g, low_even);
  _mm512_storeu_si512(words[1] + g, low_odd);
  _mm512_storeu_si512(words[2] + g, high_even);
  _mm512_storeu_si512(words[3] + g, high_odd);
}

// As assay_tap_plus_portable(), bit for bit. Vector 2 * r + h has the sums of k = 4 * p + r for the
// eight p from 8 * h on. Half of the additions are written as fused multiplications by one, which
// other units of the processor compute.
ASSAY_TAP_TARGET static inline __attribute__((always_inline)) double assay_tap_plus_avx512_rows(
    const float* values, size_t n, int first_row, int last_row, double* plus) {
  double wide[ASSAY_TAP_BLOCK];
  uint64_t words[4][ASSAY_TAP_FOURS];
  const __m512i first_nibbles = _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28);
  const __m512i last_nibbles = _mm512_setr_epi64(32, 36, 40, 44, 48, 52, 56, 60);
  const __m512d one = _mm512_set1_pd(1);
  const __m512d has_first = _mm512_setr_pd(0, 1, 0, 1, 0, 1, 0, 1);
  const __m512d has_second = _mm512_setr_pd(0, 0, 1, 1, 0, 0, 1, 1);
  const __m512d has_third = _mm512_setr_pd(0, 0, 0, 0, 1, 1, 1, 1);
  __m512d all = _mm512_setzero_pd();  // in the last lane
  __m512d sums[8];
  for (int j = 0; j < 8; ++j) sums[j] = _mm512_setzero_pd();
  for (size_t i = 0; i < n; i += ASSAY_TAP_BLOCK) {
    const size_t left = n - i < ASSAY_TAP_BLOCK ? n - i : ASSAY_TAP_BLOCK;
    for (size_t j = 0; j < left; j += 32) assay_tap_places_avx512(i + j, words, j / 4);
    for (size_t j = 0; j < left; j += 16) {
      const unsigned wanted = left - j < 16 ? (1U << (left - j)) - 1 : 0xFFFF;
      __mmask16 finite;
      const __m512 x = assay_tap_load_finite(values + i + j, (__mmask16)wanted, &finite);
      _mm512_storeu_pd(wide + j, _mm512_maskz_cvtps_pd(0xFF, assay_tap_first_eight(x)));
      _mm512_storeu_pd(wide + j + 8, _mm512_maskz_cvtps_pd(0xFF, assay_tap_last_eight(x)));
    }
    for (size_t g = 0; g < (left + 3) / 4; ++g) {
      const double* x = wide + 4 * g;
      __m512d low = _mm512_mul_pd(has_first, _mm512_set1_pd(x[0]));
      low = _mm512_fmadd_pd(has_second, _mm512_set1_pd(x[1]), low);
      low = _mm512_fmadd_pd(has_third, _mm512_set1_pd(x[2]), low);
      const __m512d high = _mm512_add_pd(low, _mm512_set1_pd(x[3]));
      all = _mm512_add_pd(all, high);
#pragma GCC unroll 4
      for (int r = first_row; r < last_row; ++r) {
        const __m512i word = _mm512_set1_epi64((long long)words[r][g]);
        const __m512i first = _mm512_maskz_srlv_epi64(0xFF, word, first_nibbles);
        const __m512i last = _mm512_maskz_srlv_epi64(0xFF, word, last_nibbles);
        const __m512d first_sums = _mm512_permutex2var_pd(low, first, high);
        const __m512d last_sums = _mm512_permutex2var_pd(low, last, high);
        sums[2 * r] = _mm512_add_pd(sums[2 * r], first_sums);
        sums[2 * r + 1] = _mm512_fmadd_pd(one, last_sums, sums[2 * r + 1]);
      }
    }
  }
  double lanes[64];
  for (int j = 2 * first_row; j < 2 * last_row; ++j) {
    _mm512_storeu_pd(lanes + (size_t)(8 * j), sums[j]);
  }
  for (int p = 0; p < ASSAY_TAP_SKETCH; p += 4) {
    for (int r = first_row; r < last_row; ++r) plus[p + r] = lanes[16 * r + p / 4];
  }
  _mm512_storeu_pd(lanes, all);
  return lanes[7];
}

ASSAY_TAP_TARGET static double assay_tap_plus_avx512(const float* values, size_t n, int first_row,
                                                     int last_row, double* plus) {
  // The sums are in registers only if the rows are constants.
  if (first_row == 0 && last_row == 2) return assay_tap_plus_avx512_rows(values, n, 0, 2, plus);
  if (first_row == 2 && last_row == 4) return assay_tap_plus_avx512_rows(values, n, 2, 4, plus);
  return assay_tap_plus_avx512_rows(values, n, 0, 4, plus);
}

#define ASSAY_TAP_AVX2 __attribute__((target("avx2")))
#define ASSAY_TAP_TABLES 16  // fours whose tables are in the first-level cache at once

// The sums of the subsets of four elements, their low and their high halves, first those of the
// subsets without the last element: eight words each, which one instruction looks up.
typedef struct {
  __m256i words[4];
} assay_tap_table;

// Gives the sum of all four. `left`: how many of the elements there are.
ASSAY_TAP_AVX2 static double assay_tap_fill_table(const float* values, size_t left,
                                                  assay_tap_table* table) {
  float padded[4] = {0, 0, 0, 0};
  double x[4];
  if (left < 4) {
    memcpy(padded, values, left * sizeof(float));
    values = padded;
  }
  const __m128i exponent = _mm_set1_epi32(0x7F800000);
  const __m128i bits = _mm_castps_si128(_mm_loadu_ps(values));
  const __m128i nonfinite = _mm_cmpeq_epi32(_mm_and_si128(bits, exponent), exponent);
  _mm256_storeu_pd(x, _mm256_cvtps_pd(_mm_castsi128_ps(_mm_andnot_si128(nonfinite, bits))));
  const __m256d third = _mm256_setr_pd(0, 0, x[2], x[2]);
  const __m256d fourth = _mm256_set1_pd(x[3]);
  const __m256d none = _mm256_setr_pd(0, x[0], 0, x[0]);
  const __m256d low = _mm256_add_pd(none, third);  // the subsets 0, 1, 4, 5
  const __m256d high =                             // 2, 3, 6, 7
      _mm256_add_pd(_mm256_add_pd(none, _mm256_set1_pd(x[1])), third);
  const __m256d low_with = _mm256_add_pd(low, fourth);
  const __m256d high_with = _mm256_add_pd(high, fourth);
  const __m256 parts[4] = {_mm256_castpd_ps(low), _mm256_castpd_ps(high),
                           _mm256_castpd_ps(low_with), _mm256_castpd_ps(high_with)};
  double sums[4];
  for (int i = 0; i < 2; ++i) {
    table->words[2 * i] =
        _mm256_castps_si256(_mm256_shuffle_ps(parts[2 * i], parts[2 * i + 1], 0x88));
    table->words[2 * i + 1] =
        _mm256_castps_si256(_mm256_shuffle_ps(parts[2 * i], parts[2 * i + 1], 0xDD));
  }
  _mm256_storeu_pd(sums, high_with);
  return sums[3];
}

// As assay_tap_plus_portable(), bit for bit.
ASSAY_TAP_AVX2 static double assay_tap_plus_avx2(const float* values, size_t n, int first_row,
                                                 int last_row, double* plus) {
  const __m256i nibbles = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  assay_tap_table tables[ASSAY_TAP_TABLES];
  uint64_t words[ASSAY_TAP_TABLES][4];
  double sums[8][8];  // [2 * r + h]: of k = 4 * p + r, p = 8 * h + {0, 1, 4, 5, 2, 3, 6, 7}
  double all = 0;
  memset(sums, 0, sizeof(sums));
  for (size_t i = 0; i < n; i += (size_t)4 * ASSAY_TAP_TABLES) {
    const size_t left = n - i;
    const size_t fours = left < (size_t)4 * ASSAY_TAP_TABLES ? (left + 3) / 4 : ASSAY_TAP_TABLES;
    for (size_t g = 0; g < fours; ++g) {
      all += assay_tap_fill_table(values + i + 4 * g, left - 4 * g, tables + g);
      assay_tap_places(i + 4 * g, words[g]);
    }
    for (size_t j = (size_t)(2 * first_row); j < (size_t)(2 * last_row); ++j) {
      __m256d first = _mm256_loadu_pd(sums[j]);
      __m256d last = _mm256_loadu_pd(sums[j] + 4);
#pragma GCC unroll 4
      for (size_t g = 0; g < fours; ++g) {
        const __m256i* table = tables[g].words;
        int word;  // half of words[g][j / 2]
        memcpy(&word, (const char*)words[g] + 4 * j, sizeof(word));
        const __m256i places = _mm256_srlv_epi32(_mm256_set1_epi32(word), nibbles);
        const __m256 with = _mm256_castsi256_ps(_mm256_slli_epi32(places, 28));
        const __m256 low = _mm256_blendv_ps(
            _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(table[0], places)),
            _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(table[2], places)), with);
        const __m256 high = _mm256_blendv_ps(
            _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(table[1], places)),
            _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(table[3], places)), with);
        first = _mm256_add_pd(first, _mm256_castps_pd(_mm256_unpacklo_ps(low, high)));
        last = _mm256_add_pd(last, _mm256_castps_pd(_mm256_unpackhi_ps(low, high)));
      }
      _mm256_storeu_pd(sums[j], first);
      _mm256_storeu_pd(sums[j] + 4, last);
    }
  }
  for (size_t k = 0; k < ASSAY_TAP_SKETCH; ++k) {
    const size_t p = k / 4 % 8;
    const size_t place = (p & 1) | (p >> 1 & 2) | (p << 1 & 4);  // its place of 0, 1, 4, 5, ...
    const int r = (int)(k % 4);
    if (r >= first_row && r < last_row) plus[k] = sums[(size_t)(2 * r) + k / 32][place];
  }
  return all;
}
#endif

// The rows of a sketch.
static __attribute__((unused)) void assay_tap_sketch_rows(const float* values, size_t n,
                                                          int first_row, int last_row,
                                                          double* sketch) {
  double all;
#if defined(ASSAY_TAP_AVX512)
  if (assay_tap_has_avx512()) {
    all = assay_tap_plus_avx512(values, n, first_row, last_row, sketch);
  } else if (__builtin_cpu_supports("avx2")) {
    all = assay_tap_plus_avx2(values, n, first_row, last_row, sketch);
  } else {
    all = assay_tap_plus_portable(values, n, first_row, last_row, sketch);
  }
#else
  all = assay_tap_plus_portable(values, n, first_row, last_row, sketch);
#endif
  for (int p = 0; p < ASSAY_TAP_SKETCH; p += 4) {
    for (int k = p + first_row; k < p + last_row; ++k) sketch[k] = 2 * sketch[k] - all;
  }
}

static __attribute__((unused)) void assay_tap_sketch(const float* values, size_t n,
                                                     double* sketch) {
  assay_tap_sketch_rows(values, n, 0, ASSAY_TAP_ROWS, sketch);
}

// ---- The time --------------------------------------------------------------------------------

static char* assay_tap_write_padded(char* to, int number, int digits) {
  for (int i = digits - 1; i >= 0; --i) {
    to[i] = (char)('0' + number % 10);
    number /= 10;
  }
  return to + digits;
}

// Now, in UTC, as "2026-11-21T22:50:08.123456Z" with the quotes: 29 characters.
static __attribute__((unused)) char* assay_tap_write_time(char* to) {
  struct timespec now = {0, 0};
  struct tm utc;
  memset(&utc, 0, sizeof(utc));
  (void)clock_gettime(CLOCK_REALTIME, &now);
  (void)gmtime_r(&now.tv_sec, &utc);
  *to++ = '"';
  to = assay_tap_write_padded(to, utc.tm_year + 1900, 4);
  *to++ = '-';
  to = assay_tap_write_padded(to, utc.tm_mon + 1, 2);
  *to++ = '-';
  to = assay_tap_write_padded(to, utc.tm_mday, 2);
  *to++ = 'T';
  to = assay_tap_write_padded(to, utc.tm_hour, 2);
  *to++ = ':';
  to = assay_tap_write_padded(to, utc.tm_min, 2);
  *to++ = ':';
  to = assay_tap_write_padded(to, utc.tm_sec, 2);
  *to++ = '.';
  to = assay_tap_write_padded(to, (int)(now.tv_nsec / 1000), 6);
  *to++ = 'Z';
  *to++ = '"';
  return to;
}

#ifndef ASSAY_TAP_WITHOUT_LOG

// ---- Strings as JSON -------------------------------------------------------------------------

// Length of the well-formed UTF-8 sequence at `text` ('\0'-terminated), 0 if there is none.
static int assay_tap_utf8_length(const unsigned char* text) {
  const unsigned lead = text[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;  // no longer than needed
  const unsigned most = lead == 0xED   ? 0x9F
                        : lead == 0xF4 ? 0x8F
                                       : 0xBF;  // no surrogates, U+10FFFF
  if (text[1] < least || text[1] > most) return 0;
  for (int i = 2; i < length; ++i) {
    if ((text[i] & 0xC0) != 0x80) return 0;
  }
  return length;
}

// The character of a well-formed sequence of `length` bytes.
static uint32_t assay_tap_utf8_code(const unsigned char* text, int length) {
  uint32_t code = length == 1 ? text[0] : text[0] & (0xFFU >> (length + 1));
  for (int i = 1; i < length; ++i) code = code << 6 | (text[i] & 0x3FU);
  return code;
}

// Whether a terminal would not simply display it: a control character, a text direction character,
// or an invisible one.
static int assay_tap_is_unseen(uint32_t code) {
  static const uint32_t kUnseen[][2] = {{0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},
                                        {0x61C, 0x61C},   {0x180E, 0x180E}, {0x200B, 0x200F},
                                        {0x2028, 0x202E}, {0x2060, 0x206F}, {0xFEFF, 0xFEFF},
                                        {0xFFF9, 0xFFFB}, {0xFFFE, 0xFFFF}, {0xE0000, 0xE007F}};
  for (size_t i = 0; i < sizeof(kUnseen) / sizeof(kUnseen[0]); ++i) {
    if (code >= kUnseen[i][0] && code <= kUnseen[i][1]) return 1;
  }
  return 0;
}

static char* assay_tap_write_escape(char* to, uint32_t unit) {
  *to++ = '\\';
  *to++ = 'u';
  for (int shift = 12; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[unit >> shift & 15];
  return to;
}

// At most six bytes for each of `text`, and two quotes.
static char* assay_tap_write_string(char* to, const char* string) {
  const unsigned char* text = (const unsigned char*)(string == NULL ? "" : string);
  *to++ = '"';
  while (*text != 0) {
    const int length = assay_tap_utf8_length(text);
    const uint32_t code = length == 0 ? 0xFFFD : assay_tap_utf8_code(text, length);
    if (code > 0xFFFF && assay_tap_is_unseen(code)) {  // in two halves, as JSON has it
      to = assay_tap_write_escape(to, 0xD800 + ((code - 0x10000) >> 10));
      to = assay_tap_write_escape(to, 0xDC00 + (code & 0x3FF));
    } else if (length == 0 || assay_tap_is_unseen(code)) {
      to = assay_tap_write_escape(to, code);
    } else {
      if (*text == '"' || *text == '\\') *to++ = '\\';
      memcpy(to, text, (size_t)length);
      to += length;
    }
    text += length == 0 ? 1 : length;
  }
  *to++ = '"';
  return to;
}

static char* assay_tap_write_text(char* to, const char* text) {
  const size_t length = strlen(text);
  memcpy(to, text, length);
  return to + length;
}

static char* assay_tap_write_member(char* to, const char* key, const char* value) {
  return assay_tap_write_string(assay_tap_write_text(to, key), value);
}

// ---- Summary and sketch as JSON --------------------------------------------------------------

// Not inlined: the compiler may move arithmetic across the change of its mode, but no calls.

static char* assay_tap_print_sketch(char* to, const double* sketch) {
  return assay_tap_write_doubles(to, sketch, ASSAY_TAP_SKETCH);
}

static __attribute__((noinline)) char* assay_tap_write_sketch(char* to, const float* values,
                                                              size_t n) {
  double sketch[ASSAY_TAP_SKETCH];
  assay_tap_sketch(values, n, sketch);
  return assay_tap_print_sketch(to, sketch);
}

// s: of values[n]
static char* assay_tap_print_summary(char* to, const assay_tap_summary* s, const float* values,
                                     size_t n) {
  if (s->count > 0) {
    to = assay_tap_write_float(assay_tap_write_text(to, "{\"min\":"), s->least[0]);
    to = assay_tap_write_float(assay_tap_write_text(to, ",\"max\":"), values[s->top[0]]);
    to = assay_tap_write_double(assay_tap_write_text(to, ",\"mean\":"),
                                s->sums[0] / (double)((int64_t)n - s->nonfinite));
  } else {
    to = assay_tap_write_text(to, "{\"min\":\"NaN\",\"max\":\"NaN\",\"mean\":\"NaN\"");
  }
  to = assay_tap_write_double(assay_tap_write_text(to, ",\"l2\":"), sqrt(s->squares[0]));
  to = assay_tap_write_whole(assay_tap_write_text(to, ",\"argmax\":"),
                             s->count > 0 ? (int64_t)s->top[0] : -1);
  to = assay_tap_write_text(to, ",\"top\":[");
  for (int i = 0; i < s->count; ++i) {
    to = assay_tap_write_text(to, i == 0 ? "[" : ",[");
    to = assay_tap_write_whole(to, (int64_t)s->top[i]);
    *to++ = ',';
    to = assay_tap_write_float(to, values[s->top[i]]);
    *to++ = ']';
  }
  to = assay_tap_write_whole(assay_tap_write_text(to, "],\"nonfinite\":"), s->nonfinite);
  if (s->nonfinite > 0) {
    to = assay_tap_write_whole(assay_tap_write_text(to, ",\"nan\":"),
                               assay_tap_count_nan(values, n));
  }
  *to++ = '}';
  return to;
}

static __attribute__((noinline)) char* assay_tap_write_summary(char* to, const float* values,
                                                               size_t n) {
  assay_tap_summary s;
  assay_tap_summarize(values, n, &s);
  return assay_tap_print_summary(to, &s, values, n);
}

// ---- The log ---------------------------------------------------------------------------------

enum { ASSAY_TAP_UNREAD = 0, ASSAY_TAP_OFF = 1, ASSAY_TAP_OPENED = 2, ASSAY_TAP_FAILED = 3 };
enum { ASSAY_TAP_OLD = 0, ASSAY_TAP_EMPTYING = 1, ASSAY_TAP_EMPTIED = 2 };  // contents of the file
enum { ASSAY_TAP_KEPT = 4, ASSAY_TAP_MESSAGE = 512 };

// Shared with the children of fork().
typedef struct {
  int contents;
  int writers;        // processes that have begun to write and not closed
  uint64_t matched;   // a bit for each glob, the last one for all further: a checkpoint matched it
  int told_of_globs;  // that one matched none was reported
} assay_tap_shared;

typedef struct {
  int state;              // one of the above; read without the lock
  pthread_mutex_t mutex;  // guards what follows
  int fork_safe;
  int told_of_call;  // a rejected call was reported
  int fd;
  int regular;
  int begun;  // this process is one of the writers
  int times;  // records say when they were logged
  assay_tap_shared* shared;
  int64_t size;  // bytes of whole records, as far as this process wrote them
  int64_t head;  // values of a record, -1 for all
  char* path;
  char* team;   // NULL where records name none
  char* globs;  // each with its '\0', an empty one at the end
  char error[ASSAY_TAP_MESSAGE];
  char* kept[ASSAY_TAP_KEPT];  // buffers, to spare page faults
  size_t kept_sizes[ASSAY_TAP_KEPT];
  uint64_t typed;   // which globs are no part of a set, as in `matched`
  int exit_noted;   // assay_tap_at_exit() will be called
  int asked_state;  // 0: no checkpoint was asked for; 2: `asked` names the first
  char asked[64];
} assay_tap_log_state;

static assay_tap_log_state assay_tap = {ASSAY_TAP_UNREAD,
                                        PTHREAD_MUTEX_INITIALIZER,
                                        0,
                                        0,
                                        -1,
                                        0,
                                        0,
                                        0,
                                        NULL,
                                        0,
                                        0,
                                        NULL,
                                        NULL,
                                        NULL,
                                        {0},
                                        {NULL, NULL, NULL, NULL},
                                        {0, 0, 0, 0},
                                        0,
                                        0,
                                        0,
                                        {0}};

// A thread that forks while another logs must not leave the child a lock without an owner.
static void assay_tap_before_fork(void) {
  (void)pthread_mutex_lock(&assay_tap.mutex);
}
static void assay_tap_after_fork(void) {
  (void)pthread_mutex_unlock(&assay_tap.mutex);
}
static void assay_tap_after_fork_in_child(void) {
  assay_tap.begun = 0;
  assay_tap.asked_state = 0;
  assay_tap_after_fork();
}

static void assay_tap_set_state(int state) {
  __atomic_store_n(&assay_tap.state, state, __ATOMIC_RELEASE);
}

static void assay_tap_print_message(char* to, const char* what, int code, const char* hint) {
  (void)snprintf(to, ASSAY_TAP_MESSAGE, "%.200s: %.120s%s%.80s%s%.100s",
                 assay_tap.path == NULL ? "ORCH_LOG_FILE" : assay_tap.path, what,
                 code == 0 ? "" : ": ", code == 0 ? "" : strerror(code), hint[0] == 0 ? "" : "; ",
                 hint);
}

// The signals that end a process which writes to a closed pipe, or to a file beyond its limit
// (ulimit -f). They are blocked while a record or a message is written.
typedef struct {
  sigset_t ours;
  sigset_t mask;     // of the thread before
  sigset_t pending;  // what was sent before
} assay_tap_signals;

static void assay_tap_hold_signals(assay_tap_signals* signals) {
  (void)sigemptyset(&signals->ours);
  (void)sigaddset(&signals->ours, SIGPIPE);
  (void)sigaddset(&signals->ours, SIGXFSZ);
  (void)sigemptyset(&signals->pending);
  (void)pthread_sigmask(SIG_BLOCK, &signals->ours, &signals->mask);
  // Only what is blocked can be pending.
  if (sigismember(&signals->mask, SIGPIPE) == 1 || sigismember(&signals->mask, SIGXFSZ) == 1) {
    (void)sigpending(&signals->pending);
  }
}

// Consumes the signals that a write, if it may have `failed`, sent to this thread; earlier ones
// stay pending.
static void assay_tap_release_signals(const assay_tap_signals* signals, int failed) {
  static const int kOurs[] = {SIGPIPE, SIGXFSZ};
  for (int i = 0; failed && i < 2; ++i) {
    sigset_t one;
    if (sigismember(&signals->pending, kOurs[i]) == 1) continue;
    (void)sigemptyset(&one);
    (void)sigaddset(&one, kOurs[i]);
#if defined(__APPLE__) || defined(__OpenBSD__)  // without sigtimedwait()
    sigset_t now;
    int taken;
    if (sigpending(&now) == 0 && sigismember(&now, kOurs[i]) == 1) (void)sigwait(&one, &taken);
#else
    const struct timespec at_once = {0, 0};
    while (sigtimedwait(&one, NULL, &at_once) < 0 && errno == EINTR) continue;
#endif
  }
  (void)pthread_sigmask(SIG_SETMASK, &signals->mask, NULL);
}

// ASSAY_TAP_ON_ERROR, which may write to a closed pipe.
static void assay_tap_tell(const char* message) {
  assay_tap_signals signals;
  assay_tap_hold_signals(&signals);
  ASSAY_TAP_ON_ERROR(message);
  assay_tap_release_signals(&signals, 1);
}

// Reports once what is wrong, its errno (0: none), and what to do ("": nothing), and ends the log.
// The caller holds the lock.
static int assay_tap_fail(const char* what, int code, const char* hint) {
  assay_tap_print_message(assay_tap.error, what, code, hint);
  assay_tap_set_state(ASSAY_TAP_FAILED);
  assay_tap_tell(assay_tap.error);
  return -1;
}

static char* assay_tap_copy(const char* text) {
  char* copy = (char*)malloc(strlen(text) + 1);
  return copy == NULL ? NULL : (char*)memcpy(copy, text, strlen(text) + 1);
}

// A count, or -1 for `all`; -2 if it is neither.
static int64_t assay_tap_parse_values(const char* text) {
  if (text == NULL || *text == 0) return 10;
  if (strcmp(text, "all") == 0) return -1;
  int64_t count = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    if (count > 100000000000000000) return -2;
    count = 10 * count + (*text - '0');
  }
  return *text == 0 ? count : -2;
}

// The bit of the glob at `place` in assay_tap_shared.matched.
static uint64_t assay_tap_glob_bit(int place) {
  return (uint64_t)1 << (place < 63 ? place : 63);
}

// The globs in sequence, with sets replaced by their globs; NULL if an item is empty. `typed`: the
// bits of those that do not come from a set.
static char* assay_tap_parse_checkpoints(const char* text, uint64_t* typed) {
  int count = 0;
  *typed = 0;
  if (text == NULL || *text == 0) text = "logits";
  const char layers[] = "embedding\0layer_*_output\0logits";
  char* globs = (char*)malloc(32 * strlen(text) + 64);
  char* to = globs;
  while (globs != NULL) {
    const char* end = text + strcspn(text, ",");
    const char* last = end;
    while (text < last && *text == ' ') ++text;
    while (text < last && last[-1] == ' ') --last;
    const size_t length = (size_t)(last - text);
    if (length == 0) {
      free(globs);
      return NULL;
    }
    if (length == 6 && memcmp(text, "layers", 6) == 0) {
      memcpy(to, layers, sizeof(layers));
      to += sizeof(layers);
      count += 3;
    } else if (length == 3 && memcmp(text, "ops", 3) == 0) {
      memcpy(to, "*", 2);
      to += 2;
      ++count;
    } else {
      const int is_set = length == 6 && memcmp(text, "logits", 6) == 0;
      if (!is_set) *typed |= assay_tap_glob_bit(count);
      ++count;
      memcpy(to, text, length);
      to[length] = 0;
      to += length + 1;
    }
    if (*end == 0) break;
    text = end + 1;
  }
  if (globs != NULL) *to = 0;
  return globs;
}

// A mistyped item logs nothing: reports once, for all processes made by fork(), which one matched
// none of the checkpoints that the engine asked for. The caller holds the lock.
static void assay_tap_check_globs(void) {
  char what[160];
  char hint[128];
  char message[ASSAY_TAP_MESSAGE];
  int place = 0;
  if (assay_tap.state != ASSAY_TAP_OPENED ||
      __atomic_load_n(&assay_tap.asked_state, __ATOMIC_ACQUIRE) != 2) {
    return;
  }
  const uint64_t matched = __atomic_load_n(&assay_tap.shared->matched, __ATOMIC_ACQUIRE);
  const uint64_t missed = matched == 0 ? ~(uint64_t)0 : assay_tap.typed & ~matched;
  const char* glob = assay_tap.globs;
  while (*glob != 0 && (missed & assay_tap_glob_bit(place)) == 0) {
    glob += strlen(glob) + 1;
    ++place;
  }
  if (*glob == 0) return;
  if (__atomic_exchange_n(&assay_tap.shared->told_of_globs, 1, __ATOMIC_ACQ_REL) != 0) return;
  (void)snprintf(what, sizeof(what), "'%.40s' of ASSAY_LOG_CHECKPOINTS matches no checkpoint%s",
                 glob, matched == 0 ? ": nothing was logged" : "");
  (void)snprintf(hint, sizeof(hint), "the engine has '%.40s'; give logits, layers, ops or globs",
                 assay_tap.asked);
  assay_tap_print_message(message, what, 0, hint);
  assay_tap_tell(message);
}

// Does not wait: ASSAY_TAP_ON_ERROR may have called exit() itself.
static void assay_tap_at_exit(void) {
  if (pthread_mutex_trylock(&assay_tap.mutex) != 0) return;
  assay_tap_check_globs();
  (void)pthread_mutex_unlock(&assay_tap.mutex);
}

// Locks the file against other engines, once for this process and those of fork(). The caller holds
// the lock of this process. Returns 1, or -1.
static int assay_tap_lock_file(void) {
  if (flock(assay_tap.fd, LOCK_EX | LOCK_NB) == 0) return 1;
  return errno == EWOULDBLOCK ? assay_tap_fail("another writer has this log open", 0,
                                               "give each running engine a log of its own")
                              : assay_tap_fail("cannot lock the log", errno, "");
}

// The caller holds the lock.
static int assay_tap_open_locked(const char* path, const char* team, const char* values,
                                 const char* checkpoints) {
  struct stat status;
  assay_tap.path = assay_tap_copy(path);
  assay_tap.team = team == NULL || *team == 0 ? NULL : assay_tap_copy(team);
  assay_tap.head = assay_tap_parse_values(values);
  if (assay_tap.head == -2) {
    return assay_tap_fail("ORCH_LOG_VALUES is not a count of values", 0,
                          "give a number of 0 or more, or all");
  }
  assay_tap.globs = assay_tap_parse_checkpoints(checkpoints, &assay_tap.typed);
  if (assay_tap.globs == NULL) {
    return assay_tap_fail("ASSAY_LOG_CHECKPOINTS has an empty item", 0,
                          "give logits, layers, ops, or globs such as 'layer_0_*,logits'");
  }
  const char* times = getenv("ASSAY_LOG_TS");
  assay_tap.times = times == NULL || *times == 0 || strcmp(times, "on") == 0;
  if (!assay_tap.times && strcmp(times, "off") != 0) {
    return assay_tap_fail("ASSAY_LOG_TS is neither on nor off", 0, "");
  }
  void* shared = mmap(NULL, sizeof(assay_tap_shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return assay_tap_fail("cannot open the log for writing", errno, "");
  assay_tap.shared = (assay_tap_shared*)shared;
  assay_tap.fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (assay_tap.fd < 0) return assay_tap_fail("cannot open the log for writing", errno, "");
#if defined(F_SETNOSIGPIPE)  // macOS sends SIGPIPE to the process, whose other threads do not hold
                             // it
  (void)fcntl(assay_tap.fd, F_SETNOSIGPIPE, 1);
#endif
  if (assay_tap_lock_file() != 1) return -1;
  if (fstat(assay_tap.fd, &status) != 0) {
    return assay_tap_fail("cannot open the log for writing", errno, "");
  }
  assay_tap.regular = S_ISREG(status.st_mode);
  if (!assay_tap.fork_safe) {
    assay_tap.fork_safe = pthread_atfork(assay_tap_before_fork, assay_tap_after_fork,
                                         assay_tap_after_fork_in_child) == 0;
  }
  // A log that is reopened gets no report: the engine may not ask for all of its checkpoints again.
  assay_tap.shared->told_of_globs = assay_tap.exit_noted;
  if (!assay_tap.exit_noted) assay_tap.exit_noted = atexit(assay_tap_at_exit) == 0;
  assay_tap.told_of_call = 0;
  assay_tap.asked_state = 0;
  assay_tap.size = 0;
  assay_tap_set_state(ASSAY_TAP_OPENED);
  return 1;
}

static int assay_tap_read_environment(void) {
  (void)pthread_mutex_lock(&assay_tap.mutex);
  if (assay_tap.state == ASSAY_TAP_UNREAD) {
    const char* path = getenv("ORCH_LOG_FILE");
    if (path == NULL || *path == 0) {
      assay_tap_set_state(ASSAY_TAP_OFF);
    } else {
      (void)assay_tap_open_locked(path, getenv("ORCH_LOG_TEAM"), getenv("ORCH_LOG_VALUES"),
                                  getenv("ASSAY_LOG_CHECKPOINTS"));
    }
  }
  const int state = assay_tap.state;
  (void)pthread_mutex_unlock(&assay_tap.mutex);
  return state;
}

static int assay_tap_state_now(void) {
  const int state = __atomic_load_n(&assay_tap.state, __ATOMIC_ACQUIRE);
  return state == ASSAY_TAP_UNREAD ? assay_tap_read_environment() : state;
}

ASSAY_TAP_API int assay_tap_on(void) {
  return assay_tap_state_now() == ASSAY_TAP_OPENED;
}

ASSAY_TAP_API const char* assay_tap_error(void) {
  const int state = __atomic_load_n(&assay_tap.state, __ATOMIC_ACQUIRE);
  return state == ASSAY_TAP_FAILED ? assay_tap.error : NULL;
}

ASSAY_TAP_API int assay_tap_open(const char* path, const char* team, const char* values,
                                 const char* checkpoints) {
  (void)pthread_mutex_lock(&assay_tap.mutex);
  const int result = assay_tap.state == ASSAY_TAP_UNREAD
                         ? assay_tap_open_locked(path, team, values, checkpoints)
                         : -1;
  (void)pthread_mutex_unlock(&assay_tap.mutex);
  return result;
}

ASSAY_TAP_API void assay_tap_close(void) {
  (void)pthread_mutex_lock(&assay_tap.mutex);
  assay_tap_check_globs();
  // Processes made by fork() share the file's lock: it is released when none of them writes, since
  // those that live on hold the file, and taken again by one that begins to write.
  if (assay_tap.fd >= 0 &&
      __atomic_sub_fetch(&assay_tap.shared->writers, assay_tap.begun, __ATOMIC_ACQ_REL) == 0) {
    (void)flock(assay_tap.fd, LOCK_UN);
    // A process that began meanwhile found the file still locked.
    if (__atomic_load_n(&assay_tap.shared->writers, __ATOMIC_ACQUIRE) > 0) {
      (void)flock(assay_tap.fd, LOCK_EX | LOCK_NB);
    }
  }
  if (assay_tap.fd >= 0) (void)close(assay_tap.fd);
  assay_tap.fd = -1;
  assay_tap.begun = 0;
  if (assay_tap.shared != NULL) (void)munmap(assay_tap.shared, sizeof(assay_tap_shared));
  assay_tap.shared = NULL;
  free(assay_tap.path);
  free(assay_tap.team);
  free(assay_tap.globs);
  assay_tap.path = assay_tap.team = assay_tap.globs = NULL;
  for (int i = 0; i < ASSAY_TAP_KEPT; ++i) {
    free(assay_tap.kept[i]);
    assay_tap.kept[i] = NULL;
  }
  assay_tap_set_state(ASSAY_TAP_UNREAD);
  (void)pthread_mutex_unlock(&assay_tap.mutex);
}

// Keeps the first name that the engine asks for.
static void assay_tap_note_asked(const char* checkpoint) {
  int none = 0;
  if (__atomic_load_n(&assay_tap.asked_state, __ATOMIC_ACQUIRE) != 0) return;
  if (!__atomic_compare_exchange_n(&assay_tap.asked_state, &none, 1, 0, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    return;
  }
  (void)snprintf(assay_tap.asked, sizeof(assay_tap.asked), "%.60s", checkpoint);
  __atomic_store_n(&assay_tap.asked_state, 2, __ATOMIC_RELEASE);
}

ASSAY_TAP_API int assay_tap_wants(const char* checkpoint) {
  if (assay_tap_state_now() != ASSAY_TAP_OPENED) return 0;
  if (checkpoint == NULL || *checkpoint == 0) return 1;
  assay_tap_note_asked(checkpoint);
  const uint64_t before = __atomic_load_n(&assay_tap.shared->matched, __ATOMIC_RELAXED);
  uint64_t matched = before;
  int wanted = 0;
  int place = 0;
  for (const char* glob = assay_tap.globs; *glob != 0; glob += strlen(glob) + 1) {
    const uint64_t bit = assay_tap_glob_bit(place++);
    if (wanted && (matched & bit) != 0) continue;
    if (fnmatch(glob, checkpoint, 0) != 0) continue;
    wanted = 1;
    matched |= bit;
  }
  if (matched != before) {
    (void)__atomic_fetch_or(&assay_tap.shared->matched, matched, __ATOMIC_RELEASE);
  }
  return wanted;
}

// A buffer of at least `size` bytes, whose true size goes to `size`.
static char* assay_tap_take(size_t* size) {
  char* buffer = NULL;
  (void)pthread_mutex_lock(&assay_tap.mutex);
  for (int i = 0; i < ASSAY_TAP_KEPT && buffer == NULL; ++i) {
    if (assay_tap.kept[i] == NULL || assay_tap.kept_sizes[i] < *size) continue;
    buffer = assay_tap.kept[i];
    *size = assay_tap.kept_sizes[i];
    assay_tap.kept[i] = NULL;
  }
  (void)pthread_mutex_unlock(&assay_tap.mutex);
  return buffer != NULL ? buffer : (char*)malloc(*size);
}

// The caller holds the lock. Replaces a smaller one.
static void assay_tap_keep(char* buffer, size_t size) {
  int place = 0;
  for (int i = 0; i < ASSAY_TAP_KEPT; ++i) {
    if (assay_tap.kept[i] == NULL) assay_tap.kept_sizes[i] = 0;
    if (assay_tap.kept_sizes[i] < assay_tap.kept_sizes[place]) place = i;
  }
  if (assay_tap.kept_sizes[place] >= size) {
    free(buffer);
    return;
  }
  free(assay_tap.kept[place]);
  assay_tap.kept[place] = buffer;
  assay_tap.kept_sizes[place] = size;
}

// Removes the `torn` bytes of a record that did not fit, unless another process wrote after them.
// Returns whether the log ends with a whole record.
static int assay_tap_take_back(int64_t torn) {
  struct stat status;
  if (torn == 0) return 1;
  if (!assay_tap.regular || fstat(assay_tap.fd, &status) != 0) return 0;
  return status.st_size == assay_tap.size + torn && ftruncate(assay_tap.fd, assay_tap.size) == 0;
}

// The caller holds the lock, and the signals.
static int assay_tap_write_line(const char* line, size_t length) {
  size_t done = 0;
  while (done < length) {
    const ssize_t written = write(assay_tap.fd, line + done, length - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int code = written < 0 ? errno : ENOSPC;
      const int whole = assay_tap_take_back((int64_t)done);
      return assay_tap_fail("cannot write", code,
                            whole ? "the log ends with the last whole record"
                                  : "the log ends with the last whole record and a torn line");
    }
    done += (size_t)written;
  }
  if (assay_tap.regular) {
    // Another process, after fork(), may have written too.
    const off_t end = lseek(assay_tap.fd, 0, SEEK_CUR);
    assay_tap.size = end > 0 ? (int64_t)end : assay_tap.size + (int64_t)length;
  }
  return 1;
}

// The caller holds the lock.
static int assay_tap_write_all(const char* line, size_t length) {
  assay_tap_signals signals;
  assay_tap_hold_signals(&signals);
  const int result = assay_tap_write_line(line, length);
  assay_tap_release_signals(&signals, result != 1);
  return result;
}

// Before the first record of this process: empties the file, once for all processes that fork()
// made from the one that opened it, and only after flock() has shown that no other engine has it.
// The caller holds the lock. Returns 1, or -1.
static int assay_tap_begin(void) {
  struct stat status;
  int contents = ASSAY_TAP_OLD;
  // Counted first: assay_tap_close() of another process checks for writers last.
  assay_tap.begun = 1;
  (void)__atomic_add_fetch(&assay_tap.shared->writers, 1, __ATOMIC_ACQ_REL);
  if (assay_tap_lock_file() != 1) return -1;
  if (assay_tap.regular) {
    if (__atomic_compare_exchange_n(&assay_tap.shared->contents, &contents, ASSAY_TAP_EMPTYING, 0,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      const int result = ftruncate(assay_tap.fd, 0);
      const int code = errno;
      __atomic_store_n(&assay_tap.shared->contents, ASSAY_TAP_EMPTIED, __ATOMIC_RELEASE);
      if (result != 0) return assay_tap_fail("cannot empty the log", code, "");
    }
    // Not for ever: the process that empties it may have been killed.
    for (int i = 0; i < 1000; ++i) {
      const struct timespec millisecond = {0, 1000000};
      if (__atomic_load_n(&assay_tap.shared->contents, __ATOMIC_ACQUIRE) == ASSAY_TAP_EMPTIED)
        break;
      (void)nanosleep(&millisecond, NULL);
    }
    if (fstat(assay_tap.fd, &status) != 0) return assay_tap_fail("cannot write", errno, "");
    assay_tap.size = status.st_size;
  }
  return 1;
}

// Writes a line and keeps its buffer.
static int assay_tap_finish(char* buffer, size_t size, const char* end, int first) {
  int result = -1;
  (void)pthread_mutex_lock(&assay_tap.mutex);
  if (assay_tap.state == ASSAY_TAP_OPENED && (assay_tap.begun || assay_tap_begin() == 1) &&
      (!first || assay_tap.size == 0)) {
    result = assay_tap_write_all(buffer, (size_t)(end - buffer));
  }
  assay_tap_keep(buffer, size);
  (void)pthread_mutex_unlock(&assay_tap.mutex);
  return result;
}

static int assay_tap_fail_unlocked(const char* what, const char* hint) {
  (void)pthread_mutex_lock(&assay_tap.mutex);
  const int result = assay_tap.state == ASSAY_TAP_FAILED ? -1 : assay_tap_fail(what, 0, hint);
  (void)pthread_mutex_unlock(&assay_tap.mutex);
  return result;
}

// Reports the first call that cannot be logged, and what to give. Logging continues.
static int assay_tap_refuse(const char* name, const char* hint) {
  char what[120];
  char message[ASSAY_TAP_MESSAGE];
  (void)pthread_mutex_lock(&assay_tap.mutex);
  if (assay_tap.state == ASSAY_TAP_OPENED && !assay_tap.told_of_call) {
    assay_tap.told_of_call = 1;
    (void)snprintf(what, sizeof(what), "'%.80s' cannot be logged", name == NULL ? "" : name);
    assay_tap_print_message(message, what, 0, hint);
    assay_tap_tell(message);
  }
  (void)pthread_mutex_unlock(&assay_tap.mutex);
  return -1;
}

// The elements of a shape; -1 if it has no count.
static int64_t assay_tap_elements(const int64_t* shape, int rank) {
  int64_t count = 1;
  if (rank < 0 || rank > ASSAY_TAP_RANK || (rank > 0 && shape == NULL)) return -1;
  for (int i = 0; i < rank; ++i) {
    if (shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count)) return -1;
  }
  return count > ((int64_t)1 << 56) ? -1 : count;
}

// The reader takes no others: a log of which a line is wrong cannot be read at all.
static int assay_tap_is_rank(const assay_tap_rank* rank) {
  const int64_t all[] = {rank->tp, rank->pp, rank->ep, rank->sp};
  for (int i = 0; i < 4; ++i) {
    if (all[i] < 0 || all[i] > 32767) return 0;
  }
  return 1;
}

static int assay_tap_are_coordinates(const assay_tap_coordinates* at) {
  return at->phase >= 0 && at->phase <= ASSAY_TAP_DECODE &&
         (at->sequence == NULL || *at->sequence != 0) &&
         (at->rank == NULL || assay_tap_is_rank(at->rank));
}

// Behind "[tp,ep]" at the beginning of `text`; NULL if that is something else. `used` has a bit for
// each kind of ranks that was met, none of which may come again.
static const char* assay_tap_skip_ranks(const char* text, unsigned* used) {
  static const char* const kNames[] = {"tp", "pp", "ep", "sp"};
  do {
    int i = 0;
    while (i < 4 && strncmp(text + 1, kNames[i], 2) != 0) ++i;
    if (i == 4 || (*used >> i & 1U) != 0) return NULL;
    *used |= 1U << i;
    text += 3;
  } while (*text == ',');
  return *text == ']' ? text + 1 : NULL;
}

// Whether `dims` names the axes of the shape, leading ones of 1 aside.
static int assay_tap_are_dims(const char* dims, const int64_t* shape, int rank) {
  unsigned used = 0;
  int axes = 0;
  for (const char* at = dims; *at != 0;) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    const size_t name = strcspn(at, " +[]");
    const int is_sum = *at == '+' && at[1] == '[';
    if (name == 0 && !is_sum) return 0;
    axes += !is_sum;
    at += is_sum ? 1 : name;
    if (*at == '[' && (at = assay_tap_skip_ranks(at, &used)) == NULL) return 0;
    if (*at != 0 && *at != ' ') return 0;
  }
  for (int i = 0; i < rank - axes; ++i) {
    if (shape[i] != 1) return 0;
  }
  return axes <= rank;
}

static int assay_tap_is_first_sequence(const char* name) {
  return name == NULL || strcmp(name, "0") == 0;
}

// All but dims.
static char* assay_tap_write_coordinates(char* to, const assay_tap_coordinates* at) {
  if (!assay_tap_is_first_sequence(at->sequence)) {
    to = assay_tap_write_member(to, ",\"sequence\":", at->sequence);
  }
  if (at->step >= 0) to = assay_tap_write_whole(assay_tap_write_text(to, ",\"step\":"), at->step);
  if (at->phase != 0) {
    to = assay_tap_write_member(
        to, ",\"phase\":", at->phase == ASSAY_TAP_PREFILL ? "prefill" : "decode");
  }
  if (at->rank == NULL) return to;
  to = assay_tap_write_whole(assay_tap_write_text(to, ",\"rank\":{\"tp\":"), at->rank->tp);
  to = assay_tap_write_whole(assay_tap_write_text(to, ",\"pp\":"), at->rank->pp);
  to = assay_tap_write_whole(assay_tap_write_text(to, ",\"ep\":"), at->rank->ep);
  if (at->rank->sp != 0) {
    to = assay_tap_write_whole(assay_tap_write_text(to, ",\"sp\":"), at->rank->sp);
  }
  return assay_tap_write_text(to, "}");
}

static size_t assay_tap_length(const char* text) {
  return text == NULL ? 0 : strlen(text);
}

static int assay_tap_log_values(const assay_tap_coordinates* at, const char* checkpoint,
                                int64_t token_idx, const char* dtype, const float* values, size_t n,
                                const int64_t* shape, int rank) {
  const size_t head =
      assay_tap.head < 0 || (uint64_t)assay_tap.head > n ? n : (size_t)assay_tap.head;
  const size_t names = strlen(checkpoint) + assay_tap_length(assay_tap.team) +
                       assay_tap_length(at->sequence) + assay_tap_length(at->dims);
  size_t size = 17 * head + 6 * names + 28 * ASSAY_TAP_SKETCH + 1024;
  char* buffer = assay_tap_take(&size);
  if (buffer == NULL) return assay_tap_fail_unlocked("out of memory", "log fewer values");
  (void)pthread_once(&assay_tap_powers_once, assay_tap_make_powers);
  char* to = assay_tap_write_member(buffer, "{\"checkpoint\":", checkpoint);
  to = assay_tap_write_whole(assay_tap_write_text(to, ",\"token_idx\":"), token_idx);
  to = assay_tap_write_coordinates(to, at);
  if (assay_tap.times) to = assay_tap_write_time(assay_tap_write_text(to, ",\"ts\":"));
  if (assay_tap.team != NULL) to = assay_tap_write_member(to, ",\"team\":", assay_tap.team);
  to = assay_tap_write_member(to, ",\"dtype\":", dtype);
  to = assay_tap_write_text(to, ",\"shape\":[");
  for (int i = 0; i < rank; ++i) {
    if (i > 0) *to++ = ',';
    to = assay_tap_write_whole(to, shape[i]);
  }
  *to++ = ']';
  if (at->dims != NULL) to = assay_tap_write_member(to, ",\"dims\":", at->dims);
  if (head < n) to = assay_tap_write_whole(assay_tap_write_text(to, ",\"n\":"), (int64_t)n);
  to = assay_tap_write_floats(assay_tap_write_text(to, ",\"values\":"), values, head);
  const uint32_t mode = assay_tap_set_float_mode(ASSAY_TAP_FLOAT_MODE);
  to = assay_tap_write_summary(assay_tap_write_text(to, ",\"summary\":"), values, n);
  to = assay_tap_write_sketch(assay_tap_write_text(to, ",\"sketch\":"), values, n);
  (void)assay_tap_set_float_mode(mode);
  to = assay_tap_write_text(to, "}\n");
  return assay_tap_finish(buffer, size, to, 0);
}

ASSAY_TAP_API int assay_tap_log(const char* checkpoint, int64_t token_idx, const float* values,
                                size_t n) {
  const int64_t shape[2] = {1, (int64_t)n};
  return assay_tap_log_tensor(checkpoint, token_idx, ASSAY_TAP_F32, values, shape, 2);
}

// 16 bits as a float: IEEE binary16 or the upper half of a float.
static float assay_tap_widen(uint16_t half, int type) {
  uint32_t bits = (uint32_t)half << 16;
  if (type == ASSAY_TAP_F16) {
    const uint32_t sign = (uint32_t)(half & 0x8000U) << 16;
    const uint32_t exponent = (half >> 10) & 31U;
    const uint32_t fraction = half & 0x3FFU;
    if (exponent == 0) {
      const float magnitude = (float)fraction * 5.9604644775390625e-8F;  // 2^-24
      memcpy(&bits, &magnitude, sizeof(bits));
    } else {
      bits = ((exponent == 31 ? 255 : exponent + 112) << 23) | (fraction << 13);
    }
    bits |= sign;
  }
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

ASSAY_TAP_API int assay_tap_log_tensor(const char* checkpoint, int64_t token_idx, int type,
                                       const void* values, const int64_t* shape, int rank) {
  return assay_tap_log_at(NULL, checkpoint, token_idx, type, values, shape, rank);
}

ASSAY_TAP_API int assay_tap_log_at(const assay_tap_coordinates* at, const char* checkpoint,
                                   int64_t token_idx, int type, const void* values,
                                   const int64_t* shape, int rank) {
  static const assay_tap_coordinates kNotSaid = ASSAY_TAP_COORDINATES;
  const int state = assay_tap_state_now();
  if (state == ASSAY_TAP_FAILED) return -1;
  if (state != ASSAY_TAP_OPENED || !assay_tap_wants(checkpoint)) return 0;
  if (at == NULL) at = &kNotSaid;
  if (!assay_tap_are_coordinates(at)) {
    return assay_tap_refuse(
        checkpoint, "give a sequence that is not empty, a known phase, and ranks from 0 to 32767");
  }
  const int64_t n = assay_tap_elements(shape, rank);
  if (checkpoint == NULL || *checkpoint == 0 || n < 0 || token_idx < 0 || type < ASSAY_TAP_F32 ||
      type > ASSAY_TAP_BF16 || (n > 0 && values == NULL)) {
    return assay_tap_refuse(checkpoint,
                            "give a name, a token_idx of 0 or more, values, a shape of at most 8 "
                            "dimensions, a known type");
  }
  if (at->dims != NULL && !assay_tap_are_dims(at->dims, shape, rank)) {
    return assay_tap_refuse(checkpoint,
                            "give dims that name the axes of its shape, as in \"t h[tp]\"");
  }
  if (type == ASSAY_TAP_F32) {
    return assay_tap_log_values(at, checkpoint, token_idx, "f32", (const float*)values, (size_t)n,
                                shape, rank);
  }
  float* wide = (float*)malloc((size_t)n * sizeof(float) + 1);
  if (wide == NULL) return assay_tap_fail_unlocked("out of memory", "log smaller tensors");
  for (int64_t i = 0; i < n; ++i) wide[i] = assay_tap_widen(((const uint16_t*)values)[i], type);
  const int result =
      assay_tap_log_values(at, checkpoint, token_idx, type == ASSAY_TAP_F16 ? "f16" : "bf16", wide,
                           (size_t)n, shape, rank);
  free(wide);
  return result;
}

static char* assay_tap_write_tokens(char* to, const int32_t* tokens, size_t n) {
  *to++ = '[';
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) *to++ = ',';
    to = assay_tap_write_whole(to, tokens[i]);
  }
  *to++ = ']';
  return to;
}

// "tokens" as lists of lists, and "sequences".
static char* assay_tap_write_sequences(char* to, const assay_tap_sequence* sequences, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    *to++ = i == 0 ? '[' : ',';
    to = assay_tap_write_tokens(to, sequences[i].tokens, sequences[i].n_tokens);
  }
  to = assay_tap_write_text(to, "],\"sequences\":[");
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) *to++ = ',';
    to = assay_tap_write_string(
        to, assay_tap_is_first_sequence(sequences[i].name) ? "0" : sequences[i].name);
  }
  *to++ = ']';
  return to;
}

ASSAY_TAP_API int assay_tap_log_header(const assay_tap_header* header) {
  return assay_tap_log_batch_header(header, NULL, 0);
}

ASSAY_TAP_API int assay_tap_log_batch_header(const assay_tap_header* header,
                                             const assay_tap_sequence* sequences, size_t n) {
  const int state = assay_tap_state_now();
  if (state != ASSAY_TAP_OPENED) return state == ASSAY_TAP_FAILED ? -1 : 0;
  if (header == NULL || (n > 0 && sequences == NULL) ||
      (n == 0 && header->n_tokens > 0 && header->tokens == NULL)) {
    return assay_tap_refuse("header", "give one with the tokens that n_tokens counts");
  }
  const char* strings[] = {header->model_name, header->model_sha256, header->model_arch,
                           header->model_type, header->prompt,       header->engine,
                           header->backend,    header->math,         header->checkpoints};
  size_t size = (n == 0 ? 12 * header->n_tokens : 0) + 512;
  for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); ++i) {
    size += 6 * assay_tap_length(strings[i]);
  }
  for (size_t i = 0; i < n; ++i) {
    if (sequences[i].n_tokens > 0 && sequences[i].tokens == NULL) {
      return assay_tap_refuse("header", "give each sequence the tokens that n_tokens counts");
    }
    if (sequences[i].name != NULL && *sequences[i].name == 0) {
      return assay_tap_refuse("header", "give each sequence a name that is not empty, or NULL");
    }
    size += 12 * sequences[i].n_tokens + 6 * assay_tap_length(sequences[i].name) + 16;
  }
  char* buffer = assay_tap_take(&size);
  if (buffer == NULL) return assay_tap_fail_unlocked("out of memory", "give a shorter prompt");
  char* to = assay_tap_write_member(buffer, "{\"assay\":1,\"model\":{\"name\":", strings[0]);
  to = assay_tap_write_member(to, ",\"sha256\":", strings[1]);
  to = assay_tap_write_member(to, ",\"arch\":", strings[2]);
  to = assay_tap_write_member(to, ",\"type\":", strings[3]);
  to = assay_tap_write_text(to, "},\"tokens\":");
  to = n == 0 ? assay_tap_write_tokens(to, header->tokens, header->n_tokens)
              : assay_tap_write_sequences(to, sequences, n);
  if (header->prompt != NULL) to = assay_tap_write_member(to, ",\"prompt\":", header->prompt);
  to = assay_tap_write_member(to, ",\"engine\":", header->engine);
  to = assay_tap_write_member(to, ",\"backend\":", header->backend);
  to = assay_tap_write_member(to, ",\"math\":", header->math);
  if (header->checkpoints != NULL) {
    to = assay_tap_write_member(to, ",\"checkpoints\":", header->checkpoints);
  }
  to = assay_tap_write_text(to, "}\n");
  return assay_tap_finish(buffer, size, to, 1);
}

#endif  // ASSAY_TAP_WITHOUT_LOG

#ifdef __cplusplus
}
#endif

#endif  // ASSAY_TAP_IMPLEMENTATION
#endif  // ASSAY_TAP_H
