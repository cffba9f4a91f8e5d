#include "assay/golden/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>

#include "assay/golden/files.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/input_file.h"

namespace assay {
namespace {

constexpr int64_t kMaxInventoryBytes = 1 << 20;
constexpr const char* kHead =
    "# The fixtures that must be here: model, type, prompt, set. `assay golden verify` and "
    "lint.py\n"
    "# report each that is missing or not listed; `assay golden list --inventory` prints this "
    "file.\n";

std::string path_of(const std::string& root) {
  return root + (root.ends_with('/') ? "" : "/") + kInventoryName;
}

std::string name_of(const InventoryEntry& entry) {
  return fmt::format("{} {} {} {}", entry.model, entry.type, entry.prompt, entry.set);
}

// A word of a line, for any name in a manifest.
std::string word_of(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isspace(c) != 0 || c == '#' || c == '\0'; }, '_');
  return name.empty() ? "_" : name;
}

Inventory without(const Inventory& all, const Inventory& others) {
  Inventory rest;
  std::set_difference(all.begin(), all.end(), others.begin(), others.end(),
                      std::inserter(rest, rest.end()));
  return rest;
}

template <typename Same>
size_t count(const Inventory& inventory, const Same& same) {
  return static_cast<size_t>(std::count_if(inventory.begin(), inventory.end(), same));
}

}  // namespace

std::optional<Inventory> read_inventory(const std::string& root) {
  const std::string path = path_of(root);
  if (!file_exists(path)) return {};
  Inventory inventory;
  std::istringstream lines(read_whole_file(path, kMaxInventoryBytes));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.resize(std::min(line.size(), line.find('#')));
    std::istringstream words(line);
    InventoryEntry entry;
    std::string more;
    if (!(words >> entry.model)) continue;
    if (!(words >> entry.type >> entry.prompt >> entry.set) || words >> more) {
      throw Error("is not MODEL TYPE PROMPT SET", fmt::format("{}:{}", path, number),
                  "assay golden list --inventory prints what is there");
    }
    if (!inventory.insert(entry).second) {
      throw Error(fmt::format("lists {} twice", name_of(entry)), fmt::format("{}:{}", path, number),
                  "remove the line");
    }
  }
  return inventory;
}

std::string inventory_text(const Inventory& inventory) {
  std::string text = kHead;
  for (const InventoryEntry& entry : inventory) text += name_of(entry) + "\n";
  return text;
}

Inventory inventory_of(const GoldenManifest& manifest) {
  Inventory inventory;
  for (const GoldenFile& file : manifest.files) {
    for (const GoldenLog& log : file.logs) {
      inventory.insert(
          {word_of(manifest.model), word_of(file.type), word_of(log.prompt), word_of(log.set)});
    }
    for (const GoldenText& text : file.texts) {
      inventory.insert(
          {word_of(manifest.model), word_of(file.type), word_of(text.prompt), kTextSet});
    }
  }
  return inventory;
}

Inventory inventory_of_model(const Inventory& inventory, const std::string& model) {
  Inventory part;
  std::copy_if(
      inventory.begin(), inventory.end(), std::inserter(part, part.end()),
      [name = word_of(model)](const InventoryEntry& entry) { return entry.model == name; });
  return part;
}

std::vector<std::string> inventory_problems(const Inventory& listed, const Inventory& found) {
  std::vector<std::string> problems;
  const Inventory missing = without(listed, found);
  std::set<std::string> told;
  const auto report_all_of = [&](const std::string& what, const auto& same) {
    if (count(found, same) > 0) return false;
    if (!told.insert(what).second) return true;
    problems.push_back(fmt::format("lists {} of {}: all are missing",
                                   count_of(count(listed, same), "fixture"), what));
    return true;
  };
  for (const InventoryEntry& entry : missing) {
    const auto same_model = [&](const InventoryEntry& other) { return other.model == entry.model; };
    const auto same_type = [&](const InventoryEntry& other) {
      return same_model(other) && other.type == entry.type;
    };
    if (report_all_of(entry.model, same_model)) continue;
    if (report_all_of(entry.model + " " + entry.type, same_type)) continue;
    problems.push_back(fmt::format("lists {}, which is missing", name_of(entry)));
  }
  for (const InventoryEntry& entry : without(found, listed)) {
    problems.push_back(fmt::format("does not list {}, which exists", name_of(entry)));
  }
  return problems;
}

std::vector<std::string> update_inventory(const std::string& root, const GoldenManifest& manifest) {
  std::vector<std::string> changes;
  const auto before = read_inventory(root);
  if (!before) return changes;
  const Inventory old = inventory_of_model(*before, manifest.model);
  const Inventory now = inventory_of(manifest);
  for (const InventoryEntry& entry : without(old, now)) {
    changes.push_back(name_of(entry) + " is removed");
  }
  for (const InventoryEntry& entry : without(now, old)) {
    changes.push_back(name_of(entry) + " is new");
  }
  if (changes.empty()) return changes;
  Inventory after = without(*before, old);
  after.insert(now.begin(), now.end());
  replace_file(inventory_text(after), path_of(root));
  return changes;
}

}  // namespace assay
