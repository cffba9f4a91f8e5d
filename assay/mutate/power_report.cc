#include "assay/mutate/power_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "assay/golden/manifest.h"
#include "assay/mutate/catalogue.h"
#include "assay/report/json_object.h"

namespace assay {
namespace {

std::string times(double ratio) {
  if (std::isinf(ratio)) return "inf";
  if (ratio >= 1e4 || ratio < 0.1) return fmt::format("{:.1e}", ratio);
  return fmt::format("{:.3g}", ratio);
}

// "5/5", "-" where the lane has nothing to try.
std::string caught_of(const LanePower& lane) {
  return lane.tried == 0 ? "-" : fmt::format("{}/{}", lane.caught, lane.tried);
}

std::string caught_and_times(const LanePower& lane) {
  if (!lane.any()) return caught_of(lane);
  return fmt::format("{}, {}", caught_of(lane), times(lane.weakest.worst_ratio));
}

std::string located_of(const FaultPower& fault) {
  return fmt::format("{}/{}", fault.small_ops.located, fault.small_ops.caught);
}

std::vector<std::string> summary_lines(const Power& power) {
  const auto n = static_cast<int64_t>(power.faults.size());
  const int64_t at_ops = power.caught_at_op_level();
  const auto percent = [](int64_t part, int64_t whole) {
    return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  };
  std::vector<std::string> lines;
  for (const std::string& alarm : power.sound_alarms) {
    lines.push_back("the engine without a fault is caught by " + alarm);
  }
  const std::string results[] = {
      fmt::format("{} of {} faults are caught by the goldens ({:.1f} %; all are asked)",
                  power.caught_by_golden(), n, percent(power.caught_by_golden(), n)),
      fmt::format("{} of {} catches by logs with every op are at the right op ({:.1f} %; 95 % "
                  "are asked)",
                  power.located(), at_ops, percent(power.located(), at_ops)),
      fmt::format("{} false alarms in {} runs with noise at the floor (none is asked); the "
                  "largest error was {:.2f} of its tolerance",
                  power.noise.false_alarms, power.noise.runs, power.noise.worst_ratio)};
  lines.insert(lines.end(), std::begin(results), std::end(results));
  if (!power.omissions.empty()) {
    lines.push_back(fmt::format(
        "{} of {} logs of the sound engine that leave something out fail their comparison (all are "
        "asked)",
        power.omissions_caught(), power.omissions_tried()));
  }
  const LaneCount fast = power.caught_in_fast();
  if (fast.tried > 0) {
    const LaneCount bits = power.count(&FaultPower::fast_snapshot);
    lines.push_back(
        fmt::format("in fast math {} of {} faults in the network are caught by the goldens, and {} "
                    "of {} by the "
                    "snapshots: all that change a bit",
                    fast.caught, fast.tried, bits.caught, bits.tried));
  }
  return lines;
}

constexpr std::string_view kIntroduction =
    R"(# What the goldens catch

`assay mutate` puts known faults into the engine, one at a time, and looks which of its lanes sees each. It does so from
outside: by a decorator around the kernels, or by editing the model in memory. The engine has no code for faults. This
page is what `assay mutate --format markdown -o docs/mutation.md` printed; `assay mutate MODEL.gguf --fault NAME
--tokens IDS --log F` writes the log of one faulty engine.

A fault of a layer is put into the middle one. The lanes:

- **unit**: each kernel call against the naive reference kernel on the same arguments, to 1e-6. It cannot see a wrong
  weight or hyperparameter, which reach both.
- **golden small**: the goldens of the small models, all prompts, to the manifests' tolerances (k times a measured
  floor). Of 5/5 the first is in how many models and prompts the fault was caught, the second in how many it was tried.
  **At right op** counts, of the catches by logs with every op, those whose first divergence is where the fault is.
- **golden real**: SmolLM2-135M, real weights.
- **vectors**: blocks of each quantised type as the `gguf` package reads them, and the choices of a sampler written anew
  in Python; no bit and no choice may differ.
- **compare**: `assay compare` of full logs with its built-in policy (1 %), which is not meant to see a rounding.
- **snapshot**: the bits of every checkpoint against `golden/<model>/snapshots.json`. It sees every fault that changes a
  bit of what the network computes; tokens before the network, and the choice after it, it does not.
- **fast small**, **fast real**, **fast snapshot**: the same in `fast` math, on model files whose activations it rounds
  (Q4_K_M of the small models, and those with the type that a fault is about). Its goldens are the same float64 logs; what
  `fast` may be off by is 1.27 times what Assay's `fast` was measured to be off, checkpoint by checkpoint and prompt by
  prompt (`fast_floors.json`). A fault that is smaller than the rounding of activations passes there, and changes bits.

- **omissions**: no fault of the engine: the log of a sound one, right in all that it says, with something left out. It
  must not pass `assay compare`, under the built-in policy or a manifest's, which asks for whole evidence.

After the comma: how many times its tolerance the largest error is, in the model where that is least.

For the runs with noise, each op adds noise of a size at which every checkpoint is off, at the token where it is most,
by the floor that the manifest states for it, which is a maximum over tokens too.

## Results

)";

