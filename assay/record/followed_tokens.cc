#include "assay/record/followed_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "assay/compare/dims.h"
#include "assay/compare/log_probabilities.h"
#include "assay/dump/base_logprobs.h"
#include "assay/log/log_reader.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr const char* kOtherModel = "follow a reference of this model";
constexpr const char* kLogLogits =
    "log the reference with its logits at each token, with a summary or all values";

// The id that the logits at a position choose, or why it is unknown.
struct Choice {
  int64_t id = -1;
  std::string unknown;
  bool operator==(const Choice&) const = default;
};

class Choices {
 public:
  Choices(std::string path, const std::vector<bool>& choosable)
      : path_(std::move(path)), choosable_(choosable) {}

  // Handles a record of logits or log-probabilities.
  void add(const Record& record, int64_t line) {
    const auto n_vocab = static_cast<int64_t>(choosable_.size());
    const bool several = record.n > n_vocab && record.n % n_vocab == 0;
    if (!several) {
      set(record.token_idx, chosen(record), line);
    } else if (!record.has_all_values()) {
      set(record.token_idx, {-1, "of a record of several tokens all values are needed"}, line);
    } else {
      for (int64_t row = 0; row < record.n / n_vocab; ++row) {
        const auto values =
            std::span(record.values).subspan(static_cast<size_t>(row * n_vocab), choosable_.size());
        set(record.token_idx + row, greatest(values), line);
      }
    }
  }

  // The token at `position`, chosen by the logits before it.
  int32_t token_at(int64_t position) const {
    const auto found = choices_.find(position - 1);
    const std::string why = found == choices_.end() ? "it has none" : found->second.unknown;
    if (found == choices_.end() || !found->second.unknown.empty()) {
      throw Error(fmt::format("the token at position {} is not known: it is what the logits at {} "
                              "choose, and {}",
                              position, position - 1, why),
                  path_, kLogLogits);
    }
    const int64_t id = found->second.id;
    if (id >= std::ssize(choosable_)) {
      throw Error(fmt::format("the logits at {} choose the token {}, which is not in the model's "
                              "vocabulary of {}",
                              position - 1, id, choosable_.size()),
                  path_, kOtherModel);
    }
    return static_cast<int32_t>(id);
  }

  int64_t last_position() const { return choices_.empty() ? -1 : choices_.rbegin()->first; }

 private:
  void set(int64_t position, const Choice& choice, int64_t line) {
    const auto [place, is_first] = choices_.try_emplace(position, choice);
    if (is_first || place->second == choice) return;
    if (!choice.unknown.empty()) return;
    if (!place->second.unknown.empty()) {
      place->second = choice;
      return;
    }
    throw Error(fmt::format("the logits at {} choose the token {}, and {} in a record before",
                            position, choice.id, place->second.id),
                fmt::format("{}:{}", path_, line), "keep the log of each run in its own file");
  }

  // Beyond the vocabulary no id is known to be padding.
  bool may_choose(int64_t id) const {
    return id >= std::ssize(choosable_) || choosable_[static_cast<size_t>(id)];
  }

  Choice greatest(std::span<const float> values) const {
    Choice choice{-1, "none of their ids can be chosen"};
    float most = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto id = static_cast<int64_t>(i);
      if (std::isnan(values[i])) return {-1, fmt::format("that of the token {} is NaN", id)};
      if (!may_choose(id) || (choice.id >= 0 && !(values[i] > most))) continue;
      most = values[i];
      choice = {id, {}};
    }
    return choice;
  }

  // The first id, in descending order of its value, that can be chosen.
  Choice first_of(const std::vector<TopValue>& top) const {
    for (const TopValue& entry : top) {
      if (std::isnan(entry.value)) return {-1, fmt::format("that of {} is NaN", entry.index)};
      if (may_choose(entry.index)) return {entry.index, {}};
    }
    return {-1, "none of the ids that they name can be chosen"};
  }

  Choice chosen(const Record& record) const {
    const int64_t n_vocab = std::ssize(choosable_);
    if (record.n < n_vocab && !may_be_padded(record.n, n_vocab)) {
      return {-1, fmt::format("there are {} of them for the model's vocabulary of {}", record.n,
                              n_vocab)};
    }
    if (record.n > 0 && record.has_all_values()) return greatest(record.values);
    if (!record.top.empty()) return first_of(record.top);
    if (!record.summary || record.summary->argmax < 0) {
      return {-1, "only a part of their values is logged, without a summary"};
    }
    const Summary& summary = *record.summary;
    if (summary.nonfinite > 0 && summary.nan != 0) return {-1, "some of them are not finite"};
    if (may_choose(summary.argmax)) return {summary.argmax, {}};
    return first_of(summary.top);
  }

  std::string path_;
  const std::vector<bool>& choosable_;
  std::map<int64_t, Choice> choices_;  // by position
};

