#pragma once

#include <rapidjson/reader.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "assay/log/line_parser.h"
#include "assay/log/record.h"

namespace assay {

// The keys of a record and of a header.
enum class Field : uint8_t {
  kAssay,
  kModel,
  kTokens,
  kPrompt,
  kEngine,
  kBackend,
  kMath,
  kSequences,
  kMask,
  kRanks,
  kCheckpoint,
  kTokenIdx,
  kDtype,
  kShape,
  kValues,
  kN,
  kSummary,
  kSketch,
  kTop,
  kSequence,
  kStep,
  kPhase,
  kRank,
  kDims,
  kTs,
  kTeam,
  kSource,
  kFile,
  kLine,
  kRouting,
  kSampling,
  kCheckpoints,
  kUnknown,
};

std::string_view field_name(Field field);

// The hint for a line that is not a record at all.
inline constexpr const char* kOneObject = "each line of a log is one JSON object";

// A line as RapidJSON reads it. LineHandler moves `at` over the arrays that it reads itself.
// NOLINTBEGIN(readability-identifier-naming): RapidJSON prescribes the names.
struct LineStream {
  using Ch = char;
  const char* begin;
  const char* at;
  const char* end;

  char Peek() const { return at == end ? '\0' : *at; }
  char Take() { return at == end ? '\0' : *at++; }
  size_t Tell() const { return static_cast<size_t>(at - begin); }
  // For parsing in place, which is not used.
  char* PutBegin() { return nullptr; }
  void Put(char) {}
  void Flush() {}
  size_t PutEnd(char*) { return 0; }
};

// NOLINTEND(readability-identifier-naming)

// Takes RapidJSON's events of one line and fills a record and a header. A function that returns
// false has set problem() and ends the parse.
class LineHandler {
 public:
  // `note_skipped`: collect the results of skipped_keys() and has_vanished().
  LineHandler(LineStream& stream, bool skim, bool note_skipped, Record& record, LogHeader& header)
      : stream_(stream),
        skim_(skim),
        note_skipped_(note_skipped),
        record_(record),
        header_(header) {}

  bool has(Field field) const { return ((seen_ >> static_cast<int>(field)) & 1) != 0; }
  bool has_problem() const { return !problem_.what.empty(); }
  const LineProblem& problem() const { return problem_; }

  // Keys whose values were skipped, each once; including record keys in a header and header keys in
  // a record.
  std::set<std::string> skipped_keys(bool is_header) const;

  // Whether a nonzero value has 0 as its nearest float.
  bool has_vanished() const { return vanished_; }

  // The lengths at each depth of `values`; one number unless the array is nested.
  const std::vector<int64_t>& values_lengths() const { return lengths_; }

  // At the end of a header: its sequences from their names, tokens and masks, which have to be as
  // many. False where they are not.
  bool put_sequences_together();

  // At the end of the line: a NaN or infinity in the summary implies at least one such element,
  // even if its counts say otherwise.
  void count_nonfinite_of_summary();

  // NOLINTBEGIN(readability-identifier-naming): the names that RapidJSON calls
  bool StartObject();
  bool EndObject(rapidjson::SizeType n_members);
  bool StartArray();
  bool EndArray(rapidjson::SizeType n_elements);
  bool Key(const char* text, rapidjson::SizeType length, bool copy);
  bool String(const char* text, rapidjson::SizeType length, bool copy);
  bool RawNumber(const char* text, rapidjson::SizeType length, bool copy);
  bool Null() { return other_scalar("null"); }
  bool Bool(bool value) { return other_scalar(value ? "true" : "false"); }
  // Not called: numbers come as text.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(int64_t) { return false; }
  bool Uint64(uint64_t) { return false; }
  bool Double(double) { return false; }
  // NOLINTEND(readability-identifier-naming)

 private:
  bool fail(const std::string& what, const std::string& hint = {}, bool syntax = false);
  bool is_inner(size_t inner) const;
  bool inner_key();
  bool unknown_ranks();
  void note_key();
  void note_inner();
  void note_scalar();
  bool wrong_type(std::string_view found);
  bool no_model_text(std::string_view found);
  bool other_scalar(std::string_view found);
  bool integer(int64_t value);
  bool real(double value);
  bool summary_number(double value, bool is_integer, int64_t integer);
  bool no_summary_number(std::string_view found);
  bool rank_number(std::string_view found, int64_t value);
  bool top_level_integer(int64_t value);
  bool top_level_string(std::string text);
  bool top_level_array();
  bool skip_numbers();
  bool read_values();
  bool read_sketch();
  bool read_top();
  bool read_phase(const std::string& text);
  bool begins_with_row() const;
  bool read_row();
  bool shape_from_string(const std::string& text);
  bool read_top_pair();
  template <typename Number>
  bool read_numbers(std::vector<Number>& numbers);
  template <typename Number>
  bool read_rows(std::vector<Number>& numbers, std::vector<int64_t>& lengths);

  LineStream& stream_;
  bool skim_;
  bool note_skipped_;
  bool vanished_ = false;
  bool summary_has_nan_ = false;
  bool summary_has_infinity_ = false;
  Record& record_;
  LogHeader& header_;
  LineProblem problem_;
  static_assert(static_cast<int>(Field::kUnknown) <= 64);
  uint64_t seen_ = 0;              // a bit for each Field
  uint32_t seen_inner_ = 0;        // and for each key of kInnerKeys
  int depth_ = 0;                  // of open objects and arrays; members of the line are at 1
  Field field_ = Field::kUnknown;  // the last key at depth 1
  std::string name_;               // the last key at any depth
  std::string inner_name_;         // at depth 2
  std::string number_;             // the last one that is no integer, padded: kept for its memory
  std::set<std::string> skipped_;
  std::vector<double> numbers_;
  std::vector<int64_t> lengths_;  // of `values`
  // Of a header: the lists in `tokens` and `mask`, and the names of the sequences.
  std::vector<std::vector<int64_t>> token_rows_;
  std::vector<std::vector<int64_t>> mask_rows_;
  std::vector<std::string> sequence_names_;
};

}  // namespace assay
