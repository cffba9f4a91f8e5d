#include "assay/log/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 65536;
constexpr const char* kOneRun = "keep the files of one run in a folder of their own";

std::vector<std::pair<std::string_view, std::string*>> texts_of(LogHeader& header) {
  return {{"model", &header.model.name},        {"model SHA-256", &header.model.sha256},
          {"architecture", &header.model.arch}, {"type", &header.model.type},
          {"engine", &header.engine},           {"math", &header.math},
          {"routing", &header.routing},         {"sampling", &header.sampling}};
}

// What the files of a run state in their headers, and which of them states it first.
class SameRun {
 public:
  // Adds to `run` what the header of one more file states. Throws unless it agrees with what one
  // before states.
  void add(const std::string& file, LogHeader& header, LogHeader& run) {
    const auto of_run = texts_of(run);
    const auto of_file = texts_of(header);
    for (size_t i = 0; i < of_run.size(); ++i) {
      const auto& [name, text] = of_file[i];
      check(name, *of_run[i].second, *text, file);
      if (of_run[i].second->empty()) *of_run[i].second = *text;
    }
    if (header.ranks) add_ranks(file, *header.ranks, run);
  }

 private:
  void add_ranks(const std::string& file, const Rank& ranks, LogHeader& run) {
    constexpr std::string_view kNames[] = {"number of tp ranks", "number of pp ranks",
                                           "number of ep ranks", "number of sp ranks"};
    const auto text = [](int64_t count) { return count > 0 ? fmt::format("{}", count) : ""; };
    if (!run.ranks) run.ranks.emplace();
    for (const RankAxis axis : kRankAxes) {
      int64_t& before = along(*run.ranks, axis);
      const int64_t count = along(ranks, axis);
      check(kNames[static_cast<size_t>(axis)], text(before), text(count), file);
      if (before == 0) before = count;
    }
  }

  void check(std::string_view name, const std::string& before, const std::string& text,
             const std::string& file) {
    if (text.empty()) return;
    const std::string& first = stated_by_.try_emplace(name, file).first->second;
    if (before.empty() || before == text) return;
    throw Error(fmt::format("the {} is '{}', but '{}' in {}", name, printable(text, 64),
                            printable(before, 64), printable(first)),
                file + ":1", kOneRun);
  }

  std::map<std::string_view, std::string> stated_by_;
};

// The sequences that the files of a run name.
class NamedSequences {
 public:
  // Adds a sequence, or checks it against the one of that name.
  void add(LogHeader::Sequence sequence, const std::string& file) {
    const auto [place, added] = place_of_.try_emplace(sequence.name, all_.size());
    if (added) {
      all_.push_back(std::move(sequence));
      return;
    }
    LogHeader::Sequence& known = all_[place->second];
    if (known.tokens.empty()) known = std::move(sequence);
    if (sequence.tokens.empty()) return;
    if (known.tokens == sequence.tokens && known.mask == sequence.mask) return;
    throw Error(fmt::format("other tokens for sequence '{}' than in a file before",
                            printable(sequence.name, 40)),
                file + ":1", kOneRun);
  }

  std::vector<LogHeader::Sequence> take() { return std::move(all_); }

 private:
  std::vector<LogHeader::Sequence> all_;
  std::unordered_map<std::string, size_t> place_of_;
};

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
  std::map<std::pair<std::vector<int64_t>, std::vector<int64_t>>, std::ptrdiff_t> place_of;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!headers[i] || headers[i]->tokens.empty()) continue;
    const LogHeader& header = *headers[i];
    const auto [place, added] =
        place_of.try_emplace({header.tokens, header.mask}, std::ssize(unnamed));
    of_file[i] = place->second;
    if (added) {
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
    std::string ending = at->path().extension().string();
    std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
    // What cannot be read, such as a link to nothing, is for the reader to refuse.
    if (ending != ".jsonl" || at->is_directory(none)) continue;
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
  NamedSequences sequences;
  SameRun same;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!headers[i]) continue;
    LogHeader& header = *headers[i];
    run.lists_sequences = run.lists_sequences || !header.sequences.empty();
    for (LogHeader::Sequence& sequence : header.sequences) {
      sequences.add(std::move(sequence), files[i]);
    }
    if (of_file[i] >= 0) {
      const Unnamed& list = unnamed[static_cast<size_t>(of_file[i])];
      sequences.add(list.sequence, files[i]);
      if (unnamed.size() > 1) run.default_sequence[i] = list.sequence.name;
    }
    header.tokens.clear();
    header.mask.clear();
    header.sequences.clear();
    if (!run.header) run.header = header;
    same.add(files[i], header, *run.header);
    if (run.header->checkpoints != header.checkpoints) run.header->checkpoints.clear();
    if (run.header->prompt != header.prompt) run.header->prompt.reset();
  }
  run.sequences = sequences.take();
  return run;
}

}  // namespace assay
