#include "assay/compare/garbage.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "assay/compare/median.h"
#include "assay/log/sketch.h"

namespace assay {
namespace {

constexpr size_t kFirst = 4;      // values that two words cover
constexpr size_t kLast = 2;       // values that one word covers
constexpr size_t kMinOthers = 4;  // fewer other values give no scale
constexpr size_t kSampledValues = 256;
constexpr double kMinPaddedLogit = 1000;  // no logit is as far below 0
constexpr float kInfiniteFloat = std::numeric_limits<float>::infinity();

// The high half of a user-space address on a 64-bit machine, as a float.
bool is_high_half_of_address(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits >= 0x5000 && bits <= 0x5FFF) || (bits >= 0x7000 && bits <= 0x7FFF);
}

bool is_zero_or_denormal(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x7F800000U) == 0;
}

// What is usual in the middle of a tensor.
struct Scale {
  double median = 0;  // of |x| where x is not zero; 0 when it is not known
  double zeros = 1;   // share of exact zeros
  bool denormals = false;
};

Scale scale_of(std::span<const float> values) {
  if (values.size() < kFirst + kLast + kMinOthers) {
    if (values.size() < kFirst + kMinOthers) return {};
    values = values.subspan(kFirst);
  } else {
    values = values.subspan(kFirst, values.size() - kFirst - kLast);
  }
  const size_t stride = std::max<size_t>(1, values.size() / kSampledValues);
  std::vector<float> sample;
  sample.reserve(values.size() / stride + 1);
  size_t zeros = 0;
  bool denormals = false;
  for (size_t i = 0; i < values.size(); i += stride) {
    zeros += values[i] == 0 ? 1 : 0;
    denormals = denormals || (values[i] != 0 && is_zero_or_denormal(values[i]));
    if (std::isfinite(values[i]) && values[i] != 0) sample.push_back(std::abs(values[i]));
  }
  if (sample.size() < kMinOthers) return {};
  return {static_cast<double>(upper_median(sample)),
          static_cast<double>(zeros) / static_cast<double>(zeros + sample.size()), denormals};
}

// The norm that the record states of the whole tensor, exactly or by a sketch; 0 where it does not.
double stated_norm(const Record& record) {
  if (record.summary && std::isfinite(record.summary->l2)) return record.summary->l2;
  if (!record.sketch) return 0;
  const double norm = sketch_norm(*record.sketch);
  return std::isfinite(norm) ? norm : 0;
}

// The median of |x| of about kSampledValues values above `limit`; infinite where no value is above
// it.
double scale_above(std::span<const float> values, float limit) {
  std::vector<float> sample;
  const size_t stride = std::max<size_t>(1, values.size() / kSampledValues);
  for (const size_t step : {stride, size_t{1}}) {  // few values may all be beside the samples
    for (size_t i = 0; i < values.size(); i += step) {
      if (values[i] > limit) sample.push_back(std::abs(values[i]));
    }
    if (!sample.empty()) return static_cast<double>(upper_median(sample));
  }
  return std::numeric_limits<double>::infinity();
}

// The largest of the finite values with which logits are padded or masked; -Infinity if none are.
// Masks of several kinds are found one after the other.
float most_padding(std::span<const float> values) {
  float most = -kInfiniteFloat;
  for (;;) {
    float least = kInfiniteFloat;
    for (const float value : values) least = value > most && value < least ? value : least;
    // What is added to a logit to mask it leaves values that are about as large.
    const float candidate = least / 2;
    if (!(-static_cast<double>(least) >= kMinPaddedLogit) ||
        !(-static_cast<double>(least) >= kHeapScale * scale_above(values, candidate))) {
      return most;
    }
    most = candidate;
  }
}

class Finder {
 public:
  explicit Finder(const Record& record)
      : values_(record.values), is_logits_(record.checkpoint == "logits") {}

  std::vector<Garbage> find(const Record& record) {
    const Scale scale = scale_of(values_);
    double limit = scale.median * kMagnitudeScale;
    if (!(limit > 0)) limit = stated_norm(record) * kNormScale;
    const size_t begin = find_heap_metadata(scale);
    const size_t end = record.has_all_values() && is_logits_ ? find_padding(limit) : values_.size();
    // Without their sign, floats are ordered as their bits are.
    int32_t most = 0;
    for (size_t i = begin; i < end; ++i) {
      const auto magnitude =
          static_cast<int32_t>(std::bit_cast<uint32_t>(values_[i]) & 0x7FFFFFFFU);
      most = magnitude > most ? magnitude : most;
    }
    const auto largest = std::bit_cast<float>(most);
    const bool nonfinite = !std::isfinite(largest);
    if (nonfinite || (limit > 0 && static_cast<double>(largest) >= limit)) {
      find_outliers(begin, end, limit);
    }
    return std::move(found_);
  }

