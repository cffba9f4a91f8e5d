#pragma once

#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <rapidjson/ostreamwrapper.h>
#include <rapidjson/prettywriter.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "base/json_file.h"
#include "tests/support/paths.h"

namespace assay::testing_support {

// What something costs, by the name of the figure: {"registers": 40}.
using Costs = std::map<std::string, uint64_t>;

// Figures that must not fall; all others must not grow.
inline bool is_least(const std::string& figure) {
  return figure == "bytes_in_flight";
}

// budgets.json: {SECTION: {NAME: Costs}}. With ASSAY_RECORD_BUDGETS=1 in the environment, what is
// measured becomes the budget, and nothing fails.
class Budgets {
 public:
  explicit Budgets(std::string path = source_path("tests/cuda_budgets/budgets.json"),
                   bool records = recording())
      : path_(std::move(path)),
        records_(records),
        document_(read_json_file(path_, 1 << 20, "record it again")) {}

  static bool recording() { return std::getenv("ASSAY_RECORD_BUDGETS") != nullptr; }

  // Everything in `section`, which holds what was recorded and nothing else, is within its budget.
  void hold(const std::string& section, const std::map<std::string, Costs>& measured) {
    if (records_) return record(section, measured);
    std::map<std::string, Costs> budgets = read(section);
    for (const auto& [name, costs] : measured) {
      const auto budget = budgets.find(name);
      if (budget == budgets.end()) {
        ADD_FAILURE() << section << " '" << name << "' has no budget" << kHint;
        continue;
      }
      for (const auto& [figure, cost] : costs) {
        const auto held = budget->second.find(figure);
        ASSERT_NE(held, budget->second.end()) << name << " has no budget of " << figure << kHint;
        const uint64_t recorded = held->second;
        const bool is_worse = is_least(figure) ? cost < recorded : cost > recorded;
        EXPECT_FALSE(is_worse) << section << " '" << name << "': " << figure
                               << (is_least(figure) ? " fell" : " grew") << " from " << recorded
                               << " to " << cost << kHint;
      }
      budgets.erase(budget);
    }
    for (const auto& [name, costs] : budgets) {
      ADD_FAILURE() << section << " '" << name << "' has a budget and is gone" << kHint;
    }
  }

  std::string text(const char* key) const { return document_[key].GetString(); }
  void set_text(const char* key, const std::string& value) {
    document_[key].SetString(value.c_str(), document_.GetAllocator());
    write();
  }

 private:
  static constexpr const char* kHint =
      "\n  If that is meant: ASSAY_RECORD_BUDGETS=1 build/release/bin/cuda_budgets_test, and "
      "commit tests/cuda_budgets/budgets.json with the reason.";

  std::map<std::string, Costs> read(const std::string& section) {
    std::map<std::string, Costs> result;
    if (!document_.HasMember(section.c_str())) return result;
    const rapidjson::Value& entries = document_[section.c_str()];
    for (const auto& entry : entries.GetObject()) {
      for (const auto& figure : entry.value.GetObject()) {
        result[entry.name.GetString()][figure.name.GetString()] = figure.value.GetUint64();
      }
    }
    return result;
  }

  void record(const std::string& section, const std::map<std::string, Costs>& measured) {
    auto& memory = document_.GetAllocator();
    rapidjson::Value entries(rapidjson::kObjectType);
    for (const auto& [name, costs] : measured) {
      rapidjson::Value figures(rapidjson::kObjectType);
      for (const auto& [figure, cost] : costs) {
        figures.AddMember(rapidjson::Value(figure.c_str(), memory), rapidjson::Value(cost), memory);
      }
      entries.AddMember(rapidjson::Value(name.c_str(), memory), figures, memory);
    }
    if (document_.HasMember(section.c_str())) {
      document_[section.c_str()] = entries;
    } else {
      document_.AddMember(rapidjson::Value(section.c_str(), memory), entries, memory);
    }
    write();
  }

  void write() {
    std::ofstream file(path_);
    rapidjson::OStreamWrapper stream(file);
    rapidjson::PrettyWriter<rapidjson::OStreamWrapper> writer(stream);
    writer.SetIndent(' ', 1);
    document_.Accept(writer);
    file << '\n';
  }

  std::string path_;
  bool records_;
  rapidjson::Document document_;
};

}  // namespace assay::testing_support
