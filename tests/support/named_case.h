#pragma once

#include <gtest/gtest.h>

#include <string>

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

}  // namespace assay::testing_support
