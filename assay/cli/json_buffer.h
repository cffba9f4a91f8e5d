#pragma once

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cstdlib>
#include <new>

namespace assay {

// RapidJSON uses what its allocators return without a look; this one throws std::bad_alloc.
struct ThrowingAllocator {
  // NOLINTBEGIN(readability-identifier-naming): RapidJSON prescribes the names.
  static constexpr bool kNeedFree = true;
  void* Malloc(size_t size) { return Realloc(nullptr, 0, size); }
  void* Realloc(void* block, size_t, size_t size) {
    if (size == 0) {
      Free(block);
      return nullptr;
    }
    void* grown = std::realloc(block, size);
    if (grown == nullptr) throw std::bad_alloc();
    return grown;
  }
  static void Free(void* block) { std::free(block); }
  // NOLINTEND(readability-identifier-naming)
};

using JsonBuffer = rapidjson::GenericStringBuffer<rapidjson::UTF8<>, ThrowingAllocator>;
using JsonWriter =
    rapidjson::Writer<JsonBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>, ThrowingAllocator>;
using PrettyJsonWriter =
    rapidjson::PrettyWriter<JsonBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>, ThrowingAllocator>;

}  // namespace assay
