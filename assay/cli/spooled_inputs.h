#pragma once

#include <string>
#include <vector>

namespace assay {

// Logs that can be read only once: standard input, given as -, and pipes such as <(zcat
// a.jsonl.gz). Each is copied to a temporary file without a name, which is gone when the program
// ends however it ends.
class SpooledInputs {
 public:
  SpooledInputs() = default;
  ~SpooledInputs();
  SpooledInputs(const SpooledInputs&) = delete;
  SpooledInputs& operator=(const SpooledInputs&) = delete;

  // The path under which what `path` names can be read again and again: that of the copy, or `path`
  // itself where it is a file. Throws Error if the copy cannot be made.
  std::string path_of(const std::string& path);

 private:
  std::vector<int> files_;
  bool standard_input_taken_ = false;
};

}  // namespace assay
