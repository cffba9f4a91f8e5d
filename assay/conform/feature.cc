#include "assay/conform/feature.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include "assay/conform/random_blocks.h"
#include "assay/golden/json_node.h"
#include "base/error.h"
#include "base/json_file.h"
#include "base/mapped_file.h"
#include "base/sha256.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr char kCase[] = "case.json";
constexpr char kConfig[] = "config.json";
constexpr char kReference[] = "reference.jsonl";
constexpr int64_t kMaxCaseBytes = int64_t{4} << 20;
constexpr int64_t kMaxDimension = int64_t{1} << 20;
constexpr int64_t kMaxElements = int64_t{1} << 26;
// So that what is drawn, at most 4 deviations from the mean, is finite in every type.
constexpr double kMaxNumber = 1e4;
constexpr int kMaxPatchDepth = 32;
constexpr char kFeatureHint[] = "see conform/README.md for what a case holds";

std::string json_of_value(const rapidjson::Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value.Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

float number(const JsonNode& node) {
  const rapidjson::Value& value = node.json();
  const double read = value.IsNumber() ? value.GetDouble() : std::nan("");
  if (!(read >= -kMaxNumber && read <= kMaxNumber)) {
    node.fail(fmt::format("is not a number of at most {:g}", kMaxNumber), kFeatureHint);
  }
  return static_cast<float>(read);
}

TensorType type_of(const JsonNode& node, int64_t columns) {
  const std::string name = node.text();
  const auto* const found = std::ranges::find_if(
      kAllTensorTypes, [&](TensorType type) { return tensor_type_info(type).name == name; });
  if (found == std::end(kAllTensorTypes)) {
    node.fail(fmt::format("is '{}'", name), "give a type of docs/tensor-types.md, such as Q4_K");
  }
  const int64_t block = tensor_type_info(*found).block_elements;
  if (columns % block != 0) {
    node.fail(fmt::format("is '{}', whose rows are whole blocks of {}", name, block), kFeatureHint);
  }
  return *found;
}

FeatureTensor read_tensor(const JsonNode& node) {
  const std::vector<JsonNode> items = node.items();
  if (items.size() < 4 || items.size() > 5) {
    node.fail("is not [name, shape, mean, deviation]", kFeatureHint);
  }
  FeatureTensor tensor{.name = items[0].nonempty_text(),
                       .shape = {},
                       .mean = number(items[2]),
                       .deviation = number(items[3]),
                       .type = TensorType::kF32};
  int64_t elements = 1;
  for (const JsonNode& size : items[1].items()) {
    tensor.shape.push_back(size.integer(1, kMaxDimension));
    elements *= tensor.shape.back();
    if (elements > kMaxElements) items[1].fail("has too many elements", kFeatureHint);
  }
  if (tensor.shape.size() > 4) items[1].fail("has more than 4 sizes", kFeatureHint);
  if (items.size() == 5) {
    tensor.type = type_of(items[4], tensor.shape.empty() ? 1 : tensor.shape.back());
  }
  if (has_random_blocks(tensor.type) && tensor.mean != 0.0F) {
    items[2].fail(
        fmt::format("is not 0, as the blocks of {} are random", tensor_type_info(tensor.type).name),
        kFeatureHint);
  }
  return tensor;
}

Counterfactual read_counterfactual(const JsonNode& node) {
  Counterfactual result;
  const JsonNode verdict = node.at("verdict");
  result.ignored = verdict.text() == "ignored";
  if (!result.ignored && verdict.text() != "misread") {
    verdict.fail(fmt::format("is '{}'", verdict.text()), "give ignored or misread");
  }
  result.name = node.at("name").nonempty_text();
  result.text = node.at("text").nonempty_text();
  const std::optional<JsonNode> patch = node.find("config");
  if (patch && !patch->is_object()) patch->fail("is not an object", kFeatureHint);
  result.patch = patch ? json_of_value(patch->json()) : "{}";
  if (const auto small = node.find("small")) {
    if (!small->json().IsBool()) small->fail("is neither true nor false", kFeatureHint);
    result.small = small->json().GetBool();
  }
  if (const auto changed = node.find("tensors")) {
    for (const auto& [glob, value] : changed->members()) {
      const bool is_left_out = value.json().IsNull();
      result.tensors.emplace_back(glob, is_left_out ? std::nullopt : std::optional(number(value)));
    }
  }
  return result;
}

void read_files(const JsonNode& node, Feature& feature) {
  const auto files = node.find("files");
  if (!files) return;
  bool has_folder = false;
  feature.has_gguf = false;
  for (const JsonNode& file : files->items()) {
    if (file.text() != "hf" && file.text() != "gguf")
      file.fail("is neither hf nor gguf", kFeatureHint);
    (file.text() == "hf" ? has_folder : feature.has_gguf) = true;
  }
  if (!has_folder) files->fail("has not hf", kFeatureHint);
}

Feature read_feature(const fs::path& folder) {
  const std::string path = (folder / kCase).string();
  const rapidjson::Document document = read_json_file(path, kMaxCaseBytes, kFeatureHint);
  const JsonNode root(document, path);
  Feature feature;
  feature.name = root.at("feature").nonempty_text();
  if (feature.name != folder.filename().string()) {
    root.at("feature").fail("is not the name of the folder", kFeatureHint);
  }
  feature.group = root.at("group").nonempty_text();
  feature.title = root.at("title").nonempty_text();
  for (const JsonNode& key : root.at("states").items()) feature.states.push_back(key.text());
  if (!root.at("config").is_object()) root.at("config").fail("is not an object", kFeatureHint);
  feature.config = json_of_value(root.at("config").json());
  if (const auto files = root.find("folder")) {
    for (const auto& [name, content] : files->members()) {
      if (!name.ends_with(".json") || name.find('/') != std::string::npos || name == kConfig) {
        content.fail("is no further JSON file of the model's folder", kFeatureHint);
      }
      feature.files.emplace_back(name, json_of_value(content.json()));
    }
  }
  feature.seed =
      static_cast<uint64_t>(root.at("seed").integer(0, std::numeric_limits<int64_t>::max()));
  for (const JsonNode& tensor : root.at("tensors").items()) {
    feature.tensors.push_back(read_tensor(tensor));
  }
  feature.tokens = root.at("tokens").token_ids();
  if (feature.tokens.empty()) root.at("tokens").fail("is empty", kFeatureHint);
  for (const JsonNode& each : root.at("counterfactuals").items()) {
    feature.counterfactuals.push_back(read_counterfactual(each));
  }
  read_files(root, feature);
  if (const auto metadata = root.find("gguf")) {
    for (const auto& [key, value] : metadata->members()) {
      rapidjson::Document copy;
      copy.CopyFrom(value.json(), copy.GetAllocator());
      feature.metadata.emplace_back(key, std::move(copy));
    }
  }
  feature.reference = (folder / kReference).string();
  Sha256 digest;
  for (const std::string& file : {path, feature.reference}) {
    std::error_code none;  // without a reference nothing is judged
    if (fs::exists(file, none)) digest.update(MappedFile(file).bytes());
  }
  feature.digest = digest.hex();
  return feature;
}

// RFC 7396: members of the patch replace those of the target, null removes them.
void merge(rapidjson::Value& target, const rapidjson::Value& patch,
           rapidjson::Document::AllocatorType& memory, int depth) {
  if (depth > kMaxPatchDepth) throw Error("the patch of a counterfactual is too deep");
  if (!target.IsObject()) target.SetObject();
  for (const auto& member : patch.GetObject()) {
    if (member.value.IsNull()) {
      target.RemoveMember(member.name);
      continue;
    }
    if (!target.HasMember(member.name)) {
      target.AddMember(rapidjson::Value(member.name, memory), rapidjson::Value(), memory);
    }
    rapidjson::Value& place = target[member.name];
    if (member.value.IsObject()) {
      merge(place, member.value, memory, depth + 1);
    } else {
      place.CopyFrom(member.value, memory);
    }
  }
}

}  // namespace

