#include "assay/mutate/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/model.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// A part of the catalogue that is not joined in would go unseen.
TEST(Catalogue, Has150FaultsOfDifferentNames) {
  std::set<std::string> names;
  std::set<FaultGroup> groups;
  for (const Fault& fault : fault_catalogue()) {
    EXPECT_TRUE(names.insert(fault.name).second) << fault.name;
    EXPECT_FALSE(fault.what.empty()) << fault.name;
    groups.insert(fault.group);
  }
  EXPECT_GE(names.size(), 150U);
  EXPECT_GE(groups.size(), 12U);
}

// The faults of docs/mutation.md, each with what it says is wrong: the rows of its tables that
// begin with a name in backticks, of which other sections have some too.
std::vector<std::pair<std::string, std::string>> faults_of_the_page() {
  std::ifstream page(source_path("docs/mutation.md"));
  std::vector<std::pair<std::string, std::string>> faults;
  bool in_results = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) in_results = line == "## Results";
    if (!in_results || !line.starts_with("| `")) continue;
    const size_t end = line.find("` | ", 3);
    if (end == std::string::npos) continue;
    const size_t what = end + 4;
    faults.emplace_back(line.substr(3, end - 3), line.substr(what, line.find(" | ", what) - what));
  }
  return faults;
}

// A page that was not written anew would speak of faults that are gone, or leave some out.
TEST(Catalogue, PageListsTheFaultsInThisOrder) {
  std::vector<std::pair<std::string, std::string>> faults;
  for (const Fault& fault : fault_catalogue()) faults.emplace_back(fault.name, fault.what);
  EXPECT_EQ(faults_of_the_page(), faults)
      << "write it anew: assay mutate --format markdown -o docs/mutation.md";
}

TEST(Catalogue, SuggestsTheNearestName) {
  EXPECT_EQ(find_fault("rope-pairing").name, "rope-pairing");
  EXPECT_THAT([] { find_fault("rope-paring"); },
              ThrowsMessage<Error>(HasSubstr("'rope-pairing' is the nearest")));
}

// Its log would be right, and say that it is not.
TEST(Catalogue, AFaultThatNoOpCanHaveIsRefused) {
  const Model model(
      std::make_shared<const Gguf>(source_path("golden/hunyuan-moe/hunyuan-moe-f32.gguf")));
  EXPECT_THAT(find_fault("inputs-bf16").unsupported_reason(model), HasSubstr("no op of it"));
  EXPECT_EQ(find_fault("inputs-f16").unsupported_reason(model), "");
}

}  // namespace
}  // namespace assay
