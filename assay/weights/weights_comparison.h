#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor_type.h"

// The results of compare_weights().
namespace assay {

enum class TensorStatus : uint8_t {
  kSame,      // the same values
  kRounded,   // as far from the reference as its type makes it
  kUnjudged,  // differs, and nothing says by how much it may
  kWrong,
  kMissing,  // the reference has it, the other file does not
  kExtra,    // the reference does not have it
};

// How many times what storing costs a tenth of the columns is off by at most, and another tenth at
// least.
struct ColumnSpread {
  double low = 1.0;
  double high = 1.0;

  // As far apart as only a quantiser makes them that rounds some columns better for the price of
  // others. Where importance of columns or error feedback failed, they were 1.5 to 10 times apart;
  // where codes were cut off or moved, 1.1 to 1.2 times, and 1.46 in a matrix with many zeros.
  bool is_wide() const { return high > 1.5 * low; }
};

struct TensorResult {
  std::string name;
  TensorStatus status = TensorStatus::kWrong;
  TensorType ref_type = TensorType::kF32;
  TensorType got_type = TensorType::kF32;
  std::vector<int64_t> ref_dims = {};  // GGUF order; empty where it is missing
  std::vector<int64_t> got_dims = {};
  double rel_l2 = 0.0;    // ‖got − ref‖ / ‖ref‖ of the dequantised values
  double expected = 0.0;  // the same that plain storing as these types costs
  double max_abs = 0.0;
  bool is_zero = false;  // all of it, in both files
  ColumnSpread columns = {};
  // Where a single row or block is what is wrong: the row, and the block's first column; else -1.
  int64_t row = -1;
  int64_t column = -1;
  std::string reason = {};  // of any status but the first two: a sentence

  // How many times as large as it had to be; 1 where no error was expected and none was made.
  double ratio() const {
    if (expected > 0.0) return rel_l2 / expected;
    return rel_l2 > 0.0 ? INFINITY : 1.0;
  }
};

// A key of the metadata that the two files do not state alike.
struct KeyDifference {
  std::string key;
  std::string ref;  // its value; empty where it is not stated
  std::string got;
  bool counts = false;  // and does not only describe the file
};

enum class WeightsVerdict : uint8_t { kMatch, kMismatch, kIncomplete };

struct WeightsComparison {
  std::string ref_path;
  std::string got_path;
  std::string architecture;
  std::string ref_type;  // "Q4_K_M"
  std::string got_type;
  std::vector<TensorResult> tensors;  // in the reference's order, then extra ones
  std::vector<KeyDifference> keys;
  std::vector<std::string> warnings;
  std::string part;  // which file is one part of several, and not asked for by names of tensors
  WeightsVerdict verdict = WeightsVerdict::kIncomplete;

  int64_t count(TensorStatus status) const;
};

struct WeightsOptions {
  // How many times as large as plain storing makes it an error may be, of a whole tensor.
  double k = 1.5;
  // What a tensor may differ by for which nothing else says so; 0: it stays unjudged.
  double max_rel_l2 = 0.0;
  std::vector<std::string> tensors = {};  // globs; all where empty
  int n_threads = 0;                      // 0: one for each processor
};

}  // namespace assay
