#include "assay/compare/forensics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <span>
#include <string>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/record_content.h"
#include "assay/compare/self_check.h"
#include "model/architecture.h"

namespace assay {
namespace {

constexpr size_t kWords = 2;         // that an allocator writes at the beginning of a block
constexpr size_t kLastValues = 2;    // and what may be one at its end
constexpr size_t kShortest = 8;      // shorter records tell nothing of what is usual
constexpr size_t kFewestWhole = 16;  // whole numbers that nothing but rounding makes
constexpr size_t kKept = 4096;       // values of a record that the next one is held against
constexpr int64_t kShortestRun = 8;  // of repeated values: chance does not do that
constexpr size_t kMostPadding = 20;  // at most one of so many rows of logits is padding
constexpr size_t kWindow = 32;       // neighbouring records whose pointers are near each other
constexpr size_t kMinPointers = 3;
constexpr double kByChance = 1e-9;  // so rarely is a run called odd that chance made
constexpr size_t kFewest = 3;  // records of a checkpoint, fewer of which do not say what is usual
constexpr uint32_t kHighHalves = 0x10000;

uint32_t bits_of(float value) {
  return std::bit_cast<uint32_t>(value);
}

// The high half of an address, mangled or not, or of an address >> 12: a denormal.
bool is_high_half_of_word(float value) {
  return bits_of(value) != 0 && bits_of(value) < kHighHalves;
}

bool is_denormal(float value) {
  return value != 0 && std::abs(value) < std::numeric_limits<float>::min();
}

// The 16 high bits of the low half of a pointer: equal for the blocks of one heap, mangled or not,
// when they are near each other.
uint16_t pointer_prefix(float low_half) {
  return static_cast<uint16_t>(bits_of(low_half) >> 16);
}

uint64_t hash_of(std::span<const float> values) {
  uint64_t hash = 0x9E3779B97F4A7C15U ^ values.size();
  for (const float value : values) {
    hash = (hash ^ bits_of(value)) * 0xBF58476D1CE4E5B9U;
    hash ^= hash >> 29;
  }
  return hash;
}

// Of all that shows whether a record is another one: its values, or else its sketch.
uint64_t content_hash(const Record& record) {
  if (!record.values.empty() || !record.sketch) return hash_of(record.values);
  uint64_t hash = 0x94D049BB133111EBU ^ static_cast<uint64_t>(record.n);
  for (const double sum : *record.sketch) {
    hash = (hash ^ std::bit_cast<uint64_t>(sum)) * 0xBF58476D1CE4E5B9U;
    hash ^= hash >> 29;
  }
  return hash;
}

// Whether the record shows only the beginning of its tensor.
bool is_head(const Record& record) {
  return !record.values.empty() && !record.has_all_values();
}

// Zeros of either sign are one value.
bool is_constant(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [&](float value) {
    return value == values.front() || bits_of(value) == bits_of(values.front());
  });
}

// Whether values differ by a step of bfloat16 at most.
bool are_near(std::span<const float> a, std::span<const float> b) {
  constexpr float kStep = 0x1p-7F;
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::abs(x - y) <= kStep * std::max(std::abs(x), std::abs(y));
  });
}

// Whether it holds the positions that attention may see: those that others chose too, as ranges,
// and -1 in places of a token that has fewer.
bool is_indexed(const std::string& checkpoint) {
  const CheckpointName name = parse_checkpoint_name(checkpoint);
  return name.layer >= 0 && name.op == checkpoint_op(assay::Checkpoint::kIndexed);
}

// Of a record without values: whether what it states is of a tensor of zeros.
bool states_zeros(const Record& record) {
  if (record.n == 0 || (record.summary && record.summary->nonfinite > 0)) return false;
  const auto is_zero = [](double sum) { return sum == 0; };
  return (record.summary && is_zero(record.summary->l2)) ||
         (record.sketch && std::ranges::all_of(*record.sketch, is_zero));
}

