#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// A new private folder beside an output file, for temporary files: a predictable name could be a
// symbolic link that another user made. The destructor removes it.
class ScriptFolder {
 public:
  // Throws Error naming `file`.
  explicit ScriptFolder(const std::string& file);
  ~ScriptFolder();
  ScriptFolder(const ScriptFolder&) = delete;
  ScriptFolder& operator=(const ScriptFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Runs python_command(script, arguments). Throws Error about `file` with the last line that it
// wrote on standard error; with `hint` if there is no such program.
void run_python(std::string_view script, const std::vector<std::string>& arguments,
                const std::string& file, const std::string& hint);

}  // namespace assay
