#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/address_sanitizer.h"
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

TEST(HostMemory, PiecesBeginAtMultiplesOf64) {
  for (const size_t bytes :
       {size_t{1}, size_t{100}, size_t{100'001}, kLargePage - 1, kLargePage, 99 * kLargePage}) {
    void* piece = host_memory().allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0) << bytes;
    std::memset(piece, 1, bytes);
    host_memory().release(piece);
  }
}

// Pieces of `bytes` each, with their number in every byte.
std::vector<unsigned char*> numbered_pieces(int n, size_t bytes) {
  std::vector<unsigned char*> pieces;
  for (int i = 0; i < n; ++i) {
    pieces.push_back(static_cast<unsigned char*>(host_memory().allocate(bytes)));
  }
  for (int i = 0; i < n; ++i) std::memset(pieces[static_cast<size_t>(i)], i, bytes);
  return pieces;
}

TEST(HostMemory, PiecesKeepWhatIsInThemWhileOthersComeAndGo) {
  constexpr size_t kBytes = 100'001;
  std::vector<unsigned char*> pieces = numbered_pieces(8, kBytes);
  for (const int released : {2, 3, 5}) host_memory().release(pieces[released]);
  for (const size_t bytes : {2 * kBytes, kBytes, 100 * kBytes}) {
    auto* const other = static_cast<unsigned char*>(host_memory().allocate(bytes));
    std::memset(other, 99, bytes);
    pieces.push_back(other);
  }
  for (const int i : {0, 1, 4, 6, 7}) {
    EXPECT_TRUE(std::all_of(pieces[i], pieces[i] + kBytes, [&](int byte) { return byte == i; }));
    host_memory().release(pieces[i]);
  }
  for (size_t i = 8; i < pieces.size(); ++i) host_memory().release(pieces[i]);
}

#if !defined(ASSAY_ADDRESS_SANITIZER)
// A small page costs several times as much when it is first written to.
TEST(HostMemory, PiecesShareLargePages) {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  std::getline(setting, modes);
  if (modes.empty() || modes.find("[never]") != std::string::npos) {
    GTEST_SKIP() << "this system has no large pages";
  }
  const auto faults = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  const auto before = faults();
  for (unsigned char* piece : numbered_pieces(160, 100'000)) host_memory().release(piece);
  EXPECT_LT(faults() - before, 1000);  // 3,906 pages of 4 KiB
}

// The memory of a parent's pieces is not there in a child, whose own pieces must be elsewhere.
TEST(HostMemory, AChildHasPiecesOfItsOwn) {
  const std::vector<unsigned char*> pieces = numbered_pieces(2, 100'000);
  host_memory().release(pieces[0]);
  const pid_t child = fork();
  if (child == 0) {
    host_memory().release(pieces[1]);
    const std::vector<unsigned char*> own = numbered_pieces(3, 100'000);
    const bool kept = own[0][99'999] == 0 && own[1][99'999] == 1 && own[2][99'999] == 2;
    for (unsigned char* piece : own) host_memory().release(piece);
    _exit(kept && numbered_pieces(1, 100'000)[0] == own[0] ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pieces[1][99'999], 1);
  host_memory().release(pieces[1]);
}
#endif

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

#if !defined(ASSAY_ADDRESS_SANITIZER)
// Where the system gives no region, which is far larger than what was asked for, it may give that.
TEST(HostMemory, PiecesAreFoundWhereARegionHasNoRoom) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {1, 1};  // from now on nothing can be mapped
    void* const kept = std::malloc(size_t{4} << 20U);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (mallopt(M_MMAP_THRESHOLD, 32 << 20) == 0) _exit(4);  // the most that glibc takes
    void* volatile heap = std::malloc(size_t{4} << 20U);     // else the compiler leaves it out
    std::free(heap);
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    try {
      std::memset(host_memory().allocate(100'000), 1, 100'000);
    } catch (const Error&) {
      _exit(1);
    }
    _exit(kept == nullptr ? 3 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

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
