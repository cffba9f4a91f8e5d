#pragma once

#include <cstdint>
#include <string_view>

namespace assay {

// The random numbers of one tensor, each computed from (seed, name of the tensor, index) alone: any
// part of a tensor can be drawn in any order by any number of threads. Only integer arithmetic and
// one float product and sum, so that every machine draws the same bits.
//
// Number i is output i of SplitMix64 (Steele, Lea and Flood, 2014) started at a state that mixes
// the seed with the FNV-1a hash of the name. Its four 16-bit parts are added: an Irwin-Hall
// distribution, bell-shaped, within 3.5 standard deviations.
class RandomWeights {
 public:
  RandomWeights(uint64_t seed, std::string_view tensor_name);

  // Number i itself.
  uint64_t bits(int64_t i) const;

  // Elements first to first + count of the tensor: out[count], of the given mean and standard
  // deviation.
  void draw(int64_t first, int64_t count, float mean, float deviation, float* out) const;

 private:
  uint64_t state_;
};

}  // namespace assay
