// In every test program: a test that skips fails, unless tests/expected_skips.txt says that it may,
// for that reason. So a test that silently stopped running is seen. With ASSAY_REQUIRE_MODELS=1 one
// also fails for want of what scripts/test.sh installs.

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/paths.h"

namespace assay {
namespace {

const std::string kList = source_path("tests/expected_skips.txt");

struct SkipList {
  struct Entry {
    std::string names;  // a glob
    std::string reason;
  };
  std::vector<Entry> entries;
  std::set<std::string> installed;  // reasons that scripts/test.sh takes away

  bool lists(const std::string& test) const {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const Entry& entry) { return is_of(entry, test); });
  }
  bool lists(const std::string& test, const std::string& message) const {
    return std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
      return is_of(entry, test) && message.starts_with(entry.reason + ": ");
    });
  }

  static bool is_of(const Entry& entry, const std::string& test) {
    return fnmatch(entry.names.c_str(), test.c_str(), 0) == 0;
  }
};

SkipList read_list() {
  SkipList list;
  std::ifstream file(kList);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string reasons;
    std::string names;
    if (line.starts_with('#') || !(words >> reasons >> names)) continue;
    if (reasons == "!") {
      list.installed.insert(names);
      while (words >> names) list.installed.insert(names);
      continue;
    }
    std::istringstream each(reasons);
    for (std::string reason; std::getline(each, reason, ',');) {
      list.entries.push_back({names, reason});
    }
  }
  return list;
}

bool is_required(const SkipList& list, const std::string& message) {
  const char* required = std::getenv("ASSAY_REQUIRE_MODELS");
  return required != nullptr && std::string_view(required) == "1" &&
         list.installed.contains(message.substr(0, message.find(':')));
}

class ExpectedSkips : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    const testing::TestResult& result = *test.result();
    if (!result.Skipped()) return;
    std::string message;
    for (int i = 0; i < result.total_part_count(); ++i) {
      if (result.GetTestPartResult(i).skipped()) message = result.GetTestPartResult(i).message();
    }
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    static const SkipList list = read_list();
    if (is_required(list, message)) {
      ADD_FAILURE() << name << " skips (" << message << "), and ASSAY_REQUIRE_MODELS is 1";
      return;
    }
    if (list.lists(name, message)) return;
    ADD_FAILURE() << name << " skips (" << message << "), which " << kList
                  << (list.lists(name) ? " lists for another reason" : " does not list");
  }
};

const bool kRegistered = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new ExpectedSkips);
  return true;
}();

}  // namespace
}  // namespace assay
