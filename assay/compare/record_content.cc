#include "assay/compare/record_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/sha256.h"

namespace assay {
namespace {

bool same(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

template <typename T>
void normalise(T& number) {
  if (std::isnan(number)) number = std::numeric_limits<T>::quiet_NaN();
  if (number == 0) number = 0;  // of either sign
}

std::vector<int64_t> shape_of(const Record& record) {
  std::vector<int64_t> shape = record.shape;
  std::erase(shape, 1);
  shape.push_back(record.n);
  return shape;
}

std::vector<double> numbers_of(const std::vector<TopValue>& top) {
  std::vector<double> numbers;
  for (const TopValue& entry : top) {
    numbers.push_back(static_cast<double>(entry.index));
    numbers.push_back(static_cast<double>(entry.value));
  }
  for (double& number : numbers) normalise(number);
  return numbers;
}

std::vector<double> numbers_of(const std::optional<Summary>& summary) {
  if (!summary) return {};
  std::vector<double> numbers = {summary->min,
                                 summary->max,
                                 summary->mean,
                                 summary->l2,
                                 static_cast<double>(summary->argmax),
                                 static_cast<double>(summary->nonfinite),
                                 static_cast<double>(summary->nan.value_or(-1))};
  const std::vector<double> top = numbers_of(summary->top);
  numbers.insert(numbers.end(), top.begin(), top.end());
  for (double& number : numbers) normalise(number);
  return numbers;
}

template <typename T>
void update(std::span<const T> items, Sha256& digest) {
  const size_t count = items.size();
  digest.update(std::as_bytes(std::span(&count, 1)));
  digest.update(std::as_bytes(items));
}

}  // namespace

std::string content_digest(const Record& record) {
  Sha256 digest;
  update<int64_t>(shape_of(record), digest);
  std::vector<float> values = record.values;
  for (float& value : values) normalise(value);
  update<float>(values, digest);
  update<double>(numbers_of(record.top), digest);
  update<double>(numbers_of(record.summary), digest);
  std::vector<double> sketch;
  if (record.sketch) sketch.assign(record.sketch->begin(), record.sketch->end());
  for (double& number : sketch) normalise(number);
  update<double>(sketch, digest);
  return digest.hex();
}

std::string content_difference(const Record& before, const Record& now) {
  const size_t common = std::min(before.values.size(), now.values.size());
  for (size_t i = 0; i < common; ++i) {
    if (same(before.values[i], now.values[i])) continue;
    return fmt::format("value {} was {} and is {}", i, before.values[i], now.values[i]);
  }
  if (before.n != now.n || before.values.size() != now.values.size()) {
    return fmt::format("it had {} values of {} and has {} of {}", before.values.size(), before.n,
                       now.values.size(), now.n);
  }
  if (shape_of(before) != shape_of(now)) return "its shape is another";
  const auto same_top = [](const TopValue& a, const TopValue& b) {
    return a.index == b.index && same(a.value, b.value);
  };
  if (!std::ranges::equal(before.top, now.top, same_top)) return "its 'top' is another";
  return fmt::format("its {} is another", before.sketch == now.sketch ? "summary" : "sketch");
}

}  // namespace assay
