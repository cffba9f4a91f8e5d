#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// How to start a Python script that the program carries: in the interpreter that the environment's
// ASSAY_PYTHON names, or python3.
struct PythonCommand {
  std::vector<std::string> arguments;  // the interpreter first
  std::vector<std::string> environment;
};

// `script` runs with python -c; it has to take the empty entries out of sys.path itself.
PythonCommand python_command(std::string_view script, const std::vector<std::string>& arguments);

// For exec(): pointers to `texts`, which must outlive them, and a null.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

}  // namespace assay
