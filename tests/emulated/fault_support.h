#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "kernels/emulated/block.h"

namespace assay::testing_support {

inline emulated::LaunchShape one_block(unsigned threads) {
  return {{1, 1, 1}, {threads, 1, 1}, 0};
}

// Where a test does not say in which line the fault is.
constexpr int kNoLine = 0;

// An Error that says `what` is wrong, `where` in the grid, and in which line of `file`.
inline auto reports_in(const std::string& file, const std::string& what, const std::string& where,
                       int line) {
  const std::string at =
      line == kNoLine ? "" : "tests/emulated/" + file + ":" + std::to_string(line);
  return testing::ThrowsMessage<Error>(
      testing::AllOf(testing::HasSubstr(what), testing::HasSubstr(where), testing::HasSubstr(at)));
}

}  // namespace assay::testing_support
