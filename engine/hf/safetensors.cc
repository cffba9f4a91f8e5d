#include "engine/hf/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json_file.h"

namespace assay {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is read as little-endian");

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // by the format
constexpr size_t kMaxNameBytes = 4096;
constexpr size_t kMaxDims = 8;
constexpr char kDamaged[] = "the file is cut or damaged; fetch it again";

struct Dtype {
  std::string_view name;
  uint64_t bytes;
  std::optional<TensorType> type;
};
constexpr Dtype kDtypes[] = {{"F32", 4, TensorType::kF32},
                             {"F16", 2, TensorType::kF16},
                             {"BF16", 2, TensorType::kBF16},
                             {"F64", 8, {}},
                             {"I64", 8, {}},
                             {"U64", 8, {}},
                             {"I32", 4, {}},
                             {"U32", 4, {}},
                             {"I16", 2, {}},
                             {"U16", 2, {}},
                             {"I8", 1, {}},
                             {"U8", 1, {}},
                             {"BOOL", 1, {}},
                             {"F8_E4M3", 1, {}},
                             {"F8_E5M2", 1, {}}};

class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& file) : file_(file) {}

  std::vector<StoredTensor> read() {
    const rapidjson::Document header = read_header();
    if (!header.IsObject()) fail("its header is not a JSON object");
    for (const auto& member : header.GetObject()) {
      const std::string name = json_text_of(member.name);
      if (name == "__metadata__") continue;
      if (name.empty() || name.size() > kMaxNameBytes) {
        fail(fmt::format("a tensor's name has {} bytes, allowed are 1 to {}", name.size(),
                         kMaxNameBytes));
      }
      if (!names_.insert(name).second) {
        fail(fmt::format("tensor '{}' stands in the file twice", name));
      }
      tensors_.push_back(read_tensor(name, member.value));
    }
    check_layout();
    return std::move(tensors_);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = kDamaged) const {
    throw Error(what, file_.path(), hint);
  }
  [[noreturn]] void fail(const std::string& name, const std::string& what,
                         const std::string& hint) const {
    fail(fmt::format("tensor '{}' {}", name, what), hint);
  }

  rapidjson::Document read_header() {
    const std::span<const std::byte> bytes = file_.bytes();
    uint64_t length = 0;
    if (bytes.size() < sizeof(length)) fail("is too short for a safetensors file");
    std::memcpy(&length, bytes.data(), sizeof(length));
    const uint64_t left = bytes.size() - sizeof(length);
    if (length > std::min(left, kMaxHeaderBytes)) {
      fail(fmt::format("its header has {} bytes, {} are left in the file and {} allowed", length,
                       left, kMaxHeaderBytes));
    }
    const auto text = bytes.subspan(sizeof(length), static_cast<size_t>(length));
    data_ = bytes.subspan(sizeof(length) + text.size());
    return parse_json_text({reinterpret_cast<const char*>(text.data()), text.size()}, file_.path(),
                           kDamaged);
  }

  StoredTensor read_tensor(const std::string& name, const rapidjson::Value& json) const {
    StoredTensor tensor;
    tensor.name = name;
    const auto member = [&](const char* key) -> const rapidjson::Value& {
      if (!json.IsObject() || !json.HasMember(key)) {
        fail(name, fmt::format("has no '{}'", key), kDamaged);
      }
      return json[key];
    };
    const rapidjson::Value& dtype = member("dtype");
    if (dtype.IsString()) tensor.dtype = json_text_of(dtype);
    const auto* known = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                     [&](const Dtype& each) { return each.name == tensor.dtype; });
    if (known == std::end(kDtypes)) {
      fail(name, fmt::format("has the dtype '{}'", tensor.dtype), "Assay reads F32, F16 and BF16");
    }
    tensor.type = known->type;
    const rapidjson::Value& shape = member("shape");
    if (!shape.IsArray() || shape.Size() > kMaxDims) {
      fail(name, fmt::format("has no shape of at most {} numbers", kMaxDims), kDamaged);
    }
    uint64_t bytes = known->bytes;
    for (const auto& dim : shape.GetArray()) {
      if (!dim.IsInt64() || dim.GetInt64() < 0)
        fail(name, "has a shape of other numbers", kDamaged);
      tensor.shape.push_back(dim.GetInt64());
      if (__builtin_mul_overflow(bytes, dim.GetUint64(), &bytes)) {
        fail(name, "has a shape that overflows", kDamaged);
      }
    }
    tensor.data = data_of(name, member("data_offsets"), bytes);
    return tensor;
  }

  std::span<const std::byte> data_of(const std::string& name, const rapidjson::Value& offsets,
                                     uint64_t bytes) const {
    if (!offsets.IsArray() || offsets.Size() != 2 || !offsets[0].IsUint64() ||
        !offsets[1].IsUint64()) {
      fail(name, "has no two data_offsets", kDamaged);
    }
    const uint64_t begin = offsets[0].GetUint64();
    const uint64_t end = offsets[1].GetUint64();
    if (begin > end || end > data_.size()) {
      fail(name,
           fmt::format("has the data_offsets {} and {} in {} bytes of data", begin, end,
                       data_.size()),
           kDamaged);
    }
    if (end - begin != bytes) {
      fail(name, fmt::format("has {} bytes of data, its shape says {}", end - begin, bytes),
           kDamaged);
    }
    return data_.subspan(static_cast<size_t>(begin), static_cast<size_t>(bytes));
  }

  // Tensors follow each other without gaps, by the format; two that share bytes would be damage.
  void check_layout() const {
    std::vector<const StoredTensor*> order;
    for (const StoredTensor& tensor : tensors_) order.push_back(&tensor);
    std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
      return std::pair(a->data.data(), a->data.size()) < std::pair(b->data.data(), b->data.size());
    });
    const std::byte* next = data_.data();
    for (const StoredTensor* tensor : order) {
      if (tensor->data.data() != next) {
        fail(tensor->name, "does not begin where the tensor before it ends", kDamaged);
      }
      next += tensor->data.size();
    }
    if (next != data_.data() + data_.size()) fail("has bytes of data after its last tensor");
  }

  const MappedFile& file_;
  std::span<const std::byte> data_;
  std::set<std::string> names_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace

std::vector<StoredTensor> read_safetensors(const MappedFile& file) {
  return HeaderReader(file).read();
}

}  // namespace assay
