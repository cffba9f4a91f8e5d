#include "assay/conform/invariance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "assay/compare/compare_logs.h"
#include "assay/conform/engine_process.h"
#include "assay/conform/feature.h"
#include "assay/conform/judge.h"
#include "assay/conform/work_folder.h"
#include "base/error.h"
#include "base/shell.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr char kAlone[] = "alone";
constexpr char kAgain[] = "again";
constexpr char kAfter[] = "after";
constexpr int kRepeats = 3;     // of the tokens alone
constexpr double kNoise = 2;    // times the largest distance between repeats is within noise
constexpr size_t kTokens = 48;  // of a prompt on the suite's models

struct Subject {
  std::string name;
  SuiteModel model;
  std::vector<int32_t> tokens;
  std::string flags;  // that choose it on the command line
};

// A prompt of more tokens than a case has, in no order that repeats soon.
std::vector<int32_t> long_prompt(const std::vector<int32_t>& tokens) {
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < kTokens; ++i) {
    prompt.push_back(tokens[(i * i + i / tokens.size()) % tokens.size()]);
  }
  return prompt;
}

std::vector<Subject> subjects_of(const InvarianceOptions& options, const WorkFolder& work) {
  if (!options.model_dir.empty() || !options.gguf.empty()) {
    const std::string path = options.model_dir.empty() ? options.gguf : options.model_dir;
    std::string flags;
    if (!options.model_dir.empty()) flags += " --model " + shell_quoted(options.model_dir);
    if (!options.gguf.empty()) flags += " --gguf " + shell_quoted(options.gguf);
    flags += fmt::format(" --tokens {}", fmt::join(options.tokens, ","));
    const auto absolute = [](const std::string& each) {
      return each.empty() ? each : fs::absolute(each).string();
    };
    return {{fs::path(path).filename().string(),
             {absolute(options.model_dir), absolute(options.gguf)},
             options.tokens,
             flags}};
  }
  std::vector<Subject> subjects;
  for (const Feature& feature : read_suite(options.suite.suite, options.suite.features)) {
    subjects.push_back({feature.name, work.write_model(feature), long_prompt(feature.tokens),
                        " --features " + feature.name});
  }
  return subjects;
}

std::string title_of(const std::string& surface) {
  const std::string number = surface.substr(surface.find(':') + 1);
  if (surface == kAgain) return "the same tokens again";
  if (surface == kAfter) return "after another prompt";
  if (surface == "steps") return "token by token";
  if (surface == "cached") return "the second half after a cached first";
  if (surface.starts_with("batch:")) return "in a batch of " + number;
  if (surface.starts_with("chunks:")) return number + " tokens at a time";
  throw Error(fmt::format("'{}' is not a surface", printable(surface, 40)), "--surfaces",
              "give some of again, after, batch:K, chunks:K, steps and cached");
}

// The records that are not the same to the bit.
struct Difference {
  std::string first;  // the first checkpoint as the network computes; empty: all are the same
  int64_t token_idx = 0;
  double rel_l2 = 0;
  bool only_output = false;  // nothing else was logged
  int64_t other_choices = 0;
  int64_t choices = 0;
};

Difference difference(const std::string& ref, const std::string& got) {
  CompareOptions options;
  options.policy = Policy([](const std::string&) {
    Tolerance exact;
    exact.rel_l2 = 0.0;
    return exact;
  });
  const Comparison comparison = compare_logs(ref, got, options);
  Difference found;
  found.only_output = comparison.checkpoints.size() == 1;
  found.other_choices = comparison.argmax_total - comparison.argmax_agree;
  found.choices = comparison.argmax_total;
  const RecordResult* first = nullptr;
  const auto place = [&](const RecordResult& result) {
    return std::pair(comparison.order[static_cast<size_t>(result.checkpoint)], result.token_idx);
  };
  for (const RecordResult& result : comparison.results) {
    const bool same = result.evidence == Evidence::kWhole || result.evidence == Evidence::kPartial;
    if (!same && (first == nullptr || place(result) < place(*first))) first = &result;
  }
  if (first == nullptr) return found;
  found.first = comparison.checkpoints[static_cast<size_t>(first->checkpoint)].name;
  found.token_idx = first->token_idx;
  found.rel_l2 = first->metrics.rel_l2;
  return found;
}

std::string text_of(const Difference& found) {
  std::string text = fmt::format("first at token {}, off by {:.1e}", found.token_idx, found.rel_l2);
  text += found.only_output ? ": only the output is logged"
                            : ", where all that was computed before it has the same bits";
  if (found.choices > 0 && found.other_choices > 0) {
    text += fmt::format("; the likeliest token changes at {} of {}", found.other_choices,
                        found.choices);
  }
  return text;
}

// One engine, on one model.
class InvarianceCheck {
 public:
  InvarianceCheck(EngineProcess& process, const Subject& subject, std::string folder)
      : process_(process), subject_(subject), folder_(std::move(folder)) {
    for (int i = 0; i < kRepeats; ++i) {
      const std::string log = path(fmt::format("{}_{}", kAlone, i));
      alone_ = evaluate(kAlone, log);
      if (alone_.outcome != EngineAnswer::Outcome::kLogged) return;
      if (i > 0) noise_ = std::max(noise_, distance(reference(), log));
    }
  }

