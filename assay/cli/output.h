#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "assay/report/text_sink.h"
#include "assay/report/text_table.h"

namespace assay {

// Gives `write` a sink to standard output or, where `path` is not empty, to that file. A regular
// file appears whole or not at all: it is written beside its place and renamed. A reader that
// closes its end of standard output (`| head`) is no error. Throws Error naming the file.
void write_output(const std::string& path, const std::function<void(const TextSink&)>& write);

// Gives `write` how many bytes the file at `path` holds, 0 where there is none, and a sink whose
// text is appended to it at once. Throws Error naming the file.
void append_output(const std::string& path,
                   const std::function<void(size_t bytes_there, const TextSink&)>& write);

// The file that a GitHub runner names for a job's summary; empty where none does, or where `path`,
// which stands before it, is given.
std::string step_summary_path(const std::string& path);

// A job's summary for GitHub: gives `write` how many bytes it may have, and a sink to `path` or,
// where that is empty, to the end of the file that the runner names, or to standard output.
void write_step_summary(const std::string& path,
                        const std::function<void(size_t most, const TextSink&)>& write);

// "2026-01-31T12:00:00".
std::string utc_now();

// Colours where standard output is a terminal that has them, unless NO_COLOR is set; the width of
// the terminal. Plain and of any width for a file or a pipe.
TextStyle output_style(const std::string& path);

// What a long job's progress is counted in.
enum class Work : uint8_t { kBytes, kSteps };

// Shows how far a long job has come, on standard error if that is a terminal; `doing` is what it
// does ("comparing"). What it returns is to be called with the work done and the work in all.
std::function<void(int64_t, int64_t)> progress_line(std::string doing, Work work);

// Writes to standard output at once. A reader that has gone is no error. Throws Error if the text
// cannot be written otherwise.
void print_text(std::string_view text);

// The same for text that a model made: on a terminal it can do no more than be read there, so
// control characters are shown as \xNN.
void print_foreign_text(std::string_view text);

// On standard error; where that is closed or full, nothing can be reported.
void print_status(const std::string& text);
void print_warning(const std::string& text);
void print_error(const std::string& text);
void print_error(const char* text);  // takes no memory

}  // namespace assay