 private:
  void add(size_t index, GarbageReason reason) {
    found_.push_back({static_cast<int64_t>(index), values_[index], reason});
  }

  // Lists the padding, and returns the index at which that of -Infinity begins, which ends the
  // tensor.
  size_t find_padding(double limit) {
    size_t end = values_.size();
    while (end > 0 && values_[end - 1] == -kInfiniteFloat) --end;
    if (values_.size() - end < 2 || end == 0) end = values_.size();
    most_padding_ = most_padding(values_.first(end));
    const auto masked = std::count_if(values_.begin(), values_.end(), [&](float value) {
      return value <= most_padding_ && value > -kInfiniteFloat;
    });
    // A single value that is out of any scale may be one that no engine wrote.
    if (masked == 1 && limit > 0 && -static_cast<double>(most_padding_) >= limit)
      most_padding_ = -kInfiniteFloat;
    for (size_t i = 0; i < values_.size(); ++i) {
      if ((i >= end || is_padding(i)) && !is_listed(i)) add(i, GarbageReason::kPadding);
    }
    return end;
  }

  bool is_padding(size_t index) const {
    return values_[index] <= most_padding_ && values_[index] > -kInfiniteFloat;
  }

  bool is_heap_pair(size_t index, const Scale& scale) const {
    const float low = values_[index];
    const float high = values_[index + 1];
    if (is_high_half_of_address(high) && !scale.denormals) return true;
    return high == 0 && scale.median > 0 && scale.zeros < 0.1 && std::isfinite(low) &&
           static_cast<double>(std::abs(low)) >= kHeapScale * scale.median;
  }

  // How many of the first values are such words.
  size_t find_heap_metadata(const Scale& scale) {
    const size_t n = values_.size();
    if (n < kFirst + kMinOthers) return 0;
    const bool first = is_heap_pair(0, scale);
    const bool second = is_heap_pair(2, scale);
    if (!first && !second) return 0;
    const auto is_null = [&](size_t i) {
      return is_zero_or_denormal(values_[i]) && is_zero_or_denormal(values_[i + 1]);
    };
    size_t begin = 0;
    for (const size_t i : {size_t{0}, size_t{2}}) {
      if (!is_heap_pair(i, scale) && !is_null(i)) continue;
      add(i, GarbageReason::kHeapMetadata);
      add(i + 1, GarbageReason::kHeapMetadata);
      begin = begin == i ? i + 2 : begin;
    }
    if (is_null(n - 2)) {
      add(n - 2, GarbageReason::kHeapMetadata);
      add(n - 1, GarbageReason::kHeapMetadata);
    }
    return begin;
  }

  // Whether the value was listed as a word of an allocator.
  bool is_listed(size_t index) const {
    if (index >= kFirst && index + kLast < values_.size()) return false;
    return std::any_of(found_.begin(), found_.end(), [&](const Garbage& garbage) {
      return garbage.index == static_cast<int64_t>(index);
    });
  }

  void find_outliers(size_t begin, size_t end, double limit) {
    for (size_t i = begin; i < end; ++i) {
      if (is_listed(i) || is_padding(i)) continue;
      if (!std::isfinite(values_[i])) {
        add(i, GarbageReason::kNonfinite);
      } else if (limit > 0 && static_cast<double>(std::abs(values_[i])) >= limit) {
        add(i, GarbageReason::kMagnitude);
      }
    }
  }

  std::span<const float> values_;
  bool is_logits_;
  float most_padding_ = -kInfiniteFloat;
  std::vector<Garbage> found_;
};

}  // namespace

std::string_view garbage_reason_name(GarbageReason reason) {
  static constexpr std::string_view kNames[] = {"nonfinite", "magnitude", "heap_metadata",
                                                "padding"};
  return kNames[static_cast<size_t>(reason)];
}

std::vector<Garbage> find_garbage(const Record& record) {
  return Finder(record).find(record);
}

float most_mask(const Record& record) {
  return most_padding(record.values);
}

double usual_magnitude(const Record& record) {
  return scale_of(record.values).median;
}

}  // namespace assay
