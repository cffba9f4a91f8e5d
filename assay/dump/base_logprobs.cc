#include "assay/dump/base_logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "assay/compare/log_probabilities.h"
#include "assay/dump/dump_values.h"
#include "assay/dump/skip_globs.h"
#include "assay/log/line_reader.h"
#include "assay/log/record_text.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/input_file.h"

namespace assay {
namespace {

constexpr std::string_view kMagic = "_logits_";
constexpr int64_t kHeaderBytes = 20;  // magic, n_ctx, n_vocab, n_chunk
constexpr int64_t kLargestCode = 65535;
constexpr int64_t kMostTokens = static_cast<int64_t>(kMaxLineBytes) / 32;  // an id and its value
// What is further below the largest logit is written as if it were not.
constexpr double kMostNats = 16;
constexpr double kRounding = 1e-4;  // of these nats: they are a difference of floats
constexpr double kSumError = 1e-3;  // half a step is 1.2e-4 of a probability
constexpr const char* kAgain =
    "let llama-perplexity --kl-divergence-base run to its end; --chunks N makes a smaller file";

class BaseFile {
 public:
  explicit BaseFile(const std::string& path) : file_(path) {
    read_counts();
    check_size();
    read_tokens();
  }

  int64_t n_vocab() const { return n_vocab_; }
  int64_t n_chunks() const { return n_chunks_; }
  int64_t rows() const { return rows_; }    // of a chunk
  int64_t first() const { return first_; }  // position of a chunk's first row

  std::vector<int64_t> tokens(int64_t chunk) const {
    const auto begin = tokens_.begin() + chunk * n_ctx_;
    return {begin, begin + n_ctx_};
  }

  // The first token of all, if it may be BOS: the text does not have it again, and its id is one of
  // those that vocabularies have at their ends for what is no text.
  std::optional<int64_t> likely_bos() const {
    const int64_t first = tokens_[0];
    const bool is_special =
        first < 8 || static_cast<double>(first) >= 0.97 * static_cast<double>(n_vocab_);
    const bool is_again = std::find(tokens_.begin() + 1, tokens_.end(), first) != tokens_.end();
    return is_special && !is_again ? std::optional(first) : std::nullopt;
  }

