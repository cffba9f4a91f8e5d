#include "engine/gguf_writer.h"

#include <fmt/format.h>

#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"

// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

namespace assay {
namespace {

enum : uint32_t {
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
};

template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_text(std::string& out, std::string_view text) {
  append(out, uint64_t{text.size()});
  out += text;
}

[[noreturn]] void reject(std::string_view key) {
  throw Error(fmt::format("key '{}' holds a number that cannot be copied", key), {},
              "the vocabulary's file is not one that llama.cpp's converter wrote");
}

template <typename Target, typename Source>
Target narrowed(std::string_view key, Source value) {
  if (!std::in_range<Target>(value)) reject(key);
  return static_cast<Target>(value);
}

// An item of an array: whole numbers as 32 bits with a sign, others as floats.
template <typename Item>
void append_item(std::string& out, std::string_view key, Item value) {
  if constexpr (std::is_same_v<Item, std::string_view>) {
    append_text(out, value);
  } else if constexpr (std::is_same_v<Item, bool>) {
    append(out, static_cast<uint8_t>(value));
  } else if constexpr (std::is_floating_point_v<Item>) {
    append(out, static_cast<float>(value));
  } else {
    append(out, narrowed<int32_t>(key, value));
  }
}

template <typename Item>
constexpr uint32_t kItemType = std::is_same_v<Item, bool>               ? kBool
                               : std::is_floating_point_v<Item>         ? kFloat32
                               : std::is_same_v<Item, std::string_view> ? kString
                                                                        : kInt32;

}  // namespace

void GgufHeader::key(std::string_view name, uint32_t type) {
  append_text(keys_, name);
  append(keys_, type);
  ++n_keys_;
}

void GgufHeader::text(std::string_view name, std::string_view value) {
  key(name, kString);
  append_text(keys_, value);
}

void GgufHeader::u32(std::string_view name, uint32_t value) {
  key(name, kUint32);
  append(keys_, value);
}

void GgufHeader::f32(std::string_view name, float value) {
  key(name, kFloat32);
  append(keys_, value);
}

void GgufHeader::boolean(std::string_view name, bool value) {
  key(name, kBool);
  append(keys_, static_cast<uint8_t>(value));
}

void GgufHeader::value(std::string_view name, const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    key(name, kArray);
    std::visit(
        [&](const auto& items) {
          using Item = typename std::decay_t<decltype(items)>::value_type;
          append(keys_, kItemType<Item>);
          append(keys_, uint64_t{items.size()});
          for (size_t i = 0; i < items.size(); ++i) append_item<Item>(keys_, name, items[i]);
        },
        array->items);
  } else if (const auto* string = std::get_if<std::string_view>(&value)) {
    text(name, *string);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    boolean(name, *flag);
  } else if (const auto* number = std::get_if<double>(&value)) {
    f32(name, static_cast<float>(*number));
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    u32(name, narrowed<uint32_t>(name, *whole));
  } else {
    u32(name, narrowed<uint32_t>(name, std::get<uint64_t>(value)));
  }
}

void GgufHeader::tensor(std::string_view name, TensorType type, const std::vector<int64_t>& dims) {
  append_text(entries_, name);
  append(entries_, static_cast<uint32_t>(dims.size()));
  uint64_t rows = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    append(entries_, static_cast<uint64_t>(dims[i]));
    if (i > 0) rows *= static_cast<uint64_t>(dims[i]);
  }
  append(entries_, static_cast<uint32_t>(type));
  append(entries_, data_bytes_);
  const uint64_t size = rows * row_bytes(type, dims[0]);
  data_bytes_ += size + gguf_padding(size);
  ++n_tensors_;
}

std::string GgufHeader::bytes() const {
  std::string header = "GGUF";
  append(header, uint32_t{3});
  append(header, n_tensors_);
  append(header, n_keys_);
  header += keys_;
  header += entries_;
  header.append(gguf_padding(header.size()), '\0');
  return header;
}

}  // namespace assay
