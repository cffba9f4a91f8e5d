#include "assay/convert/npz_reader.h"

#include <fmt/format.h>
#include <zip.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include "assay/convert/npy_header.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr const char* kNpzHint = "give an archive that assay convert or numpy.savez() wrote";

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

NpyBytes bytes_of(zip_file_t* file) {
  return [file](char* to, size_t count) { return read_all(file, to, count); };
}

bool skip_header(zip_file_t* file) {
  return read_npy_header(bytes_of(file)).has_value();
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
      throw Error("cannot read the archive: " + reason, path, kNpzHint);
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
                  kNpzHint);
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
      if (entry.file == nullptr || !skip_header(entry.file.get())) return false;
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
                  path_, kNpzHint);
    }
  }

  void add_entry(zip_uint64_t index) {
    const char* entry = zip_get_name(archive_.get(), index, 0);
    if (entry != nullptr && !names_.insert(entry).second) {
      throw Error(fmt::format("the archive has '{}' twice", printable(entry, 80)), path_, kNpzHint);
    }
    if (entry == nullptr || std::string_view(entry).ends_with('/')) return;  // a folder
    std::string name(entry);
    if (!name.ends_with(".npy")) {
      throw Error(fmt::format("'{}' in the archive is no .npy file", printable(name, 80)), path_,
                  kNpzHint);
    }
    name.resize(name.size() - 4);
    const EntryFile file(zip_fopen_index(archive_.get(), index, 0));
    const auto header = file == nullptr ? std::nullopt : read_npy_header(bytes_of(file.get()));
    if (!header) {
      throw Error(fmt::format("'{}' is not a NumPy array", printable(name, 80)), path_, kNpzHint);
    }
    const ArrayInfo info = parse_npy_header(*header, path_, name);
    if (info.type != ArrayType::kOther) entries_[name] = {index, info.bytes, nullptr, false};
    arrays_[name] = info;
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
