#include "assay/convert/array_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "assay/convert/npz_reader.h"
#include "assay/convert/npz_writer.h"
#include "assay/convert/safetensors.h"
#include "base/error.h"

namespace assay {

int64_t element_bytes(ArrayType type) {
  static constexpr int64_t kBytes[] = {4, 8, 8, 1};
  return kBytes[static_cast<size_t>(type)];
}

int64_t array_bytes(ArrayType type, const std::vector<int64_t>& shape, const std::string& where,
                    const std::string& name) {
  int64_t bytes = element_bytes(type);
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
