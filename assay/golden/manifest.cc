#include "assay/golden/manifest.h"

#include <fmt/format.h>

#include <set>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/policy.h"
#include "assay/golden/json_node.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/json_file.h"
#include "model/checkpoint.h"

namespace assay {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 24;
constexpr const char* kManifestHint = "see golden/README.md for what a manifest holds";

double below_bound(const JsonNode& node) {
  const double value = node.number_at_least(0);
  if (!(value < kRelL2Bound)) {
    node.fail(
        fmt::format("is {}, and zeros are off by {}: it lets anything pass", value, kRelL2Bound),
        "measure it again");
  }
  return value;
}

Floors read_floors(const JsonNode& node) {
  Floors floors;
  for (const auto& [name, each] : node.members()) {
    Floor floor;
    floor.max = below_bound(each.at("max"));
    if (const auto p99 = each.find("p99")) floor.p99 = p99->number_at_least(0);
    if (floor.p99 && !(*floor.p99 <= floor.max)) each.fail("has a p99 above its max");
    if (const auto regret = each.find("regret")) floor.regret = regret->number_at_least(0);
    floors[name] = floor;
  }
  return floors;
}

bool is_checkpoint(const std::string& name) {
  return parse_checkpoint_name(name).known;
}

bool is_kind(const std::string& name) {
  return find_checkpoint(name, true) || find_checkpoint(name, false);
}

// Under a mistyped name a floor holds nothing, and a wider one, of the kind, applies.
std::map<std::string, Floors> read_floor_table(const JsonNode& node,
                                               bool (*is_known)(const std::string&)) {
  std::map<std::string, Floors> table;
  for (const auto& [name, floors] : node.members()) {
    if (!is_known(name)) floors.fail("is of no checkpoint that a network has", "correct its name");
    table[name] = read_floors(floors);
  }
  return table;
}

// The source of a file, in words.
std::string read_source(const JsonNode& file) {
  if (const auto wheel = file.find("wheel")) {
    return fmt::format("the wheel {} {}", wheel->at("package").nonempty_text(),
                       wheel->at("version").nonempty_text());
  }
  const auto source = file.find("source");
  if (!source) return "";
  if (!source->is_object()) return source->nonempty_text();
  std::string words;
  for (const auto& [name, value] : source->members()) {
    words += (words.empty() ? "" : ", ") + name + " " + value.text();
  }
  return words;
}

// The command that makes it; empty if the manifest has none.
std::string read_command(const JsonNode& file) {
  const auto source = file.find("source");
  if (!source || !source->is_object()) return "";
  const auto command = source->find("command");
  return command ? command->nonempty_text() : "";
}

std::vector<int64_t> read_positions(const JsonNode& node, int64_t n_tokens) {
  std::vector<int64_t> positions;
  for (const JsonNode& item : node.items()) {
    const int64_t position = item.integer(0, n_tokens - 1);
    if (!positions.empty() && position <= positions.back()) item.fail("does not grow");
    positions.push_back(position);
  }
  return positions;
}

std::string read_prompt(const JsonNode& node, const GoldenManifest& manifest) {
  std::string prompt = node.text();
  if (manifest.prompts.count(prompt) == 0) {
    node.fail(fmt::format("'{}' is not one of the manifest's prompts", prompt));
  }
  return prompt;
}

GoldenText read_text(const JsonNode& node, const GoldenManifest& manifest) {
  GoldenText text{read_prompt(node.at("prompt"), manifest), node.at("greedy").token_ids()};
  if (text.greedy.empty()) node.at("greedy").fail("is empty");
  return text;
}

GoldenLog read_log(const JsonNode& node, const GoldenManifest& manifest) {
  GoldenLog log;
  log.file = node.at("file").file_name();
  log.sha256 = node.at("sha256").sha256();
  log.prompt = read_prompt(node.at("prompt"), manifest);
  log.set = node.at("set").nonempty_text();
  if (const auto count = node.find("n_predict")) log.n_predict = count->integer(0, kMaxTokens);
  const auto n_prompt = static_cast<int64_t>(manifest.prompts.at(log.prompt).tokens.size());
  if (const auto positions = node.find("positions")) {
    log.positions = read_positions(*positions, n_prompt + log.n_predict);
  }
  if (const auto greedy = node.find("greedy")) {
    log.greedy = greedy->token_ids();
    if (static_cast<int64_t>(log.greedy.size()) != log.n_predict) {
      greedy->fail(fmt::format("has {}, n_predict is {}", count_of(log.greedy.size(), "token"),
                               log.n_predict));
    }
  } else if (log.n_predict > 0) {
    node.at("greedy");
  }
  if (const auto gaps = node.find("greedy_gaps")) {
    for (const JsonNode& gap : gaps->items()) log.greedy_gaps.push_back(gap.number_at_least(0));
    if (log.greedy_gaps.size() != log.greedy.size()) gaps->fail("is not as long as greedy");
  }
  if (const auto gap = node.find("argmax_min_gap")) log.argmax_min_gap = gap->number_at_least(0);
  if (const auto margin = node.find("argmax_margin")) {
    log.argmax_margin = margin->number_at_least(0);
  }
  if (const auto text = node.find("text")) log.text = text->text();
  return log;
}

GoldenFile read_file(const JsonNode& node, const GoldenManifest& manifest,
                     std::set<std::string>& log_names) {
  GoldenFile file;
  file.type = node.at("type").nonempty_text();
  file.gguf = node.at("gguf").file_name();
  file.sha256 = node.at("sha256").sha256();
  file.source = read_source(node);
  file.command = read_command(node);
  file.floors = read_floor_table(node.at("floors"), is_kind);
  if (const auto by_checkpoint = node.find("floors_by_checkpoint")) {
    file.floors_by_checkpoint = read_floor_table(*by_checkpoint, is_checkpoint);
  }
  for (const JsonNode& each : node.at("logs").items()) {
    file.logs.push_back(read_log(each, manifest));
    if (!log_names.insert(file.logs.back().file).second) {
      each.at("file").fail("names a log that another entry has");
    }
  }
  if (const auto texts = node.find("texts")) {
    for (const JsonNode& each : texts->items()) file.texts.push_back(read_text(each, manifest));
  }
  return file;
}

void check_schema(const JsonNode& root, const std::string& path) {
  const int64_t schema = root.at("schema").integer(0, INT32_MAX);
  if (schema == kManifestSchema) return;
  const std::string what =
      fmt::format("'schema' is {}, this program reads {}", schema, kManifestSchema);
  if (schema > kManifestSchema) throw NewerManifest(what, path, "use a newer assay");
  throw Error(what, path, "record the golden again");
}

// k times the floor that applies must be a limit that can be exceeded. A checkpoint that has floors
// has that one: else its kind's, which may be far wider, would hold in its place.
void check_tolerances(const JsonNode& root, const GoldenManifest& manifest) {
  const auto& [k, floor, why] = manifest.tolerance;
  for (const GoldenFile& file : manifest.files) {
    for (const auto& [checkpoint, floors] : file.floors_by_checkpoint) {
      if (floors.contains(floor)) continue;
      root.at("tolerance")
          .fail(fmt::format("has the floor '{}', of which 'floors_by_checkpoint' of {} has none at "
                            "'{}'",
                            floor, file.type, checkpoint));
    }
    for (const auto* table : {&file.floors, &file.floors_by_checkpoint}) {
      for (const auto& [checkpoint, floors] : *table) {
        const auto found = floors.find(floor);
        if (found == floors.end() || k * found->second.max < kRelL2Bound) continue;
        root.at("tolerance")
            .fail(
                fmt::format("allows {} at '{}' of {}, {} times its floor {}: it lets anything pass",
                            k * found->second.max, checkpoint, file.type, k, floor));
      }
    }
  }
}

GoldenManifest read_root(const JsonNode& root, const std::string& path) {
  GoldenManifest manifest;
  manifest.path = path;
  manifest.model = root.at("model").file_name();
  manifest.arch = root.at("arch").nonempty_text();
  for (const auto& [name, prompt] : root.at("prompts").members()) {
    const JsonNode tokens = prompt.at("tokens");
    manifest.prompts[name] = {prompt.at("text").text(), tokens.token_ids()};
    if (manifest.prompts[name].tokens.empty()) tokens.fail("is empty");
  }
  manifest.padding_ids = root.at("padding_ids").token_ids();
  for (const auto& [name, version] : root.at("oracles").members()) {
    manifest.oracles[name] = version.nonempty_text();
  }
  if (manifest.oracles.empty()) root.at("oracles").fail("is empty", "state what made the golden");
  manifest.command = root.at("command").nonempty_text();
  const JsonNode tolerance = root.at("tolerance");
  manifest.tolerance.k = tolerance.at("k").number_at_least(1);
  if (!(manifest.tolerance.k <= kMostK)) {
    tolerance.at("k").fail(fmt::format("is {}, it is {} at most", manifest.tolerance.k, kMostK));
  }
  manifest.tolerance.floor = tolerance.at("floor").nonempty_text();
  manifest.tolerance.why = tolerance.at("why").nonempty_text();
  std::set<std::string> types;
  std::set<std::string> log_names;
  for (const JsonNode& each : root.at("files").items()) {
    manifest.files.push_back(read_file(each, manifest, log_names));
    if (!types.insert(manifest.files.back().type).second) {
      each.at("type").fail("is that of another file");
    }
  }
  if (manifest.files.empty()) root.at("files").fail("is empty");
  check_tolerances(root, manifest);
  return manifest;
}

GoldenManifest manifest_of(const rapidjson::Document& document, const std::string& path) {
  const JsonNode root(document, path);
  root.members();
  check_schema(root, path);
  return read_root(root, path);
}

}  // namespace

