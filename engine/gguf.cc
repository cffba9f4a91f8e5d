#include "engine/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "engine/hf/folder.h"

// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

namespace assay {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian");

constexpr uint64_t kMaxNameBytes = 65535;  // of a key or tensor name, by the format
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kDefaultAlignment = 32;

enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

[[noreturn]] void fail(const std::string& path, const std::string& what,
                       const std::string& hint = {}) {
  throw Error(what, path, hint);
}

// Reads the file's bytes one after another; each read is checked against what is left.
class Cursor {
 public:
  explicit Cursor(const MappedFile& file) : path_(file.path()), bytes_(file.bytes()) {}

  const std::string& path() const { return path_; }
  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }

  std::span<const std::byte> take(uint64_t count, std::string_view reading) {
    if (count > left()) {
      fail(path_,
           fmt::format("the file ends inside {}: {} bytes wanted at offset {}, {} left", reading,
                       count, position_, left()),
           "the file is cut or damaged; fetch it again");
    }
    const auto taken = bytes_.subspan(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return taken;
  }

  template <typename T>
  T read(std::string_view reading) {
    T value;
    std::memcpy(&value, take(sizeof(T), reading).data(), sizeof(T));
    return value;
  }

  std::string_view read_string(std::string_view reading) {
    const auto length = read<uint64_t>(reading);
    const auto chars = take(length, reading);
    return {reinterpret_cast<const char*>(chars.data()), chars.size()};
  }

  std::string read_name(const std::string& reading) {
    const std::string_view name = read_string(reading);
    if (name.empty() || name.size() > kMaxNameBytes) {
      fail(path_, fmt::format("{} has a length of {} bytes, allowed are 1 to {}", reading,
                              name.size(), kMaxNameBytes));
    }
    return std::string(name);
  }

 private:
  const std::string& path_;
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

void check_bool(const Cursor& cursor, const std::string& reading, uint8_t byte) {
  if (byte <= 1) return;
  fail(cursor.path(), fmt::format("{} is the boolean {}, which is neither 0 nor 1", reading, byte));
}

// Calls visit(T{}) with the C++ type that stands for `type`; nothing for arrays and unknown types.
template <typename Visit>
bool with_scalar_type(ValueType type, const Visit& visit) {
  switch (type) {
    case ValueType::kUint8:
      visit(uint8_t{});
      return true;
    case ValueType::kInt8:
      visit(int8_t{});
      return true;
    case ValueType::kUint16:
      visit(uint16_t{});
      return true;
    case ValueType::kInt16:
      visit(int16_t{});
      return true;
    case ValueType::kUint32:
      visit(uint32_t{});
      return true;
    case ValueType::kInt32:
      visit(int32_t{});
      return true;
    case ValueType::kFloat32:
      visit(float{});
      return true;
    case ValueType::kBool:
      visit(bool{});
      return true;
    case ValueType::kString:
      visit(std::string_view{});
      return true;
    case ValueType::kUint64:
      visit(uint64_t{});
      return true;
    case ValueType::kInt64:
      visit(int64_t{});
      return true;
    case ValueType::kFloat64:
      visit(double{});
      return true;
    case ValueType::kArray:
      break;
  }
  return false;
}

// The type in which a value of type T from the file is kept.
template <typename T>
using Kept = std::conditional_t<
    std::is_same_v<T, bool> || std::is_same_v<T, std::string_view>, T,
    std::conditional_t<std::is_floating_point_v<T>, double,
                       std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>>;

template <typename T>
Kept<T> read_scalar(Cursor& cursor, const std::string& reading) {
  if constexpr (std::is_same_v<T, bool>) {
    const auto byte = cursor.read<uint8_t>(reading);
    check_bool(cursor, reading, byte);
    return byte == 1;
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    return cursor.read_string(reading);
  } else {
    return static_cast<Kept<T>>(cursor.read<T>(reading));
  }
}

GgufArray read_array(Cursor& cursor, const std::string& reading) {
  const auto type = static_cast<ValueType>(cursor.read<uint32_t>(reading));
  const auto count = cursor.read<uint64_t>(reading);
  if (type == ValueType::kArray) {
    fail(cursor.path(),
         fmt::format("{} is an array of arrays, which Assay does not read", reading));
  }
  GgufArray array;
  const bool known = with_scalar_type(type, [&](auto zero) {
    using T = decltype(zero);
    constexpr uint64_t kBytes = std::is_same_v<T, std::string_view> ? 8 : sizeof(T);
    if (count > cursor.left() / kBytes) {
      fail(cursor.path(),
           fmt::format("{} says it has {} elements, more than the file can hold", reading, count),
           "the file is cut or damaged; fetch it again");
    }
    if constexpr (std::is_same_v<T, std::string_view>) {
      std::vector<std::string_view> strings;
      strings.reserve(static_cast<size_t>(count));
      for (uint64_t i = 0; i < count; ++i) strings.push_back(cursor.read_string(reading));
      array.items = std::move(strings);
    } else {
      const auto bytes = cursor.take(count * sizeof(T), reading);
      if constexpr (std::is_same_v<T, bool>) {
        for (const std::byte byte : bytes) check_bool(cursor, reading, static_cast<uint8_t>(byte));
      }
      array.items = GgufNumbers<T>(bytes);
    }
  });
  if (!known) {
    fail(cursor.path(), fmt::format("{} is an array of the unknown type {}", reading,
                                    static_cast<uint32_t>(type)));
  }
  return array;
}

GgufValue read_value(Cursor& cursor, const std::string& reading) {
  const auto type = static_cast<ValueType>(cursor.read<uint32_t>(reading));
  if (type == ValueType::kArray) return read_array(cursor, reading);
  GgufValue value;
  const bool known = with_scalar_type(
      type, [&](auto zero) { value = read_scalar<decltype(zero)>(cursor, reading); });
  if (!known) {
    fail(cursor.path(),
         fmt::format("{} has the unknown type {}", reading, static_cast<uint32_t>(type)));
  }
  return value;
}

struct Header {
  uint32_t version;
  uint64_t n_tensors;
  uint64_t n_keys;
};

Header read_header(Cursor& cursor) {
  const auto magic = cursor.take(4, "the magic number");
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    fail(cursor.path(), "is not a GGUF file (it does not begin with 'GGUF')",
         "give a model file in the GGUF format, or the folder of a model in safetensors");
  }
  const auto version = cursor.read<uint32_t>("the version");
  if (version == 0x02000000 || version == 0x03000000) {
    fail(cursor.path(), "is a big-endian GGUF file, which Assay does not read",
         "convert it to little-endian");
  }
  if (version != 2 && version != 3) {
    fail(cursor.path(), fmt::format("is of GGUF version {}", version),
         "Assay reads versions 2 and 3");
  }
  const auto n_tensors = cursor.read<uint64_t>("the number of tensors");
  const auto n_keys = cursor.read<uint64_t>("the number of keys");
  // A key takes at least 13 bytes, a tensor at least 33: a larger count cannot be true.
  if (n_keys > cursor.left() / 13 || n_tensors > cursor.left() / 33) {
    fail(cursor.path(),
         fmt::format("the header names {} keys and {} tensors, more than the file can hold", n_keys,
                     n_tensors),
         "the file is cut or damaged; fetch it again");
  }
  return {version, n_tensors, n_keys};
}

// A tensor's bytes, from its type and dims. Throws if that overflows or the type's blocks do not
// fit the row.
uint64_t tensor_bytes(const std::string& path, const GgufTensor& tensor) {
  const TensorTypeInfo& info = tensor_type_info(tensor.type);
  if (tensor.columns() % info.block_elements != 0) {
    fail(path,
         fmt::format(
             "tensor '{}': rows of {} elements, which is not a multiple of the {} in a {} block",
             tensor.name, tensor.columns(), info.block_elements, info.name));
  }
  uint64_t elements = 1;
  for (const int64_t dim : tensor.dims) {
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>(dim), &elements) ||
        elements > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail(path, fmt::format("tensor '{}': its dimensions overflow", tensor.name));
    }
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements / static_cast<uint64_t>(info.block_elements),
                             uint64_t{info.block_bytes}, &bytes)) {
    fail(path, fmt::format("tensor '{}': its size overflows", tensor.name));
  }
  return bytes;
}