  // A row of log-probabilities.
  void read(int64_t chunk, int64_t row, Record& record) {
    codes_.resize(static_cast<size_t>(row_bytes_) / sizeof(uint16_t));
    const int64_t offset = rows_offset_ + (chunk * rows_ + row) * row_bytes_;
    read_bytes(codes_.data(), row_bytes_, offset);
    float scale = 0;
    float least = 0;
    std::memcpy(&scale, codes_.data(), sizeof(scale));
    std::memcpy(&least, codes_.data() + 2, sizeof(least));
    if (!(scale >= 0) || std::isinf(scale) || !std::isfinite(least)) {
      fail_row(chunk, row, fmt::format("has the scale {} and the minimum {}", scale, least));
    }
    decode({codes_.data() + 4, static_cast<size_t>(n_vocab_)}, scale, least, record);
    const double all = sum_;
    if (!(all >= 1 - kSumError && all - clipped_sum_ <= 1 + kSumError)) {
      fail_row(chunk, row, fmt::format("has probabilities that add up to {:.4g}", all));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = kAgain) const {
    throw Error(what, file_.path(), hint);
  }
  [[noreturn]] void fail_row(int64_t chunk, int64_t row, const std::string& what) const {
    fail(fmt::format("the row of chunk {} at position {} {}", chunk, first_ + row, what),
         "the file is damaged, or the model computed no logits: write it again");
  }

  void read_bytes(void* to, int64_t count, int64_t offset) const {
    const auto bytes = static_cast<size_t>(count);
    if (file_.read(static_cast<char*>(to), bytes, offset) == bytes) return;
    fail("was cut off while it was read");
  }

  void read_counts() {
    if (file_.size() < kHeaderBytes) {
      fail(fmt::format("is cut off: it has {} of the {} bytes of a header", file_.size(),
                       kHeaderBytes));
    }
    char header[kHeaderBytes];
    read_bytes(header, kHeaderBytes, 0);
    int32_t counts[3];
    std::memcpy(counts, header + kMagic.size(), sizeof(counts));
    n_ctx_ = counts[0];
    n_vocab_ = counts[1];
    n_chunks_ = counts[2];
    first_ = n_ctx_ / 2;
    rows_ = n_ctx_ - 1 - first_;  // what follows the last token is not in the text
    if (n_vocab_ < 1 || n_chunks_ < 1 || rows_ < 1) {
      fail(fmt::format("its header says {} chunks of {} tokens and a vocabulary of {}", n_chunks_,
                       n_ctx_, n_vocab_));
    }
    if (n_vocab_ > kMostTokens) fail(fmt::format("has a vocabulary of {} tokens", n_vocab_), {});
  }

  // Before anything is made of what the header says.
  void check_size() {
    row_bytes_ = 2 * ((n_vocab_ + 1) / 2 * 2 + 4);  // below 2^26, and rows_ and n_ctx_ below 2^31
    int64_t size = 0;
    const int64_t of_chunk = 4 * n_ctx_ + rows_ * row_bytes_;
    const bool overflows = __builtin_mul_overflow(n_chunks_, of_chunk, &size) ||
                           __builtin_add_overflow(size, kHeaderBytes, &size);
    if (overflows || file_.size() < size) {
      fail(
          fmt::format("is cut off: it has {} bytes, and its header says {} chunks of {} tokens and "
                      "a vocabulary of {}, {}",
                      file_.size(), n_chunks_, n_ctx_, n_vocab_,
                      overflows ? "more than any file" : fmt::format("{} bytes", size)));
    }
    if (file_.size() > size) {
      fail(fmt::format("has {} bytes beyond the {} that its header says", file_.size() - size,
                       size));
    }
    if (n_chunks_ * n_ctx_ > kMaxIds) {
      fail(fmt::format("has {} tokens, and {} are read at most", n_chunks_ * n_ctx_, kMaxIds));
    }
    rows_offset_ = kHeaderBytes + 4 * n_chunks_ * n_ctx_;
  }

  void read_tokens() {
    tokens_.resize(static_cast<size_t>(n_chunks_ * n_ctx_));
    read_bytes(tokens_.data(), rows_offset_ - kHeaderBytes, kHeaderBytes);
    const auto wrong = std::ranges::find_if(
        tokens_, [&](int32_t token) { return token < 0 || token >= n_vocab_; });
    if (wrong == tokens_.end()) return;
    const int64_t at = wrong - tokens_.begin();
    fail(fmt::format("has the token {} in chunk {} at position {}, and a vocabulary of {}", *wrong,
                     at / n_ctx_, at % n_ctx_, n_vocab_));
  }

  // Sets values or top of the record, and the sums of the probabilities.
  void decode(std::span<const uint16_t> codes, float scale, float least, Record& record) {
    const bool is_clipped =
        static_cast<double>(scale) * kLargestCode >= kMostNats * (1 - kRounding) &&
        std::ranges::find(codes, 0) != codes.end();
    record.values.clear();
    record.top.clear();
    sum_ = clipped_sum_ = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      const double value = static_cast<double>(scale) * codes[i] + static_cast<double>(least);
      const double probability = std::exp(value);
      const bool is_bound = is_clipped && codes[i] == 0;
      sum_ += probability;
      if (is_bound) {
        clipped_sum_ += probability;
      } else if (is_clipped) {
        record.top.push_back({static_cast<int64_t>(i), static_cast<float>(value)});
      } else {
        record.values.push_back(static_cast<float>(value));
      }
    }
    std::ranges::stable_sort(record.top, std::greater(), &TopValue::value);
  }

