#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace assay {

// A hash table of places in a list that is kept elsewhere: it knows the hash of what stands at a
// place, and asks whether it is what is looked for. Eight bytes an entry and no allocation of its
// own for each, where a std::unordered_map takes sixty: vocabularies have 150,000 of them.
class HashSlots {
 public:
  // Room for `count` entries; it grows by itself beyond.
  explicit HashSlots(size_t count) { resize(count); }

  // The place with this hash for which is_it(place) holds, -1 if there is none.
  template <typename IsIt>
  int32_t find(uint64_t hash, const IsIt& is_it) const {
    const uint32_t mixed = mix(hash);
    for (size_t i = mixed & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.place < 0) return -1;
      if (slot.hash == mixed && is_it(slot.place)) return slot.place;
    }
  }

  // What find() did not find.
  void add(uint64_t hash, int32_t place) {
    if (8 * (size_ + 1) > 7 * slots_.size()) resize(2 * size_);
    put({place, mix(hash)});
    ++size_;
  }

 private:
  struct Slot {
    int32_t place = -1;
    uint32_t hash = 0;
  };

  // The upper half of a multiplication depends on all bits, as the low bits of a key need not.
  static uint32_t mix(uint64_t hash) {
    hash *= 0x9E3779B97F4A7C15U;
    return static_cast<uint32_t>((hash ^ hash >> 32U) * 0x9E3779B97F4A7C15U >> 32U);
  }

  // At most seven eighths are ever full.
  void resize(size_t count) {
    size_t slots = 16;
    while (7 * slots < 8 * (count + 1)) slots *= 2;
    std::vector<Slot> old(slots);
    old.swap(slots_);
    mask_ = slots - 1;
    for (const Slot& slot : old) {
      if (slot.place >= 0) put(slot);
    }
  }

  void put(const Slot& slot) {
    size_t i = slot.hash & mask_;
    while (slots_[i].place >= 0) i = (i + 1) & mask_;
    slots_[i] = slot;
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
};

}  // namespace assay