// The largest logit of a rank's part is not that of the whole.
void check_is_whole(const Record& record, const std::string& where) {
  if (!record.dims) return;
  bool is_whole = false;
  try {
    is_whole = parse_dims(*record.dims, record.shape).is_whole();
  } catch (const Error& error) {
    throw Error(error.what(), where);
  }
  if (is_whole) return;
  throw Error(fmt::format("the logits at {} are a rank's part, by 'dims': '{}'", record.token_idx,
                          printable(*record.dims, 60)),
              where, "follow a log that has whole logits, such as one of a single process");
}

void require_no_mask(const std::vector<int64_t>& mask, const std::string& path) {
  if (mask.empty()) return;
  throw Error("its header says that some tokens are padding", path,
              "follow a log of the prompt alone");
}

// The sequences that the header has. `only`: the one that all records are of, which need not be
// named; empty where they are of several.
std::vector<LogHeader::Sequence> sequences_of(const LogHeader& header, const std::string& only) {
  if (header.sequences.empty()) return {{only, header.tokens, header.mask}};
  std::vector<LogHeader::Sequence> sequences = header.sequences;
  if (sequences.size() == 1) {
    if (!only.empty()) sequences[0].name = only;
  } else if (!only.empty()) {  // the log may have been narrowed to it
    std::erase_if(sequences, [&](const LogHeader::Sequence& each) { return each.name != only; });
  }
  return sequences;
}

FollowedTokens tokens_of(const LogHeader::Sequence& sequence, const std::string& path,
                         size_t n_vocab) {
  require_no_mask(sequence.mask, path);
  FollowedTokens followed;
  followed.sequence = sequence.name;
  for (const int64_t token : sequence.tokens) {
    if (token < 0 || token >= static_cast<int64_t>(n_vocab)) {
      throw Error(fmt::format("the header's token {} is not in the model's vocabulary of {}", token,
                              n_vocab),
                  path, kOtherModel);
    }
    followed.prompt.push_back(static_cast<int32_t>(token));
  }
  return followed;
}

// What the records of one sequence say of its tokens.
struct Recorded {
  Choices choices;
  int64_t last = -1;
};

FollowedLog follow_base(const std::string& path, size_t n_vocab, std::optional<int64_t> bos) {
  FollowedLog followed;
  const LogHeader header = base_logprobs_header(path, {.bos = bos}, followed.warnings);
  for (const LogHeader::Sequence& sequence :
       sequences_of(header, header.sequences.empty() ? "0" : "")) {
    followed.sequences.push_back(tokens_of(sequence, path, n_vocab));
  }
  return followed;
}

}  // namespace

FollowedLog read_followed_tokens(const std::string& path, const std::vector<bool>& choosable,
                                 std::optional<int64_t> bos) {
  if (is_base_logprobs(path)) return follow_base(path, choosable.size(), bos);
  LogReader log(path, Depth::kKeys);
  RecordLoader loader(log.file());
  std::map<std::string, Recorded> recorded;
  while (const Record* record = log.next()) {
    const auto place = recorded.try_emplace(record->sequence, Recorded{Choices(path, choosable)});
    Recorded& sequence = place.first->second;
    sequence.last = std::max(sequence.last, record->token_idx);
    if (record->checkpoint == "logits" || record->checkpoint == "logprobs") {
      check_is_whole(*record, fmt::format("{}:{}", path, log.place().line));
      sequence.choices.add(loader.load(log.place()), log.place().line);
    }
  }
  if (recorded.empty()) throw no_records_error(log);
  const char* hint = "follow a log whose header has the prompt's tokens, as assay run writes it";
  if (!log.header()) throw Error("it has no header", path, hint);
  const LogHeader& header = *log.header();
  FollowedLog followed;
  const std::string only = recorded.size() == 1 ? recorded.begin()->first : "";
  for (const LogHeader::Sequence& sequence : sequences_of(header, only)) {
    followed.sequences.push_back(tokens_of(sequence, path, choosable.size()));
  }
  const auto has_tokens = [&](const std::string& name) {
    const auto found = std::ranges::find(followed.sequences, name, &FollowedTokens::sequence);
    return found != followed.sequences.end() && !found->prompt.empty();
  };
  for (const auto& [name, sequence] : recorded) {
    if (has_tokens(name)) continue;
    throw Error(
        recorded.size() == 1
            ? "its header names no tokens"
            : fmt::format("its header names no tokens of the sequence '{}'", printable(name, 40)),
        path, hint);
  }
  followed.prompt_text = header.prompt;
  followed.warnings = log.warnings();
  for (FollowedTokens& tokens : followed.sequences) {
    const auto found = recorded.find(tokens.sequence);
    if (found == recorded.end()) continue;
    const Choices& choices = found->second.choices;
    const int64_t last = std::max(found->second.last, choices.last_position());
    const auto n_prompt = std::ssize(tokens.prompt);
    if (!header.sampling.empty() && last >= n_prompt) {
      throw Error(
          fmt::format("the tokens after its prompt were sampled ({}), and a log does not name "
                      "them",
                      printable(header.sampling, 80)),
          path,
          "follow a log of a run that chooses the likeliest token, or give the prompt and what "
          "was generated with --tokens");
    }
    for (int64_t position = n_prompt; position <= last; ++position) {
      tokens.continuation.push_back(choices.token_at(position));
    }
  }
  return followed;
}

}  // namespace assay
