#include "assay/report/log_details.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include "assay/compare/log_index.h"
#include "assay/log/sketch.h"

namespace assay {
namespace {

// At most `most` of `all`, evenly spaced, the first and the last among them.
template <typename T>
std::vector<T> spread(const std::vector<T>& all, size_t most) {
  if (all.size() <= most) return all;
  std::vector<T> some;
  for (size_t i = 0; i < most; ++i) some.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return some;
}

std::vector<TopValue> top_of(const LogIndex& log, int64_t token_idx, IndexLoader& loader) {
  const int32_t logits = log.names().find("logits");
  const int64_t place = logits < 0 ? -1 : log.find(logits, token_idx);
  if (place < 0) return {};
  const Record& record = log.load(log.entries()[static_cast<size_t>(place)], loader);
  if (record.has_all_values()) return largest_values(record.values);
  return record.summary ? record.summary->top : std::vector<TopValue>();
}

bool digits(std::string_view text, size_t from, size_t count, int& value) {
  if (text.size() < from + count) return false;
  const char* begin = text.data() + from;
  const auto [stop, error] = std::from_chars(begin, begin + count, value);
  return error == std::errc() && stop == begin + count && *begin != '-';
}

// Days since 1970-01-01 in the Gregorian calendar (Richards, "Mapping Time", 1998).
int64_t days_from_civil(int64_t year, int64_t month, int64_t day) {
  const int64_t y = month <= 2 ? year - 1 : year;
  const int64_t m = month <= 2 ? month + 12 : month;
  return 365 * y + y / 4 - y / 100 + y / 400 + (153 * (m - 3) + 2) / 5 + day - 719469;
}

}  // namespace

std::vector<TopLogits> top_logits(const Comparison& comparison, size_t max_tokens) {
  if (!comparison.ref_log || !comparison.got_log) return {};
  std::vector<int64_t> differing;
  std::vector<int64_t> same;
  for (const RecordResult& result : comparison.results) {
    if (comparison.checkpoints[static_cast<size_t>(result.checkpoint)].name != "logits") continue;
    const Metrics& m = result.metrics;
    (m.argmax_ref && m.argmax_got && m.argmax_ref != m.argmax_got ? differing : same)
        .push_back(result.token_idx);
  }
  std::vector<int64_t> tokens = spread(differing, max_tokens);
  if (tokens.size() + 2 <= max_tokens) {
    for (const int64_t token : spread(same, max_tokens - tokens.size())) tokens.push_back(token);
  }
  std::sort(tokens.begin(), tokens.end());
  IndexLoader ref = comparison.ref_log->loader();
  IndexLoader got = comparison.got_log->loader();
  std::vector<TopLogits> all;
  for (const int64_t token : tokens) {
    TopLogits top{token, top_of(*comparison.ref_log, token, ref),
                  top_of(*comparison.got_log, token + comparison.alignment.offset, got)};
    if (!top.ref.empty() && !top.got.empty()) all.push_back(std::move(top));
  }
  return all;
}

namespace {

// Whether a token was computed in a step of its own, after the prompt.
bool is_decoded(const LogIndex& log, const Record& record) {
  if (record.phase) return *record.phase == Phase::kDecode;
  const auto& header = log.header();
  return header && !header->tokens.empty() && record.token_idx >= std::ssize(header->tokens);
}

}  // namespace

std::vector<TokenTime> decode_times(const LogIndex& log, size_t max_tokens) {
  std::map<int64_t, const IndexEntry*> last;
  for (const IndexEntry& entry : log.entries()) {
    const IndexEntry*& held = last[entry.token_idx];
    if (held == nullptr || entry.place.offset > held->place.offset) held = &entry;
  }
  std::vector<std::pair<int64_t, const IndexEntry*>> all(last.begin(), last.end());
  IndexLoader loader = log.loader();
  std::vector<TokenTime> times;
  std::optional<TokenTime> before;  // the token before the first step
  for (const auto& [token, entry] : spread(all, max_tokens)) {
    const Record& record = log.load(*entry, loader);
    const auto seconds = record.ts ? parse_time(*record.ts) : std::nullopt;
    if (!seconds) return {};
    const TokenTime time{token, *seconds};
    if (!is_decoded(log, record)) {
      before = time;
      continue;
    }
    if (times.empty() && before && before->token_idx + 1 == token) times.push_back(*before);
    times.push_back(time);
  }
  return times;
}

std::optional<double> parse_time(std::string_view text) {
  std::array<int, 6> part{};  // year, month, day, hour, minute, second
  const bool good = digits(text, 0, 4, part[0]) && digits(text, 5, 2, part[1]) &&
                    digits(text, 8, 2, part[2]) && digits(text, 11, 2, part[3]) &&
                    digits(text, 14, 2, part[4]) && digits(text, 17, 2, part[5]) &&
                    text[4] == '-' && text[7] == '-' && (text[10] == 'T' || text[10] == ' ') &&
                    text[13] == ':' && text[16] == ':';
  const bool in_range = good && part[1] >= 1 && part[1] <= 12 && part[2] >= 1 && part[2] <= 31 &&
                        part[3] < 24 && part[4] < 60 && part[5] <= 60;
  if (!in_range) return std::nullopt;
  double seconds = static_cast<double>(days_from_civil(part[0], part[1], part[2])) * 86400 +
                   part[3] * 3600 + part[4] * 60 + part[5];
  std::string_view rest = text.substr(19);
  double unit = 0.1;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    for (; !rest.empty() && rest[0] >= '0' && rest[0] <= '9'; rest.remove_prefix(1)) {
      seconds += (rest[0] - '0') * unit;
      unit /= 10;
    }
  }
  if (rest.empty() || rest == "Z") return seconds;
  int hours = 0;
  int minutes = 0;
  const bool offset = (rest[0] == '+' || rest[0] == '-') && digits(rest, 1, 2, hours) &&
                      digits(rest, rest.size() == 6 ? 4 : 3, 2, minutes) &&
                      (rest.size() == 5 || (rest.size() == 6 && rest[3] == ':'));
  if (!offset) return std::nullopt;
  return seconds + (rest[0] == '-' ? 1 : -1) * (hours * 3600.0 + minutes * 60.0);
}

}  // namespace assay
