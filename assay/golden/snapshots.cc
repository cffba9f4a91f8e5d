#include "assay/golden/snapshots.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "assay/golden/files.h"
#include "assay/golden/json_node.h"
#include "assay/log/json_text.h"
#include "base/error.h"
#include "base/json_file.h"

namespace assay {
namespace {

constexpr int64_t kSnapshotSchema = 1;
constexpr size_t kHashDigits = 16;
constexpr const char* kSnapshotsHint = "assay golden record --snapshots writes it again";
constexpr const char* kSnapshotNote =
    "What Assay's engine computes, by checkpoint: the first 16 digits of the SHA-256 of all "
    "values' "
    "bits over all positions, their norm, and 4 random sums of them, which say how large a change "
    "is. Measured, not judged: right is what the golden says.";

const char* read_value(const char* at, const char* end, double& value) {
  while (at != end && *at == ' ') ++at;
  const auto [next, error] = std::from_chars(at, end, value);
  return error == std::errc() ? next : nullptr;
}

CheckpointSnapshot read_values(const JsonNode& node) {
  const std::string text = node.text();
  CheckpointSnapshot result;
  result.hash = text.substr(0, kHashDigits);
  const bool digits = std::all_of(result.hash.begin(), result.hash.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  const char* at = text.data() + result.hash.size();
  const char* end = text.data() + text.size();
  if (digits && result.hash.size() == kHashDigits) at = read_value(at, end, result.norm);
  for (double& sum : result.sums) {
    if (at != nullptr) at = read_value(at, end, sum);
  }
  if (!digits || result.hash.size() != kHashDigits || at != end) {
    node.fail("is not a hash of 16 digits, a norm and 4 sums", kSnapshotsHint);
  }
  return result;
}

Snapshot read_snapshot(const JsonNode& node, size_t n_checkpoints) {
  Snapshot snapshot;
  snapshot.type = node.at("type").nonempty_text();
  snapshot.sha256 = node.at("sha256").sha256();
  snapshot.math = node.at("math").nonempty_text();
  snapshot.prompt = node.at("prompt").text();
  snapshot.positions = node.at("positions").integer(1, INT64_MAX);
  const JsonNode values = node.at("values");
  for (const JsonNode& each : values.items()) snapshot.values.push_back(read_values(each));
  if (snapshot.values.size() != n_checkpoints) {
    values.fail(fmt::format("has {} values, there are {} checkpoints", snapshot.values.size(),
                            n_checkpoints),
                kSnapshotsHint);
  }
  return snapshot;
}

GoldenSnapshots snapshots_of_document(const rapidjson::Document& document,
                                      const std::string& path) {
  const JsonNode root(document, path);
  root.members();
  if (root.at("schema").integer(0, INT32_MAX) != kSnapshotSchema) {
    root.at("schema").fail(fmt::format("is not {}, which this program reads", kSnapshotSchema),
                           kSnapshotsHint);
  }
  GoldenSnapshots result;
  result.model = root.at("model").nonempty_text();
  std::set<std::string> names;
  for (const JsonNode& each : root.at("checkpoints").items()) {
    result.checkpoints.push_back(each.nonempty_text());
    if (!names.insert(result.checkpoints.back()).second)
      each.fail("is a duplicate", kSnapshotsHint);
  }
  std::set<std::tuple<std::string, std::string, std::string>> cases;
  for (const JsonNode& each : root.at("snapshots").items()) {
    Snapshot snapshot = read_snapshot(each, result.checkpoints.size());
    if (!cases.emplace(snapshot.type, snapshot.math, snapshot.prompt).second) {
      each.fail("repeats a type, math and prompt", kSnapshotsHint);
    }
    result.snapshots.push_back(std::move(snapshot));
  }
  return result;
}

void append_strings(std::string& out, const char* name, const std::vector<std::string>& strings) {
  out += fmt::format(" \"{}\": [", name);
  for (size_t i = 0; i < strings.size(); ++i) {
    out += i == 0 ? "\n  " : ",\n  ";
    append_json_string(out, strings[i]);
  }
  out += "\n ]";
}

std::string text_of(const CheckpointSnapshot& values) {
  std::string text = fmt::format("{} {:.4g}", values.hash, values.norm);
  for (const double sum : values.sums) text += fmt::format(" {:.9g}", sum);
  return text;
}

double distance(const CheckpointSnapshot& a, const CheckpointSnapshot& b) {
  double squares = 0;
  for (size_t k = 0; k < a.sums.size(); ++k) {
    squares += (a.sums[k] - b.sums[k]) * (a.sums[k] - b.sums[k]);
  }
  return std::sqrt(squares / kSnapshotSums);
}

std::map<std::string, const CheckpointSnapshot*> by_name(const GoldenSnapshots& all,
                                                         const Snapshot& snapshot) {
  std::map<std::string, const CheckpointSnapshot*> result;
  for (size_t i = 0; i < all.checkpoints.size(); ++i) {
    result[all.checkpoints[i]] = &snapshot.values[i];
  }
  return result;
}

SnapshotChange change_of(const GoldenSnapshots& all_before, const Snapshot& before,
                         const GoldenSnapshots& all_after, const Snapshot& after) {
  SnapshotChange change{after.type, after.math, after.prompt, {}, {}, all_after.checkpoints.size()};
  if (before.sha256 != after.sha256) {
    change.note = "is of another model file";
  } else if (before.positions != after.positions) {
    change.note = fmt::format("has {} positions, it had {}", after.positions, before.positions);
  } else if (all_before.checkpoints != all_after.checkpoints) {
    change.note = fmt::format("has {} checkpoints, it had {}, or others",
                              all_after.checkpoints.size(), all_before.checkpoints.size());
  }
  const auto old = by_name(all_before, before);
  for (size_t i = 0; i < all_after.checkpoints.size(); ++i) {
    const auto found = old.find(all_after.checkpoints[i]);
    if (found == old.end() || found->second->hash == after.values[i].hash) continue;
    change.checkpoints.push_back({all_after.checkpoints[i],
                                  distance(*found->second, after.values[i]) / found->second->norm});
  }
  return change;
}

// What the manifest has floors of, a checkpoint or a kind of them, was computed.
void add_missing_checkpoints(const GoldenManifest& manifest, const GoldenSnapshots& snapshots,
                             std::vector<std::string>& problems) {
  std::set<std::string> held(snapshots.checkpoints.begin(), snapshots.checkpoints.end());
  for (const std::string& checkpoint : snapshots.checkpoints) {
    held.insert(checkpoint_kind(checkpoint));
  }
  std::set<std::string> missing;
  for (const GoldenFile& file : manifest.files) {
    for (const auto* table : {&file.floors, &file.floors_by_checkpoint}) {
      for (const auto& [name, floors] : *table) {
        if (held.count(name) == 0) missing.insert(name);
      }
    }
  }
  for (const std::string& name : missing) {
    problems.push_back(fmt::format("has no '{}', of which the manifest has floors", name));
  }
}

}  // namespace

std::optional<GoldenSnapshots> read_snapshots(const std::string& folder) {
  const std::string path = folder + kSnapshotsName;
  if (!file_exists(path)) return {};
  return snapshots_of_document(read_json_file(path, kMaxSnapshotBytes, kSnapshotsHint), path);
}

GoldenSnapshots parse_snapshots(const std::string& text, const std::string& path) {
  return snapshots_of_document(parse_json_text(text, path, kSnapshotsHint), path);
}

std::string snapshots_text(const GoldenSnapshots& snapshots) {
  std::string out = fmt::format("{{\n \"schema\": {},\n \"model\": ", kSnapshotSchema);
  append_json_string(out, snapshots.model);
  out += ",\n \"note\": ";
  append_json_string(out, kSnapshotNote);
  out += ",\n";
  append_strings(out, "checkpoints", snapshots.checkpoints);
  out += ",\n \"snapshots\": [";
  for (size_t i = 0; i < snapshots.snapshots.size(); ++i) {
    const Snapshot& each = snapshots.snapshots[i];
    out += i == 0 ? "\n  {\"type\": " : ",\n  {\"type\": ";
    append_json_string(out, each.type);
    out += fmt::format(", \"math\": \"{}\", \"prompt\": ", each.math);
    append_json_string(out, each.prompt);
    out += fmt::format(", \"positions\": {},\n   \"sha256\": \"{}\",\n   \"values\": [",
                       each.positions, each.sha256);
    for (size_t c = 0; c < each.values.size(); ++c) {
      out += fmt::format("{}\n    \"{}\"", c == 0 ? "" : ",", text_of(each.values[c]));
    }
    out += "]}";
  }
  return out + "\n ]\n}\n";
}

const Snapshot* find_snapshot(const GoldenSnapshots& snapshots, std::string_view type,
                              std::string_view math, std::string_view prompt) {
  for (const Snapshot& each : snapshots.snapshots) {
    if (each.type == type && each.math == math && each.prompt == prompt) return &each;
  }
  return nullptr;
}

std::vector<std::string> snapshot_problems(const GoldenManifest& manifest,
                                           const GoldenSnapshots& snapshots) {
  std::vector<std::string> problems;
  if (snapshots.model != manifest.model) {
    problems.push_back(fmt::format("is of the model '{}'", snapshots.model));
  }
  add_missing_checkpoints(manifest, snapshots, problems);
  std::set<const Snapshot*> known;
  for (const GoldenFile& file : manifest.files) {
    std::set<std::string> prompts;
    for (const GoldenLog& log : file.logs) prompts.insert(log.prompt);
    for (const char* math : kSnapshotMaths) {
      for (const std::string& prompt : prompts) {
        const Snapshot* found = find_snapshot(snapshots, file.type, math, prompt);
        const std::string name = fmt::format("{} {} {}", file.type, math, prompt);
        if (found == nullptr) {
          problems.push_back("has no snapshot of " + name);
        } else if (found->sha256 != file.sha256) {
          problems.push_back("is of another model file at " + name);
        }
        known.insert(found);
      }
    }
  }
  for (const Snapshot& each : snapshots.snapshots) {
    if (known.count(&each) > 0) continue;
    problems.push_back(fmt::format("has a snapshot of {} {} {}, of which there is no golden",
                                   each.type, each.math, each.prompt));
  }
  return problems;
}

std::vector<SnapshotChange> snapshot_changes(const GoldenSnapshots& before,
                                             const GoldenSnapshots& after, bool whole) {
  std::vector<SnapshotChange> changes;
  for (const Snapshot& each : after.snapshots) {
    const Snapshot* old = find_snapshot(before, each.type, each.math, each.prompt);
    if (old == nullptr) {
      changes.push_back(
          {each.type, each.math, each.prompt, "is new", {}, after.checkpoints.size()});
      continue;
    }
    SnapshotChange change = change_of(before, *old, after, each);
    if (!change.note.empty() || !change.checkpoints.empty()) changes.push_back(std::move(change));
  }
  for (const Snapshot& each : before.snapshots) {
    if (!whole || find_snapshot(after, each.type, each.math, each.prompt) != nullptr) continue;
    changes.push_back(
        {each.type, each.math, each.prompt, "is removed", {}, before.checkpoints.size()});
  }
  return changes;
}

}  // namespace assay
