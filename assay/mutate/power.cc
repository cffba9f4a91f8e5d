#include "assay/mutate/power.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/compare_lane.h"
#include "assay/mutate/mutant.h"
#include "assay/mutate/unit_lane.h"
#include "assay/mutate/vector_lane.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace assay {
namespace {

// Real weights come from elsewhere than from this repository.
constexpr const char* kRealModel = "smollm2";
constexpr const char* kShortPrompt = "haiku";

void add(LanePower& lane, const LaneResult& result, const std::string& expected,
         const std::string& name) {
  const bool already_caught = lane.caught > 0 && !result.caught;
  ++lane.tried;
  lane.caught += result.caught ? 1 : 0;
  lane.located += result.caught && result.place == expected ? 1 : 0;
  if (already_caught) return;
  const bool first_catch = result.caught && lane.caught == 1;
  const bool weaker = result.caught ? result.worst_ratio < lane.weakest.worst_ratio
                                    : result.worst_ratio > lane.weakest.worst_ratio;
  if (lane.tried > 1 && !first_catch && !weaker) return;
  lane.weakest = result;
  lane.weakest_case = name;
}

bool has_every_op(const GoldenCase& golden) {
  return std::ranges::any_of(golden.records, &GoldenRecord::op_level);
}

class PowerMeasurement {
 public:
  explicit PowerMeasurement(const PowerOptions& options)
      : options_(options),
        pool_(options.n_threads),
        kernels_(make_cpu_kernels(pool_)),
        fast_kernels_(make_cpu_kernels(pool_, best_instruction_set(), Math::kFast)),
        compare_lane_(*kernels_) {
    choose_faults();
    read_cases();
  }

  Power run() {
    const auto start = std::chrono::steady_clock::now();
    if (options_.sound_engine) try_sound_engine();
    try_faults();
    if (options_.omissions) power_.omissions = run_omission_lane(plain_cases(), *kernels_);
    if (options_.sensitivity) find_sensitivity();
    run_noise_only();
    const auto spent = std::chrono::steady_clock::now() - start;
    power_.seconds = std::chrono::duration<double>(spent).count();
    return std::move(power_);
  }

 private:
  void choose_faults() {
    for (const Fault& fault : fault_catalogue()) {
      if (fnmatch(options_.faults.c_str(), fault.name.c_str(), 0) != 0) continue;
      power_.faults.push_back({.fault = &fault});
    }
    if (power_.faults.empty()) {
      throw Error(fmt::format("'{}' matches no fault", options_.faults), "--faults",
                  "assay mutate --list has all");
    }
  }

  void read_cases() {
    std::vector<MissingModel> missing;
    for (GoldenCase& golden : read_golden_cases(options_.golden_folder, {}, missing)) {
      if (is_left_out(golden)) continue;
      (golden.model == kRealModel ? real_ : small_).push_back(std::move(golden));
    }
    if (options_.fast) {
      std::vector<MissingModel> told;
      for (GoldenCase& golden : read_golden_cases(options_.golden_folder, {}, told, Math::kFast)) {
        if (!is_left_out(golden)) fast_.push_back(std::move(golden));
      }
    }
    if (small_.empty()) {
      throw Error("it holds no goldens of small models", options_.golden_folder,
                  "give the folder of the goldens with --golden");
    }
    for (const MissingModel& each : missing) {
      (each.model == kRealModel ? power_.missing : power_.lost).push_back(each.what);
    }
    check_prompts();
  }

  // Of real weights the short prompt is enough.
  bool is_left_out(const GoldenCase& golden) const {
    return golden.model == kRealModel && (!options_.real || golden.prompt != kShortPrompt);
  }

  Kernels& kernels_of(const GoldenCase& golden) {
    return golden.math == Math::kFast ? *fast_kernels_ : *kernels_;
  }

  // A prompt of no golden would read as faults that nothing catches.
  void check_prompts() const {
    std::set<std::string> known;
    for (const GoldenCase& golden : small_) known.insert(golden.prompt);
    for (const std::string& prompt : options_.prompts) {
      if (known.contains(prompt)) continue;
      throw Error(fmt::format("'{}' is a prompt of no small model", prompt), "--prompts",
                  fmt::format("they have {}", fmt::join(known, ", ")));
    }
  }