struct NamedLane {
  const char* name;
  LanePower FaultPower::*exact;
  LanePower FaultPower::*fast;  // null: it has none
};

constexpr NamedLane kCountedLanes[] = {
    {"unit", &FaultPower::unit, nullptr},
    {"golden small", &FaultPower::small, &FaultPower::fast_small},
    {"golden real", &FaultPower::real, &FaultPower::fast_real},
    {"vectors", &FaultPower::vectors, nullptr},
    {"compare", &FaultPower::compare, nullptr},
    {"snapshot", &FaultPower::snapshot, &FaultPower::fast_snapshot}};

std::string count_text(const LaneCount& count) {
  return count.tried == 0 ? "-" : fmt::format("{} of {}", count.caught, count.tried);
}

// Faults that a lane catches, of those that it can see, in each kind of math.
std::string fast_count(const Power& power, const NamedLane& lane) {
  return lane.fast == nullptr ? "-" : count_text(power.count(lane.fast));
}

// The checkpoint of a kind at which the goldens are least sensitive, over all models and layers.
std::map<std::string, Sensitivity> smallest_sensitivity(const Power& power) {
  std::map<std::string, Sensitivity> result;
  for (const Sensitivity& each : power.sensitivity) {
    Sensitivity& worst = result[checkpoint_kind(each.checkpoint)];
    if (worst.checkpoint.empty() || each.smallest > worst.smallest) worst = each;
  }
  return result;
}

void lane_json(JsonObject& parent, std::string& out, const char* name, const LanePower& lane) {
  parent.key(name);
  JsonObject object(out);
  object.member("tried", lane.tried);
  object.member("caught", lane.caught);
  object.member("at_right_op", lane.located);
  object.member("case", std::string_view(lane.weakest_case));
  object.member("place", std::string_view(lane.weakest.place));
  object.member("token_idx", lane.weakest.token_idx);
  object.member("times_tolerance_there", lane.weakest.ratio);
  object.member("times_tolerance", lane.weakest.worst_ratio);
  object.end();
}

void fault_json(const FaultPower& power, std::string& out) {
  JsonObject object(out);
  object.member("name", std::string_view(power.fault->name));
  object.member("group", group_name(power.fault->group));
  object.member("what", std::string_view(power.fault->what));
  object.member("cause", std::string_view(power.fault->cause));
  object.member("expected", std::string_view(power.expected));
  object.member("caught", power.is_caught());
  lane_json(object, out, "unit", power.unit);
  lane_json(object, out, "golden_small", power.small);
  lane_json(object, out, "golden_small_ops", power.small_ops);
  lane_json(object, out, "golden_real", power.real);
  lane_json(object, out, "golden_vectors", power.vectors);
  lane_json(object, out, "compare", power.compare);
  lane_json(object, out, "snapshot", power.snapshot);
  lane_json(object, out, "fast_small", power.fast_small);
  lane_json(object, out, "fast_real", power.fast_real);
  lane_json(object, out, "fast_snapshot", power.fast_snapshot);
  object.end();
}

