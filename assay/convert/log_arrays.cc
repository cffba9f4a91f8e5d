#include "assay/convert/log_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>
#include <vector>

#include "assay/compare/log_index.h"
#include "assay/convert/npz_writer.h"
#include "base/error.h"

namespace assay {
namespace {

// The records of one checkpoint, by token_idx.
struct Array {
  std::vector<IndexEntry> entries;
  int64_t widest = 0;
  int64_t values = 0;  // of all

  int64_t cells() const { return widest * std::ssize(entries); }
  std::vector<int64_t> tokens() const {
    std::vector<int64_t> all;
    for (const IndexEntry& entry : entries) all.push_back(entry.token_idx);
    return all;
  }
};

std::vector<Array> arrays_of(const LogIndex& log) {
  std::vector<Array> arrays(static_cast<size_t>(log.names().size()));
  IndexLoader loader = log.loader();
  for (const IndexEntry& entry : log.entries()) {
    Array& array = arrays[static_cast<size_t>(entry.checkpoint)];
    array.entries.push_back(entry);
    const int64_t count = std::ssize(log.load(entry, loader).values);
    array.widest = std::max(array.widest, count);
    array.values += count;
  }
  for (Array& array : arrays) {
    std::sort(array.entries.begin(), array.entries.end(),
              [](const IndexEntry& a, const IndexEntry& b) { return a.token_idx < b.token_idx; });
  }
  return arrays;
}

// An archive may hold at most kMaxFill times the values of the log, plus kFreeFill.
constexpr int64_t kMaxFill = 16;
constexpr int64_t kFreeFill = int64_t{1} << 20;

void refuse_fill(const LogIndex& log, const std::vector<Array>& arrays, const std::string& path) {
  int64_t left = kFreeFill;
  for (const Array& array : arrays) left += kMaxFill * array.values;
  for (size_t i = 0; i < arrays.size(); ++i) {
    left -= arrays[i].cells();
    if (left >= 0) continue;
    throw Error(
        fmt::format("the {} values of '{}' would be padded with NaN to {}, because one of "
                    "its records has {}",
                    arrays[i].values, printable(log.names().name(static_cast<int32_t>(i)), 80),
                    arrays[i].cells(), arrays[i].widest),
        path, "assay convert keeps records of each size apart");
  }
}

// Row by row, each read when it is needed.
ArraySource rows_of(const LogIndex& log, const Array& array) {
  // make_shared would have to move a loader.
  const std::shared_ptr<IndexLoader> loader(new IndexLoader(log.loader()));
  return [&log, &array, loader, row = size_t{0}](std::string& bytes) mutable {
    Record& record = log.load(array.entries[row++], *loader);
    record.values.resize(static_cast<size_t>(array.widest),
                         std::numeric_limits<float>::quiet_NaN());
    bytes.assign(reinterpret_cast<const char*>(record.values.data()),
                 record.values.size() * sizeof(float));
  };
}

}  // namespace

void write_log_as_npz(const std::string& log_path, const std::string& npz_path) {
  std::error_code none;
  if (std::filesystem::equivalent(log_path, npz_path, none)) {
    throw Error("the archive would overwrite the log", npz_path, "give another file");
  }
  const LogIndex log(log_path);
  const std::vector<Array> arrays = arrays_of(log);
  refuse_fill(log, arrays, log_path);
  const std::vector<int64_t> tokens = arrays.front().tokens();
  const bool same_tokens = std::all_of(
      arrays.begin(), arrays.end(), [&](const Array& array) { return array.tokens() == tokens; });
  NpzWriter npz(npz_path);
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Array& array = arrays[i];
    const std::string& name = log.names().name(static_cast<int32_t>(i));
    npz.add(name, ArrayType::kFloat32, {std::ssize(array.entries), array.widest},
            rows_of(log, array));
    if (!same_tokens) {
      npz.add(name + ".token_idx", {std::ssize(array.entries)}, array.tokens());
    }
  }
  if (same_tokens) npz.add("token_idx", {std::ssize(tokens)}, tokens);
  npz.close();
}

}  // namespace assay