  InputFile file_;
  int64_t n_ctx_ = 0;
  int64_t n_vocab_ = 0;
  int64_t n_chunks_ = 0;
  int64_t first_ = 0;
  int64_t rows_ = 0;
  int64_t row_bytes_ = 0;
  int64_t rows_offset_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<uint16_t> codes_;  // of the last row, behind its scale and minimum
  double sum_ = 0;               // of the last row's probabilities
  double clipped_sum_ = 0;       // of those that are bounds
};

// What each chunk begins with in the place of the text's token; nothing where it is that.
std::optional<int64_t> bos_of(const BaseFile& file, const std::string& path,
                              const DumpOptions& options, std::vector<std::string>& warnings) {
  if (options.bos) {
    if (*options.bos < file.n_vocab()) {
      return *options.bos < 0 ? std::nullopt : std::optional(*options.bos);
    }
    throw Error(
        fmt::format("has a vocabulary of {}, without the token {}", file.n_vocab(), *options.bos),
        path, "give --bos the model's id of BOS, or none");
  }
  if (file.n_chunks() == 1) return std::nullopt;  // it begins as the text does
  const std::optional<int64_t> first = file.likely_bos();
  const std::string chunks = fmt::format("{}: each of its {} chunks is taken to begin with",
                                         printable(path), file.n_chunks());
  const int64_t token = file.tokens(0)[0];
  if (first) {
    warnings.push_back(
        fmt::format("{} the token {}, as the text does (BOS); if the model adds none, import it "
                    "with --bos none",
                    chunks, token));
  } else {
    warnings.push_back(
        fmt::format("{} its own token, as the text's first one, {}, does not look like BOS; if the "
                    "model adds BOS, import it with --bos ID",
                    chunks, token));
  }
  return first;
}

LogHeader header_of(const BaseFile& file, const std::string& path, const DumpOptions& options,
                    std::vector<std::string>& warnings) {
  LogHeader header;
  header.engine = "llama.cpp";
  const std::optional<int64_t> bos = bos_of(file, path, options, warnings);
  for (int64_t chunk = 0; chunk < file.n_chunks(); ++chunk) {
    std::vector<int64_t> tokens = file.tokens(chunk);
    if (bos) tokens[0] = *bos;
    if (file.n_chunks() == 1) {
      header.tokens = std::move(tokens);
    } else {
      header.sequences.push_back({std::to_string(chunk), std::move(tokens), {}});
    }
  }
  return header;
}

}  // namespace

bool is_base_logprobs(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  char begin[kMagic.size()] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof(begin));
  return std::string_view(begin, sizeof(begin)) == kMagic;
}

LogHeader base_logprobs_header(const std::string& path, const DumpOptions& options,
                               std::vector<std::string>& warnings) {
  return header_of(BaseFile(path), path, options, warnings);
}

ImportedDump base_logprobs_to_log(const std::string& path, const DumpOptions& options,
                                  const std::function<void(std::string_view)>& sink) {
  SkipGlobs(options.skip).check_used(path);  // it has no tensors to leave out
  BaseFile file(path);
  ImportedDump result;
  std::string text = header_line(header_of(file, path, options, result.warnings));
  Record record;
  record.checkpoint = std::string(kLogProbabilitiesName);
  record.dtype = "f32";
  record.shape = {file.n_vocab()};
  record.n = file.n_vocab();
  if (!options.team.empty()) record.team = options.team;
  for (int64_t chunk = 0; chunk < file.n_chunks(); ++chunk) {
    if (file.n_chunks() > 1) record.sequence = std::to_string(chunk);
    for (int64_t row = 0; row < file.rows(); ++row) {
      file.read(chunk, row, record);
      record.token_idx = file.first() + row;
      append_record_line(text, record);
      sink(text);
      text.clear();
    }
  }
  result.names.push_back({record.checkpoint, record.n});
  return result;
}

}  // namespace assay