struct TensorEntry {
  GgufTensor tensor;
  uint64_t offset;  // from the start of the data section
};

TensorEntry read_tensor_entry(Cursor& cursor, uint64_t number) {
  TensorEntry entry;
  GgufTensor& tensor = entry.tensor;
  tensor.name = cursor.read_name(fmt::format("the name of tensor {}", number));
  const std::string reading = fmt::format("tensor '{}'", tensor.name);
  const auto n_dims = cursor.read<uint32_t>(reading);
  if (n_dims < 1 || n_dims > kMaxDims) {
    fail(cursor.path(),
         fmt::format("{} has {} dimensions, allowed are 1 to {}", reading, n_dims, kMaxDims));
  }
  for (uint32_t i = 0; i < n_dims; ++i) {
    const auto dim = cursor.read<uint64_t>(reading);
    if (dim < 1 || dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail(cursor.path(), fmt::format("{} has a dimension of {}", reading, dim));
    }
    tensor.dims.push_back(static_cast<int64_t>(dim));
  }
  const auto type = cursor.read<uint32_t>(reading);
  const auto known = tensor_type_from_gguf(type);
  if (!known) {
    std::string names;
    for (const TensorType each : kAllTensorTypes) {
      names += fmt::format(" {}", tensor_type_info(each).name);
    }
    fail(cursor.path(), fmt::format("{} has the type number {}", reading, type),
         "Assay reads" + names);
  }
  tensor.type = *known;
  entry.offset = cursor.read<uint64_t>(reading);
  return entry;
}

uint64_t data_alignment(const Gguf& gguf) {
  const int64_t alignment =
      gguf.get_int("general.alignment", static_cast<int64_t>(kDefaultAlignment));
  if (alignment < 1 || alignment > (1 << 20) || (alignment & (alignment - 1)) != 0) {
    fail(gguf.path(),
         fmt::format("key 'general.alignment' is {}, which is not a power of two up to 2^20",
                     alignment));
  }
  return static_cast<uint64_t>(alignment);
}

