#include "assay/conform/engine_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <span>

#include "assay/golden/files.h"
#include "assay/golden/json_node.h"
#include "base/error.h"
#include "base/json_file.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "base/shell.h"

namespace assay {
namespace {

constexpr int64_t kMaxListBytes = int64_t{1} << 20;
constexpr char kHint[] = "see engines/README.md for what the list holds";

// float32 engines are within 2e-6 of float64 in tiny models; 1e-3 is what a table of float16 values
// for GELU, or sums in another precision, may cost. Of 16-bit engines it was measured with
// transformers in bfloat16, of quantised weights with llama.cpp, which rounds what it multiplies
// them with to 8 bits (docs/conform.md).
const Precision kPrecisions[] = {{.name = "float32", .clean = 1e-5, .tolerance = 1e-3},
                                 {.name = "mixed", .clean = 1e-3, .tolerance = 5e-3},
                                 {.name = "float16", .clean = 2e-3, .tolerance = 1e-2},
                                 {.name = "bfloat16", .clean = 1e-2, .tolerance = 6e-2},
                                 {.name = "int8", .clean = 2e-2, .tolerance = 6e-2}};

// Of the adapter's folder, with its requirements, and of what it shares with others: the programs
// beside the list.
std::string digest_of(const JsonNode& adapter, const std::filesystem::path& folder) {
  const std::vector<JsonNode> words = adapter.items();
  if (words.empty()) adapter.fail("is empty", kHint);
  Sha256 digest;
  const auto add = [&](const std::filesystem::path& in, const char* extension) {
    for (const std::string& name : files_in(in.string())) {
      if (!name.ends_with(extension)) continue;
      digest.update(std::as_bytes(std::span(name)));
      digest.update(MappedFile((in / name).string()).bytes());
    }
  };
  add(folder, ".py");
  add((folder / words.front().text()).parent_path(), "");
  return digest.hex();
}

EngineDeclaration declared(const JsonNode& node, const std::filesystem::path& folder) {
  EngineDeclaration engine;
  engine.name = node.at("name").file_name();
  engine.version = node.at("version").text();
  engine.typed = engine.name;
  for (const JsonNode& word : node.at("command").items()) engine.command.push_back(word.text());
  if (engine.command.empty()) node.at("command").fail("is empty", kHint);
  if (engine.command[0].starts_with("./")) {
    engine.command[0] = (folder / engine.command[0]).lexically_normal().string();
  }
  const JsonNode math = node.at("math");
  engine.precision = find_precision(math.text(), engine.name).name;
  engine.serves = true;
  if (const auto adapter = node.find("adapter")) engine.digest = digest_of(*adapter, folder);
  return engine;
}

}  // namespace

const Precision& find_precision(const std::string& name, const std::string& where) {
  const auto* found = std::ranges::find(kPrecisions, name, &Precision::name);
  if (found != std::end(kPrecisions)) return *found;
  throw Error(fmt::format("'{}' is not a precision", printable(name, 40)), where,
              "give float32, mixed, float16, bfloat16 or int8");
}

std::optional<EngineDeclaration> listed_engine(const std::string& path, const std::string& name) {
  const rapidjson::Document document = read_json_file(path, kMaxListBytes, kHint);
  const JsonNode root(document, path);
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  for (const JsonNode& each : root.at("engines").items()) {
    if (each.at("name").file_name() == name) return declared(each, folder);
  }
  return std::nullopt;
}

EngineDeclaration find_engine(const std::string& path, const std::string& name) {
  if (std::optional<EngineDeclaration> engine = listed_engine(path, name)) return *engine;
  const rapidjson::Document document = read_json_file(path, kMaxListBytes, kHint);
  std::vector<std::string> names;
  for (const JsonNode& each : JsonNode(document, path).at("engines").items()) {
    names.push_back(each.at("name").file_name());
  }
  throw Error(fmt::format("'{}' is not an engine of the list", printable(name, 60)), path,
              fmt::format("give assay or one of {}, or --command", fmt::join(names, ", ")));
}

EngineDeclaration engine_of_command(const std::string& line) {
  return {.name = "command",
          .version = {},
          .typed = "--command " + shell_quoted(line),
          .command = {"sh", "-c", line}};
}

}  // namespace assay