  // The unit lane's tolerance is for scores of ordinary size: where the sound engine does not keep
  // it, the lane has nothing to say.
  void try_sound_engine() {
    const size_t total = small_.size() + real_.size() + fast_.size();
    size_t done = 0;
    for (const auto* cases : {&small_, &real_, &fast_}) {
      for (const GoldenCase& golden : *cases) {
        tell("sound engine on golden", ++done, total);
        const GoldenLane lane = run_golden_lane(golden, nullptr, kernels_of(golden));
        if (lane.everything.caught) {
          power_.sound_alarms.push_back(golden.name() + " at " + lane.everything.place);
        }
        if (lane.snapshot.caught) {
          power_.sound_alarms.push_back(golden.name() + "'s snapshot at " + lane.snapshot.place);
        }
        if (golden.math == Math::kFast) continue;
        if (golden.model == kRealModel || golden.prompt != kShortPrompt) continue;
        if (!run_unit_lane(golden, nullptr, *kernels_).caught) {
          has_unit_lane_.insert(golden.name());
        } else {
          power_.missing.push_back(golden.name() +
                                   ": the unit lane, whose tolerance the sound "
                                   "engine exceeds there");
        }
      }
    }
  }

  // Whether the values that the network computes are wrong, which is not so of faults in tokens
  // before and after it.
  static bool is_in_network(const Fault& fault) {
    return !fault.edit_vocabulary && fault.group != FaultGroup::kSampling;
  }

  // Faults in the reading of a type are tried on the files that have it; all others on F32, or on
  // Q4_K_M in fast math, and on one file of real weights.
  bool is_for(const Fault& fault, const GoldenCase& golden) const {
    // Tokenizing is quick, and its mistakes show in few texts: all prompts.
    const auto& prompts = options_.prompts;
    if (golden.model != kRealModel && !prompts.empty() && !fault.edit_vocabulary &&
        std::find(prompts.begin(), prompts.end(), golden.prompt) == prompts.end()) {
      return false;
    }
    const char* small_type = golden.math == Math::kFast ? "Q4_K_M" : "F32";
    if (!fault.type && golden.model != kRealModel && golden.type != small_type) return false;
    if (!fault.type && golden.model == kRealModel && golden.type != "Q4_1") return false;
    return fault.unsupported_reason(Model(golden.gguf)).empty();
  }

  static std::string expected_place(const Fault& fault, const GoldenCase& golden) {
    Model model(golden.gguf);
    const auto n_layers = static_cast<int>(model.config().n_layers);
    return fault.inject({.model = model, .layer = n_layers / 2}).found_at.name();
  }

  void try_fault(FaultPower& power) {
    const Fault& fault = *power.fault;
    if (has_vectors(fault)) {
      const std::string place =
          fault.type ? fmt::format("blocks of {}", tensor_type_info(*fault.type).name)
                     : FaultPlace{.kind = FaultPlace::Kind::kGeneratedTokens}.name();
      add(power.vectors, run_vector_lane(options_.vectors_folder, &fault, *kernels_), place,
          "vectors");
      power.expected = place;
    }
    for (const GoldenCase& golden : small_) {
      if (!is_for(fault, golden)) continue;
      const std::string expected = expected_place(fault, golden);
      if (power.small.tried + power.real.tried == 0) power.expected = expected;
      const GoldenLane lane = run_golden_lane(golden, &fault, *kernels_);
      add(power.small, lane.everything, expected, golden.name());
      if (has_every_op(golden)) add(power.small_ops, lane.op_level, expected, golden.name());
      add_snapshot(power.snapshot, fault, golden, lane, expected);
      if (golden.prompt != kShortPrompt) continue;
      if (has_unit_lane_.count(golden.name()) > 0) {
        add(power.unit, run_unit_lane(golden, &fault, *kernels_), expected, golden.name());
      }
      if (options_.compare) {
        add(power.compare, compare_lane_.run(golden, &fault), expected, golden.name());
      }
    }
    for (const GoldenCase& golden : real_) {
      if (!is_for(fault, golden)) continue;
      const std::string expected = expected_place(fault, golden);
      if (power.small.tried + power.real.tried == 0) power.expected = expected;
      const GoldenLane lane = run_golden_lane(golden, &fault, *kernels_);
      add(power.real, lane.everything, expected, golden.name());
      add_snapshot(power.snapshot, fault, golden, lane, expected);
    }
    try_in_fast(power);
  }

  static void add_snapshot(LanePower& power, const Fault& fault, const GoldenCase& golden,
                           const GoldenLane& lane, const std::string& expected) {
    if (!is_in_network(fault) || golden.snapshot.empty()) return;
    add(power, lane.snapshot, expected, golden.name());
  }

