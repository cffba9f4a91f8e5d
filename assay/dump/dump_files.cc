#include "assay/dump/dump_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "assay/convert/npy_header.h"
#include "assay/convert/npz_reader.h"
#include "assay/convert/python_script.h"
#include "assay/convert/safetensors.h"
#include "assay/dump/base_logprobs.h"
#include "assay/dump/dump_values.h"
#include "assay/dump/printed_tensors.h"
#include "assay/dump/server_response.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/json_file.h"

namespace assay {

extern const std::string_view kDumpScript;  // dump.py, embedded by CMake

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxIndex = int64_t{64} << 20;  // bytes of a list of shards or of tensors
constexpr const char* kStatistics = "dump.json";  // of msprobe, which may have saved nothing else
constexpr const char* kIndex = ".safetensors.index.json";
constexpr const char* kHiddenStates = "hidden_states";  // vLLM's names
constexpr const char* kTokenIds = "token_ids";

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    files.push_back(entry.path().filename().string());
  }
  if (error) throw Error("cannot read: " + error.message(), folder);
  std::sort(files.begin(), files.end());
  return files;
}

bool has_ending_of_dumps(const std::string& path) {
  static constexpr const char* kEndings[] = {".npy",     ".npz", ".safetensors", kIndex,
                                             ".parquet", ".pt",  ".pth",         ".bin"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](const char* ending) { return path.ends_with(ending); });
}

// A folder with logs is the log of one run.
bool holds_dump(const std::string& folder) {
  std::error_code error;
  bool found = false;
  auto entry = fs::recursive_directory_iterator(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".jsonl") return false;
    found = found || has_ending_of_dumps(entry->path().string()) ||
            entry->path().filename() == kStatistics;
  }
  return found;
}

std::vector<std::string> safetensors_of(const std::string& folder) {
  std::vector<std::string> files = files_of(folder);
  std::erase_if(files, [](const std::string& name) { return !name.ends_with(".safetensors"); });
  return files;
}

void add_arrays(Dump& dump, std::shared_ptr<ArrayReader> reader, const std::string& file,
                const std::string& sequence = {}) {
  for (const auto& [name, info] : reader->arrays()) {
    dump.tensors.push_back({.name = name,
                            .info = info,
                            .reader = reader,
                            .array = name,
                            .file = file,
                            .sequence = sequence});
  }
}

// The shard of each tensor, by the index of a sharded safetensors file.
std::map<std::string, std::string> shards_of(const std::string& index) {
  const rapidjson::Document document = read_json_file(index, kMaxIndex, {});
  const auto* map =
      document.IsObject() && document.HasMember("weight_map") ? &document["weight_map"] : nullptr;
  if (map == nullptr || !map->IsObject()) {
    throw Error("has no object 'weight_map'", index, "give the index that safetensors files have");
  }
  std::map<std::string, std::string> shards;
  for (const auto& entry : map->GetObject()) {
    const std::string name = entry.value.IsString() ? json_text_of(entry.value) : "";
    if (name.empty() || name.find('/') != std::string::npos || name == "..") {
      throw Error(fmt::format("'{}' is not the name of a file beside it", printable(name, 80)),
                  index);
    }
    shards[json_text_of(entry.name)] = name;
  }
  return shards;
}

// A tensor that is lost would not be asked for.
void check_index(const Dump& dump, const std::string& index) {
  std::set<std::pair<std::string, std::string>> held;
  for (const DumpTensor& tensor : dump.tensors) {
    held.emplace(tensor.name, fs::path(tensor.file).filename().string());
  }
  for (const auto& [name, shard] : shards_of(index)) {
    if (held.contains({name, shard})) continue;
    throw Error(fmt::format("'{}' is not in '{}', where the index says it is", printable(name, 80),
                            printable(shard, 80)),
                index, "give all files of the dump");
  }
}

Dump open_shards(const std::string& folder, const std::set<std::string>& names) {
  Dump dump;
  std::set<std::string> seen;
  // Several files with the same names are several requests, as vLLM saves them.
  bool same = names.size() > 1;
  std::vector<std::shared_ptr<ArrayReader>> readers;
  for (const std::string& name : names) {
    readers.push_back(open_safetensors((fs::path(folder) / name).string()));
    for (const auto& [array, info] : readers.back()->arrays()) {
      same = same && (array == kHiddenStates || array == kTokenIds);
    }
  }
  size_t next = 0;
  for (const std::string& name : names) {
    const auto& reader = readers[next++];
    for (const auto& [array, info] : reader->arrays()) {
      if (same || seen.insert(array).second) continue;
      throw Error(fmt::format("'{}' is in another shard, too", printable(array, 80)),
                  (fs::path(folder) / name).string(), "give a folder of one dump");
    }
    add_arrays(dump, reader, (fs::path(folder) / name).string(),
               same ? fs::path(name).stem().string() : "");
  }
  return dump;
}

