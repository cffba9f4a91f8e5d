#include "assay/dump/dump_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "kernels/half.h"

namespace assay {
namespace {

constexpr int64_t kPiece = int64_t{1} << 18;      // elements
constexpr int64_t kMostExact = int64_t{1} << 24;  // whole numbers that a float holds
constexpr double kMostFloat = 0x1.ffffffp127;     // rounds to infinity from here on

[[noreturn]] void refuse(const DumpTensor& tensor, const std::string& value) {
  throw Error(fmt::format("'{}' holds {}, which no 32-bit float is near to",
                          printable(tensor.name, 80), value),
              tensor.file, "leave it out with assay import --skip");
}

template <typename T>
T element(const char* bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

int64_t whole_number(ArrayType type, const char* bytes, int64_t i) {
  switch (type) {
    case ArrayType::kInt64:
      return element<int64_t>(bytes, i);
    case ArrayType::kInt32:
      return element<int32_t>(bytes, i);
    case ArrayType::kInt16:
      return element<int16_t>(bytes, i);
    case ArrayType::kInt8:
      return element<int8_t>(bytes, i);
    default:
      return element<uint8_t>(bytes, i);
  }
}

float value_of(const DumpTensor& tensor, const char* bytes, int64_t i) {
  switch (tensor.info.type) {
    case ArrayType::kFloat32:
      return element<float>(bytes, i);
    case ArrayType::kFloat16:
      return float_from_f16(element<uint16_t>(bytes, i));
    case ArrayType::kBfloat16:
      return float_from_bf16(element<uint16_t>(bytes, i));
    case ArrayType::kFloat64: {
      const auto value = element<double>(bytes, i);
      if (std::isfinite(value) && !(std::fabs(value) < kMostFloat)) {
        refuse(tensor, fmt::format("{}", value));
      }
      return static_cast<float>(value);
    }
    default: {
      const int64_t value = whole_number(tensor.info.type, bytes, i);
      if (value > kMostExact || value < -kMostExact) refuse(tensor, std::to_string(value));
      return static_cast<float>(value);
    }
  }
}

bool is_whole(ArrayType type) {
  return type == ArrayType::kInt64 || type == ArrayType::kInt32 || type == ArrayType::kInt16 ||
         type == ArrayType::kInt8 || type == ArrayType::kUint8 || type == ArrayType::kBool;
}

// One layer's part of vLLM's array.
class PartReader : public ArrayReader {
 public:
  PartReader(const DumpTensor& whole, std::shared_ptr<ArrayReader> reader, int64_t part,
             const ArrayInfo& info)
      : array_(whole.array),
        reader_(std::move(reader)),
        row_bytes_(whole.info.shape[2] * names_of(whole.info.type).bytes),
        before_(part * row_bytes_),
        behind_((whole.info.shape[1] - 1 - part) * row_bytes_),
        arrays_({{whole.array, info}}) {}

  const std::map<std::string, ArrayInfo>& arrays() const override { return arrays_; }

  void read(const std::string&, char* to, size_t count) override {
    for (int64_t left = static_cast<int64_t>(count); left > 0;) {
      if (in_row_ == 0) reader_->skip(array_, before_);
      const int64_t now = std::min(left, row_bytes_ - in_row_);
      reader_->read(array_, to, static_cast<size_t>(now));
      to += now;
      left -= now;
      in_row_ = (in_row_ + now) % row_bytes_;
      if (in_row_ == 0) reader_->skip(array_, behind_);
    }
  }

 private:
  std::string array_;
  std::shared_ptr<ArrayReader> reader_;
  int64_t row_bytes_;
  int64_t before_;
  int64_t behind_;
  int64_t in_row_ = 0;
  std::map<std::string, ArrayInfo> arrays_;
};

}  // namespace

void read_values(const DumpTensor& tensor, int64_t count, std::vector<float>& values) {
  const int64_t size = names_of(tensor.info.type).bytes;
  std::string bytes;
  values.clear();
  // In pieces: a false shape must not allocate more memory than there is data.
  for (int64_t done = 0; done < count;) {
    const int64_t part = std::min(kPiece, count - done);
    bytes.resize(static_cast<size_t>(part * size));
    tensor.reader->read(tensor.array, bytes.data(), bytes.size());
    for (int64_t i = 0; i < part; ++i) values.push_back(value_of(tensor, bytes.data(), i));
    done += part;
  }
}

std::vector<int64_t> read_whole_numbers(const DumpTensor& tensor) {
  const int64_t count = element_count(tensor.info.shape);
  if (!is_whole(tensor.info.type) || count > kMaxIds) {
    throw Error(
        fmt::format("'{}' is {}, and no list of whole numbers", printable(tensor.name, 80),
                    is_whole(tensor.info.type) ? "too long" : names_of(tensor.info.type).log),
        tensor.file, "leave it out with assay import --skip");
  }
  std::string bytes(static_cast<size_t>(tensor.info.bytes), '\0');
  tensor.reader->read(tensor.array, bytes.data(), bytes.size());
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(whole_number(tensor.info.type, bytes.data(), i));
  }
  return numbers;
}

std::vector<DumpTensor> parts_of(const DumpTensor& tensor, const ReaderSource& open) {
  std::vector<DumpTensor> parts;
  for (int64_t i = 0; i < tensor.info.shape[1]; ++i) {
    DumpTensor part = tensor;
    part.name = fmt::format("{}.{}", tensor.name, i);
    part.info.shape = {tensor.info.shape[0], tensor.info.shape[2]};
    part.info.bytes = tensor.info.bytes / tensor.info.shape[1];
    part.reader = std::make_shared<PartReader>(tensor, open(), i, part.info);
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace assay
