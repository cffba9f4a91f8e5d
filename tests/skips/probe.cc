// Not a test of its own: what tests/skips/CMakeLists.txt runs to see that the gate for skipped
// tests can fail.

#include <gtest/gtest.h>

TEST(SkipGate, Listed) {
  GTEST_SKIP() << "gpu: as the list says";
}

TEST(SkipGate, Model) {
  GTEST_SKIP() << "model: as the list says";
}

TEST(SkipGate, ListedForAnotherReason) {
  GTEST_SKIP() << "model: the list says gpu";
}

TEST(SkipGate, NotListed) {
  GTEST_SKIP() << "gpu: nobody said that it may";
}
