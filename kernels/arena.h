#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <utility>

namespace assay {

// Hands out pieces of few large blocks of memory, whose contents it never touches: asking a device
// for memory takes as long as many kernels.
class Arena {
 public:
  static constexpr size_t kAlignment = 256;
  static constexpr size_t kBlockBytes = size_t{64} << 20;  // the least that is asked for

  // Where blocks come from. `take` gives so many bytes at a multiple of kAlignment, and throws
  // Error if there are none.
  struct Source {
    std::function<void*(size_t bytes)> take;
    std::function<void(void* block)> give_back;
  };

  // `gap`: bytes that stay free behind each piece.
  explicit Arena(Source source, size_t gap = 0) : source_(std::move(source)), gap_(gap) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Sees to it that pieces of so many bytes in all, each rounded up to kAlignment, come from one
  // block. Throws Error as `take` does.
  void reserve(size_t bytes);

  // A piece at a multiple of kAlignment. Throws Error as `take` does.
  void* allocate(size_t bytes);
  // A piece that allocate() gave; anything else is ignored, for releasing must not throw.
  void release(void* piece) noexcept;

  // What a piece of `bytes` takes up.
  size_t rounded(size_t bytes) const;
  size_t n_blocks() const { return blocks_.size(); }

 private:
  using Ranges = std::map<std::byte*, size_t>;  // address to bytes

  Ranges::iterator find_free(size_t bytes);
  void add_block(size_t bytes);
  void give_back_empty();
  // The block that holds `address`.
  Ranges::const_iterator block_of(std::byte* address) const;

  Source source_;
  size_t gap_;
  Ranges blocks_;
  Ranges free_;
  Ranges used_;
};

}  // namespace assay
