#include "assay/compare/pairing.h"

#include <fnmatch.h>

#include <algorithm>
#include <string>

#include "assay/compare/evidence.h"
#include "assay/compare/log_probabilities.h"

namespace assay {
namespace {

class Pairer {
 public:
  Pairer(const LogIndex& ref, const LogIndex& got, const SharedNames& names,
         const Alignment& alignment, const CompareOptions& options)
      : ref_(ref), got_(got), names_(names), alignment_(alignment), options_(options) {
    for (int32_t id = 0; id < ref.names().size(); ++id) {
      const std::string& name = ref.names().name(id);
      of_ref_.push_back({names.checkpoints.find(name), got.names().find(name),
                         got.names().find(sibling_of(name)), ref.names().find(sibling_of(name)),
                         options.selection.has_checkpoint(name),
                         is_allowed_missing(name, options)});
    }
  }

  Pairing pair() {
    std::vector<bool> matched(got_.entries().size(), false);
    for (int64_t i = 0; i < std::ssize(ref_.entries()); ++i) {
      const IndexEntry& entry = ref_.entries()[static_cast<size_t>(i)];
      const Name& name = of_ref_[static_cast<size_t>(entry.checkpoint)];
      if (!name.selected || !options_.selection.has_token(entry.token_idx)) continue;
      const int64_t found = counterpart(entry, name);
      if (found < 0) {
        pairing_.gaps.push_back(gap(name, entry.token_idx));
        continue;
      }
      matched[static_cast<size_t>(found)] = true;
      pairing_.pairs.push_back({i, found});
      const int64_t again = restatement(entry, name, found);
      if (again < 0) continue;
      matched[static_cast<size_t>(again)] = true;
      pairing_.pairs.push_back({i, again, true});
    }
    for (const LogIndex::MissingRecord& missing_records : ref_.missing_records()) {
      if (!is_selected(missing_records.checkpoint, missing_records.token_idx)) continue;
      const int32_t id = names_.checkpoints.find(missing_records.checkpoint);
      if (id >= 0)
        pairing_.gaps.push_back({id, missing_records.token_idx, Evidence::kUnproven, kMissing});
    }
    add_unmatched(matched);
    return std::move(pairing_);
  }

 private:
  // A checkpoint of the reference.
  struct Name {
    int32_t shared = -1;   // in the common table
    int32_t got = -1;      // in the judged log's names, -1 if it has none
    int32_t sibling = -1;  // there, the other name of the same tensor
    int32_t ref_sibling = -1;
    bool selected = true;
    bool allowed = false;
  };

  int64_t counterpart(const IndexEntry& entry, const Name& name) const {
    int64_t token = 0;
    if (__builtin_add_overflow(entry.token_idx, alignment_.offset, &token)) return -1;
    const int64_t found = name.got < 0 ? -1 : got_.find(name.got, token);
    return found >= 0 || name.sibling < 0 ? found : got_.find(name.sibling, token);
  }

  // The record of the judged log that states the same logits under their other name, which the
  // reference does not have; -1 if there is none.
  int64_t restatement(const IndexEntry& entry, const Name& name, int64_t found) const {
    if (name.sibling < 0) return -1;
    if (name.ref_sibling >= 0 && ref_.find(name.ref_sibling, entry.token_idx) >= 0) return -1;
    const int64_t token = got_.entries()[static_cast<size_t>(found)].token_idx;
    const int64_t again = got_.find(name.sibling, token);
    return again == found ? -1 : again;
  }

  bool is_left_out_bos(int64_t token_idx) const { return alignment_.lacks_bos && token_idx == 0; }

  Gap gap(const Name& name, int64_t token_idx) const {
    if (name.allowed) return {name.shared, token_idx, Evidence::kExcused, kAllowedMissing};
    if (is_left_out_bos(token_idx)) {
      const Evidence state = options_.whole_required ? Evidence::kUnproven : Evidence::kExcused;
      return {name.shared, token_idx, state, kDifferentPromptStart};
    }
    return {name.shared, token_idx, Evidence::kUnproven, kMissing};
  }

  // `token_idx`: as the judged log counts.
  bool is_selected_of_got(const std::string& checkpoint, int64_t token_idx) const {
    int64_t token = 0;
    if (options_.selection.is_all()) return true;
    return !__builtin_sub_overflow(token_idx, alignment_.offset, &token) &&
           is_selected(checkpoint, token);
  }

  bool is_selected_of_got(const IndexEntry& entry) const {
    return is_selected_of_got(got_.names().name(entry.checkpoint), entry.token_idx);
  }

  // Where the reference has the record of the same name and position; -1 if nowhere.
  int64_t ref_place(const IndexEntry& entry) const {
    int64_t token = 0;
    const int32_t name = ref_.names().find(got_.names().name(entry.checkpoint));
    if (name < 0 || __builtin_sub_overflow(entry.token_idx, alignment_.offset, &token)) return -1;
    return ref_.find(name, token);
  }

  bool is_selected(const std::string& checkpoint, int64_t token_idx) const {
    return options_.selection.has_token(token_idx) && options_.selection.has_checkpoint(checkpoint);
  }

  void add_unmatched(const std::vector<bool>& matched) {
    for (size_t i = 0; i < matched.size(); ++i) {
      if (matched[i]) continue;
      const auto place = static_cast<int64_t>(i);
      if (is_selected_of_got(got_.entries()[i])) {
        ++pairing_.unmatched_got;
        pairing_.pairs.push_back({-1, place});
      } else {
        pairing_.pairs.push_back({ref_place(got_.entries()[i]), place, false, false});
      }
    }
    for (int64_t i = 0; i < std::ssize(got_.incomplete()); ++i) {
      const int64_t place = std::ssize(got_.entries()) + i;
      pairing_.pairs.push_back({-1, place, false, is_selected_of_got(got_.entry(place))});
    }
    for (const LogIndex::MissingRecord& missing_records : got_.missing_records()) {
      const bool selected =
          is_selected_of_got(missing_records.checkpoint, missing_records.token_idx);
      pairing_.unmatched_got += selected ? 1 : 0;
    }
  }

  const LogIndex& ref_;
  const LogIndex& got_;
  const SharedNames& names_;
  const Alignment& alignment_;
  const CompareOptions& options_;
  std::vector<Name> of_ref_;  // of each of ref_.names()
  Pairing pairing_;
};

}  // namespace

SharedNames::SharedNames(const LogIndex& ref, const LogIndex& got) {
  for (const LogIndex* log : {&ref, &got}) {
    for (int32_t id = 0; id < log->names().size(); ++id) checkpoints.id(log->names().name(id));
    for (const LogIndex::MissingRecord& missing_records : log->missing_records())
      checkpoints.id(missing_records.checkpoint);
    for (int32_t id = 0; id < log->teams().size(); ++id) teams.id(log->teams().name(id));
  }
}

bool is_allowed_missing(const std::string& checkpoint, const CompareOptions& options) {
  return std::any_of(
      options.allow_missing.begin(), options.allow_missing.end(),
      [&](const std::string& glob) { return fnmatch(glob.c_str(), checkpoint.c_str(), 0) == 0; });
}

Pairing pair_records(const LogIndex& ref, const LogIndex& got, const SharedNames& names,
                     const Alignment& alignment, const CompareOptions& options) {
  return Pairer(ref, got, names, alignment, options).pair();
}

}  // namespace assay
