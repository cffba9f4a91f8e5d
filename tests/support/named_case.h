#pragma once

#include <gtest/gtest.h>

#include <ranges>
#include <string>
#include <vector>

namespace assay::testing_support {

// The last part of the name of the one parameterized case that GoogleTest's filter asks for, as
// ctest does in a process for each case; empty if it asks for more or for others. What only other
// cases need does not have to be read then.
inline std::string named_case() {
  const std::string filter = GTEST_FLAG_GET(filter);
  const size_t slash = filter.rfind('/');
  const bool is_one =
      slash != std::string::npos && filter.find_first_of("*?:-") == std::string::npos;
  return is_one ? filter.substr(slash + 1) : "";
}

// Those of `all` with whose name and a '_' the named case begins; all of them if there is no such
// case. GoogleTest registers all parameters in each process, which takes longer than most cases.
template <class Range, class NameOf>
auto of_named_case(const Range& all, const NameOf& name_of) {
  const std::string name = named_case();
  std::vector<std::ranges::range_value_t<Range>> named;
  for (const auto& each : all) {
    if (name.starts_with(std::string(name_of(each)) + "_")) named.push_back(each);
  }
  if (named.empty()) named.assign(std::ranges::begin(all), std::ranges::end(all));
  return named;
}

}  // namespace assay::testing_support