// Whether the name that another tool gave has 0 for its layer, or none.
bool may_be_first_layer(const std::string& name) {
  const size_t digit = name.find_first_of("0123456789");
  if (digit == std::string::npos) return true;
  const size_t end = std::min(name.find_first_not_of("0123456789", digit), name.size());
  return name.find_first_not_of('0', digit) >= end;
}

// Whether the checkpoint is a function of tokens alone, wherever they stand: in the architecture
// that the header names, or else in all that have it and rotate; of a name that Assay does not
// have, whether it may be.
bool depends_only_on_tokens(const std::string& checkpoint, const std::optional<LogHeader>& header) {
  const CheckpointName name = parse_checkpoint_name(checkpoint);
  if (!name.known) return may_be_first_layer(checkpoint);
  const auto found = find_checkpoint(name.layer < 0 ? name.name : name.op, name.layer >= 0);
  if (!found) return false;
  const bool is_first = name.layer <= 0;
  if (header) {
    const Architecture* named = find_architecture(header->model.arch);
    if (named != nullptr) return depends_on_tokens_alone(*named, *found, is_first);
  }
  return std::ranges::all_of(architectures(), [&](const Architecture& architecture) {
    return architecture.position != PositionKind::kRotary ||
           !has_checkpoint(architecture, *found) ||
           depends_on_tokens_alone(architecture, *found, is_first);
  });
}

// Whether the checkpoint rotates what is a function of the token alone, in the architecture that
// the header names, or in any: of heads that are rotated in part, the rest is the same at each
// position.
bool rotates_first_heads(const std::string& checkpoint, const std::optional<LogHeader>& header) {
  const CheckpointName name = parse_checkpoint_name(checkpoint);
  if (!name.known || name.layer != 0) return false;
  const auto found = find_checkpoint(name.op, true);
  if (!found) return false;
  const Architecture* named = header ? find_architecture(header->model.arch) : nullptr;
  return std::ranges::any_of(architectures(), [&](const Architecture& architecture) {
    if (named != nullptr && named != &architecture) return false;
    const auto rotates = [&](std::span<const OpSpec> layer) {
      const OpSpec* op = find_spec(layer, *found);
      return op != nullptr && op->kind == OpKind::kRope &&
             std::ranges::all_of(op->inputs(), [&](Checkpoint input) {
               return depends_on_tokens_alone(architecture, input);
             });
    };
    return rotates(architecture.layer) ||
           std::ranges::any_of(architecture.variants, rotates, &LayerVariant::ops);
  });
}

// Whether the checkpoint is a row of a table in blocks, as the header names them, whose small
// elements are rounded to 0: any two neighbours may be 0.
bool is_quantised_row(const std::string& checkpoint, const std::optional<LogHeader>& header) {
  static constexpr std::string_view kOfBlocks[] = {"Q", "IQ", "TQ", "MXFP", "NVFP"};
  return header && checkpoint == "embedding" &&
         std::ranges::any_of(kOfBlocks, [&](std::string_view kind) {
           return header->model.type.starts_with(kind);
         });
}

std::optional<int64_t> token_at(const std::optional<LogHeader>& header, int64_t token_idx) {
  if (!header || token_idx < 0 || token_idx >= std::ssize(header->tokens)) return std::nullopt;
  return header->tokens[static_cast<size_t>(token_idx)];
}

}  // namespace

std::string_view suspicion_name(SuspicionKind kind) {
  static constexpr std::string_view kNames[] = {
      "all_zero",      "constant", "flat",  "repeat",        "stale",   "null_words",
      "contradiction", "conflict", "empty", "whole_numbers", "missing", "replica"};
  return kNames[static_cast<size_t>(kind)];
}

