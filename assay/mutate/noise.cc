#include "assay/mutate/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "assay/log/sketch.h"
#include "assay/mutate/mutant.h"

namespace assay {
namespace {

// Numbers in [-1, 1): SplitMix64, of which the sketch has the mixing.
class Noise {
 public:
  explicit Noise(uint64_t seed) : state_(sketch_signs(seed)) {}
  double next() { return static_cast<double>(sketch_signs(state_++) >> 11U) * 0x1p-52 - 1.0; }

 private:
  uint64_t state_;
};

double norm(std::span<const float> row) {
  double sum = 0.0;
  for (const float value : row) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

// Adds noise whose norm is `size` times the row's.
void add_noise(std::span<float> row, double size, Noise& noise) {
  std::vector<double> direction(row.size());
  double squares = 0.0;
  for (double& each : direction) {
    each = noise.next();
    squares += each * each;
  }
  const double scale = size * norm(row) / std::sqrt(squares);
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(row[i] + scale * direction[i]);
  }
}

// All values of all checkpoints, and their names in the order in which they come.
class Trace : public Probe {
 public:
  struct Entry {
    std::string name;
    int64_t width = 0;
    std::vector<float> values;
  };
  bool wants(Checkpoint, int) override { return true; }
  void observe(Checkpoint checkpoint, int layer, int64_t, int64_t n_tokens, int64_t width,
               const float* values) override {
    entries.push_back({checkpoint_name(checkpoint, layer), width,
                       std::vector<float>(values, values + n_tokens * width)});
  }
  std::vector<Entry> entries;
};

Trace trace(const GoldenCase& golden, const Fault* fault, Kernels& kernels) {
  Trace result;
  const auto n_positions = static_cast<int64_t>(golden.tokens.size() + golden.greedy.size());
  Mutant(golden.gguf, kernels, {.fault = fault, .n_positions = n_positions})
      .eval(golden.tokens, &result);
  return result;
}

// Relative L2 of the token where it is largest; of logits all parts count.
double difference_at(const Trace& want, const Trace& got, const std::string& name) {
  double largest = 0.0;
  for (size_t e = 0; e < want.entries.size(); ++e) {
    const Trace::Entry& a = want.entries[e];
    if (a.name != name) continue;
    const auto width = static_cast<size_t>(a.width);
    for (size_t begin = 0; begin < a.values.size(); begin += width) {
      std::vector<float> difference(width);
      for (size_t i = 0; i < width; ++i) {
        difference[i] = got.entries[e].values[begin + i] - a.values[begin + i];
      }
      const double reference = norm(std::span(a.values).subspan(begin, width));
      largest = std::max(largest, norm(difference) / reference);
    }
  }
  return largest;
}

// The golden's tolerance at each checkpoint that it holds.
std::map<std::string, double> tolerances(const GoldenCase& golden) {
  std::map<std::string, double> result;
  for (const GoldenRecord& record : golden.records) {
    result[record.record.checkpoint] = record.tolerance;
  }
  return result;
}

// The weights of experts follow from few of the router's scores, whose noise has the norm of all,
// and that of a shared expert from one score, whose noise is as large as where it is next to 0. The
// floors of attention and of the delta rule are those of the token whose result is smallest. Where
// such noise makes more of what follows than the floor there, it is less.
void quieten_scores(const std::string& checkpoint, double factor, NoiseSizes& sizes) {
  constexpr std::pair<std::string_view, const char*> kScores[] = {
      {"_expert_weights", "_router"},
      {"_shared_weight", "_shared_score"},
      {"_attn_residual", "_delta"},
      {"_attn_residual", "_attn"},
      {"_ffn_up", "_attn"}};
  for (const auto& [result, scores] : kScores) {
    if (!checkpoint.ends_with(result)) continue;
    const auto found = sizes.find(checkpoint.substr(0, checkpoint.size() - result.size()) + scores);
    if (found != sizes.end()) found->second *= factor;
  }
}

}  // namespace

Fault noise_fault(const NoiseSizes& sizes, uint64_t seed) {
  Fault fault{
      .name = "noise", .what = "noise", .unsupported_reason = [](const Model&) { return ""; }};
  fault.inject = [sizes, seed](const FaultSite&) {
    Injection injection;
    injection.hooks.after = [sizes, noise = Noise(seed)](const OpContext& context,
                                                         OpResult result) mutable {
      const auto size = sizes.find(checkpoint_name(context.site.checkpoint, context.site.layer));
      if (size == sizes.end() || size->second == 0.0) return;
      for (int64_t t = 0; t < result.n_rows; ++t) add_noise(result.row(t), size->second, noise);
    };
    return injection;
  };
  return fault;
}

NoiseSizes calibrate_noise(const GoldenCase& golden, Kernels& kernels) {
  const std::map<std::string, double> tolerance = tolerances(golden);
  const Trace sound = trace(golden, nullptr, kernels);
  NoiseSizes sizes;
  for (const Trace::Entry& entry : sound.entries) {
    const auto found = tolerance.find(entry.name);
    if (found == tolerance.end() || sizes.count(entry.name) > 0) continue;
    const double floor = found->second / golden.k;
    const Fault before = noise_fault(sizes, 1);
    const double inherited = difference_at(sound, trace(golden, &before, kernels), entry.name);
    sizes[entry.name] = std::sqrt(std::max(0.0, floor * floor - inherited * inherited));
    if (inherited > floor) quieten_scores(entry.name, floor / inherited, sizes);
  }
  return sizes;
}

NoiseRuns run_noise(const GoldenCase& golden, int64_t runs, Kernels& kernels) {
  const NoiseSizes sizes = calibrate_noise(golden, kernels);
  NoiseRuns result;
  for (; result.runs < runs; ++result.runs) {
    const Fault noise = noise_fault(sizes, static_cast<uint64_t>(1000 + result.runs));
    const LaneResult lane = run_golden_lane(golden, &noise, kernels).everything;
    result.false_alarms += lane.caught ? 1 : 0;
    if (lane.worst_ratio > result.worst_ratio) {
      result.worst_ratio = lane.worst_ratio;
      result.worst_case = golden.name() + (lane.caught ? " " + lane.place : "");
    }
  }
  return result;
}

std::vector<Sensitivity> measure_sensitivity(const GoldenCase& golden, Kernels& kernels) {
  std::vector<Sensitivity> result;
  for (const auto& [checkpoint, tolerance] : tolerances(golden)) {
    const auto caught = [&golden, &kernels, &name = checkpoint](double size) {
      const Fault noise = noise_fault({{name, size}}, 1);
      return run_golden_lane(golden, &noise, kernels).everything.caught;
    };
    double low = 1e-9;
    double high = 1.0;
    const bool ever = caught(high);
    // To within 5 %, on a logarithmic scale.
    while (ever && high > 1.05 * low) {
      const double middle = std::sqrt(low * high);
      (caught(middle) ? high : low) = middle;
    }
    result.push_back({.model = golden.model,
                      .checkpoint = checkpoint,
                      .smallest = ever ? high : std::numeric_limits<double>::infinity(),
                      .tolerance = tolerance});
  }
  return result;
}

}  // namespace assay
