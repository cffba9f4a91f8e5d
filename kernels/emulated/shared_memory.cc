#include "kernels/emulated/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace assay::emulated {
namespace {

constexpr size_t kAlignment = 16;  // of an array, at most

// What is wrong with touching an element, if it is not there or a copy to it is under way.
std::string not_there(const SharedMemory::Array& array, int64_t index) {
  if (array.is_there(index)) return {};
  const std::string element = fmt::format("element {} of the shared array '{}'", index, array.name);
  const size_t count = array.history.size();
  if (index < 0 || static_cast<size_t>(index) >= count)
    return fmt::format("{} of {}", element, count);
  return fmt::format("{}, to which a copy of thread {} is under way", element,
                     array.copies[static_cast<size_t>(index)]);
}

}  // namespace

SharedMemory::SharedMemory(const ThreadOrder& order, size_t most_bytes)
    : order_(order), most_bytes_(most_bytes) {}

void SharedMemory::begin_block(size_t dynamic_bytes) {
  arrays_.clear();
  static_bytes_ = 0;
  dynamic_bytes_ = dynamic_bytes;
}

void SharedMemory::check_size(const Place& place) const {
  const size_t bytes = static_bytes_ + dynamic_bytes_;
  if (static_bytes_ <= kFreeSharedBytes && bytes <= most_bytes_) return;
  const std::string at = fmt::format("{}:{}", place.file, place.line);
  if (static_bytes_ <= kFreeSharedBytes && bytes <= kMaxSharedBytes) {
    throw Error(fmt::format("a block takes {} bytes of shared memory; without opting in, {} is the "
                            "most",
                            bytes, kFreeSharedBytes),
                at);
  }
  throw Error(fmt::format("a block takes {} bytes of shared memory, {} of them dynamic; {} is the "
                          "most that every device gives, {} of them without being dynamic",
                          bytes, dynamic_bytes_, kMaxSharedBytes, kFreeSharedBytes),
              at);
}

SharedMemory::Array& SharedMemory::array(const void* key, const char* name, size_t element_bytes,
                                         size_t count, const Place& place) {
  for (const auto& array : arrays_) {
    if (array->key == key) return *array;
  }
  const size_t offset = static_bytes_;
  static_bytes_ += (count * element_bytes + kAlignment - 1) / kAlignment * kAlignment;
  check_size(place);
  return *arrays_.emplace_back(std::make_unique<Array>(key, name, offset, element_bytes, count));
}

SharedMemory::Array& SharedMemory::dynamic_array(const char* name, size_t element_bytes,
                                                 const Place& place) {
  for (const auto& array : arrays_) {
    if (array->key != this) continue;
    if (array->element_bytes == element_bytes) return *array;
    throw Error(fmt::format("the dynamic shared memory '{}' of elements of {} bytes is '{}' of {} "
                            "too",
                            name, element_bytes, array->name, array->element_bytes),
                fmt::format("{}:{}", place.file, place.line));
  }
  check_size(place);
  return *arrays_.emplace_back(std::make_unique<Array>(this, name, kFreeSharedBytes, element_bytes,
                                                       dynamic_bytes_ / element_bytes));
}

SharedMemory::Part SharedMemory::place_of(const Array& array, int64_t index) {
  return {array.offset + static_cast<size_t>(index) * array.element_bytes, array.element_bytes};
}

std::optional<size_t> SharedMemory::offset_of(const void* address) const {
  for (const auto& array : arrays_) {
    const auto* const first = reinterpret_cast<const unsigned char*>(array->bytes.data());
    const auto at = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(first);
    if (at < array->history.size() * array->element_bytes) return array->offset + at;
  }
  return {};
}

std::string SharedMemory::race(const Array& array, size_t index, const Accessor& who,
                               const char* does, bool with_reads) const {
  const auto found = [&](const Access& earlier, const char* did) {
    return fmt::format(
        "a race: {} element {} of the shared array '{}', which thread {} {} at line {} with no "
        "barrier in between",
        does, index, array.name, earlier.who.thread, did, earlier.line);
  };
  const History& history = array.history[index];
  if (conflicts(history.write, who)) return found(history.write, "wrote");
  for (const Access& read : history.reads) {
    if (with_reads && conflicts(read, who)) return found(read, "read");
  }
  return {};
}

std::string SharedMemory::why_not_read(const Array& array, int64_t index,
                                       const Accessor& who) const {
  if (std::string wrong = not_there(array, index); !wrong.empty()) return "reads " + wrong;
  const auto at = static_cast<size_t>(index);
  if (array.history[at].write.who.thread < 0) {
    return fmt::format("reads element {} of the shared array '{}', which no thread has written",
                       index, array.name);
  }
  return race(array, at, who, "reads", false);
}

std::string SharedMemory::why_not_write(const Array& array, int64_t index,
                                        const Accessor& who) const {
  if (std::string wrong = not_there(array, index); !wrong.empty()) return "writes " + wrong;
  return race(array, static_cast<size_t>(index), who, "writes", true);
}

bool SharedMemory::begin_copy(Array& array, int64_t index, const Accessor& who,
                              const Place& place) {
  if (!write(array, index, who, place)) return false;
  if (array.copies.empty()) array.copies.resize(array.history.size(), -1);
  array.copies[static_cast<size_t>(index)] = who.thread;
  return true;
}

void SharedMemory::finish_copy(Array& array, int64_t index, const unsigned char* bytes,
                               const Accessor& who, const Place& place) {
  const auto at = static_cast<size_t>(index);
  array.copies[at] = -1;
  array.history[at].write.set(who, place);
  std::memcpy(element(array, index), bytes, array.element_bytes);
}

}  // namespace assay::emulated
