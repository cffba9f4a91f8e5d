#include "kernels/emulated/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace assay::emulated {
namespace {

constexpr size_t kMostBytes = size_t{48} * 1024;

}  // namespace

struct SharedMemory::Array {
  Array(const char* array_name, const Place& at, size_t bytes_of_element, size_t count)
      : name(array_name),
        place(at),
        element_bytes(bytes_of_element),
        bytes((count * bytes_of_element + 7) / 8, ~uint64_t{0}),
        history(count) {}

  std::string beyond(int64_t index) const {
    if (index >= 0 && index < static_cast<int64_t>(history.size())) return {};
    return fmt::format("element {} of the shared array '{}' of {}", index, name, history.size());
  }

  const char* name;
  Place place;
  size_t element_bytes;
  std::vector<uint64_t> bytes;
  std::vector<History> history;
};

SharedMemory::SharedMemory() = default;
SharedMemory::~SharedMemory() = default;

void SharedMemory::begin_block(size_t dynamic_bytes) {
  arrays_.clear();
  static_bytes_ = 0;
  dynamic_bytes_ = dynamic_bytes;
  barriers_ = 0;
  for (WarpSyncs& warp : warps_) warp.lanes.clear();
}

SharedMemory::Array& SharedMemory::array(const char* name, size_t element_bytes, size_t count,
                                         const Place& place, bool is_dynamic) {
  for (const auto& array : arrays_) {
    const bool same_name = array->name == name || std::strcmp(array->name, name) == 0;
    if (same_name && same_place(array->place, place)) return *array;
  }
  static_bytes_ += is_dynamic ? 0 : count * element_bytes;
  if (static_bytes_ + dynamic_bytes_ > kMostBytes) {
    throw Error(
        fmt::format("a block takes {} bytes of shared memory, {} of them dynamic; {} is the "
                    "most that every device gives",
                    static_bytes_ + dynamic_bytes_, dynamic_bytes_, kMostBytes),
        fmt::format("{}:{}", place.file, place.line));
  }
  return *arrays_.emplace_back(std::make_unique<Array>(name, place, element_bytes, count));
}

SharedMemory::Array& SharedMemory::dynamic_array(const char* name, size_t element_bytes,
                                                 const Place& place) {
  return array(name, element_bytes, dynamic_bytes_ / element_bytes, place, true);
}

unsigned char* SharedMemory::element(Array& array, int64_t index) {
  return reinterpret_cast<unsigned char*>(array.bytes.data()) +
         static_cast<size_t>(index) * array.element_bytes;
}

bool SharedMemory::conflicts(const Access& earlier, const Accessor& who) const {
  if (earlier.thread < 0 || earlier.thread == who.thread || earlier.barriers != who.barriers) {
    return false;
  }
  if (earlier.thread / kLanes != who.thread / kLanes) return true;
  const auto index = static_cast<size_t>(who.thread / kLanes);
  if (index >= warps_.size()) return true;  // a warp that never passed a __syncwarp
  const WarpSyncs& warp = warps_[index];
  const uint32_t both = 1U << (earlier.thread % kLanes) | 1U << (who.thread % kLanes);
  return std::none_of(warp.lanes.begin(), warp.lanes.end(), [&](const SyncedLanes& synced) {
    return (synced.mask & both) == both && synced.last > earlier.warp_syncs;
  });
}

std::string SharedMemory::read(Array& array, int64_t index, const Accessor& who,
                               const Place& place) {
  if (std::string wrong = array.beyond(index); !wrong.empty()) return "reads " + wrong;
  History& history = array.history[static_cast<size_t>(index)];
  if (history.write.thread < 0) {
    return fmt::format("reads element {} of the shared array '{}', which no thread has written",
                       index, array.name);
  }
  if (conflicts(history.write, who)) {
    return fmt::format(
        "a race: reads element {} of the shared array '{}', which thread {} wrote at line {} with "
        "no barrier in between",
        index, array.name, history.write.thread, history.write.place.line);
  }
  const bool first_is_free = history.reads[0].thread == who.thread || history.reads[0].thread < 0 ||
                             history.reads[0].barriers != who.barriers;
  history.reads[first_is_free ? 0 : 1] = {who.thread, who.barriers, who.warp_syncs, place};
  return {};
}

std::string SharedMemory::write(Array& array, int64_t index, const Accessor& who,
                                const Place& place) {
  if (std::string wrong = array.beyond(index); !wrong.empty()) return "writes " + wrong;
  History& history = array.history[static_cast<size_t>(index)];
  for (const Access* earlier : {&history.write, &history.reads[0], &history.reads[1]}) {
    if (!conflicts(*earlier, who)) continue;
    return fmt::format(
        "a race: writes element {} of the shared array '{}', which thread {} {} at line {} with no "
        "barrier in between",
        index, array.name, earlier->thread, earlier == &history.write ? "wrote" : "read",
        earlier->place.line);
  }
  history.write = {who.thread, who.barriers, who.warp_syncs, place};
  return {};
}

void SharedMemory::pass_barrier() {
  ++barriers_;
  for (WarpSyncs& warp : warps_) warp.lanes.clear();
}

void SharedMemory::pass_warp_sync(unsigned warp, uint32_t mask) {
  if (warps_.size() <= warp) warps_.resize(warp + 1);
  WarpSyncs& syncs = warps_[warp];
  ++syncs.count;
  for (SyncedLanes& synced : syncs.lanes) {
    if (synced.mask == mask) {
      synced.last = syncs.count;
      return;
    }
  }
  syncs.lanes.push_back({mask, syncs.count});
}

}  // namespace assay::emulated
