#pragma once

#include <map>
#include <memory>
#include <string>

#include "assay/convert/array_file.h"

namespace assay {

// Reads the arrays of an NPZ archive, compressed or not, through libzip. Each may be read once,
// from its beginning to its end, all at the same time.
class NpzReader : public ArrayReader {
 public:
  // Throws Error if `path` is no such archive.
  explicit NpzReader(const std::string& path);
  ~NpzReader() override;
  NpzReader(const NpzReader&) = delete;
  NpzReader& operator=(const NpzReader&) = delete;

  const std::map<std::string, ArrayInfo>& arrays() const override;
  void read(const std::string& name, char* to, size_t count) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay
