#include "assay/convert/npz_reader.h"

#include <fmt/format.h>
#include <zip.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace assay {
namespace {

constexpr size_t kMaxHeader = 1 << 20;
constexpr size_t kMaxDims = 64;  // NumPy's own
constexpr const char* kHint = "give an archive that assay convert or numpy.savez() wrote";

struct CloseZip {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using EntryFile = std::unique_ptr<zip_file_t, CloseEntry>;

bool read_all(zip_file_t* file, char* to, size_t count) {
  while (count > 0) {
    const zip_int64_t got = zip_fread(file, to, count);
    if (got <= 0) return false;
    to += got;
    count -= static_cast<size_t>(got);
  }
  return true;
}

std::optional<ArrayType> type_of(const std::string& code) {
  if (code == "<f4") return ArrayType::kFloat32;
  if (code == "<f8") return ArrayType::kFloat64;
  if (code == "<i8") return ArrayType::kInt64;
  if (code == "|u1") return ArrayType::kUint8;
  return std::nullopt;
}

// The dictionary of an .npy file, read from its start; nothing if it is not such a file.
std::optional<std::string> read_header(zip_file_t* file) {
  unsigned char start[12];
  if (!read_all(file, reinterpret_cast<char*>(start), 10)) return std::nullopt;
  if (std::memcmp(start, "\x93NUMPY", 6) != 0 || start[6] < 1 || start[6] > 3) return std::nullopt;
  size_t length = start[8] | static_cast<size_t>(start[9]) << 8;
  if (start[6] > 1) {
    if (!read_all(file, reinterpret_cast<char*>(start) + 10, 2)) return std::nullopt;
    length |= static_cast<size_t>(start[10]) << 16 | static_cast<size_t>(start[11]) << 24;
  }
  if (length > kMaxHeader) return std::nullopt;
  std::string header(length, '\0');
  if (!read_all(file, header.data(), length)) return std::nullopt;
  return header;
}

// What follows `'key':` in the dictionary, up to `end`.
std::optional<std::string> member(const std::string& header, const std::string& key, char begin,
                                  char end) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) return std::nullopt;
  const size_t from = header.find(begin, at + key.size() + 3);
  if (from == std::string::npos) return std::nullopt;
  const size_t to = header.find(end, from + 1);
  if (to == std::string::npos) return std::nullopt;
  return header.substr(from + 1, to - from - 1);
}

// Nothing if the array has an unsupported type.
std::optional<ArrayInfo> parse_header(const std::string& header, const std::string& where,
                                      const std::string& name) {
  const auto code = member(header, "descr", '\'', '\'');
  const auto shape = member(header, "shape", '(', ')');
  if (!code || !shape) {
    throw Error(fmt::format("'{}' has no NumPy header", printable(name, 80)), where, kHint);
  }
  const auto type = type_of(*code);
  if (!type || header.find("'fortran_order': False") == std::string::npos) return std::nullopt;
  ArrayInfo info;
  info.type = *type;
  for (const char* at = shape->c_str(); *at != '\0';) {
    if (*at < '0' || *at > '9') {
      ++at;
      continue;
    }
    int64_t dim = 0;
    for (; *at >= '0' && *at <= '9'; ++at) {
      if (__builtin_mul_overflow(dim, 10, &dim) || __builtin_add_overflow(dim, *at - '0', &dim)) {
        throw Error(fmt::format("the shape of '{}' is too large", printable(name, 80)), where);
      }
    }
    if (info.shape.size() == kMaxDims) return std::nullopt;
    info.shape.push_back(dim);
  }
  info.bytes = array_bytes(info.type, info.shape, where, name);
  return info;
}

