// A pool for which there is no memory, at each of the places where it asks for some.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "base/thread_pool.h"

namespace {

thread_local int allocations_left = -1;  // of this thread; -1: any number

}  // namespace

// NOLINTBEGIN(cppcoreguidelines-no-malloc): new cannot be made of itself. Not inline: a compiler
// that sees a free() of what new gave warns.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
// NOLINTEND(cppcoreguidelines-no-malloc)

namespace assay {
namespace {

// False if there was not enough memory.
bool made_with(int allocations) {
  allocations_left = allocations;
  try {
    const ThreadPool pool(8);
    allocations_left = -1;
    return true;
  } catch (const std::bad_alloc&) {
    allocations_left = -1;
    return false;
  }
}

// Breaks if the threads that run already were left without an owner: the program would end in
// std::terminate.
TEST(ThreadPoolMemory, LackOfItIsAnException) {
  int allocations = 0;
  while (!made_with(allocations)) ++allocations;
  EXPECT_GT(allocations, 8);  // each thread asks for some
}

}  // namespace
}  // namespace assay
