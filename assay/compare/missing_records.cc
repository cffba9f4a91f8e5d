#include "assay/compare/missing_records.h"

#include <algorithm>
#include <iterator>

#include "assay/log/checkpoint_set.h"
#include "base/error.h"
#include "model/checkpoint.h"

namespace assay {
namespace {

constexpr char kOutputOp[] = "output";
constexpr char kLogitsOp[] = "logits";

// Those between the first and the last that are not there, if they are few.
template <typename Number>
std::vector<Number> gaps(const std::set<Number>& there) {
  if (there.empty()) return {};
  const auto first = static_cast<uint64_t>(*there.begin());
  const uint64_t all = static_cast<uint64_t>(*there.rbegin()) - first + 1;
  if (all - there.size() > all / MissingRecords::kFewOf) return {};
  std::vector<Number> missing;
  for (auto each = there.begin(), next = std::next(each); next != there.end(); ++each, ++next) {
    for (Number number = *each + 1; number < *next; ++number) missing.push_back(number);
  }
  return missing;
}

std::string name_in(int layer, const std::string& op) {
  return layer < 0 ? op : "layer_" + std::to_string(layer) + "_" + op;
}

std::vector<int64_t> mask_of(const std::string& sequence, const std::optional<LogHeader>& header) {
  if (!header) return {};
  const auto named = std::ranges::find(header->sequences, sequence, &LogHeader::Sequence::name);
  return named == header->sequences.end() ? header->mask : named->mask;
}

// Whether the header says which checkpoints were to be logged, and this is not one of them.
bool was_left_out(const std::string& name, const std::optional<LogHeader>& header) {
  if (!header || header->checkpoints.empty()) return false;
  try {
    return !CheckpointSet(header->checkpoints).matches(name);
  } catch (const Error&) {
    return false;  // it says nothing that can be read
  }
}

}  // namespace

void MissingRecords::add(int32_t checkpoint, const CheckpointName& name, const Record& record) {
  has_ranks_ = has_ranks_ || record.rank.has_value();
  Ops& ops = sequences_[record.sequence];
  // Which layers have an op that Assay does not know is not known either.
  Layer& layer = name.known ? ops[name.op][name.layer] : ops[name.name][-1];
  layer.checkpoint = checkpoint;
  layer.tokens.insert(record.token_idx);
}

std::vector<MissingRecord> MissingRecords::found(const std::optional<LogHeader>& header) const {
  std::vector<MissingRecord> found;
  for (const auto& [sequence, ops] : sequences_) {
    const size_t before = found.size();
    const auto logits = ops.find(kLogitsOp);
    const auto* of_logits = logits == ops.end() ? nullptr : &logits->second.begin()->second.tokens;
    int last = -1;
    for (const auto& [op, layers] : ops) last = std::max(last, layers.rbegin()->first);
    for (const auto& [op, layers] : ops) {
      find_tokens(op, layers, last, of_logits, found);
      if (op == kOutputOp) find_layers(layers, header, found);
    }
    const std::vector<int64_t> mask = mask_of(sequence, header);
    const auto is_padding = [&](const MissingRecord& each) {
      return each.token_idx < std::ssize(mask) && mask[static_cast<size_t>(each.token_idx)] == 0;
    };
    found.erase(std::remove_if(found.begin() + static_cast<std::ptrdiff_t>(before), found.end(),
                               is_padding),
                found.end());
  }
  return found;
}

void MissingRecords::find_tokens(const std::string& op, const Layers& layers, int last,
                                 const std::set<int64_t>* of_logits,
                                 std::vector<MissingRecord>& found) const {
  std::set<int64_t> all;
  for (const auto& [number, layer] : layers) all.insert(layer.tokens.begin(), layer.tokens.end());
  for (const auto& [number, layer] : layers) {
    std::set<int64_t> missing;
    for (const int64_t token_idx : gaps(layer.tokens)) missing.insert(token_idx);
    const bool is_last = number == last;
    const bool is_for_logits = is_last && (layer.tokens.size() == 1 ||
                                           (of_logits != nullptr && layer.tokens == *of_logits));
    if (!has_ranks_ && !is_for_logits) {
      std::ranges::set_difference(all, layer.tokens, std::inserter(missing, missing.end()));
    }
    for (const int64_t token_idx : missing) {
      found.push_back({name_in(number, op), layer.checkpoint, token_idx});
    }
  }
}

void MissingRecords::find_layers(const Layers& outputs, const std::optional<LogHeader>& header,
                                 std::vector<MissingRecord>& found) {
  std::set<int> numbers;
  for (const auto& [number, layer] : outputs) numbers.insert(number);
  for (const int number : gaps(numbers)) {
    const std::string name = name_in(number, kOutputOp);
    if (was_left_out(name, header)) continue;
    const Layer& before = std::prev(outputs.lower_bound(number))->second;
    for (const int64_t token_idx : before.tokens) {
      found.push_back({name, before.checkpoint, token_idx});
    }
  }
}

}  // namespace assay
