#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace assay {

// Logs that can be read only once: standard input, given as -, and pipes such as <(zcat
// a.jsonl.gz); and dumps of other tools. Each is copied, dumps as logs, to a temporary file without
// a name, which is gone when the program ends however it ends.
class SpooledInputs {
 public:
  SpooledInputs() = default;
  ~SpooledInputs();
  SpooledInputs(const SpooledInputs&) = delete;
  SpooledInputs& operator=(const SpooledInputs&) = delete;

  // The path under which what `path` names can be read again and again: that of the copy, or `path`
  // itself where it is a log. Throws Error if the copy cannot be made.
  std::string path_of(const std::string& path);

  // `text` with what was given in place of the paths of copies.
  std::string named(std::string text) const;

  // Prints warnings, which then name what was given.
  void print_warnings(std::vector<std::string>& warnings) const;

 private:
  std::string keep(int file, const std::string& path);
  std::string as_log(const std::string& dump, const std::string& path);

  std::vector<int> files_;
  std::map<std::string, std::string> given_;  // by the path of the copy
  std::set<std::string> dumps_;               // copies that are logs made of dumps
  bool standard_input_taken_ = false;
};

// The environment's TMPDIR, or /tmp.
std::string temporary_folder();

// What `command` returns, which reads its logs by the inputs it is given; an Error of it names what
// was given and not the copy.
int with_spooled_inputs(const std::function<int(SpooledInputs&)>& command);

}  // namespace assay