  TableCell check(const std::string& surface) {
    TableCell cell;
    const EngineAnswer answer =
        alone_.outcome == EngineAnswer::Outcome::kLogged ? evaluate_row(surface, cell) : alone_;
    if (answer.outcome != EngineAnswer::Outcome::kLogged) {
      cell.finding = finding_of(answer);
      cell.text = answer.message;
      return cell;
    }
    try {
      judge_row(surface, cell);
    } catch (const Error& error) {
      cell.finding = Finding::kCrashed;
      cell.text = error.what();
    }
    return cell;
  }

 private:
  std::string path(std::string name) const {
    std::ranges::replace(name, ':', '_');
    return fmt::format("{}/{}-{}.jsonl", folder_, subject_.name, name);
  }
  std::string reference() const { return path(std::string(kAlone) + "_0"); }

  EngineAnswer evaluate(const std::string& surface, const std::string& log) {
    return process_.run({.model_dir = subject_.model.folder,
                         .gguf = subject_.model.gguf,
                         .tokens = subject_.tokens,
                         .surface = surface,
                         .log = log});
  }

  EngineAnswer evaluate_row(const std::string& surface, TableCell& cell) {
    cell.log = path(surface);
    if (surface == kAgain) {
      cell.log = path(fmt::format("{}_{}", kAlone, kRepeats - 1));
      return alone_;
    }
    if (surface != kAfter) return evaluate(surface, cell.log);
    Subject other = subject_;
    std::ranges::reverse(other.tokens);
    other.tokens.pop_back();
    process_.run({.model_dir = other.model.folder,
                  .gguf = other.model.gguf,
                  .tokens = other.tokens,
                  .surface = kAlone,
                  .log = path("other")});
    return evaluate(kAlone, cell.log);
  }

  // Infinite where the outputs cannot be compared.
  static double distance(const std::string& ref, const std::string& got) {
    const double rel_l2 = output_error(ref, got, "logits").rel_l2;
    return std::isnan(rel_l2) ? std::numeric_limits<double>::infinity() : rel_l2;
  }

  void judge_row(const std::string& surface, TableCell& cell) {
    cell.compare =
        fmt::format("assay compare {} {}", shell_quoted(reference()), shell_quoted(cell.log));
    cell.checkpoint = "logits";
    cell.error = output_error(reference(), cell.log, cell.checkpoint);
    if (cell.error->positions < cell.error->total && !std::isnan(cell.error->rel_l2)) {
      cell.finding = Finding::kUnsupported;
      cell.text = "logs less of it than of the tokens alone";
      return;
    }
    const Difference found = difference(reference(), cell.log);
    cell.finding = Finding::kSameBits;
    if (found.first.empty() && cell.error->rel_l2 == 0.0) return;
    double noise = noise_;
    const bool is_surface = surface != kAgain && surface != kAfter;
    const std::string twice = path(surface + "_twice");
    if (is_surface && evaluate(surface, twice).outcome == EngineAnswer::Outcome::kLogged) {
      noise = std::max(noise, distance(cell.log, twice));
    }
    const bool within = noise > 0.0 && (surface == kAgain || cell.error->rel_l2 <= kNoise * noise);
    cell.finding = within ? Finding::kWithinNoise : Finding::kDependent;
    cell.first_divergence = found.first;
    cell.text = text_of(found);
    if (noise > 0.0) cell.text += fmt::format("; repeats are off by {:.1e}", noise);
  }

  EngineProcess& process_;
  const Subject& subject_;
  std::string folder_;
  EngineAnswer alone_;
  double noise_ = 0;  // of the tokens alone
};

}  // namespace

std::vector<std::string> default_surfaces() {
  return {kAgain, kAfter, "batch:2", "batch:5", "chunks:7", "chunks:16", "steps", "cached"};
}

EngineTable invariance(const std::vector<EngineDeclaration>& engines,
                       const InvarianceOptions& options) {
  const std::vector<std::string> surfaces =
      options.surfaces.empty() ? default_surfaces() : options.surfaces;
  for (const std::string& surface : surfaces) title_of(surface);
  const WorkFolder work(options.suite.work);
  const std::vector<Subject> subjects = subjects_of(options, work);
  EngineTable table;
  table.kind = EngineTable::Kind::kInvariance;
  for (const Subject& subject : subjects) {
    for (const std::string& surface : surfaces) {
      table.rows.push_back({subject.name + "/" + surface, subject.name, title_of(surface), {}});
    }
  }
  const auto total = static_cast<int64_t>(subjects.size() * engines.size());
  int64_t done = 0;
  for (const EngineDeclaration& engine : engines) {
    const std::string logs = work.logs_of(engine);
    EngineProcess process(engine.command, engine.serves, logs + "/stderr.txt",
                          options.suite.timeout);
    TableColumn column{.engine = engine, .cells = {}};
    for (const Subject& subject : subjects) {
      InvarianceCheck check(process, subject, logs);
      for (const std::string& surface : surfaces) {
        column.cells.push_back(check.check(surface));
        column.cells.back().command = fmt::format("assay invariance {}{} --surfaces {}",
                                                  engine.typed, subject.flags, surface);
      }
      if (options.suite.progress) options.suite.progress(++done, total);
    }
    table.columns.push_back(std::move(column));
  }
  return table;
}

}  // namespace assay