template <class Items, class Write>
void array(JsonObject& parent, std::string& out, const char* name, const Items& items,
           const Write& write) {
  parent.key(name);
  out += '[';
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ',';
    write(items[i]);
  }
  out += ']';
}

}  // namespace

void write_power_table(const Power& power, const TextStyle& style, const TextSink& out) {
  TextTable table({"fault", "to be found at", "at right op", "unit", "real", "vectors", "compare",
                   "snapshot", "fast", "fast real", "fast snapshot", "golden"});
  for (const FaultPower& fault : power.faults) {
    table.add({fault.fault->name, fault.expected, located_of(fault), caught_of(fault.unit),
               caught_of(fault.real), caught_of(fault.vectors), caught_of(fault.compare),
               caught_of(fault.snapshot), caught_of(fault.fast_small), caught_of(fault.fast_real),
               caught_of(fault.fast_snapshot), caught_and_times(fault.small)},
              fault.is_caught() ? Color::kNone : Color::kBad);
  }
  out(table.text(style));
  out("caught of tried; golden: then how many times the tolerance the weakest catch is\n\n");
  TextTable lanes({"lane", "exact", "fast"});
  for (const NamedLane& lane : kCountedLanes) {
    lanes.add({lane.name, count_text(power.count(lane.exact)), fast_count(power, lane)});
  }
  out(lanes.text(style) + "faults that it catches, of those that it can see\n\n");
  if (!power.omissions.empty()) {
    TextTable omissions({"left out", "what", "caught", "first that passes"});
    for (const OmissionPower& each : power.omissions) {
      omissions.add({each.name, each.what, fmt::format("{}/{}", each.caught, each.tried),
                     each.passed.empty() ? "-" : each.passed.front()},
                    each.passed.empty() ? Color::kNone : Color::kBad);
    }
    out(omissions.text(style) + "\n");
  }
  if (!power.sensitivity.empty()) {
    TextTable smallest({"smallest noise caught at", "where", "tolerance", "noise"});
    for (const auto& [kind, worst] : smallest_sensitivity(power)) {
      smallest.add({kind, worst.model + " " + worst.checkpoint,
                    fmt::format("{:.1e}", worst.tolerance), fmt::format("{:.1e}", worst.smallest)});
    }
    out(smallest.text(style) + "\n");
  }
  for (const std::string& missing : power.missing) out("not run: " + missing + "\n");
  for (const std::string& lost : power.lost) out("LOST: " + lost + "\n");
  for (const std::string& line : summary_lines(power)) out(line + "\n");
  out(colored(power.passes() ? "pass" : "FAIL", power.passes() ? Color::kGood : Color::kBad,
              style) +
      fmt::format(" in {:.0f} s\n", power.seconds));
}