void Forensics::add(const Record& record, int32_t checkpoint, const std::vector<Garbage>& found,
                    const std::optional<LogHeader>& header) {
  Checkpoint& held = checkpoints_[checkpoint];
  const std::span<const float> values = record.values;
  if (values.empty() && !record.summary && !record.sketch && record.top.empty()) {
    suspicions_.push_back({SuspicionKind::kEmpty, checkpoint, record.token_idx, 0, 0});
  }
  if (is_indexed(record.checkpoint)) {
    find_contradiction(record, checkpoint, found);
    find_conflict(record, checkpoint);
    return;
  }
  if (values.size() >= 2 && is_constant(values)) {
    find_constants(record, checkpoint);
  } else if (values.empty() && states_zeros(record)) {
    suspicions_.push_back({SuspicionKind::kAllZero, checkpoint, record.token_idx, 0, 0});
  } else if (values.empty() && record.sketch && record.n >= 4) {
    find_repeats(record, checkpoint, header);
  } else if (values.size() >= 4) {
    find_repeats(record, checkpoint, header);
    find_flat_run(record, checkpoint);
    find_whole_numbers(record, checkpoint);
  }
  find_stale_runs(record, checkpoint, header, held);
  find_contradiction(record, checkpoint, found);
  find_conflict(record, checkpoint);
  if (record.checkpoint == "logits" && record.summary) {
    chosen_[record.token_idx + 1] = record.summary->argmax;
  }
  if (values.size() < kShortest) return;
  held.is_quantised_row = is_quantised_row(record.checkpoint, header);
  Facts facts;
  facts.token_idx = record.token_idx;
  facts.n = std::ssize(values);
  std::copy_n(values.begin(), facts.first.size(), facts.first.begin());
  std::copy_n(values.end() - kLastValues, kLastValues, facts.last.begin());
  const std::span<const float> middle = values.subspan(4, values.size() - 4 - kLastValues);
  facts.middle = hash_of(middle);
  for (const Garbage& garbage : found) {
    if (garbage.reason != GarbageReason::kHeapMetadata) {
      if (garbage.index >= 0 && garbage.index < 4) {
        facts.odd[static_cast<size_t>(garbage.index / 2)] = true;
      }
      continue;
    }
    if (garbage.index < 4) facts.pointer[static_cast<size_t>(garbage.index / 2)] = true;
    facts.last_known = facts.last_known || garbage.index >= facts.n - 2;
  }
  held.facts.push_back(facts);
  for (const float value : middle) {
    ++held.middle.values;
    held.middle.zeros += value == 0 ? 1 : 0;
    held.middle.denormals += is_denormal(value) ? 1 : 0;
  }
}

void Forensics::find_contradiction(const Record& record, int32_t checkpoint,
                                   const std::vector<Garbage>& found) {
  std::vector<int64_t> set_aside;
  for (const Garbage& garbage : found) set_aside.push_back(garbage.index);
  std::ranges::sort(set_aside);
  if (contradiction_in(record, set_aside).empty()) return;
  suspicions_.push_back(
      {SuspicionKind::kContradiction, checkpoint, record.token_idx, 0, std::ssize(record.values)});
}

// Names that are not Assay's own may be modules that are called several times; a map tells which.
void Forensics::find_conflict(const Record& record, int32_t checkpoint) {
  if (!parse_checkpoint_name(record.checkpoint).known) return;
  const Rank rank = record.rank.value_or(Rank());
  const std::array<int64_t, 4> place = {rank.tp, rank.pp, rank.ep, rank.sp};
  const std::string digest = content_digest(record);
  const auto [first, added] =
      digests_.try_emplace({record.sequence, checkpoint, record.token_idx, place}, digest);
  if (added || first->second == digest) return;
  suspicions_.push_back(
      {SuspicionKind::kConflict, checkpoint, record.token_idx, 0, std::ssize(record.values)});
}

