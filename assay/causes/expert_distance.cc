#include "assay/causes/expert_distance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace assay::causes {
namespace {

using mistakes::Matrix;
using mistakes::Network;
using mistakes::Op;

// The ids that the op gives for the router's logits, where those of `ids` are `more` larger and the
// others as much smaller; sorted.
std::vector<float> chosen(const Network& network, Op op, std::span<const float> router,
                          std::span<const float> ids, double more) {
  Matrix logits(1, std::ssize(router));
  for (size_t i = 0; i < router.size(); ++i) {
    const bool is_chosen = std::ranges::find(ids, static_cast<float>(i)) != ids.end();
    logits.values[i] = static_cast<float>(router[i] + (is_chosen ? more : -more));
  }
  std::vector<float> found = network.compute(op, {.rows = {&logits}}).values;
  std::ranges::sort(found);
  return found;
}

std::vector<float> sorted(std::span<const float> ids) {
  std::vector<float> result(ids.begin(), ids.end());
  std::ranges::sort(result);
  return result;
}

double norm(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

}  // namespace

double expert_distance(const Network& network, Op op, std::span<const float> router,
                       std::span<const float> ids) {
  constexpr double kLeast = 0x1p-24;
  const std::vector<float> wanted = sorted(ids);
  if (chosen(network, op, router, ids, 0) == wanted) return 0;
  const double length = norm(router);
  for (double share = kLeast; share <= 1; share *= 2) {
    if (chosen(network, op, router, ids, share * length) == wanted) return share;
  }
  return std::numeric_limits<double>::infinity();
}

bool are_experts_level(const Network& network, Op op, std::span<const float> router,
                       std::span<const float> ids, double error) {
  return chosen(network, op, router, ids, -error * norm(router)) != sorted(ids);
}

}  // namespace assay::causes