void write_power_json(const Power& power, const TextSink& out) {
  std::string text;
  JsonObject object(text);
  object.member("pass", power.passes());
  object.member("faults_tried", static_cast<int64_t>(power.faults.size()));
  object.member("caught_by_golden", power.caught_by_golden());
  object.member("caught_at_op_level", power.caught_at_op_level());
  object.member("at_right_op", power.located());
  array(object, text, "sound_alarms", power.sound_alarms,
        [&](const std::string& each) { append_json_string(text, each); });
  object.member("noise_runs", power.noise.runs);
  object.member("false_alarms", power.noise.false_alarms);
  object.member("noise_times_tolerance", power.noise.worst_ratio);
  object.member("seconds", power.seconds);
  array(object, text, "faults", power.faults,
        [&](const FaultPower& fault) { fault_json(fault, text); });
  array(object, text, "omissions", power.omissions, [&](const OmissionPower& each) {
    JsonObject one(text);
    one.member("name", std::string_view(each.name));
    one.member("what", std::string_view(each.what));
    one.member("tried", each.tried);
    one.member("caught", each.caught);
    array(one, text, "passed", each.passed,
          [&](const std::string& name) { append_json_string(text, name); });
    one.end();
  });
  array(object, text, "sensitivity", power.sensitivity, [&](const Sensitivity& each) {
    JsonObject one(text);
    one.member("model", std::string_view(each.model));
    one.member("checkpoint", std::string_view(each.checkpoint));
    one.member("smallest", each.smallest);
    one.member("tolerance", each.tolerance);
    one.end();
  });
  array(object, text, "missing", power.missing,
        [&](const std::string& each) { append_json_string(text, each); });
  array(object, text, "lost", power.lost,
        [&](const std::string& each) { append_json_string(text, each); });
  object.end();
  out(text + "\n");
}

void write_power_markdown(const Power& power, const TextSink& out) {
  out(kIntroduction);
  for (const std::string& line : summary_lines(power)) out("- " + line + ".\n");
  for (const std::string& missing : power.missing) out("- Not run: " + missing + ".\n");
  for (const std::string& lost : power.lost) out("- Lost: " + lost + ".\n");
  out("\nFaults that each lane catches, of those that it can see:\n\n| lane | exact | fast "
      "|\n|---|---|---|\n");
  for (const NamedLane& lane : kCountedLanes) {
    out(fmt::format("| {} | {} | {} |\n", lane.name, count_text(power.count(lane.exact)),
                    fast_count(power, lane)));
  }
  FaultGroup group{};
  bool first = true;
  for (const FaultPower& fault : power.faults) {
    if (first || fault.fault->group != group) {
      group = fault.fault->group;
      out(fmt::format("\n### {}\n\n", group_name(group)));
      out("| fault | what is wrong | to be found at | at right op | unit | golden small | golden "
          "real | vectors | compare | snapshot | fast small | fast real | fast snapshot "
          "|\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    }
    first = false;
    out(fmt::format("| `{}` | {} | `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                    fault.fault->name, fault.fault->what, fault.expected, located_of(fault),
                    caught_and_times(fault.unit), caught_and_times(fault.small),
                    caught_and_times(fault.real), caught_of(fault.vectors),
                    caught_and_times(fault.compare), caught_of(fault.snapshot),
                    caught_and_times(fault.fast_small), caught_and_times(fault.fast_real),
                    caught_of(fault.fast_snapshot)));
  }
  if (!power.omissions.empty()) {
    out("\n## Logs that leave something out\n\nOf each small model in F32, of all values and of "
        "heads with summaries and sketches:\n\n| left out | what the log has | caught "
        "|\n|---|---|---|\n");
    for (const OmissionPower& each : power.omissions) {
      out(fmt::format("| `{}` | {} | {}/{} |\n", each.name, each.what, each.caught, each.tried));
    }
  }
  out("\n## Taken out\n\nWhat nobody can observe is no fault of the catalogue:\n\n| mistake | why "
      "it cannot be seen |\n|---|---|\n");
  for (const auto& [what, why] : unobservable_faults())
    out(fmt::format("| {} | {} |\n", what, why));
  if (power.sensitivity.empty()) return;
  out("\n## The smallest noise that is caught\n\n| checkpoint | where the goldens are least "
      "sensitive | tolerance there | smallest noise caught |\n|---|---|---|---|\n");
  for (const auto& [kind, worst] : smallest_sensitivity(power)) {
    out(fmt::format("| `{}` | {} `{}` | {:.1e} | {:.1e} |\n", kind, worst.model, worst.checkpoint,
                    worst.tolerance, worst.smallest));
  }
}

}  // namespace assay
