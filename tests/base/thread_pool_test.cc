#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/error.h"

namespace assay {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

// A piece left out or done twice would leave wrong numbers in a product.
TEST_P(ThreadPoolTest, EachIndexIsVisitedOnce) {
  ThreadPool pool(GetParam());
  for (const int64_t count : {0, 1, 2, 7, 64, 1000}) {
    for (const int64_t grain : {1, 4, 64}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
      pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % grain, 0);
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      for (const auto& visit : visits) EXPECT_EQ(visit, 1);
    }
  }
}

class VariableSet {
 public:
  explicit VariableSet(const char* value) { setenv("ASSAY_THREADS", value, 1); }
  VariableSet(const VariableSet&) = delete;
  VariableSet& operator=(const VariableSet&) = delete;
  ~VariableSet() {
    before_.empty() ? unsetenv("ASSAY_THREADS") : setenv("ASSAY_THREADS", before_.c_str(), 1);
  }

 private:
  std::string before_ = environment("ASSAY_THREADS");
};

TEST(ThreadPool, TheEnvironmentGivesTheNumberThatIsNotRequested) {
  {
    const VariableSet set("3");
    EXPECT_EQ(ThreadPool(0).n_threads(), 3);
    EXPECT_EQ(ThreadPool(2).n_threads(), 2);
  }
  for (const char* wrong : {"0", "-1", "two", "2x", "1025", "99999999999", " 2"}) {
    const VariableSet set(wrong);
    try {
      ThreadPool pool(0);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("ASSAY_THREADS: "), 0U) << error.what();
    }
  }
}

// Breaks if a command without --threads failed for threads that were not requested, and asked for
// fewer. No system has room for stacks of 64 TiB.
TEST(ThreadPool, OnePerProcessorIsAsManyAsTheSystemGives) {
  pthread_attr_t before;
  pthread_attr_t huge;
  pthread_getattr_default_np(&before);
  pthread_attr_init(&huge);
  pthread_attr_setstacksize(&huge, size_t{1} << 46);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  ThreadPool pool(0);
  EXPECT_EQ(pool.n_threads(), 1);
  std::string message;
  try {
    const ThreadPool asked(2);
  } catch (const Error& error) {
    message = error.what();
  }
  pthread_setattr_default_np(&before);
  EXPECT_EQ(message.find("--threads: cannot start 2 threads: "), 0U) << message;
  int64_t sum = 0;
  pool.parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 100);
}

TEST_P(ThreadPoolTest, ManyLoopsInARow) {
  ThreadPool pool(GetParam());
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 2000; ++i) {
    pool.parallel_for(16, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  }
  EXPECT_EQ(sum, 2000 * 16);
}

TEST_P(ThreadPoolTest, AnExceptionReachesTheCallerAndThePoolGoesOn) {
  ThreadPool pool(GetParam());
  EXPECT_THROW(pool.parallel_for(8, 1, [](int64_t, int64_t) { throw std::runtime_error("x"); }),
               std::runtime_error);
  std::atomic<int> sum{0};
  pool.parallel_for(8, 1,
                    [&](int64_t begin, int64_t end) { sum += static_cast<int>(end - begin); });
  EXPECT_EQ(sum, 8);
}

TEST(ThreadPool, RefusesSillyCounts) {
  EXPECT_THROW(ThreadPool(-1), Error);
  EXPECT_THROW(ThreadPool(1000000), Error);
}

}  // namespace
}  // namespace assay
