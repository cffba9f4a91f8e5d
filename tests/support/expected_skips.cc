// In every test program: a test that skips fails, unless tests/expected_skips.txt says that it may,
// for that reason. So a test that silently stopped running is seen.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace assay {
namespace {

constexpr const char* kList = ASSAY_SOURCE_DIR "/tests/expected_skips.txt";

// By the test's name, the reasons for which it may skip.
std::map<std::string, std::vector<std::string>> read_list() {
  std::map<std::string, std::vector<std::string>> list;
  std::ifstream file(kList);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string reasons;
    std::string name;
    if (line.starts_with('#') || !(words >> reasons >> name)) continue;
    std::istringstream each(reasons);
    for (std::string reason; std::getline(each, reason, ',');) list[name].push_back(reason);
  }
  return list;
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
    static const auto list = read_list();
    const auto entry = list.find(name);
    const bool expected =
        entry != list.end() &&
        std::any_of(entry->second.begin(), entry->second.end(),
                    [&](const std::string& reason) { return message.starts_with(reason + ": "); });
    if (expected) return;
    ADD_FAILURE() << name << " skips (" << message << "), which " << kList
                  << (entry == list.end() ? " does not list" : " lists for another reason");
  }
};

const bool kRegistered = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new ExpectedSkips);
  return true;
}();

}  // namespace
}  // namespace assay