class NpzReader : public ArrayReader {
 public:
  explicit NpzReader(const std::string& path) : path_(path) {
    int code = 0;
    archive_.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
    if (archive_ == nullptr) {
      zip_error_t error;
      zip_error_init_with_code(&error, code);
      const std::string reason = zip_error_strerror(&error);
      zip_error_fini(&error);
      throw Error("cannot read the archive: " + reason, path, kHint);
    }
    const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
    check_sizes(count);
    for (zip_int64_t i = 0; i < count; ++i) add_entry(static_cast<zip_uint64_t>(i));
  }

  const std::map<std::string, ArrayInfo>& arrays() const override { return arrays_; }

  void read(const std::string& name, char* to, size_t count) override {
    const auto found = entries_.find(name);
    if (found == entries_.end() || !read_entry(found->second, to, count)) {
      throw Error(fmt::format("the array '{}' is cut off or damaged", printable(name, 80)), path_,
                  kHint);
    }
  }

 private:
  // An open entry takes 16 KiB or more, so entries are open only while they are read.
  struct Entry {
    zip_uint64_t index = 0;
    int64_t left = 0;  // bytes of the array that have not been read
    EntryFile file;    // closed before the archive
    bool opened = false;
  };

  bool read_entry(Entry& entry, char* to, size_t count) {
    if (!entry.opened) {
      entry.opened = true;
      entry.file.reset(zip_fopen_index(archive_.get(), entry.index, 0));
      if (entry.file == nullptr || !read_header(entry.file.get())) return false;
    }
    if (entry.file == nullptr || !read_all(entry.file.get(), to, count)) return false;
    entry.left -= static_cast<int64_t>(count);
    if (entry.left > 0) return true;
    // The checksum is compared at the end.
    char beyond = 0;
    const bool whole = zip_fread(entry.file.get(), &beyond, 1) == 0;
    entry.file.reset();
    return whole;
  }

  // The total length of entries that do not overlap is at most that of the file. If it is larger,
  // some share bytes, and a small file could produce any number of large arrays.
  void check_sizes(zip_int64_t count) const {
    constexpr zip_uint64_t kLocalHeader = 30;  // without the name
    std::error_code none;
    const zip_uint64_t file_bytes = std::filesystem::file_size(path_, none);
    zip_uint64_t bytes = 0;
    for (zip_int64_t i = 0; i < count; ++i) {
      zip_stat_t status;
      const bool told =
          zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(i), 0, &status) == 0 &&
          (status.valid & ZIP_STAT_COMP_SIZE) != 0;
      if (told && !__builtin_add_overflow(bytes, status.comp_size, &bytes) &&
          !__builtin_add_overflow(bytes, kLocalHeader, &bytes) && bytes <= file_bytes) {
        continue;
      }
      throw Error("entries of the archive share bytes: together they are longer than the file",
                  path_, kHint);
    }
  }

  void add_entry(zip_uint64_t index) {
    const char* entry = zip_get_name(archive_.get(), index, 0);
    if (entry != nullptr && !names_.insert(entry).second) {
      throw Error(fmt::format("the archive has '{}' twice", printable(entry, 80)), path_, kHint);
    }
    if (entry == nullptr || !std::string_view(entry).ends_with(".npy")) return;
    std::string name(entry);
    name.resize(name.size() - 4);
    const EntryFile file(zip_fopen_index(archive_.get(), index, 0));
    const auto header = file == nullptr ? std::nullopt : read_header(file.get());
    if (!header) {
      throw Error(fmt::format("'{}' is not a NumPy array", printable(name, 80)), path_, kHint);
    }
    const auto info = parse_header(*header, path_, name);
    if (!info) return;
    arrays_[name] = *info;
    entries_[name] = {index, info->bytes, nullptr, false};
  }

  std::string path_;
  std::unique_ptr<zip_t, CloseZip> archive_;
  std::map<std::string, ArrayInfo> arrays_;
  std::map<std::string, Entry> entries_;
  std::set<std::string> names_;  // of all entries
};

}  // namespace

std::unique_ptr<ArrayReader> open_npz(const std::string& path) {
  return std::make_unique<NpzReader>(path);
}

}  // namespace assay
