#include "assay/compare/expert_order.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace assay {
namespace {

constexpr float kMostId = 1 << 24;  // beyond it floats are no whole numbers any more

bool are_ids(const Record& record) {
  std::set<float> seen;
  return record.has_all_values() && std::ranges::all_of(record.values, [&](float value) {
           return value >= 0 && value < kMostId &&
                  static_cast<float>(static_cast<int64_t>(value)) == value &&
                  seen.insert(value).second;
         });
}

// Moves the elements of a record, as many for each expert, to another order.
class Reordering {
 public:
  // `slots`: where the record has each expert. Of each the first `kept` elements come before all
  // others, and of these the first `leading` before the rest.
  Reordering(const ExpertSlots& slots, int64_t width, std::vector<int64_t> leading,
             std::vector<int64_t> kept)
      : slots_(slots), width_(width), leading_(std::move(leading)), kept_(std::move(kept)) {}

  // The values are those that lead, and all that are kept if `with_rest`.
  Record apply(const Record& record, bool with_rest) const {
    Record moved = record;
    moved.sketch.reset();
    moved.values.clear();
    append(record, {}, leading_, moved.values);
    if (with_rest) append(record, leading_, kept_, moved.values);
    if (!moved.summary) return moved;
    for (TopValue& top : moved.summary->top) top.index = place_of(top.index);
    if (moved.summary->argmax >= 0) moved.summary->argmax = place_of(moved.summary->argmax);
    return moved;
  }

 private:
  static int64_t at(const std::vector<int64_t>& counts, size_t i) {
    return counts.empty() ? 0 : counts[i];
  }

  // Of each expert the elements from `from` to `to`.
  void append(const Record& record, const std::vector<int64_t>& from,
              const std::vector<int64_t>& to, std::vector<float>& values) const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      const auto part = record.values.begin() + slots_[i] * width_;
      values.insert(values.end(), part + at(from, i), part + to[i]);
    }
  }

  int64_t place_of(int64_t index) const {
    const auto slot = std::ranges::find(slots_, index / width_);
    if (slot == slots_.end()) return index;
    const auto expert = static_cast<size_t>(slot - slots_.begin());
    const int64_t offset = index % width_;
    const auto sum = [](const std::vector<int64_t>& counts, size_t end) {
      return std::accumulate(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(end),
                             int64_t{0});
    };
    if (offset < leading_[expert]) return sum(leading_, expert) + offset;
    const size_t all = slots_.size();
    if (offset < kept_[expert]) {
      return sum(leading_, all) + sum(kept_, expert) - sum(leading_, expert) + offset -
             leading_[expert];
    }
    const int64_t kept_behind = sum(kept_, all) - sum(kept_, expert) - kept_[expert];
    return static_cast<int64_t>(expert) * width_ + offset + kept_behind;
  }

  ExpertSlots slots_;
  int64_t width_;
  std::vector<int64_t> leading_;
  std::vector<int64_t> kept_;
};

// How many of the first elements of the part in that slot are logged.
int64_t count_logged(const Record& record, int64_t slot, int64_t width) {
  return std::clamp<int64_t>(std::ssize(record.values) - slot * width, 0, width);
}

ExpertSlots in_order(size_t count) {
  ExpertSlots slots(count);
  for (size_t i = 0; i < count; ++i) slots[i] = static_cast<int64_t>(i);
  return slots;
}

}  // namespace

std::optional<ExpertSlots> slots_by_id(const Record& ref_ids, const Record& got_ids) {
  if (ref_ids.values.empty() || ref_ids.values.size() != got_ids.values.size()) return {};
  if (!are_ids(ref_ids) || !are_ids(got_ids)) return {};
  ExpertSlots slots;
  for (const float id : ref_ids.values) {
    const auto found = std::ranges::find(got_ids.values, id);
    if (found == got_ids.values.end()) return {};
    slots.push_back(found - got_ids.values.begin());
  }
  return slots;
}

std::vector<RecordsInOneOrder> in_one_order(const Record& ref, const Record& got,
                                            const ExpertSlots& slots) {
  const auto count = slots.size();
  if (ref.n != got.n || ref.n == 0 || ref.n % static_cast<int64_t>(count) != 0) return {};
  const int64_t width = ref.n / static_cast<int64_t>(count);
  const std::vector<int64_t> all(count, width);
  if (got.has_all_values()) {
    return {{ref, Reordering(slots, width, all, all).apply(got, false)}};
  }
  const ExpertSlots of_ref = in_order(count);
  if (ref.has_all_values()) {
    ExpertSlots inverse(count);
    for (size_t i = 0; i < count; ++i) inverse[static_cast<size_t>(slots[i])] = of_ref[i];
    return {{Reordering(inverse, width, all, all).apply(ref, false), got}};
  }
  std::vector<int64_t> ref_logged;
  std::vector<int64_t> got_logged;
  std::vector<int64_t> both;
  for (size_t i = 0; i < count; ++i) {
    ref_logged.push_back(count_logged(ref, of_ref[i], width));
    got_logged.push_back(count_logged(got, slots[i], width));
    both.push_back(std::min(ref_logged.back(), got_logged.back()));
  }
  std::vector<RecordsInOneOrder> pairs;
  for (const bool of_got : {true, false}) {
    const std::vector<int64_t>& kept = of_got ? got_logged : ref_logged;
    pairs.push_back({Reordering(of_ref, width, both, kept).apply(ref, !of_got),
                     Reordering(slots, width, both, kept).apply(got, of_got)});
  }
  return pairs;
}

}  // namespace assay
