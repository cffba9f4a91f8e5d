#include "assay/convert/array_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "assay/convert/npz_reader.h"
#include "assay/convert/npz_writer.h"
#include "assay/convert/safetensors.h"
#include "base/error.h"

namespace assay {

namespace {

// By ArrayType.
constexpr ArrayTypeNames kTypes[] = {
    {4, "F32", "<f4", "f32"},   {8, "F64", "<f8", "f64"}, {8, "I64", "<i8", "i64"},
    {1, "U8", "|u1", "u8"},     {2, "F16", "<f2", "f16"}, {2, "BF16", "", "bf16"},
    {4, "I32", "<i4", "i32"},   {2, "I16", "<i2", "i16"}, {1, "I8", "|i1", "i8"},
    {1, "BOOL", "|b1", "bool"}, {0, "", "", ""}};

ArrayType type_by(std::string_view ArrayTypeNames::*key, std::string_view name) {
  size_t i = 0;
  while (i < static_cast<size_t>(ArrayType::kOther) && (name.empty() || kTypes[i].*key != name)) {
    ++i;
  }
  return static_cast<ArrayType>(i);
}

}  // namespace

const ArrayTypeNames& names_of(ArrayType type) {
  return kTypes[static_cast<size_t>(type)];
}

ArrayType type_by_safetensors(std::string_view name) {
  return type_by(&ArrayTypeNames::safetensors, name);
}

ArrayType type_by_npy(std::string_view code) {
  return type_by(&ArrayTypeNames::npy, code);
}

void ArrayReader::skip(const std::string& name, int64_t count) {
  std::string passed;
  for (; count > 0; count -= std::ssize(passed)) {
    passed.resize(static_cast<size_t>(std::min(count, int64_t{1} << 16)));
    read(name, passed.data(), passed.size());
  }
}

int64_t array_bytes(ArrayType type, const std::vector<int64_t>& shape, const std::string& where,
                    const std::string& name) {
  int64_t bytes = names_of(type).bytes;
  for (const int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes)) {
      throw Error(fmt::format("the shape ({}) of '{}' has no size", fmt::join(shape, ", "),
                              printable(name, 80)),
                  where);
    }
  }
  return bytes;
}

std::unique_ptr<ArrayWriter> create_arrays(const std::string& path) {
  if (path.ends_with(".npz")) return std::make_unique<NpzWriter>(path);
  return std::make_unique<SafetensorsWriter>(path);
}

std::unique_ptr<ArrayReader> open_arrays(const std::string& path) {
  if (path.ends_with(".npz")) return open_npz(path);
  return open_safetensors(path);
}

}  // namespace assay
