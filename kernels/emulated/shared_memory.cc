#include "kernels/emulated/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace assay::emulated {
namespace {

constexpr size_t kAlignment = 16;  // of an array, at most

}  // namespace

struct SharedMemory::Array {
  Array(const void* array_key, const char* array_name, size_t first, size_t bytes_of_element,
        size_t count)
      : key(array_key),
        name(array_name),
        offset(first),
        element_bytes(bytes_of_element),
        bytes((count * bytes_of_element + 7) / 8, ~uint64_t{0}),
        history(count) {}

  // Whether an element is there, written, and awaits no copy: then a read has only races to fear.
  bool is_readable(int64_t index) const {
    const auto at = static_cast<size_t>(index);
    return index >= 0 && at < history.size() && (copies.empty() || copies[at] < 0) &&
           history[at].write.who.thread >= 0;
  }

  std::string beyond(int64_t index) const {
    if (index >= 0 && index < static_cast<int64_t>(history.size())) return {};
    return fmt::format("element {} of the shared array '{}' of {}", index, name, history.size());
  }

  std::string unwritten(int64_t index) const {
    return fmt::format("element {} of the shared array '{}', which no thread has written", index,
                       name);
  }

  // What is wrong with touching an element that is there.
  std::string on_its_way(size_t index) const {
    if (copies.empty() || copies[index] < 0) return {};
    return fmt::format(
        "element {} of the shared array '{}', to which a copy of thread {} is under way", index,
        name, copies[index]);
  }

  const void* key;
  const char* name;
  size_t offset;
  size_t element_bytes;
  std::vector<uint64_t> bytes;
  std::vector<History> history;
  std::vector<int> copies;  // the thread whose copy to it is under way, or -1; once there was one
};

SharedMemory::SharedMemory(const ThreadOrder& order, size_t most_bytes)
    : order_(order), most_bytes_(most_bytes) {}
SharedMemory::~SharedMemory() = default;

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

unsigned char* SharedMemory::element(Array& array, int64_t index) {
  return reinterpret_cast<unsigned char*>(array.bytes.data()) +
         static_cast<size_t>(index) * array.element_bytes;
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

bool SharedMemory::conflicts(const Access& earlier, const Accessor& who) const {
  return earlier.who.thread >= 0 && !order_.separates(earlier.who, who);
}

void SharedMemory::note(Pair& pair, const Access& access) {
  const Access& first = pair[0];
  const bool is_free = first.who.thread == access.who.thread || first.who.thread < 0 ||
                       first.who.barriers != access.who.barriers;
  pair[is_free ? 0 : 1] = access;
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

std::string SharedMemory::read(Array& array, int64_t index, const Accessor& who,
                               const Place& place) {
  // Nearly all reads are right, and take a good part of the time that an emulated kernel takes.
  if (array.is_readable(index)) {
    History& history = array.history[static_cast<size_t>(index)];
    if (!conflicts(history.write, who)) {
      note(history.reads, {who, place.line});
      return {};
    }
  }
  if (std::string wrong = array.beyond(index); !wrong.empty()) return "reads " + wrong;
  const auto at = static_cast<size_t>(index);
  if (std::string wrong = array.on_its_way(at); !wrong.empty()) return "reads " + wrong;
  if (array.history[at].write.who.thread < 0) return "reads " + array.unwritten(index);
  return race(array, at, who, "reads", false);
}

std::string SharedMemory::write(Array& array, int64_t index, const Accessor& who,
                                const Place& place) {
  if (std::string wrong = array.beyond(index); !wrong.empty()) return "writes " + wrong;
  const auto at = static_cast<size_t>(index);
  if (std::string wrong = array.on_its_way(at); !wrong.empty()) return "writes " + wrong;
  std::string wrong = race(array, at, who, "writes", true);
  if (wrong.empty()) {
    array.history[at].write = {who, place.line};
  }
  return wrong;
}

std::string SharedMemory::begin_copy(Array& array, int64_t index, const Accessor& who,
                                     const Place& place) {
  std::string wrong = write(array, index, who, place);
  if (!wrong.empty()) return wrong;
  if (array.copies.empty()) array.copies.resize(array.history.size(), -1);
  array.copies[static_cast<size_t>(index)] = who.thread;
  return {};
}

void SharedMemory::finish_copy(Array& array, int64_t index, const unsigned char* bytes,
                               const Accessor& who, const Place& place) {
  const auto at = static_cast<size_t>(index);
  array.copies[at] = -1;
  array.history[at].write = {who, place.line};
  std::memcpy(element(array, index), bytes, array.element_bytes);
}

}  // namespace assay::emulated