void Forensics::find_constants(const Record& record, int32_t checkpoint) {
  const float value = record.values.front();
  if (!std::isfinite(value)) return;  // told as such
  // Experts that are far ahead of the others have the weight 1 each (SparseMixer).
  const bool are_weights = parse_checkpoint_name(record.checkpoint).op == "expert_weights";
  if (are_weights && value == 1 && record.has_all_values()) return;
  suspicions_.push_back({value == 0 ? SuspicionKind::kAllZero : SuspicionKind::kConstant,
                         checkpoint, record.token_idx, 0, std::ssize(record.values)});
}

// The longest run of one value, if that many are together by chance less often than kByChance says:
// of values of which a share p is that one elsewhere, n begin a run of so many n p^length times.
void Forensics::find_flat_run(const Record& record, int32_t checkpoint) {
  const std::span<const float> values = record.values;
  size_t begin = 0;
  size_t length = 0;
  for (size_t i = 0; i < values.size();) {
    size_t j = i + 1;
    while (j < values.size() && values[j] == values[i]) ++j;
    if (j - i > length) {
      length = j - i;
      begin = i;
    }
    i = j;
  }
  const float value = values[begin];
  if (static_cast<int64_t>(length) < kShortestRun || !std::isfinite(value)) return;
  // Rows beyond the vocabulary.
  const bool at_end = record.checkpoint == "logits" && begin + length == values.size();
  if (at_end && record.has_all_values() && length * kMostPadding < values.size()) return;
  const auto elsewhere = static_cast<double>(values.size() - length);
  const auto equal =
      static_cast<double>(std::ranges::count(values, value)) - static_cast<double>(length);
  const double share = (equal + 1) / (elsewhere + 2);
  const auto n = static_cast<double>(values.size());
  if (!(n * std::pow(share, static_cast<double>(length)) < kByChance)) return;
  suspicions_.push_back({SuspicionKind::kFlat, checkpoint, record.token_idx,
                         static_cast<int64_t>(begin), static_cast<int64_t>(length)});
}

// No op that Assay knows gives numbers without fractions, but for the choice of experts.
void Forensics::find_whole_numbers(const Record& record, int32_t checkpoint) {
  const CheckpointName name = parse_checkpoint_name(record.checkpoint);
  if (!name.known || is_experts(name) || record.values.size() < kFewestWhole) return;
  const bool are_whole = std::ranges::all_of(record.values, [](float value) {
    return !std::isfinite(value) || value == std::trunc(value);
  });
  if (!are_whole || std::ranges::none_of(record.values, [](float v) { return std::isfinite(v); }))
    return;
  suspicions_.push_back(
      {SuspicionKind::kWhole, checkpoint, record.token_idx, 0, std::ssize(record.values)});
}

// Attention over one token, however often it stands there, gives what it gives once.
bool Forensics::is_one_token_until(int64_t token_idx,
                                   const std::optional<LogHeader>& header) const {
  const std::optional<int64_t> first = token_at(header, 0);
  if (!first) return false;
  const Architecture* named = find_architecture(header->model.arch);
  if (named != nullptr && named->position == PositionKind::kLearned) return false;
  const int64_t n_given = std::ssize(header->tokens);
  for (int64_t i = 1; i <= token_idx; ++i) {
    const auto next = chosen_.find(i);
    if (i >= n_given && next == chosen_.end()) return false;
    if ((i < n_given ? *token_at(header, i) : next->second) != *first) return false;
  }
  return true;
}