bool matches_glob(const std::string& glob, const std::string& name) {
  return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

std::vector<Feature> read_suite(const std::string& folder, const std::vector<std::string>& globs) {
  std::error_code failed;
  std::set<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (fs::exists(entry.path() / kCase)) cases.insert(entry.path());
  }
  if (failed || cases.empty()) {
    throw Error(fmt::format("holds no folder with a {}", kCase), folder,
                "give --suite the folder conform/suite of Assay's sources");
  }
  for (const std::string& glob : globs) {
    if (std::ranges::none_of(cases, [&](const fs::path& each) {
          return matches_glob(glob, each.filename().string());
        })) {
      throw Error(fmt::format("'{}' matches no feature", printable(glob, 60)), "--features",
                  fmt::format("they are the folders in {}", printable(folder)));
    }
  }
  std::vector<Feature> features;
  for (const fs::path& each : cases) {
    const std::string name = each.filename().string();
    const bool wanted = globs.empty() || std::ranges::any_of(globs, [&](const std::string& glob) {
                          return matches_glob(glob, name);
                        });
    if (wanted) features.push_back(read_feature(each));
  }
  std::ranges::stable_sort(features, {}, &Feature::group);
  return features;
}

std::string patched_config(const std::string& config, const std::string& patch) {
  rapidjson::Document document = parse_json_text(config, "config.json", kFeatureHint);
  const rapidjson::Document changes = parse_json_text(patch, "a counterfactual", kFeatureHint);
  merge(document, changes, document.GetAllocator(), 0);
  return json_of_value(document);
}

}  // namespace assay
