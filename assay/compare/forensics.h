#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "assay/compare/garbage.h"
#include "assay/log/record.h"

namespace assay {

// What is odd about a record without being a value that cannot be.
enum class SuspicionKind : uint8_t {
  kAllZero,        // every value is 0
  kConstant,       // every value is the same
  kFlat,           // a long run of values is one that is rare elsewhere in the record
  kRepeat,         // every value is that of an earlier record: the buffer was not written again
  kStale,          // a run of values is that of the record before it
  kNullWords,      // zeros in the first four places, where nothing else of the checkpoint is zero:
                   // words of freed memory that are null, or too small for the digits of the log
  kContradiction,  // its values, summary and sketch are not of one tensor
  kConflict,       // the same record is there before, with other values
  kEmpty,          // no value, summary, sketch or top is logged
  kWhole,          // all its values are whole numbers: rounded, or of another type than is said
  kLost,           // it is not in the log, which has all that is like it
  kReplica,        // another rank has the same tensor, or piece of it, with other values
};

std::string_view suspicion_name(SuspicionKind kind);

struct Suspicion {
  SuspicionKind kind = SuspicionKind::kAllZero;
  int32_t checkpoint = 0;
  int64_t token_idx = 0;
  int64_t index = 0;           // of the first value meant
  int64_t count = 0;           // of values
  int32_t of_checkpoint = -1;  // kRepeat, kStale: the earlier record
  int64_t of_token_idx = 0;
  bool is_of_head = false;  // kRepeat: the record has not all its values
  std::string name = {};    // kLost: of its checkpoint, which the log may not have at all
};

// Looks at the records of one log together.
//
// A block that was freed begins with two words of its allocator: list pointers, mangled in glibc's
// caches (the pointer xor its own address >> 12), and a key that all blocks of a cache have in
// common. As floats, each word is a pair: the low half any number, the high half of a user-space
// address, of a mangled one or of an address >> 12 below 0x10000, a denormal. Beyond what
// find_garbage() sees in one record, they are known by
// - high halves: a denormal below 2^-133 at index 1 or 3, in a checkpoint that has none elsewhere;
// - shared bits: "%.6f" prints high halves as 0. Where index 1 (or 3) is 0 in several records of a
//   checkpoint that is hardly ever 0 elsewhere, and the 16 high bits of the low halves take few
//   values among neighbouring records, as addresses of one heap do and computed numbers do not;
// - the key: indices 2 and 3 are the same bits in several records that begin with a pointer.
class Forensics {
 public:
  // `found`: what find_garbage() said of `record`. `header`: the log's.
  void add(const Record& record, int32_t checkpoint, const std::vector<Garbage>& found,
           const std::optional<LogHeader>& header);

  // The part of add() that is for a record of a whole sequence; add() is given its rows.
  void find_contradiction(const Record& record, int32_t checkpoint,
                          const std::vector<Garbage>& found);

  struct Word {
    int32_t checkpoint;
    int64_t token_idx;
    Garbage garbage;
  };
  // Words of freed memory that find_garbage() did not tell of as such.
  std::vector<Word> further_words();
  // Complete after further_words().
  const std::vector<Suspicion>& suspicions() const { return suspicions_; }

  // Whether all values of a checkpoint at a token are nearly those at another one, whose record
  // came just before, so that rounding to 16 bits may leave the same of what follows from them.
  bool nearly_repeats(int32_t checkpoint, int64_t token_idx, int64_t of_token_idx) const {
    return near_.contains({checkpoint, token_idx, of_token_idx});
  }

 private:
  // What is kept of a record.
  struct Facts {
    int64_t token_idx = 0;
    std::array<float, 4> first{};
    std::array<float, 2> last{};
    uint64_t middle = 0;            // a hash of the values between
    int64_t n = 0;                  // values logged
    std::array<bool, 2> odd{};      // whether the words at 0 and 2 hold other garbage
    std::array<bool, 2> pointer{};  // whether the words at 0 and 2 are known to be some
    bool last_known = false;
    bool is_null(size_t word) const { return first[2 * word] == 0 && first[2 * word + 1] == 0; }
  };
  // What a checkpoint's values are like away from both ends.
  struct Middle {
    int64_t values = 0;
    int64_t zeros = 0;
    int64_t denormals = 0;
    bool is_rare(int64_t count) const { return values > 0 && count * 100 <= values; }
  };
  struct Checkpoint {
    std::vector<Facts> facts;
    Middle middle;
    std::vector<float> before;  // head of the record before
    int64_t before_token = 0;
    bool has_before = false;
    bool is_quantised_row = false;  // which may begin with zeros
  };

  void find_conflict(const Record& record, int32_t checkpoint);
  void find_constants(const Record& record, int32_t checkpoint);
  void find_flat_run(const Record& record, int32_t checkpoint);
  void find_whole_numbers(const Record& record, int32_t checkpoint);
  void find_repeats(const Record& record, int32_t checkpoint,
                    const std::optional<LogHeader>& header);
  void find_stale_runs(const Record& record, int32_t checkpoint,
                       const std::optional<LogHeader>& header, Checkpoint& held);
  bool is_one_token_until(int64_t token_idx, const std::optional<LogHeader>& header) const;
  void find_words(int32_t id, Checkpoint& checkpoint, std::vector<Word>& words);
  void find_shared_bits(Checkpoint& checkpoint, size_t word);
  void find_keys(Checkpoint& checkpoint);

  std::map<int32_t, Checkpoint> checkpoints_;
  // Of all values of a record: the first record that had them.
  std::unordered_map<uint64_t, std::pair<int32_t, int64_t>> seen_;
  // Of each checkpoint at each token, by sequence and rank: the digest of what was there first.
  std::map<std::tuple<std::string, int32_t, int64_t, std::array<int64_t, 4>>, std::string> digests_;
  std::map<int64_t, int64_t> chosen_;  // the token that the logits before it give most to
  std::vector<Suspicion> suspicions_;
  std::set<std::tuple<int32_t, int64_t, int64_t>> near_;  // see nearly_repeats()
};

}  // namespace assay
