#include "assay/dump/token_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "assay/dump/dump_values.h"
#include "base/error.h"

namespace assay {
namespace {

// Far beyond every context, and far from where adding to it overflows.
constexpr int64_t kMostPosition = int64_t{1} << 48;
constexpr const char* kSkipHint = "leave one of them out with assay import --skip";

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

// The first tensor of one of these names, with 1 or 2 dimensions.
const DumpTensor* find(const std::vector<const DumpTensor*>& pass,
                       std::initializer_list<const char*> names) {
  for (const DumpTensor* tensor : pass) {
    const auto fits = [&](const char* name) { return last_part(tensor->name) == name; };
    const size_t dims = tensor->info.shape.size();
    if (dims >= 1 && dims <= 2 && std::any_of(names.begin(), names.end(), fits)) return tensor;
  }
  return nullptr;
}

using Size = std::pair<int64_t, int64_t>;  // batch, tokens

Size size_of(const DumpTensor& tensor) {
  const std::vector<int64_t>& shape = tensor.info.shape;
  return shape.size() == 1 ? Size{1, shape[0]} : Size{shape[0], shape[1]};
}

// The leading sizes that most tensors share; of equally many, the most tokens.
Size most_common(const std::vector<const DumpTensor*>& pass) {
  std::map<Size, int> votes;
  for (const DumpTensor* tensor : pass) {
    const std::vector<int64_t>& shape = tensor->info.shape;
    if (describes_rows(*tensor) || shape.size() < 2) continue;
    ++votes[shape.size() == 2 ? Size{1, shape[0]} : Size{shape[0], shape[1]}];
  }
  Size best{1, 1};
  int most = 0;
  for (const auto& [size, count] : votes) {
    if (count < most || (count == most && size.second < best.second)) continue;
    best = size;
    most = count;
  }
  return best;
}

std::vector<int64_t> numbers_of(const DumpTensor* tensor) {
  return tensor == nullptr ? std::vector<int64_t>() : read_whole_numbers(*tensor);
}

void check_count(const DumpTensor& tensor, size_t count, int64_t rows) {
  if (static_cast<int64_t>(count) == rows) return;
  throw Error(
      fmt::format("'{}' has {} elements for {} tokens", printable(tensor.name, 80), count, rows),
      tensor.file, kSkipHint);
}

void check_position(int64_t position, const DumpTensor& tensor) {
  if (position >= 0 && position <= kMostPosition) return;
  throw Error(
      fmt::format("'{}' holds {}", printable(tensor.name, 80),
                  position < 0 ? "a negative position"
                               : fmt::format("the position {}, beyond any context", position)),
      tensor.file, kSkipHint);
}

// Which requests the rows of a flat batch belong to: each ends at its length, or, where lengths are
// not known, before a position that does not follow.
std::vector<int64_t> requests_of(const std::vector<int64_t>& positions,
                                 const std::vector<int64_t>& lengths, const DumpTensor& tensor) {
  std::vector<int64_t> requests;
  int64_t request = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const auto at = static_cast<size_t>(request);
    if (!lengths.empty() && (at >= lengths.size() || positions[i] >= lengths[at])) {
      throw Error(fmt::format("'{}' and seq_lens do not fit together", printable(tensor.name, 80)),
                  tensor.file, kSkipHint);
    }
    requests.push_back(request);
    const bool follows = i + 1 < positions.size() && positions[i + 1] == positions[i] + 1;
    if (lengths.empty() ? !follows : positions[i] + 1 == lengths[at]) ++request;
  }
  return requests;
}

// The position of each of `count` tokens, one sequence after the other, where a dump says only how
// long each sequence is by now.
std::vector<int64_t> positions_of(const DumpTensor& tensor, const std::vector<int64_t>& lengths,
                                  int64_t count) {
  const bool are_positive =
      std::all_of(lengths.begin(), lengths.end(), [](int64_t length) { return length > 0; });
  const bool fits = are_positive && !lengths.empty() && std::ssize(lengths) <= count;
  std::vector<int64_t> positions;
  if (fits && lengths.size() == 1) {  // others may have come before
    for (int64_t i = lengths[0] - count; i < lengths[0]; ++i) positions.push_back(i);
    if (positions.front() >= 0) return positions;
  } else if (fits && std::ssize(lengths) == count) {  // one more of each
    for (const int64_t length : lengths) positions.push_back(length - 1);
    return positions;
  } else if (fits) {
    for (const int64_t length : lengths) {
      for (int64_t i = 0; i < length && std::ssize(positions) <= count; ++i) positions.push_back(i);
    }
    if (std::ssize(positions) == count) return positions;
  }
  throw Error(fmt::format("'{}' does not fit {} tokens", printable(tensor.name, 80), count),
              tensor.file, "save 'positions', too, or leave it out with assay import --skip");
}

}  // namespace