// What is copied out, as norms are, would grow far beyond the file if many tensors named the same
// bytes.
void reject_overlaps(const std::string& path, const std::vector<GgufTensor>& tensors) {
  std::vector<const GgufTensor*> order;
  order.reserve(tensors.size());
  for (const GgufTensor& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const GgufTensor* a, const GgufTensor* b) {
    return a->data.data() < b->data.data();
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = *order[i - 1];
    if (before.data.data() + before.data.size() <= order[i]->data.data()) continue;
    fail(path,
         fmt::format("the tensors '{}' and '{}' share bytes of the file", before.name,
                     order[i]->name),
         "the file is damaged; fetch it again");
  }
}

}  // namespace

int64_t GgufTensor::rows() const {
  int64_t product = 1;
  for (size_t i = 1; i < dims.size(); ++i) product *= dims[i];
  return product;
}

size_t GgufArray::size() const {
  return std::visit([](const auto& typed) { return typed.size(); }, items);
}

Gguf::Gguf(const std::string& path) : path_(path) {
  if (is_folder(path)) {
    content_ = read_hf_folder(path);
  } else {
    read_file();
  }
  index_tensors();
}

Gguf::Gguf(const std::string& path, GgufContent content)
    : path_(path), content_(std::move(content)) {
  index_tensors();
}

void Gguf::index_tensors() {
  for (const GgufTensor& tensor : content_.tensors) {
    tensor_index_.emplace(tensor.name, tensor_index_.size());
  }
}

void Gguf::read_file() {
  const std::string& path = path_;
  const MappedFile& file = content_.files.emplace_back(path);
  Cursor cursor(file);
  const Header header = read_header(cursor);
  version_ = header.version;
  for (uint64_t i = 0; i < header.n_keys; ++i) {
    std::string key = cursor.read_name(fmt::format("the name of key {}", i));
    const std::string reading = fmt::format("key '{}'", key);
    GgufValue value = read_value(cursor, reading);
    if (!content_.metadata.emplace(std::move(key), std::move(value)).second) {
      fail(path, reading + " stands in the file twice");
    }
  }

  std::vector<TensorEntry> entries;
  entries.reserve(static_cast<size_t>(header.n_tensors));
  for (uint64_t i = 0; i < header.n_tensors; ++i) entries.push_back(read_tensor_entry(cursor, i));

  const uint64_t alignment = data_alignment(*this);
  const uint64_t data_begin = (cursor.position() + alignment - 1) / alignment * alignment;
  const size_t file_size = file.bytes().size();
  data_begin_ = static_cast<size_t>(std::min<uint64_t>(data_begin, file_size));
  const uint64_t data_size = file_size > data_begin ? file_size - data_begin : 0;
  std::set<std::string_view> names;
  for (TensorEntry& entry : entries) {
    GgufTensor& tensor = entry.tensor;
    const uint64_t size = tensor_bytes(path, tensor);
    if (entry.offset % alignment != 0) {
      fail(path, fmt::format("tensor '{}': its offset {} is not a multiple of the alignment {}",
                             tensor.name, entry.offset, alignment));
    }
    if (entry.offset > data_size || size > data_size - entry.offset) {
      fail(path,
           fmt::format("tensor '{}': {} bytes at offset {} of the data reach beyond the end of the "
                       "file ({} bytes of data)",
                       tensor.name, size, entry.offset, data_size),
           "the file is cut or damaged; fetch it again");
    }
    tensor.data = file.bytes().subspan(static_cast<size_t>(data_begin + entry.offset),
                                       static_cast<size_t>(size));
    if (!names.insert(tensor.name).second) {
      fail(path, fmt::format("tensor '{}' stands in the file twice", tensor.name));
    }
  }
  for (TensorEntry& entry : entries) content_.tensors.push_back(std::move(entry.tensor));
  reject_overlaps(path, content_.tensors);
}

void Gguf::read_tensors(ThreadPool& pool) {
  if (version_ > 0) content_.files.front().read_into_memory(data_begin_, pool);
}

void Gguf::map_tensors(ThreadPool& pool) const {
  if (!has_room_for(file_bytes())) return;
  for (const MappedFile& file : content_.files) {
    file.map_pages(&file == &content_.files.front() ? data_begin_ : 0, pool);
  }
}

void Gguf::release_arrays() {
  std::erase_if(content_.metadata,
                [](const auto& entry) { return std::holds_alternative<GgufArray>(entry.second); });
  if (version_ > 0) content_.files.front().release_pages(data_begin_);
}

size_t Gguf::file_bytes() const {
  size_t total = 0;
  for (const MappedFile& file : content_.files) total += file.bytes().size();
  return total;
}

std::string Gguf::sha256() const {
  Sha256 hash;
  for (const MappedFile& file : content_.files) hash.update(file.bytes());
  return hash.hex();
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto found = content_.metadata.find(key);
  return found == content_.metadata.end() ? nullptr : &found->second;
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &content_.tensors[found->second];
}

}  // namespace assay
