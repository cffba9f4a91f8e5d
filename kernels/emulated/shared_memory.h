#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/emulated/source_place.h"
#include "kernels/emulated/thread_order.h"

namespace assay::emulated {

// The most that every device of compute capability 8.0 and up gives a block: that of 8.6 and 8.9.
constexpr size_t kMaxSharedBytes = size_t{99} * 1024;
// What a block can have without the kernel's opting in to more.
constexpr size_t kFreeSharedBytes = size_t{48} * 1024;

// The shared memory of a block. It knows for each element who wrote and read it last, and finds
// elements that are read before anyone wrote them, that are beyond an array's end, or that two
// threads touch, one of them writing, with neither a barrier nor a __syncwarp of both in between.
class SharedMemory {
 public:
  struct Array;

  SharedMemory(const ThreadOrder& order, size_t most_bytes);

  // Forgets the arrays: another block begins. `dynamic_bytes` is what the launch gave.
  void begin_block(size_t dynamic_bytes);

  // The array that `key` stands for, declared at `place`; made by the first thread that gets there.
  // Throws Error if the block then takes more than every device gives.
  Array& array(const void* key, const char* name, size_t element_bytes, size_t count,
               const Place& place);
  // That of all dynamic shared memory, of which a block has one. Throws Error if it was declared
  // with elements of another size.
  Array& dynamic_array(const char* name, size_t element_bytes, const Place& place);

  // Whether it is right; then it is noted. Most of an emulated kernel's accesses are these.
  bool read(Array& array, int64_t index, const Accessor& who, const Place& place);
  bool write(Array& array, int64_t index, const Accessor& who, const Place& place);
  // What is wrong with one that was not right.
  std::string why_not_read(const Array& array, int64_t index, const Accessor& who) const;
  std::string why_not_write(const Array& array, int64_t index, const Accessor& who) const;

  // By a copy that has begun, and is under way until finish_copy(); the element is not to be
  // touched meanwhile, and then was written by `who`. `bytes`: as many as an element has.
  bool begin_copy(Array& array, int64_t index, const Accessor& who, const Place& place);
  void finish_copy(Array& array, int64_t index, const unsigned char* bytes, const Accessor& who,
                   const Place& place);

  static unsigned char* element(Array& array, int64_t index);

  // Where an element is in the block's shared memory, as nvcc could lay it out, and its bytes.
  struct Part {
    size_t offset;
    size_t bytes;
  };
  static Part place_of(const Array& array, int64_t index);
  // Where the byte of an array is that `address` points to; nothing for an address elsewhere.
  std::optional<size_t> offset_of(const void* address) const;

 private:
  struct Access {
    Accessor who{.thread = -1};
    int line = 0;
    void set(const Accessor& by, const Place& place) {
      who = by;
      line = place.line;
    }
  };
  using Pair = std::array<Access, 2>;  // of different threads
  struct History {
    Access write;
    Pair reads;
  };
  bool conflicts(const Access& earlier, const Accessor& who) const {
    return earlier.who.thread >= 0 && !order_.separates(earlier.who, who);
  }
  static void note(Pair& pair, const Accessor& who, const Place& place) {
    const Accessor& first = pair[0].who;
    const bool is_free =
        first.thread == who.thread || first.thread < 0 || first.barriers != who.barriers;
    pair[is_free ? 0 : 1].set(who, place);
  }
  // Of an access to an element with earlier ones of it, or nothing.
  std::string race(const Array& array, size_t index, const Accessor& who, const char* does,
                   bool with_reads) const;

  void check_size(const Place& place) const;

  const ThreadOrder& order_;
  size_t most_bytes_;
  std::vector<std::unique_ptr<Array>> arrays_;
  size_t static_bytes_ = 0;
  size_t dynamic_bytes_ = 0;
};

struct SharedMemory::Array {
  Array(const void* array_key, const char* array_name, size_t first, size_t bytes_of_element,
        size_t count)
      : key(array_key),
        name(array_name),
        offset(first),
        element_bytes(bytes_of_element),
        bytes((count * bytes_of_element + 7) / 8, ~uint64_t{0}),
        history(count) {}

  // Whether an element is there and awaits no copy.
  bool is_there(int64_t index) const {
    const auto at = static_cast<size_t>(index);
    return index >= 0 && at < history.size() && (copies.empty() || copies[at] < 0);
  }

  const void* key;
  const char* name;
  size_t offset;
  size_t element_bytes;
  std::vector<uint64_t> bytes;
  std::vector<History> history;
  std::vector<int> copies;  // the thread whose copy to it is under way, or -1; once there was one
};

inline bool SharedMemory::read(Array& array, int64_t index, const Accessor& who,
                               const Place& place) {
  if (!array.is_there(index)) return false;
  History& history = array.history[static_cast<size_t>(index)];
  if (history.write.who.thread < 0 || conflicts(history.write, who)) return false;
  note(history.reads, who, place);
  return true;
}

inline bool SharedMemory::write(Array& array, int64_t index, const Accessor& who,
                                const Place& place) {
  if (!array.is_there(index)) return false;
  History& history = array.history[static_cast<size_t>(index)];
  if (conflicts(history.write, who) || conflicts(history.reads[0], who) ||
      conflicts(history.reads[1], who)) {
    return false;
  }
  history.write.set(who, place);
  return true;
}

inline unsigned char* SharedMemory::element(Array& array, int64_t index) {
  return reinterpret_cast<unsigned char*>(array.bytes.data()) +
         static_cast<size_t>(index) * array.element_bytes;
}

}  // namespace assay::emulated