bool describes_rows(const DumpTensor& tensor) {
  static constexpr const char* kNames[] = {"input_ids",      "token_ids", "positions",
                                           "position_ids",   "seq_lens",  "req_pool_indices",
                                           "attention_mask", "rids"};
  const std::string name = last_part(tensor.name);
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* each) { return name == each; });
}

PassRows rows_of(const std::vector<const DumpTensor*>& pass, std::map<std::string, int64_t>& next) {
  const DumpTensor* ids = find(pass, {"input_ids", "token_ids"});
  const DumpTensor* places = find(pass, {"positions", "position_ids"});
  const DumpTensor* mask = find(pass, {"attention_mask"});
  const DumpTensor* lengths = find(pass, {"seq_lens"});
  PassRows rows;
  std::tie(rows.batch, rows.tokens) = ids != nullptr      ? size_of(*ids)
                                      : places != nullptr ? size_of(*places)
                                                          : most_common(pass);
  const DumpTensor* counts = ids != nullptr ? ids : places;
  rows.counted = counts == nullptr ? "as its other tensors have it"
                                   : fmt::format("by '{}'", printable(counts->name, 40));
  int64_t count = 0;
  if (__builtin_mul_overflow(rows.batch, rows.tokens, &count) || count < 1 || count > kMaxIds) {
    throw Error(fmt::format("a pass of {} sequences with {} tokens", rows.batch, rows.tokens),
                pass.front()->file, "give a dump of a model's activations");
  }
  rows.ids = numbers_of(ids);
  std::vector<int64_t> positions = numbers_of(places);
  if (places != nullptr && std::ssize(positions) == rows.tokens) {
    // Once for all sequences of a batch.
    for (int64_t b = 1; b < rows.batch; ++b) {
      positions.insert(positions.end(), positions.begin(), positions.begin() + rows.tokens);
    }
  }
  if (places != nullptr) check_count(*places, positions.size(), count);
  const std::vector<int64_t> masked = numbers_of(mask);
  int64_t mask_width = mask != nullptr ? size_of(*mask).second : 0;
  if (mask != nullptr && (mask_width < rows.tokens || size_of(*mask).first != rows.batch)) {
    check_count(*mask, masked.size(), count);
    mask_width = rows.tokens;  // the same elements in another shape
  }
  // Packed sequences are often numbered so.
  const auto other = std::ranges::find_if(masked, [](int64_t x) { return x != 0 && x != 1; });
  if (other != masked.end()) {
    throw Error(
        fmt::format("'{}' holds {}, and not only 0 and 1", printable(mask->name, 80), *other),
        mask->file, kSkipHint);
  }
  const bool has_lengths = places == nullptr && lengths != nullptr && rows.batch == 1;
  const std::vector<int64_t> lengths_of = numbers_of(lengths);  // once: it may be a stream
  if (has_lengths) positions = positions_of(*lengths, lengths_of, count);
  const DumpTensor* of_positions = has_lengths ? lengths : places;
  for (const int64_t position : positions) check_position(position, *of_positions);
  if (pass.front()->token_idx) check_position(*pass.front()->token_idx, *pass.front());
  const bool is_flat = rows.batch == 1 && of_positions != nullptr;
  const std::vector<int64_t> requests =
      is_flat ? requests_of(positions, lengths_of, *of_positions) : std::vector<int64_t>();
  rows.has_places = of_positions != nullptr || pass.front()->token_idx.has_value();
  const std::vector<int64_t> names = numbers_of(find(pass, {"req_pool_indices"}));
  const std::string given = pass.front()->sequence;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t b = is_flat ? requests[at] : i / rows.tokens;
    const int64_t t = i % rows.tokens;
    TokenRow row;
    row.sequence = b < std::ssize(names) ? std::to_string(names[static_cast<size_t>(b)])
                   : given.empty()       ? std::to_string(b)
                   : rows.batch == 1     ? given
                                         : fmt::format("{}.{}", given, b);
    int64_t& seen = next[row.sequence];
    if (mask != nullptr) {
      // Rows of the mask, not requests: a flat batch is one row.
      const int64_t mask_row = i / rows.tokens;
      const int64_t element = (mask_row + 1) * mask_width - rows.tokens + t;
      row.is_padding = masked[static_cast<size_t>(element)] == 0;
    }
    row.token_idx = of_positions != nullptr               ? positions[at]
                    : pass.front()->token_idx.has_value() ? *pass.front()->token_idx + t
                                                          : seen;
    if (!row.is_padding) seen = row.token_idx + 1;
    const bool ends =
        i + 1 == count || (is_flat ? requests[at + 1] != requests[at] : t + 1 == rows.tokens);
    if (ends) rows.last.push_back(i);
    rows.rows.push_back(std::move(row));
  }
  return rows;
}

