#pragma once

#include <compare>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "assay/golden/manifest.h"

namespace assay {

// The fixtures that a folder of goldens must have: ROOT/inventory.txt, a line "MODEL TYPE PROMPT
// SET" for each, `#` before a comment. A manifest cannot report that it, or a part of it, is
// missing.
inline constexpr const char* kInventoryName = "inventory.txt";
inline constexpr const char* kTextSet = "text";  // the set of a GoldenText, which has no fixture

struct InventoryEntry {
  std::string model;
  std::string type;
  std::string prompt;
  std::string set;

  auto operator<=>(const InventoryEntry&) const = default;
};

using Inventory = std::set<InventoryEntry>;

// Nothing if ROOT has none. Throws Error that names a line that is not an entry, or a duplicate.
std::optional<Inventory> read_inventory(const std::string& root);

std::string inventory_text(const Inventory& inventory);

// The entries of a manifest.
Inventory inventory_of(const GoldenManifest& manifest);

// The entries of one model.
Inventory inventory_of_model(const Inventory& inventory, const std::string& model);

// One line for each entry that only one of the two has; one for all if a model, or a type, is
// missing entirely. None: they are the same.
std::vector<std::string> inventory_problems(const Inventory& listed, const Inventory& found);

// Replaces the model's lines by the entries of `manifest`, if ROOT has an inventory. Returns the
// changes, one line each.
std::vector<std::string> update_inventory(const std::string& root, const GoldenManifest& manifest);

}  // namespace assay
