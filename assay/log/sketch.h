#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "assay/log/record.h"

namespace assay {

class ThreadPool;

// The 64 signs of element i: SplitMix64 of i + 1 (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014). Bit k set means plus in projection k.
uint64_t sketch_signs(uint64_t i);

// sketch[k] = sum over i of +-values[i], plus where bit k of sketch_signs(i) is set. Summed in
// double, four elements at a time (see tap/assay_tap.h), in an order that gives the same bits
// on every processor. Elements that are not finite are skipped; the summary counts them.
//
// The mean over k of (a_k - b_k)^2 has the expectation ||a - b||^2 and a relative standard
// deviation of at most sqrt(2 / 64): Alon, Matias and Szegedy, "The space complexity of
// approximating the frequency moments", STOC 1996.
Sketch compute_sketch(std::span<const float> values);
// The same, to the bit, by two threads of a pool.
Sketch compute_sketch(std::span<const float> values, ThreadPool& pool);

// The estimate of ||a - b|| from the sketches of a and b. NaN if either holds a NaN.
double sketch_distance(const Sketch& a, const Sketch& b);

// The estimate of ||a|| from the sketch of a.
double sketch_norm(const Sketch& a);

// A summary that states nothing.
Summary empty_summary();
// What a summary counts, and nothing else.
Summary counts_of(const Summary& summary);

// The summary of values that a record does not hold.
Summary summarize(std::span<const float> values);

// The kSummaryTop largest finite values, largest first, of equal ones the lowest index first.
std::vector<TopValue> largest_values(std::span<const float> values);

namespace sketch_internal {
// The sketch by each path that this processor has, the plain one first; all have the same bits.
std::vector<Sketch> compute_by_each_path(std::span<const float> values);
}  // namespace sketch_internal

}  // namespace assay