std::optional<RowAxes> axes_of(const DumpTensor& tensor, const PassRows& pass) {
  const std::vector<int64_t>& shape = tensor.info.shape;
  const size_t dims = shape.size();
  RowAxes axes;
  const auto take = [&](RowAxes::Form form, size_t leading) {
    axes.form = form;
    axes.leading = leading;
    axes.shape.assign(shape.begin() + static_cast<std::ptrdiff_t>(leading), shape.end());
    if (axes.shape.empty()) axes.shape = {1};
    return axes;
  };
  if (dims == 4 && shape[0] == pass.batch && shape[2] == pass.tokens) {
    if (shape[1] == pass.tokens && shape[1] > 1) return std::nullopt;  // heads or tokens?
    if (shape[1] != pass.tokens) {
      axes.form = RowAxes::Form::kHeadsFirst;
      axes.shape = {shape[1], shape[3]};
      return axes;
    }
  }
  const int64_t rows = pass.batch * pass.tokens;
  if (dims >= 2 && shape[0] == pass.batch && shape[1] == pass.tokens && (dims > 2 || rows > 1)) {
    return take(RowAxes::Form::kRows, 2);
  }
  if (dims >= 2 && shape[0] == rows) return take(RowAxes::Form::kRows, 1);
  if (dims == 1 && rows == 1) return take(RowAxes::Form::kRows, 0);
  // What computes logits for the last token of each sequence alone.
  const std::string name = last_part(tensor.name);
  const bool is_logits = name.find("logits") != std::string::npos || name == "lm_head";
  const auto n_last = std::ssize(pass.last);
  if (is_logits && dims == 3 && shape[0] == n_last && shape[1] == 1) {
    return take(RowAxes::Form::kLast, 2);
  }
  if (is_logits && dims == 2 && shape[0] == n_last) return take(RowAxes::Form::kLast, 1);
  if (is_logits && dims == 1 && n_last == 1) return take(RowAxes::Form::kLast, 0);
  return std::nullopt;
}

}  // namespace assay
