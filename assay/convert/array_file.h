#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The element types of the arrays, little-endian.
enum class ArrayType : uint8_t {
  kFloat32,
  kFloat64,
  kInt64,
  kUint8,
  kFloat16,
  kBfloat16,
  kInt32,
  kInt16,
  kInt8,
  kBool,
  kOther,  // none of these, and not read
};

struct ArrayTypeNames {
  int64_t bytes = 0;  // of an element
  std::string_view safetensors;
  std::string_view npy;  // empty: NumPy has none
  std::string_view log;  // as `dtype` of a record
};

const ArrayTypeNames& names_of(ArrayType type);
ArrayType type_by_safetensors(std::string_view name);
ArrayType type_by_npy(std::string_view code);

// Of all elements of `shape`. Throws Error naming `where` and `name` if the size overflows.
int64_t array_bytes(ArrayType type, const std::vector<int64_t>& shape, const std::string& where,
                    const std::string& name);

// The next bytes of an array's data, appended to `bytes`, which is empty; at least one.
using ArraySource = std::function<void(std::string& bytes)>;

// Writes a file of named arrays: NPZ or safetensors.
class ArrayWriter {
 public:
  virtual ~ArrayWriter() = default;

  // Adds the array `name` of `shape`, in C order. close() takes its data from `source`, piece by
  // piece, so that a file may be larger than memory. Throws Error if the name was added before or
  // `shape` has no size.
  virtual void add(const std::string& name, ArrayType type, std::vector<int64_t> shape,
                   ArraySource source) = 0;

  // Writes the file, which appears whole or not at all. Throws Error naming the file, or what a
  // source threw.
  virtual void close() = 0;
};

struct ArrayInfo {
  ArrayType type = ArrayType::kFloat32;
  std::vector<int64_t> shape;
  int64_t bytes = 0;           // 0 for kOther
  std::string type_name = {};  // of kOther, as the file has it
};

// Reads such a file.
class ArrayReader {
 public:
  virtual ~ArrayReader() = default;
  virtual const std::map<std::string, ArrayInfo>& arrays() const = 0;

  // The next `count` bytes of the array's data. Throws Error if they are missing, or the array is
  // kOther.
  virtual void read(const std::string& name, char* to, size_t count) = 0;

  // Passes over the next `count` bytes. Throws Error as read() does.
  virtual void skip(const std::string& name, int64_t count);
};

// By the ending of `path`, .npz or .safetensors. Throw Error.
std::unique_ptr<ArrayWriter> create_arrays(const std::string& path);
std::unique_ptr<ArrayReader> open_arrays(const std::string& path);

}  // namespace assay
