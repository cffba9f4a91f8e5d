#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "assay/log/log_reader.h"
#include "assay/log/record.h"

namespace assay {

// Names as small numbers, in the order in which they were first met.
class NameTable {
 public:
  int32_t id(std::string_view name);
  // -1 if it has not been met.
  int32_t find(const std::string& name) const;
  const std::string& name(int32_t id) const { return names_[static_cast<size_t>(id)]; }
  int32_t size() const { return static_cast<int32_t>(names_.size()); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> ids_;
};

struct IndexEntry {
  int32_t checkpoint = 0;  // in the index's names()
  int32_t team = -1;       // in the index's teams(), -1 where the record has none
  int64_t token_idx = 0;
  RecordPlace place;
};

// Where each record of a log is. The values stay in the file until they are asked for, so that a
// log may be larger than memory.
class LogIndex {
 public:
  // Reads the log once. A record that is there twice with equal values is taken once. Throws Error
  // if the log cannot be read, holds no record, or holds one twice with different values.
  // `progress`, if there is one, is called now and then with the bytes read.
  explicit LogIndex(const std::string& path, const std::function<void(int64_t)>& progress = {});

  const std::string& path() const { return file_->path(); }
  int64_t bytes() const { return file_->size(); }
  const std::optional<LogHeader>& header() const { return header_; }
  const std::vector<IndexEntry>& entries() const { return entries_; }
  const NameTable& names() const { return names_; }
  const NameTable& teams() const { return teams_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  // The place in entries() of a record, -1 if there is none.
  int64_t find(int32_t checkpoint, int64_t token_idx) const;

  // For reading records by their place; one for each thread.
  RecordLoader loader() const { return RecordLoader(file_); }

 private:
  struct KeyHash {
    size_t operator()(const std::pair<int32_t, int64_t>& key) const {
      return std::hash<int64_t>()(key.second) * 0x9E3779B97F4A7C15U +
             static_cast<size_t>(key.first);
    }
  };

  void check_duplicate(const IndexEntry& first, const RecordPlace& second);

  std::shared_ptr<const InputFile> file_;
  std::optional<LogHeader> header_;
  std::vector<IndexEntry> entries_;
  std::unordered_map<std::pair<int32_t, int64_t>, int64_t, KeyHash> by_key_;
  NameTable names_;
  NameTable teams_;
  std::vector<std::string> warnings_;
};

}  // namespace assay
