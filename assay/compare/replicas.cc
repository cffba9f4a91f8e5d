#include "assay/compare/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/record_content.h"
#include "assay/compare/self_check.h"
#include "assay/log/run_files.h"
#include "base/error.h"
#include "base/input_file.h"

namespace assay {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || a == b ||
         (std::isnan(a) && std::isnan(b));
}

// Whether two lists of largest elements begin alike, as far as both go.
bool same_top(const std::vector<TopValue>& a, const std::vector<TopValue>& b) {
  const size_t common = std::min(a.size(), b.size());
  return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(common), b.begin(),
                    [](const TopValue& x, const TopValue& y) {
                      return x.index == y.index && same_bits(x.value, y.value);
                    });
}

bool same_summary(const Summary& a, const Summary& b) {
  const auto differ = [](double x, double y) { return x < y || x > y; };  // not what one lacks
  const bool chosen = a.argmax < 0 || b.argmax < 0 || a.argmax == b.argmax;
  return !differ(a.l2, b.l2) && !differ(a.max, b.max) && !differ(a.min, b.min) &&
         !differ(a.mean, b.mean) && a.nonfinite == b.nonfinite && chosen && same_top(a.top, b.top);
}

bool states_nan(const Record& record) {
  const auto is_nan = [](float value) { return std::isnan(value); };
  const auto in_top = [&](const std::vector<TopValue>& top) {
    return std::ranges::any_of(top, is_nan, &TopValue::value);
  };
  return std::ranges::any_of(record.values, is_nan) || in_top(record.top) ||
         (record.summary && (record.summary->nan.value_or(0) > 0 || in_top(record.summary->top)));
}

// Whether what only `other` states can be of the tensor that `record` is of.
bool fit_together(const Record& record, const Record& other) {
  const bool adds = record.values.size() < other.values.size() ||
                    (record.top.empty() && !other.top.empty()) ||
                    (!record.summary && other.summary) || (!record.sketch && other.sketch);
  if (!adds) return true;
  Record both = record;
  if (both.values.size() < other.values.size()) both.values = other.values;
  if (both.top.empty()) both.top = other.top;
  if (!both.summary) both.summary = other.summary;
  if (!both.sketch) both.sketch = other.sketch;
  return !contradiction_of(record).empty() || contradiction_of(both).empty();
}

// The sequence of the records of each file that state none. Files whose headers are not of one run
// have nothing in common.
std::vector<std::string> default_sequences(const std::vector<std::string>& files) {
  if (files.size() == 1) return {""};
  std::vector<std::optional<LogHeader>> headers;
  for (const std::string& file : files) headers.push_back(read_log_header(file));
  try {
    return agree_on_header(files, std::move(headers)).default_sequence;
  } catch (const Error&) {
    return files;
  }
}

// The ranks along the axes that divide the tensor: who has the same is a replica. Tokens that are
// divided are records of their own.
Rank piece_of(const Record& record, const std::string& file, const ReplicaCheck::Place& place) {
  if (!record.dims) return {};
  Dims dims;
  try {
    dims = parse_dims(*record.dims, record.shape);
  } catch (const Error& error) {
    throw Error(error.what(), fmt::format("{}:{}", file, place.place.line));
  }
  if (dims.is_sequence()) dims.axes.front().cut.clear();
  Rank piece;
  const Rank rank = record.rank.value_or(Rank());
  for (const RankAxis axis : dims.dividing()) along(piece, axis) = along(rank, axis);
  return piece;
}

}  // namespace

std::optional<double> difference_of_replicas(const Record& a, const Record& b) {
  if (a.n != b.n) return std::numeric_limits<double>::quiet_NaN();
  std::optional<double> most;
  for (size_t i = 0; i < std::min(a.values.size(), b.values.size()); ++i) {
    if (same_bits(a.values[i], b.values[i])) continue;
    const double difference =
        std::abs(static_cast<double>(a.values[i]) - static_cast<double>(b.values[i]));
    if (!most || !(difference <= *most)) most = difference;
  }
  if (most) return most;
  const bool sketches = a.sketch && b.sketch && *a.sketch != *b.sketch;
  const bool summaries = a.summary && b.summary && !same_summary(*a.summary, *b.summary);
  if (sketches || summaries || !same_top(a.top, b.top) || states_nan(a) != states_nan(b) ||
      !fit_together(a, b)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return std::nullopt;
}

ReplicaCheck::ReplicaCheck(const std::vector<std::string>& files)
    : files_(files), default_sequence_(default_sequences(files)) {}

ReplicaCheck::Key ReplicaCheck::key_of(const Record& record, const Place& place) {
  const auto file = static_cast<size_t>(place.place.file);
  const bool is_default = record.sequence == "0" && !default_sequence_[file].empty();
  Key key = {is_default ? default_sequence_[file] : record.sequence, record.checkpoint,
             record.token_idx, 0, piece_of(record, files_[file], place)};
  // Other tools' modules may be called several times.
  if (!parse_checkpoint_name(record.checkpoint).known) {
    const int64_t before = times_[{key, record.rank.value_or(Rank())}]++;
    std::get<3>(key) = before;
  }
  return key;
}

Record ReplicaCheck::load(const Place& place) const {
  RecordLoader loader(std::make_shared<InputFile>(files_[static_cast<size_t>(place.place.file)]));
  RecordPlace in_file = place.place;
  in_file.file = 0;
  return place.rows == 1 ? loader.load(in_file) : loader.load_row(in_file, place.row, place.rows);
}

ReplicaCheck::Found ReplicaCheck::add(const Record& record, const Place& place) {
  const auto [at, is_first] = logged_.try_emplace(key_of(record, place));
  std::vector<Logged>& logged = at->second;
  const Rank rank = record.rank.value_or(Rank());
  // Most logs are of one process: nothing there is held to anything, and needs no digest.
  const std::string digest = is_first && !record.rank ? "" : content_digest(record);
  for (const Logged& before : logged) {
    const bool same_rank = before.rank == rank;
    const bool same_file = before.place.place.file == place.place.file;
    if (before.digest == digest || (same_rank && (same_file || !record.rank))) continue;
    if (!same_rank && !difference_of_replicas(load(before.place), record)) continue;
    return same_rank ? Found::kConflict : Found::kReplicaDiffers;
  }
  const bool is_known = std::ranges::find(logged, digest, &Logged::digest) != logged.end();
  if (!is_known) logged.push_back({rank, digest, place});
  return Found::kNothing;
}

}  // namespace assay
