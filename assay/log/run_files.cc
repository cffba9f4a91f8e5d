#include "assay/log/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 65536;
constexpr const char* kOneRun = "keep the files of one run in a folder of their own";

std::string text_of(const std::optional<Rank>& ranks) {
  if (!ranks) return "";
  return fmt::format("tp {}, pp {}, ep {}, sp {}", ranks->tp, ranks->pp, ranks->ep, ranks->sp);
}

// Throws unless what both headers state agrees.
void check_same_run(const std::string& first_file, const LogHeader& first, const std::string& file,
                    const LogHeader& header) {
  const std::pair<std::string_view, std::pair<std::string, std::string>> members[] = {
      {"model", {first.model.name, header.model.name}},
      {"model SHA-256", {first.model.sha256, header.model.sha256}},
      {"architecture", {first.model.arch, header.model.arch}},
      {"type", {first.model.type, header.model.type}},
      {"engine", {first.engine, header.engine}},
      {"math", {first.math, header.math}},
      {"routing", {first.routing, header.routing}},
      {"sampling", {first.sampling, header.sampling}},
      {"number of ranks", {text_of(first.ranks), text_of(header.ranks)}}};
  for (const auto& [name, values] : members) {
    const auto& [a, b] = values;
    if (a.empty() || b.empty() || a == b) continue;
    throw Error(fmt::format("the {} is '{}', but '{}' in {}", name, printable(b, 64),
                            printable(a, 64), printable(first_file)),
                file + ":1", kOneRun);
  }
}

// Adds a sequence, or checks it against the one of that name.
void add_sequence(LogHeader::Sequence sequence, const std::string& file,
                  std::vector<LogHeader::Sequence>& sequences) {
  const auto known = std::ranges::find(sequences, sequence.name, &LogHeader::Sequence::name);
  if (known == sequences.end()) {
    sequences.push_back(std::move(sequence));
    return;
  }
  if (known->tokens.empty()) *known = std::move(sequence);
  if (sequence.tokens.empty()) return;
  if (known->tokens == sequence.tokens && known->mask == sequence.mask) return;
  throw Error(fmt::format("other tokens for sequence '{}' than in a file before",
                          printable(sequence.name, 40)),
              file + ":1", kOneRun);
}

// A list of tokens without a name, and the first file that has it.
struct Unnamed {
  LogHeader::Sequence sequence;
  std::string file;
};

// Which of the lists that have no name each file has; -1 none. One list is sequence "0".
std::vector<std::ptrdiff_t> unnamed_of(const std::vector<std::string>& files,
                                       const std::vector<std::optional<LogHeader>>& headers,
                                       std::vector<Unnamed>& unnamed) {
  std::vector<std::ptrdiff_t> of_file(files.size(), -1);
  for (size_t i = 0; i < files.size(); ++i) {
    if (!headers[i] || headers[i]->tokens.empty()) continue;
    const LogHeader& header = *headers[i];
    const auto same = std::ranges::find_if(unnamed, [&](const Unnamed& other) {
      return other.sequence.tokens == header.tokens && other.sequence.mask == header.mask;
    });
    of_file[i] = same - unnamed.begin();
    if (same == unnamed.end()) {
      unnamed.push_back(
          {{fs::path(files[i]).stem().string(), header.tokens, header.mask}, files[i]});
    }
  }
  if (unnamed.size() == 1) unnamed.front().sequence.name.assign(1, '0');
  std::set<std::string> names;
  for (Unnamed& list : unnamed) {  // files of one name in several folders
    if (!names.insert(list.sequence.name).second) list.sequence.name = list.file;
  }
  return of_file;
}

}  // namespace

std::vector<std::string> logs_below(const std::string& folder, std::error_code& error) {
  std::vector<std::string> files;
  for (auto at = fs::recursive_directory_iterator(folder, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code none;
    if (at->path().extension() != ".jsonl" || !at->is_regular_file(none)) continue;
    files.push_back(at->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> run_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> files = logs_below(path, error);
  if (error) throw Error("cannot read the folder: " + error.message(), path);
  if (files.size() > kMaxFiles) {
    throw Error(fmt::format("the folder holds more than {} *.jsonl", kMaxFiles), path, kOneRun);
  }
  if (files.empty()) {
    throw Error("the folder holds no *.jsonl", path, "give the folder with the logs of one run");
  }
  return files;
}

RunHeader agree_on_header(const std::vector<std::string>& files,
                          std::vector<std::optional<LogHeader>> headers) {
  RunHeader run;
  std::vector<Unnamed> unnamed;
  const std::vector<std::ptrdiff_t> of_file = unnamed_of(files, headers, unnamed);
  run.default_sequence.resize(files.size());
  std::string first_file;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!headers[i]) continue;
    LogHeader& header = *headers[i];
    run.lists_sequences = run.lists_sequences || !header.sequences.empty();
    for (LogHeader::Sequence& sequence : header.sequences) {
      add_sequence(std::move(sequence), files[i], run.sequences);
    }
    if (of_file[i] >= 0) {
      const Unnamed& list = unnamed[static_cast<size_t>(of_file[i])];
      add_sequence(list.sequence, files[i], run.sequences);
      if (unnamed.size() > 1) run.default_sequence[i] = list.sequence.name;
    }
    header.tokens.clear();
    header.mask.clear();
    header.sequences.clear();
    if (!run.header) {
      run.header = std::move(header);
      first_file = files[i];
      continue;
    }
    check_same_run(first_file, *run.header, files[i], header);
    if (!run.header->ranks) run.header->ranks = header.ranks;
    if (run.header->checkpoints != header.checkpoints) run.header->checkpoints.clear();
    if (run.header->prompt != header.prompt) run.header->prompt.reset();
  }
  return run;
}

}  // namespace assay
