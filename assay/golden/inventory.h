#pragma once

#include <compare>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "assay/golden/manifest.h"

namespace assay {

// The fixtures that a folder of goldens must have: ROOT/inventory.txt, a line "MODEL TYPE PROMPT
// SET" for each, `#` before a comment. A manifest cannot tell that it, or a part of it, is gone.
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

// Nothing where ROOT has none. Throws Error that names the line that is no entry, or is there
// twice.
std::optional<Inventory> read_inventory(const std::string& root);

std::string inventory_text(const Inventory& inventory);

// What a manifest has.
Inventory inventory_of(const GoldenManifest& manifest);

// The entries of one model.
Inventory inventory_of_model(const Inventory& inventory, const std::string& model);

// One line for each that only one of the two has; for a model, or a type, of which nothing is there
// any more, one for all. None: they are the same.
std::vector<std::string> inventory_problems(const Inventory& listed, const Inventory& found);

// Puts what `manifest` has in the place of its model's lines, if ROOT has an inventory. Returns
// what changes, a line each.
std::vector<std::string> update_inventory(const std::string& root, const GoldenManifest& manifest);

}  // namespace assay
