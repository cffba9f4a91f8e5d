#pragma once

#include <string>
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

// Runs the text of a script with python -c and these arguments, in the Python that the
// environment's ASSAY_PYTHON names, or python3. Throws Error about `file` with the last line that
// it wrote on standard error; with `hint` if there is no such program.
void run_python(const char* script, const std::vector<std::string>& arguments,
                const std::string& file, const std::string& hint);

}  // namespace assay