  void try_in_fast(FaultPower& power) {
    const Fault& fault = *power.fault;
    if (!is_in_network(fault)) return;
    for (const GoldenCase& golden : fast_) {
      if (!is_for(fault, golden)) continue;
      const std::string expected = expected_place(fault, golden);
      const GoldenLane lane = run_golden_lane(golden, &fault, *fast_kernels_);
      add(golden.model == kRealModel ? power.fast_real : power.fast_small, lane.everything,
          expected, golden.name());
      add_snapshot(power.fast_snapshot, fault, golden, lane, expected);
    }
  }

  void try_faults() {
    for (size_t i = 0; i < power_.faults.size(); ++i) {
      try_fault(power_.faults[i]);
      tell("fault", i + 1, power_.faults.size());
    }
  }

  // The models' F32 files with the short prompt.
  std::vector<const GoldenCase*> plain_cases() const {
    std::vector<const GoldenCase*> cases;
    for (const GoldenCase& golden : small_) {
      if (golden.type == "F32" && golden.prompt == kShortPrompt) cases.push_back(&golden);
    }
    return cases;
  }

  void find_sensitivity() {
    const auto cases = plain_cases();
    for (size_t i = 0; i < cases.size(); ++i) {
      for (Sensitivity& each : measure_sensitivity(*cases[i], *kernels_)) {
        power_.sensitivity.push_back(std::move(each));
      }
      tell("sensitivity of model", i + 1, cases.size());
    }
  }

  void run_noise_only() {
    const auto cases = plain_cases();
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto n = static_cast<int64_t>(cases.size());
      const auto index = static_cast<int64_t>(i);
      const int64_t runs = options_.noise_runs * (index + 1) / n - options_.noise_runs * index / n;
      const NoiseRuns some = run_noise(*cases[i], runs, *kernels_);
      power_.noise.runs += some.runs;
      power_.noise.false_alarms += some.false_alarms;
      if (some.worst_ratio > power_.noise.worst_ratio) {
        power_.noise.worst_ratio = some.worst_ratio;
        power_.noise.worst_case = some.worst_case;
      }
      tell("noise on model", i + 1, cases.size());
    }
  }

  void tell(const std::string& what, size_t done, size_t total) const {
    if (!options_.progress) return;
    options_.progress(what, static_cast<int64_t>(done), static_cast<int64_t>(total));
  }

  const PowerOptions& options_;
  ThreadPool pool_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Kernels> fast_kernels_;
  CompareLane compare_lane_;
  std::vector<GoldenCase> small_;
  std::vector<GoldenCase> real_;
  std::vector<GoldenCase> fast_;  // both, in fast math
  std::set<std::string> has_unit_lane_;
  Power power_;
};

}  // namespace

int64_t Power::caught_by_golden() const {
  return std::count_if(faults.begin(), faults.end(),
                       [](const FaultPower& fault) { return fault.is_caught(); });
}

LaneCount Power::count(LanePower FaultPower::*lane) const {
  LaneCount result;
  for (const FaultPower& fault : faults) {
    result.tried += (fault.*lane).tried > 0 ? 1 : 0;
    result.caught += (fault.*lane).any() ? 1 : 0;
  }
  return result;
}

LaneCount Power::caught_in_fast() const {
  LaneCount result;
  for (const FaultPower& fault : faults) {
    result.tried += fault.fast_small.tried + fault.fast_real.tried > 0 ? 1 : 0;
    result.caught += fault.is_caught_in_fast() ? 1 : 0;
  }
  return result;
}

int64_t Power::caught_at_op_level() const {
  int64_t sum = 0;
  for (const FaultPower& fault : faults) sum += fault.small_ops.caught;
  return sum;
}

int64_t Power::located() const {
  int64_t sum = 0;
  for (const FaultPower& fault : faults) sum += fault.small_ops.located;
  return sum;
}

int64_t Power::omissions_tried() const {
  int64_t sum = 0;
  for (const OmissionPower& omission : omissions) sum += omission.tried;
  return sum;
}

int64_t Power::omissions_caught() const {
  int64_t sum = 0;
  for (const OmissionPower& omission : omissions) sum += omission.caught;
  return sum;
}

bool Power::passes() const {
  return omissions_caught() == omissions_tried() &&
         caught_by_golden() == static_cast<int64_t>(faults.size()) &&
         100 * located() >= 95 * caught_at_op_level() && noise.false_alarms == 0 &&
         sound_alarms.empty() && lost.empty();
}

Power measure_power(const PowerOptions& options) {
  return PowerMeasurement(options).run();
}

}  // namespace assay
