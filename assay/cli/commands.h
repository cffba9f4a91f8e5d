#pragma once

#include <CLI/CLI.hpp>

namespace assay {

inline constexpr int kInParity = 0;
inline constexpr int kDiverged = 1;
inline constexpr int kNotComparable = 2;  // and bad input, and bad usage
inline constexpr int kSignalled = 128;    // and the number of the signal

// Each adds one subcommand. When the command line names it, parsing it runs it and sets
// `exit_code`; errors are thrown.
void add_run(CLI::App& app, int& exit_code);
void add_tokenize(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_synth(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_analyze(CLI::App& app, int& exit_code);
void add_convert(CLI::App& app, int& exit_code);
void add_import(CLI::App& app, int& exit_code);
void add_golden(CLI::App& app, int& exit_code);
void add_floors(CLI::App& app, int& exit_code);
void add_matrix(CLI::App& app, int& exit_code);
void add_mutate(CLI::App& app, int& exit_code);
void add_perf(CLI::App& app, int& exit_code);
void add_conform(CLI::App& app, int& exit_code);
void add_invariance(CLI::App& app, int& exit_code);
void add_fleet(CLI::App& app, int& exit_code);
void add_engine(CLI::App& app, int& exit_code);
void add_weights(CLI::App& app, int& exit_code);

}  // namespace assay
