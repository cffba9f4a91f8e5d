#include "assay/convert/npz_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zip.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/new_file.h"

namespace assay {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are stored as they are in memory");

constexpr time_t kStartOfZip = 315532800;  // 1980-01-01: the same log makes the same archive
constexpr size_t kNpyAlignment = 64;
constexpr size_t kMaxName = 65535 - 4;  // what a ZIP archive can hold, with ".npy"

// Magic, version, length, and a Python dictionary padded so that the data is aligned.
std::string npy_header(ArrayType type, const std::vector<int64_t>& shape) {
  std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                  names_of(type).npy, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const bool large = dictionary.size() > 60000;  // does not fit the 16 bits of version 1.0
  const size_t prefix = large ? 12 : 10;
  dictionary.append(kNpyAlignment - 1 - (prefix + dictionary.size()) % kNpyAlignment, ' ');
  dictionary += '\n';
  std::string header = "\x93NUMPY";
  header += large ? '\2' : '\1';
  header += '\0';
  const size_t length_bytes = prefix - 8;
  for (size_t i = 0; i < length_bytes; ++i) {
    header += static_cast<char>((dictionary.size() >> (8 * i)) & 0xFF);
  }
  return header + dictionary;
}

// An array that is being written: the state of libzip's callback.
struct Entry {
  std::string header;
  int64_t data_bytes = 0;
  ArraySource source;
  std::exception_ptr* failure = nullptr;

  int64_t given = 0;  // bytes taken from `source`
  std::string piece;
  size_t piece_at = 0;

  void rewind() {
    piece = header;
    piece_at = 0;
    given = 0;
  }

  zip_int64_t read(char* to, size_t count) {
    size_t done = 0;
    while (done < count) {
      if (piece_at == piece.size()) {
        if (given == data_bytes) break;
        piece.clear();
        piece_at = 0;
        source(piece);
        given += std::ssize(piece);
        if (piece.empty() || given > data_bytes) {
          throw Error("an array's data does not match its shape");
        }
      }
      const size_t part = std::min(count - done, piece.size() - piece_at);
      std::memcpy(to + done, piece.data() + piece_at, part);
      piece_at += part;
      done += part;
    }
    return static_cast<zip_int64_t>(done);
  }
};

zip_int64_t describe(const Entry& entry, void* to) {
  auto* status = static_cast<zip_stat_t*>(to);
  zip_stat_init(status);
  status->size = entry.header.size() + static_cast<zip_uint64_t>(entry.data_bytes);
  status->mtime = kStartOfZip;
  status->valid = ZIP_STAT_SIZE | ZIP_STAT_MTIME;
  return sizeof(zip_stat_t);
}

zip_int64_t on_entry(void* state, void* data, zip_uint64_t count, zip_source_cmd_t command) {
  auto& entry = *static_cast<Entry*>(state);
  switch (command) {
    case ZIP_SOURCE_SUPPORTS:
      return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                            ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, -1);
    case ZIP_SOURCE_OPEN:
      entry.rewind();
      return 0;
    case ZIP_SOURCE_READ:
      try {
        return entry.read(static_cast<char*>(data), count);
      } catch (...) {
        *entry.failure = std::current_exception();
        return -1;
      }
    case ZIP_SOURCE_STAT:
      return describe(entry, data);
    case ZIP_SOURCE_ERROR: {
      const int codes[2] = {ZIP_ER_READ, 0};
      std::memcpy(data, codes, sizeof(codes));
      return sizeof(codes);
    }
    default:
      return 0;
  }
}

}  // namespace

struct NpzWriter::Impl {
  std::string path;
  zip_t* archive = nullptr;
  std::vector<std::unique_ptr<Entry>> entries;
  std::exception_ptr failure;

  [[noreturn]] void fail(const std::string& what, zip_error_t* error) const {
    throw Error(fmt::format("{}: {}", what, zip_error_strerror(error)), path,
                "give a file that can be written");
  }
};

NpzWriter::NpzWriter(std::string path) : impl_(std::make_unique<Impl>()) {
  impl_->path = std::move(path);
  int code = 0;
  impl_->archive = zip_open(place_of(impl_->path).c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (impl_->archive != nullptr) return;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  throw Error("cannot write the archive: " + reason, impl_->path,
              "give a file that can be written");
}

NpzWriter::~NpzWriter() {
  if (impl_->archive != nullptr) zip_discard(impl_->archive);
}

void NpzWriter::add(const std::string& name, ArrayType type, std::vector<int64_t> shape,
                    ArraySource source) {
  const Error bad_name(
      fmt::format("an NPZ archive cannot hold an array of the name '{}'", printable(name, 80)),
      impl_->path, "give the checkpoint another name, or convert to safetensors");
  if (name.find('\0') != std::string::npos || name.size() > kMaxName) throw bad_name;
  auto entry = std::make_unique<Entry>();
  entry->header = npy_header(type, shape);
  entry->data_bytes = array_bytes(type, shape, impl_->path, name);
  entry->source = std::move(source);
  entry->failure = &impl_->failure;
  zip_source_t* zip_source = zip_source_function(impl_->archive, on_entry, entry.get());
  if (zip_source == nullptr) impl_->fail("cannot add an array", zip_get_error(impl_->archive));
  const zip_int64_t index =
      zip_file_add(impl_->archive, (name + ".npy").c_str(), zip_source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(zip_source);
    const int code = zip_error_code_zip(zip_get_error(impl_->archive));
    // Control characters, and a checkpoint of the name of an array that each archive has.
    if (code == ZIP_ER_INVAL || code == ZIP_ER_EXISTS) throw bad_name;
    impl_->fail(fmt::format("cannot add the array '{}'", printable(name, 80)),
                zip_get_error(impl_->archive));
  }
  impl_->entries.push_back(std::move(entry));
  const auto place = static_cast<zip_uint64_t>(index);
  if (zip_set_file_compression(impl_->archive, place, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_mtime(impl_->archive, place, kStartOfZip, 0) != 0) {
    impl_->fail("cannot add an array", zip_get_error(impl_->archive));
  }
}

void NpzWriter::add(const std::string& name, std::vector<int64_t> shape,
                    std::span<const int64_t> values) {
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  add(name, ArrayType::kInt64, std::move(shape),
      [bytes = std::move(bytes)](std::string& piece) { piece = bytes; });
}

void NpzWriter::close() {
  if (zip_close(impl_->archive) != 0) {
    if (impl_->failure) std::rethrow_exception(impl_->failure);
    impl_->fail("cannot write the archive", zip_get_error(impl_->archive));
  }
  impl_->archive = nullptr;
}

}  // namespace assay
