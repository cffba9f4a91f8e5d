#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"
#include "kernels/memory.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// What fills large pages begins at one, or the system could not use them.
TEST(HostMemory, PiecesBeginAtMultiplesOf64AndLargeOnesAtALargePage) {
  constexpr size_t kLargePage = size_t{2} << 20U;
  for (const size_t bytes : {size_t{1}, size_t{100}, kLargePage - 1, kLargePage, 3 * kLargePage}) {
    void* piece = host_memory().allocate(bytes);
    const size_t alignment = bytes >= kLargePage ? kLargePage : 64;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % alignment, 0) << bytes;
    std::memset(piece, 1, bytes);
    host_memory().release(piece);
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
