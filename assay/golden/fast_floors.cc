#include "assay/golden/fast_floors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "assay/golden/files.h"
#include "assay/golden/floors.h"
#include "assay/golden/json_node.h"
#include "assay/log/json_text.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/json_file.h"

namespace assay {
namespace {

constexpr int64_t kFloorSchema = 1;
constexpr int64_t kMaxFloorsBytes = int64_t{16} << 20;
constexpr double kMostOfLlamaCpp = 2;  // as many times its error; 1.25 in the goldens
// As many times the floor of float32 there; 5.0e4 at most in the 9,500 floors of the goldens: both
// grow alike from the first rounding to the logits.
constexpr double kMostOfExact = 1e5;
constexpr const char* kFloorsHint = "assay golden record --fast-floors measures them";
constexpr const char* kFloorNote =
    "By how much Assay's own fast is off: relative L2 against the float64 golden, the greatest and "
    "the median over the positions that the golden holds. This is the noise of activations rounded "
    "to whole numbers, as measured. The oracle is float64; nothing here comes from another "
    "engine.";

double read_number(const JsonNode& node) {
  const double value = node.number_at_least(0);
  if (!(value < kRelL2Bound)) node.fail("lets anything pass: zeros are off by 1", kFloorsHint);
  return value;
}

FastFloors::Of read_prompt(const JsonNode& node) {
  FastFloors::Of result{
      node.at("type").nonempty_text(), node.at("sha256").sha256(), node.at("prompt").text(), {}};
  if (const auto math = node.find("math")) {
    result.math = math->text();
    if (result.math != "library") math->fail("is not library", kFloorsHint);
  }
  for (const auto& [checkpoint, floor] : node.at("floors").members()) {
    const auto numbers = floor.items();
    if (numbers.size() != 2) floor.fail("is not [max, median]", kFloorsHint);
    const FastFloor read{read_number(numbers[0]), read_number(numbers[1])};
    if (!(read.median <= read.max)) floor.fail("has a median above its max", kFloorsHint);
    result.floors.emplace_back(checkpoint, read);
  }
  return result;
}

FastFloors floors_of_document(const rapidjson::Document& document, const std::string& path) {
  const JsonNode root(document, path);
  root.members();
  if (root.at("schema").integer(0, INT32_MAX) != kFloorSchema) {
    root.at("schema").fail(fmt::format("is not {}, which this program reads", kFloorSchema),
                           kFloorsHint);
  }
  FastFloors result;
  result.model = root.at("model").nonempty_text();
  std::set<std::tuple<std::string, std::string, std::string>> known;
  for (const JsonNode& each : root.at("prompts").items()) {
    result.prompts.push_back(read_prompt(each));
    const FastFloors::Of& of = result.prompts.back();
    if (!known.emplace(of.math, of.type, of.prompt).second) {
      each.fail("repeats a type and prompt", kFloorsHint);
    }
  }
  return result;
}

const FastFloors::Of* find_prompt(const FastFloors& floors, const std::string& type,
                                  const std::string& prompt, const std::string& math) {
  for (const FastFloors::Of& each : floors.prompts) {
    if (each.type == type && each.prompt == prompt && each.math == math) return &each;
  }
  return nullptr;
}

const FastFloor* find_floor_in(const FastFloors::Of& of, const std::string& checkpoint) {
  for (const auto& [name, floor] : of.floors) {
    if (name == checkpoint) return &floor;
  }
  return nullptr;
}

Policy policy_of(const GoldenManifest& manifest, const GoldenFile& file, const std::string& prompt,
                 const std::string& math, double FastFloor::*which, double times) {
  if (math == "fast" && !rounds_activations(file.type)) return floor_policy(manifest, file);
  const auto exact = std::make_shared<const Policy>(floor_policy(manifest, file));
  const auto fast = std::make_shared<const FastFloors>(fast_floors_of(manifest));
  return Policy([=, type = file.type, path = manifest.path](const std::string& checkpoint) {
    const FastFloor* floor = find_fast_floor(*fast, type, prompt, checkpoint, math);
    if (floor == nullptr) {
      throw Error(fmt::format("{} has no floor of '{}' of {} {}", math, checkpoint, type, prompt),
                  path, "leave it out of the logs, or record the golden with it and measure again");
    }
    Tolerance tolerance = exact->tolerance(checkpoint);
    tolerance.rel_l2 = std::max(*tolerance.rel_l2, times * floor->*which);
    tolerance.floor = *tolerance.rel_l2 / times;
    return tolerance;
  });
}

// Which floor lets too much pass; empty if none does.
std::string wide_floor(const GoldenManifest& manifest, const GoldenFile& file,
                       const FastFloors::Of& of) {
  const auto lets = [&](const std::string& checkpoint, const FastFloor& floor,
                        const std::string& other) {
    return fmt::format("lets '{}' of {} {} {} be {:.3g} off, and {}", checkpoint, of.math, of.type,
                       of.prompt, floor.max, other);
  };
  for (const auto& [checkpoint, floor] : of.floors) {
    const auto of_llama_cpp = floor_of(file, "llamacpp_as_stored_vs_f64", checkpoint);
    if (of_llama_cpp && rounds_activations(of.type) &&
        !(floor.max <= kMostOfLlamaCpp * *of_llama_cpp)) {
      return lets(checkpoint, floor, fmt::format("llama.cpp is {:.3g} off", *of_llama_cpp));
    }
    // Not of every model is llama.cpp's error known.
    const auto of_exact = floor_of(file, manifest.tolerance.floor, checkpoint);
    if (of_exact && !(floor.max <= kMostOfExact * *of_exact)) {
      return lets(checkpoint, floor,
                  fmt::format("its floor {} is {:.3g}", printable(manifest.tolerance.floor, 60),
                              *of_exact));
    }
    if (!of_llama_cpp && !of_exact) {
      return fmt::format("has a floor of '{}' of {} {} {}, and the manifest has none", checkpoint,
                         of.math, of.type, of.prompt);
    }
  }
  return {};
}

// Never below the value: a floor that lost its last digits would be too low.
double rounded_up(double value) {
  if (value == 0) return 0;
  const double digit = std::pow(10.0, std::floor(std::log10(value)) - 2);
  return std::stod(fmt::format("{:.3g}", std::ceil(value / digit) * digit));
}

}  // namespace

bool rounds_activations(const std::string& type) {
  return type != "F32";
}

bool has_library_floors(const GoldenManifest& manifest, const GoldenFile& file,
                        const std::string& prompt) {
  constexpr size_t kLeast = 32;  // kLibraryTokens, of the kernels
  constexpr size_t kMost = 99;   // the emulated backend takes minutes for more
  const size_t n_tokens = manifest.prompts.at(prompt).tokens.size();
  return file.source.empty() && kLeast <= n_tokens && n_tokens <= kMost;
}

std::optional<FastFloors> read_fast_floors(const std::string& folder) {
  const std::string path = folder + kFastFloorsName;
  if (!file_exists(path)) return {};
  return floors_of_document(read_json_file(path, kMaxFloorsBytes, kFloorsHint), path);
}

FastFloors parse_fast_floors(const std::string& text, const std::string& path) {
  return floors_of_document(parse_json_text(text, path, kFloorsHint), path);
}

std::string fast_floors_text(const FastFloors& floors) {
  std::string out = fmt::format("{{\n \"schema\": {},\n \"model\": ", kFloorSchema);
  append_json_string(out, floors.model);
  out += ",\n \"note\": ";
  append_json_string(out, kFloorNote);
  out += ",\n \"command\": ";
  append_json_string(out, "assay golden record --fast-floors " + floors.model);
  out += ",\n \"prompts\": [";
  for (size_t i = 0; i < floors.prompts.size(); ++i) {
    const FastFloors::Of& each = floors.prompts[i];
    out += i == 0 ? "\n  {\"type\": " : ",\n  {\"type\": ";
    append_json_string(out, each.type);
    out += ", \"prompt\": ";
    append_json_string(out, each.prompt);
    if (each.math != "fast") out += fmt::format(", \"math\": \"{}\"", each.math);
    out += fmt::format(",\n   \"sha256\": \"{}\",\n   \"floors\": {{", each.sha256);
    for (size_t c = 0; c < each.floors.size(); ++c) {
      const auto& [name, floor] = each.floors[c];
      out += c == 0 ? "\n    " : ",\n    ";
      append_json_string(out, name);
      out += fmt::format(": [{}, {}]", floor.max, floor.median);
    }
    out += "}}";
  }
  return out + "\n ]\n}\n";
}

FastFloors fast_floors_of(const GoldenManifest& manifest) {
  const auto floors = read_fast_floors(manifest.folder());
  const std::string path = manifest.folder() + kFastFloorsName;
  const std::string hint = "assay golden record --fast-floors " + manifest.model;
  if (!floors) throw Error("is missing: fast has no floors", path, hint);
  const auto problems = fast_floor_problems(manifest, *floors);
  if (!problems.empty()) throw Error(problems.front(), path, hint);
  return *floors;
}

const FastFloor* find_fast_floor(const FastFloors& floors, const std::string& type,
                                 const std::string& prompt, const std::string& checkpoint,
                                 const std::string& math) {
  const FastFloors::Of* of = find_prompt(floors, type, prompt, math);
  return of == nullptr ? nullptr : find_floor_in(*of, checkpoint);
}

Policy fast_policy(const GoldenManifest& manifest, const GoldenFile& file,
                   const std::string& prompt, double times) {
  return policy_of(manifest, file, prompt, "fast", &FastFloor::max, times);
}

Policy library_policy(const GoldenManifest& manifest, const GoldenFile& file,
                      const std::string& prompt, double times) {
  return policy_of(manifest, file, prompt, "library", &FastFloor::max, times);
}

Policy usual_library_policy(const GoldenManifest& manifest, const GoldenFile& file,
                            const std::string& prompt) {
  return policy_of(manifest, file, prompt, "library", &FastFloor::median, kFastFloors);
}

Policy usual_fast_policy(const GoldenManifest& manifest, const GoldenFile& file,
                         const std::string& prompt) {
  return policy_of(manifest, file, prompt, "fast", &FastFloor::median, kFastFloors);
}

FastFloor fast_floor_of(std::vector<double> errors, const std::string& where) {
  for (const double error : errors) {
    if (error < kRelL2Bound) continue;  // false for NaN
    throw Error(fmt::format("the error is {}: too large for rounding", error), where,
                "the engine is wrong there, or the golden is of another model");
  }
  if (errors.empty()) throw Error("the golden holds no position of it", where);
  std::sort(errors.begin(), errors.end());
  return {rounded_up(errors.back()), rounded_up(errors[errors.size() / 2])};
}

bool needs_fast_floors(const GoldenManifest& manifest) {
  return !fast_floor_problems(manifest, {manifest.model, {}}).empty();
}

std::vector<std::string> fast_floor_problems(const GoldenManifest& manifest,
                                             const FastFloors& floors) {
  std::vector<std::string> problems;
  if (floors.model != manifest.model) {
    problems.push_back(fmt::format("is of the model '{}'", floors.model));
  }
  std::set<const FastFloors::Of*> known;
  const auto expect = [&](const GoldenFile& file, const std::string& prompt, const char* math) {
    const FastFloors::Of* found = find_prompt(floors, file.type, prompt, math);
    if (found == nullptr) {
      problems.push_back(fmt::format("has no floors of {} of {} {}", math, file.type, prompt));
    } else if (found->sha256 != file.sha256) {
      problems.push_back(fmt::format("is of another model file at {} {}", file.type, prompt));
    } else if (std::string wide = wide_floor(manifest, file, *found); !wide.empty()) {
      problems.push_back(std::move(wide));
    }
    known.insert(found);
  };
  for (const GoldenFile& file : manifest.files) {
    std::set<std::string> prompts;
    for (const GoldenLog& log : file.logs) prompts.insert(log.prompt);
    for (const std::string& prompt : prompts) {
      if (rounds_activations(file.type)) expect(file, prompt, "fast");
      if (has_library_floors(manifest, file, prompt)) expect(file, prompt, "library");
    }
  }
  for (const FastFloors::Of& each : floors.prompts) {
    if (known.count(&each) > 0) continue;
    problems.push_back(fmt::format("has floors of {} of {} {}, of which there is no golden",
                                   each.math, each.type, each.prompt));
  }
  return problems;
}

FastFloorChanges fast_floor_changes(const FastFloors& before, const FastFloors& after) {
  FastFloorChanges changes;
  for (const FastFloors::Of& old : before.prompts) {
    const std::string name = fmt::format("{} floors of {} {}", old.math, old.type, old.prompt);
    const FastFloors::Of* now = find_prompt(after, old.type, old.prompt, old.math);
    int64_t rise = 0;
    int64_t fall = 0;
    double most = 0;
    std::string worst;
    for (const auto& [checkpoint, floor] : old.floors) {
      const FastFloor* other = now == nullptr ? nullptr : find_floor_in(*now, checkpoint);
      if (other == nullptr) {
        changes.notes.push_back(fmt::format("{}: {} is removed", name, checkpoint));
        changes.looser = true;
        if (now == nullptr) break;
        continue;
      }
      if (*other == floor) continue;
      const bool higher = !(other->max <= floor.max) || !(other->median <= floor.median);
      (higher ? rise : fall) += 1;
      if (!higher || !(other->max / floor.max > most)) continue;
      most = other->max / floor.max;
      worst = fmt::format(", most that of {}: {:.3g} -> {:.3g} (x {:.3g})", checkpoint, floor.max,
                          other->max, most);
    }
    if (rise + fall == 0) continue;
    changes.looser = changes.looser || rise > 0;
    changes.notes.push_back(fmt::format("{}: {} rise, {} fall{}", name, rise, fall, worst));
  }
  for (const FastFloors::Of& each : after.prompts) {
    if (find_prompt(before, each.type, each.prompt, each.math) != nullptr) continue;
    changes.notes.push_back(fmt::format("{} floors of {} {}: {} are new", each.math, each.type,
                                        each.prompt, count_of(each.floors.size(), "checkpoint")));
  }
  return changes;
}

}  // namespace assay
