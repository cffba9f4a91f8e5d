#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "kernels/memory.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr size_t kLargePage = size_t{2} << 20U;

// Whether a child process has the page at `address`.
bool child_has(void* address) {
  const pid_t child = fork();
  if (child == 0) {
    unsigned char resident = 0;
    _exit(mincore(address, 1, &resident) == 0 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return status == 0;
}

// What fills large pages begins at one, or the system could not use them.
TEST(HostMemory, PiecesBeginAtMultiplesOf64AndLargeOnesAtALargePage) {
  for (const size_t bytes : {size_t{1}, size_t{100}, kLargePage - 1, kLargePage, 3 * kLargePage}) {
    void* piece = host_memory().allocate(bytes);
    const size_t alignment = bytes >= kLargePage ? kLargePage : 64;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % alignment, 0) << bytes;
    std::memset(piece, 1, bytes);
    host_memory().release(piece);
  }
}

// Else each page that is written to while a log's guard runs would be copied first.
TEST(HostMemory, ChildrenHaveNoLargePieces) {
  void* piece = host_memory().allocate(2 * kLargePage);
  std::memset(piece, 1, 2 * kLargePage);
  EXPECT_FALSE(child_has(piece));
  host_memory().release(piece);
}

// Else a child would crash where it reads what the allocator put into a piece that was released.
TEST(HostMemory, ChildrenHaveWhatIsAllocatedWhereAPieceWas) {
  for (int i = 0; i < 4; ++i) {  // soon in the heap, and not mapped by itself
    void* piece = host_memory().allocate(2 * kLargePage);
    std::memset(piece, 1, 2 * kLargePage);
    host_memory().release(piece);
    void* const other = std::aligned_alloc(kLargePage, 2 * kLargePage);
    ASSERT_NE(other, nullptr);
    std::memset(other, 1, 2 * kLargePage);
    EXPECT_TRUE(child_has(other)) << i << (other == piece ? ", the same place" : "");
    std::free(other);
  }
}

TEST(HostMemory, NoBytesAreNoPiece) {
  EXPECT_EQ(host_memory().allocate(0), nullptr);
  host_memory().release(nullptr);
}

TEST(HostMemory, TooMuchIsAnErrorThatSaysHowMuch) {
  for (const size_t bytes : {size_t{PTRDIFF_MAX}, SIZE_MAX}) {
    EXPECT_THAT([&] { host_memory().allocate(bytes); },
                ThrowsMessage<Error>(AllOf(HasSubstr("no memory for " + std::to_string(bytes)),
                                           HasSubstr("--batch"))));
  }
}

}  // namespace
}  // namespace assay
