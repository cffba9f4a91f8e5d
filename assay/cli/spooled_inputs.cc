#include "assay/cli/spooled_inputs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "assay/cli/output.h"
#include "assay/dump/dump_files.h"
#include "assay/dump/dump_log.h"
#include "assay/dump/printed_tensors.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/new_file.h"

namespace assay {
namespace {

// A named pipe elsewhere is refused by whoever reads it: opening it may wait for ever.
bool is_pipe(const std::string& path) {
  const bool of_shell = path == "/dev/stdin" || path.starts_with("/dev/fd/");
  struct stat status {};
  return of_shell && stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

int temporary_file() {
  std::string name = temporary_folder() + "/assay-input-XXXXXX";
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) {
    throw Error(std::string("cannot create: ") + std::strerror(errno), name,
                "set TMPDIR to a folder that can be written to");
  }
  unlink(name.c_str());
  return file;
}

// A log begins with an object of JSON, or with the mark of UTF-8, of which a pipe may give one
// byte.
bool may_be_log(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos || text[first] == '{' || text[first] == '\xEF';
}

void keep_copy(int to, std::string_view text, const std::string& shown) {
  if (write_all(to, text)) return;
  throw Error(std::string("cannot keep a copy of it: ") + std::strerror(errno), shown,
              "set TMPDIR to a folder with room for it");
}

// Of what is neither a log nor a text of printed tensors only the beginning, which its reader
// names: it may have no end. Printed text may begin with much else.
void copy_log(int from, int to, const std::string& shown) {
  std::vector<char> buffer(size_t{1} << 20);
  std::string start;
  bool is_known = false;
  for (;;) {
    check_interrupted();
    const ssize_t got = read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(std::string("cannot read: ") + std::strerror(errno), shown);
    if (got == 0) return;
    const std::string_view text(buffer.data(), static_cast<size_t>(got));
    keep_copy(to, text, shown);
    if (is_known) continue;
    start += text;
    is_known = may_be_log(start) || begins_printed(start);
    const bool is_binary = text.find('\0') != std::string_view::npos;
    if (!is_known && (is_binary || start.size() >= kPrintedSearched)) return;
    if (is_known) start = {};
  }
}

}  // namespace

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

SpooledInputs::~SpooledInputs() {
  for (const int file : files_) close(file);
}

std::string SpooledInputs::path_of(const std::string& path) {
  const bool standard_input = path == "-" || path == "/dev/stdin";
  if (path != "-" && !is_pipe(path)) {
    return is_dump(path) ? as_log(path, path) : path;
  }
  if (standard_input && standard_input_taken_) {
    throw Error("standard input can be read only once", path, "give a file for the other log");
  }
  standard_input_taken_ = standard_input_taken_ || standard_input;
  const int from = standard_input ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (from < 0) throw Error(std::string("cannot open: ") + std::strerror(errno), path);
  if (!standard_input) files_.push_back(from);
  const int copy = temporary_file();
  const std::string place = keep(copy, path);
  copy_log(from, copy, standard_input ? "standard input" : path);
  return is_printed(place) ? as_log(place, path) : place;
}

// The log of a dump.
std::string SpooledInputs::as_log(const std::string& dump, const std::string& path) {
  const int copy = temporary_file();
  const std::string place = keep(copy, path);
  dumps_.insert(place);
  DumpOptions options;
  options.work = temporary_folder();
  auto imported = dump_to_log(dump, options, [&](std::string_view text) {
    check_interrupted();
    if (!write_all(copy, text)) {
      throw Error(std::string("cannot keep it as a log: ") + std::strerror(errno), path,
                  "set TMPDIR to a folder with room for it");
    }
  });
  print_warnings(imported.warnings);
  return place;
}

// Under which it can be read.
std::string SpooledInputs::keep(int file, const std::string& path) {
  files_.push_back(file);
  std::string place = fmt::format("/proc/self/fd/{}", file);
  given_[place] = path;
  return place;
}

std::string SpooledInputs::named(std::string text) const {
  for (const auto& [place, path] : given_) {
    for (size_t at = text.find(place); at != std::string::npos; at = text.find(place, at)) {
      const size_t end = at + place.size();
      const auto is_digit = [&](size_t i) {
        return i < text.size() && text[i] >= '0' && text[i] <= '9';
      };
      if (is_digit(end)) {  // of another copy
        at = end;
        continue;
      }
      // A dump has no such line.
      const bool has_line = text[end] == ':' && is_digit(end + 1) && dumps_.contains(place);
      const std::string name = has_line ? path + ", as a log, line " : path;
      text.replace(at, place.size() + (has_line ? 1 : 0), name);
      at += name.size();
    }
  }
  return text;
}

void SpooledInputs::print_warnings(std::vector<std::string>& warnings) const {
  for (std::string& warning : warnings) {
    warning = named(warning);
    print_warning(warning);
  }
}

int with_spooled_inputs(const std::function<int(SpooledInputs&)>& command) {
  SpooledInputs inputs;
  try {
    return command(inputs);
  } catch (const Error& error) {
    const std::string text = inputs.named(error.what());
    if (text == error.what()) throw;
    throw Error(text);
  }
}

}  // namespace assay