// Whether a dump may have left a file of this name, finished or not.
bool is_left_by_dump(std::string name) {
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  static constexpr std::string_view kEndings[] = {".npy", ".npz", ".pt", ".pth", ".safetensors"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) {
    const size_t at = name.find(ending);
    if (at == std::string::npos) return false;
    return at + ending.size() == name.size() || name[at + ending.size()] == '.';
  });
}

// Dumps beside the safetensors files of a folder, and below it.
std::string unread_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_read =
        entry.depth() == 0 && (name.ends_with(".safetensors") || name.ends_with(kIndex));
    if (is_read || !(is_left_by_dump(name) || has_ending_of_dumps(name))) continue;
    files.push_back(fs::relative(entry->path(), folder, error).string());
  }
  std::ranges::sort(files);
  if (files.empty()) return {};
  return fmt::format("{}: {} not read, the first '{}': the folder is read as one of safetensors",
                     printable(folder), count_of(files.size(), "file is", "files are"),
                     printable(files.front(), 80));
}

int64_t whole_number(const rapidjson::Value& value, const char* key) {
  return value.HasMember(key) && value[key].IsInt64() ? value[key].GetInt64() : 0;
}

std::string text_of(const rapidjson::Value& value, const char* key) {
  return value.HasMember(key) && value[key].IsString() ? json_text_of(value[key]) : "";
}

// By dump.py.
Dump open_by_python(const std::string& path, const std::string& work) {
  const std::string arrays = (fs::path(work) / "arrays.safetensors").string();
  run_python(kDumpScript, {path, arrays}, path,
             "this format needs python3 with numpy and torch; name another in ASSAY_PYTHON");
  const std::shared_ptr<ArrayReader> reader = open_safetensors(arrays);
  const auto list = reader->arrays().find("assay.dump");
  if (list == reader->arrays().end() || list->second.bytes > kMaxIndex) {
    throw Error("holds too many tensors", path, "give a part of the folder");
  }
  std::string text(static_cast<size_t>(list->second.bytes), '\0');
  reader->read("assay.dump", text.data(), text.size());
  const rapidjson::Document document = parse_json_text(text, path, {});
  Dump dump;
  dump.engine = text_of(document, "engine");
  for (const auto& warning : document["warnings"].GetArray()) {
    dump.warnings.push_back(
        fmt::format("{}: {}", printable(path), printable(json_text_of(warning))));
  }
  size_t number = 0;
  for (const auto& what : document["tensors"].GetArray()) {
    DumpTensor tensor;
    tensor.name = text_of(what, "name");
    tensor.array = std::to_string(number++);
    tensor.info = reader->arrays().at(tensor.array);
    tensor.reader = reader;
    tensor.file = path;
    tensor.step = {whole_number(what, "step"), whole_number(what, "call")};
    if (what.HasMember("token")) tensor.token_idx = whole_number(what, "token");
    if (what.HasMember("rank")) {
      const auto& rank = what["rank"];
      tensor.rank =
          Rank{whole_number(rank, "tp"), whole_number(rank, "pp"), whole_number(rank, "ep")};
    }
    tensor.dims = text_of(what, "dims");
    if (tensor.name.empty()) tensor.name = fs::path(path).stem().string();
    dump.tensors.push_back(std::move(tensor));
  }
  return dump;
}

// vLLM's hidden states are one array [tokens, layers, width] of the streams that enter the layers
// it was asked for, in ascending order: each becomes a tensor of its own.
void split_hidden_states(Dump& dump, const std::string& path, const std::vector<int64_t>& layers) {
  const auto is_states = [](const DumpTensor& tensor) {
    return tensor.name == kHiddenStates && tensor.info.shape.size() == 3 &&
           tensor.info.shape[1] > 0;
  };
  const bool has_ids = std::any_of(dump.tensors.begin(), dump.tensors.end(),
                                   [](const auto& tensor) { return tensor.name == kTokenIds; });
  const bool is_vllm = has_ids && std::any_of(dump.tensors.begin(), dump.tensors.end(), is_states);
  if (!is_vllm) {
    if (layers.empty()) return;
    throw no_hidden_states(path);
  }
  dump.engine = "vllm";
  std::vector<DumpTensor> split;
  for (const DumpTensor& tensor : dump.tensors) {
    if (!is_states(tensor)) {
      split.push_back(tensor);
      continue;
    }
    const int64_t n_layers = tensor.info.shape[1];
    if (!layers.empty() && n_layers != std::ssize(layers)) {
      throw Error(
          fmt::format("holds {}, --layers names {}", count_of(n_layers, "layer"), layers.size()),
          path, "name those of eagle_aux_hidden_state_layer_ids");
    }
    const auto open = [&] { return std::shared_ptr(open_safetensors(tensor.file)); };
    for (DumpTensor& part : parts_of(tensor, open)) split.push_back(std::move(part));
    const size_t first = split.size() - static_cast<size_t>(n_layers);
    for (size_t i = 0; i < layers.size(); ++i) {
      split[first + i].name =
          layers[i] == 0 ? "embedding" : fmt::format("layer_{}_output", layers[i] - 1);
    }
  }
  dump.tensors = std::move(split);
  if (layers.empty()) {
    dump.warnings.push_back(fmt::format(
        "{}: vLLM's file does not say which layers it holds: give assay import --layers, the "
        "eagle_aux_hidden_state_layer_ids",
        printable(path)));
  }
}