std::string GoldenManifest::folder() const {
  return path.substr(0, path.rfind('/') + 1);
}

const GoldenFile* GoldenManifest::file_of_type(const std::string& type) const {
  for (const GoldenFile& file : files) {
    if (file.type == type) return &file;
  }
  return nullptr;
}

bool is_golden_manifest(const std::string& path) {
  try {
    const rapidjson::Document document = read_json_file(path, kMaxManifestBytes, kManifestHint);
    return document.IsObject() && document.HasMember("schema");
  } catch (const Error&) {
    return false;
  }
}

GoldenManifest read_golden_manifest(const std::string& path) {
  return manifest_of(read_json_file(path, kMaxManifestBytes, kManifestHint), path);
}

GoldenManifest parse_golden_manifest(const std::string& text, const std::string& path) {
  return manifest_of(parse_json_text(text, path, kManifestHint), path);
}

std::string with_hashes(const std::string& text, const std::string& path,
                        const std::map<std::string, std::string>& hashes) {
  parse_golden_manifest(text, path);
  // Parsed in place, each string of the document points to its place in the text.
  std::string parsed = text;
  rapidjson::Document document;
  document.ParseInsitu<rapidjson::kParseIterativeFlag>(parsed.data());
  std::string result = text;
  const auto put = [&](const rapidjson::Value& entry, const char* name_key) {
    const auto hash = hashes.find(json_text_of(entry[name_key]));
    if (hash == hashes.end()) return;
    const rapidjson::Value& old = entry["sha256"];
    const auto at = static_cast<size_t>(old.GetString() - parsed.data());
    if (text.compare(at, hash->second.size(), json_text_of(old)) != 0) {
      throw Error("a sha256 is written with escapes", path, "write its digits as they are");
    }
    result.replace(at, hash->second.size(), hash->second);
  };
  for (const auto& file : document["files"].GetArray()) {
    put(file, "gguf");
    for (const auto& log : file["logs"].GetArray()) put(log, "file");
  }
  return result;
}

std::string checkpoint_kind(const std::string& checkpoint) {
  return parse_checkpoint_name(checkpoint).op;
}

}  // namespace assay
