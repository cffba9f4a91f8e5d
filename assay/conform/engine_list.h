#pragma once

#include <optional>
#include <string>
#include <vector>

namespace assay {

// With what precision an engine computes, which decides how near to float64 it can come.
struct Precision {
  std::string name;
  double clean = 0;      // rel_l2 of the logits that needs no explanation
  double tolerance = 0;  // and at most, where none is found
};

// "float32", "mixed" (float32 with parts that are rounded), "float16", "bfloat16" or "int8". Throws
// Error naming `where` for another.
const Precision& find_precision(const std::string& name, const std::string& where);

// An engine from outside.
struct EngineDeclaration {
  std::string name;
  std::string version;               // as far as it is known
  std::string typed;                 // as it is chosen on the command line
  std::vector<std::string> command;  // a program and its arguments
  std::string precision = "float32";
  bool serves = false;      // one process takes case after case
  std::string digest = {};  // SHA-256 of its adapter, where the list names one
};

// The engine `name` in the list at `path`: engines/engines.json. Throws Error that names the list,
// and the engines in it.
EngineDeclaration find_engine(const std::string& path, const std::string& name);

// The same, or nothing if the list does not have it. Throws Error about the list.
std::optional<EngineDeclaration> listed_engine(const std::string& path, const std::string& name);

// What --command gives: a line for the shell, which runs once for each case.
EngineDeclaration engine_of_command(const std::string& line);

}  // namespace assay