// The number behind the last point of a name, which is cut off; nothing if none is there.
std::optional<int64_t> take_number(std::string& name) {
  const size_t point = name.rfind('.');
  if (point == std::string::npos) return std::nullopt;
  int64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + point + 1, end, number);
  if (read.ec != std::errc() || read.ptr != end || number < 0) return std::nullopt;
  name.resize(point);
  return number;
}

// What transformers returns with output_hidden_states: "hidden_states.N" is what enters layer N,
// and the last one what the final norm gives. Of generate() "hidden_states.STEP.N", beside
// "logits.STEP" of the last token.
void name_hidden_states(Dump& dump, const std::string& path) {
  const auto is_checkpoint = [](const DumpTensor& tensor) {
    return tensor.name == "embedding" || tensor.name == "final_norm" ||
           (tensor.name.starts_with("layer_") && tensor.name.ends_with("_output"));
  };
  if (std::ranges::any_of(dump.tensors, is_checkpoint)) return;
  std::map<std::optional<int64_t>, std::map<int64_t, DumpTensor*>> steps;
  for (DumpTensor& tensor : dump.tensors) {
    std::string name = tensor.name;
    const std::optional<int64_t> layer = take_number(name);
    if (!layer) continue;
    const std::optional<int64_t> step = take_number(name);
    if (name == kHiddenStates) steps[step].emplace(*layer, &tensor);
  }
  bool named = false;
  for (const auto& [step, states] : steps) {
    const auto last = std::ssize(states) - 1;
    if (last < 1 || states.rbegin()->first != last) continue;
    for (const auto& [n, tensor] : states) {
      tensor->name = n == 0      ? "embedding"
                     : n == last ? "final_norm"
                                 : fmt::format("layer_{}_output", n - 1);
      if (step) tensor->step.first = *step;
    }
    named = true;
  }
  if (!named) return;
  for (DumpTensor& tensor : dump.tensors) {
    std::string name = tensor.name;
    const std::optional<int64_t> step = take_number(name);
    if (!step || name != "logits" || !steps.contains(step)) continue;
    tensor.name = name;
    tensor.step.first = *step;
  }
  dump.warnings.push_back(fmt::format(
      "{}: 'hidden_states' are read as transformers returns them: the embedding, the outputs of "
      "all layers but the last, and the final norm; save others by other names",
      printable(path)));
}

}  // namespace

Error no_hidden_states(const std::string& path) {
  return Error("is not what vLLM's hidden states connector saved", path, "leave out --layers");
}

bool is_dump(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return holds_dump(path);
  if (path.ends_with(".json") && read_server_response(path)) return true;
  return has_ending_of_dumps(path) || is_base_logprobs(path) || is_printed(path);
}

Dump open_dump(const std::string& path, const std::string& work,
               const std::vector<int64_t>& vllm_layers) {
  Dump dump;
  std::error_code error;
  const std::string folder = fs::path(path).parent_path().string();
  if (path.ends_with(".npy")) {
    add_arrays(dump, open_npy(path), path);
  } else if (path.ends_with(".npz")) {
    add_arrays(dump, open_npz(path), path);
  } else if (path.ends_with(".safetensors")) {
    add_arrays(dump, open_safetensors(path), path);
  } else if (path.ends_with(kIndex)) {
    std::set<std::string> names;
    for (const auto& [tensor, shard] : shards_of(path)) names.insert(shard);
    dump = open_shards(folder, names);
    check_index(dump, path);
  } else if (fs::is_directory(path, error) && !safetensors_of(path).empty()) {
    const std::vector<std::string> names = safetensors_of(path);
    dump = open_shards(path, {names.begin(), names.end()});
    for (const std::string& name : files_of(path)) {
      if (name.ends_with(kIndex)) check_index(dump, (fs::path(path) / name).string());
    }
    std::string unread = unread_files(path);
    if (!unread.empty()) dump.warnings.push_back(std::move(unread));
  } else {
    if (!fs::exists(path, error)) throw Error("no such file or folder", path, "check the path");
    dump = open_by_python(path, work);
  }
  split_hidden_states(dump, path, vllm_layers);
  if (dump.engine.empty()) name_hidden_states(dump, path);
  return dump;
}

}  // namespace assay