void Forensics::find_repeats(const Record& record, int32_t checkpoint,
                             const std::optional<LogHeader>& header) {
  if (is_experts(parse_checkpoint_name(record.checkpoint))) return;  // tokens may choose the same
  const uint64_t hash = content_hash(record);
  const auto [place, added] = seen_.try_emplace(hash, checkpoint, record.token_idx);
  if (added) return;
  const auto [of_checkpoint, of_token] = place->second;
  if (of_token == record.token_idx) {
    // A rotation by nothing, and attention over one token, give what they are given; and a module
    // of another tool's log gives what its last part does.
    if (of_checkpoint == checkpoint || record.token_idx == 0) return;
    if (!parse_checkpoint_name(record.checkpoint).known) return;
  } else {
    if (is_one_token_until(std::max(record.token_idx, of_token), header)) return;
    const auto here = token_at(header, record.token_idx);
    const auto there = token_at(header, of_token);
    if (here && there ? *here == *there : depends_only_on_tokens(record.checkpoint, header)) return;
    // The head may be of what a rotation leaves.
    const bool may_be_one_token = !here || !there;
    if (may_be_one_token && is_head(record) && rotates_first_heads(record.checkpoint, header)) {
      return;
    }
  }
  suspicions_.push_back({SuspicionKind::kRepeat, checkpoint, record.token_idx, 0,
                         std::ssize(record.values), of_checkpoint, of_token, is_head(record)});
}

// The longest run of values that are those of the record before, bit for bit.
void Forensics::find_stale_runs(const Record& record, int32_t checkpoint,
                                const std::optional<LogHeader>& header, Checkpoint& held) {
  const std::span<const float> values =
      std::span<const float>(record.values).first(std::min(kKept, record.values.size()));
  if (held.has_before && held.before_token != record.token_idx) {
    const size_t common = std::min(values.size(), held.before.size());
    int64_t longest = 0;
    int64_t begin = 0;
    for (size_t i = 0; i < common;) {
      size_t j = i;
      while (j < common && bits_of(values[j]) == bits_of(held.before[j])) ++j;
      const auto run = static_cast<int64_t>(j - i);
      if (run > longest && !is_constant(values.subspan(i, j - i))) {
        longest = run;
        begin = static_cast<int64_t>(i);
      }
      i = std::max(j, i + 1);
    }
    const bool is_near = are_near(values.first(common), std::span(held.before).first(common));
    if (is_near) near_.insert({checkpoint, record.token_idx, held.before_token});
    // All of it is a repeat, which is reported elsewhere, or may be that of an equal token.
    const auto here = token_at(header, record.token_idx);
    const auto there = token_at(header, held.before_token);
    const bool may_be_one_token = !here || !there || *here == *there;
    // A head that looks at one position alone gives that one's values, token after token.
    const bool attends = parse_checkpoint_name(record.checkpoint).op == "attn";
    const int64_t least = attends ? static_cast<int64_t>(common / 2) + 1 : kShortestRun;
    if (longest >= std::max(least, kShortestRun) && longest < static_cast<int64_t>(common) &&
        !is_near &&
        !(may_be_one_token && (rotates_first_heads(record.checkpoint, header) ||
                               depends_only_on_tokens(record.checkpoint, header)))) {
      suspicions_.push_back({SuspicionKind::kStale, checkpoint, record.token_idx, begin, longest,
                             checkpoint, held.before_token});
    }
  }
  held.before.assign(values.begin(), values.end());
  held.before_token = record.token_idx;
  held.has_before = true;
}

// Marks the words at 2 * `word` whose high halves print as 0 and whose low halves share their high
// bits with those of neighbouring records. Records that are alike elsewhere, too, are of equal
// tokens, and count once.
void Forensics::find_shared_bits(Checkpoint& checkpoint, size_t word) {
  std::vector<Facts*> candidates;
  for (Facts& facts : checkpoint.facts) {
    if (facts.first[2 * word] != 0 && facts.first[2 * word + 1] == 0) candidates.push_back(&facts);
  }
  for (size_t begin = 0; begin < candidates.size(); begin += kWindow) {
    const size_t end = std::min(begin + kWindow, candidates.size());
    std::map<uint16_t, std::set<uint64_t>> prefixes;
    size_t unlike = 0;
    for (size_t i = begin; i < end; ++i) {
      const Facts& facts = *candidates[i];
      unlike += prefixes[pointer_prefix(facts.first[2 * word])].insert(facts.middle).second ? 1 : 0;
    }
    if (unlike < kMinPointers || 2 * prefixes.size() > unlike) continue;
    for (size_t i = begin; i < end; ++i) {
      if (prefixes[pointer_prefix(candidates[i]->first[2 * word])].size() >= 2) {
        candidates[i]->pointer[word] = true;
      }
    }
  }
  // What one record alone shows by its size, others have by their bits.
  std::map<uint16_t, size_t> known;
  for (const Facts* facts : candidates) {
    if (facts->pointer[word]) ++known[pointer_prefix(facts->first[2 * word])];
  }
  for (Facts* facts : candidates) {
    const auto found = known.find(pointer_prefix(facts->first[2 * word]));
    if (found != known.end() && found->second >= 2) facts->pointer[word] = true;
  }
}

void Forensics::find_keys(Checkpoint& checkpoint) {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Facts*>> keys;
  for (Facts& facts : checkpoint.facts) {
    const bool null = facts.is_null(0) && checkpoint.middle.is_rare(checkpoint.middle.zeros);
    if (!(facts.pointer[0] || null) || facts.is_null(1)) continue;
    keys[{bits_of(facts.first[2]), bits_of(facts.first[3])}].push_back(&facts);
  }
  for (auto& [bits, holders] : keys) {
    if (holders.size() < 2) continue;
    for (Facts* facts : holders) facts->pointer[1] = true;
  }
}

void Forensics::find_words(int32_t id, Checkpoint& checkpoint, std::vector<Word>& words) {
  const std::vector<Facts> told = checkpoint.facts;
  const Middle& middle = checkpoint.middle;
  if (middle.is_rare(middle.denormals)) {
    for (Facts& facts : checkpoint.facts) {
      for (size_t word = 0; word < kWords; ++word) {
        if (is_high_half_of_word(facts.first[2 * word + 1])) facts.pointer[word] = true;
      }
    }
  }
  if (middle.is_rare(middle.zeros)) {
    for (size_t word = 0; word < kWords; ++word) find_shared_bits(checkpoint, word);
  }
  find_keys(checkpoint);
  for (size_t i = 0; i < checkpoint.facts.size(); ++i) {
    Facts& facts = checkpoint.facts[i];
    const auto add = [&](int64_t index, float value) {
      words.push_back({id, facts.token_idx, {index, value, GarbageReason::kHeapMetadata}});
    };
    const bool zeros_are_rare = middle.is_rare(middle.zeros);
    // A null word and one out of scale.
    const bool both_odd = zeros_are_rare && facts.is_null(0) && facts.odd[1];
    const bool any = facts.pointer[0] || facts.pointer[1] || both_odd;
    for (size_t word = 0; word < kWords; ++word) {
      const float low = facts.first[2 * word];
      const float high = facts.first[2 * word + 1];
      if (any && (facts.is_null(word) || facts.odd[word])) facts.pointer[word] = true;
      if (facts.pointer[word] && !told[i].pointer[word]) {
        add(static_cast<int64_t>(2 * word), low);
        add(static_cast<int64_t>(2 * word + 1), high);
      }
    }
    const bool small = (is_high_half_of_word(facts.last[0]) || facts.last[0] == 0) &&
                       (is_high_half_of_word(facts.last[1]) || facts.last[1] == 0);
    if (any && small && !told[i].last_known && zeros_are_rare) {
      add(facts.n - 2, facts.last[0]);
      add(facts.n - 1, facts.last[1]);
    }
    const bool any_are_odd = zeros_are_rare && checkpoint.facts.size() >= kFewest;
    if (!any && facts.is_null(0) && any_are_odd && !checkpoint.is_quantised_row) {
      suspicions_.push_back(
          {SuspicionKind::kNullWords, id, facts.token_idx, 0, facts.is_null(1) ? 4 : 2});
    }
  }
}

std::vector<Forensics::Word> Forensics::further_words() {
  std::vector<Word> words;
  for (auto& [id, checkpoint] : checkpoints_) find_words(id, checkpoint, words);
  return words;
}

}  // namespace assay
