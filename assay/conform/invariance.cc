#include "assay/conform/invariance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "assay/compare/compare_logs.h"
#include "assay/compare/evidence.h"
#include "assay/conform/engine_process.h"
#include "assay/conform/feature.h"
#include "assay/conform/logged_output.h"
#include "assay/conform/work_folder.h"
#include "base/count_of.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/shell.h"
#include "engine/model.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr char kAlone[] = "alone";
constexpr char kAgain[] = "again";
constexpr char kAfter[] = "after";
constexpr int kRepeats = 3;     // of the tokens alone
constexpr double kNoise = 2;    // times the largest distance between repeats is within noise
constexpr size_t kTokens = 48;  // of a prompt on the suite's models
constexpr size_t kMostDigits = 6;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Subject {
  std::string name;
  SuiteModel model;
  std::vector<int32_t> tokens;
  std::string flags;   // that choose it on the command line
  std::string digest;  // SHA-256 that tells its case from others
};

// A prompt of more tokens than a case has, in no order that repeats soon.
std::vector<int32_t> long_prompt(const std::vector<int32_t>& tokens) {
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < kTokens; ++i) {
    prompt.push_back(tokens[(i * i + i / tokens.size()) % tokens.size()]);
  }
  return prompt;
}

// Of other tokens at one position at least: they are the same ones in another order, which no
// vocabulary lacks, unless these read the same backwards.
std::vector<int32_t> other_prompt(const std::vector<int32_t>& tokens) {
  std::vector<int32_t> other(tokens.rbegin(), tokens.rend());
  if (other.size() > 1) other.pop_back();
  if (std::equal(other.begin(), other.end(), tokens.begin())) {
    other.front() = other.front() == 0 ? 1 : 0;
  }
  return other;
}

// The checkpoint that is the output of an engine without logits; empty where Assay cannot read how
// many layers the model has.
std::string last_layer_of(const SuiteModel& model) {
  try {
    const Model read(std::make_shared<Gguf>(model.folder.empty() ? model.gguf : model.folder));
    return fmt::format("layer_{}_output", read.config().n_layers - 1);
  } catch (const Error&) {
    return "";
  }
}

// Of the tokens and of the sizes of the model's files, which may be too large to be read for this.
std::string digest_of(const InvarianceOptions& options) {
  std::string text = fmt::format("{}", fmt::join(options.tokens, ","));
  std::map<std::string, uintmax_t> sizes;
  std::error_code none;
  for (const auto& each : fs::directory_iterator(options.model_dir, none)) {
    sizes[each.path().filename().string()] = each.file_size(none);
  }
  if (!options.gguf.empty()) sizes[options.gguf] = fs::file_size(options.gguf, none);
  for (const auto& [name, size] : sizes) {
    text += fmt::format(" {} {}", fs::path(name).filename().string(), size);
  }
  return sha256_hex(std::as_bytes(std::span(text)));
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
             flags,
             digest_of(options)}};
  }
  std::vector<Subject> subjects;
  for (const Feature& feature : read_suite(options.suite.suite, options.suite.features)) {
    subjects.push_back({feature.name, work.write_model(feature), long_prompt(feature.tokens),
                        " --features " + feature.name, feature.digest});
  }
  return subjects;
}

// Throws Error for a text that names none.
std::string title_of(const std::string& surface) {
  if (surface == kAgain) return "the same tokens again";
  if (surface == kAfter) return "after another prompt";
  if (surface == "steps") return "token by token";
  if (surface == "cached") return "the second half after a cached first";
  const size_t colon = surface.find(':');
  const std::string number = colon == std::string::npos ? "" : surface.substr(colon + 1);
  const bool counts = !number.empty() && number.size() <= kMostDigits && number.front() != '0' &&
                      number.find_first_not_of("0123456789") == std::string::npos;
  if (counts && surface.starts_with("batch:")) return "in a batch of " + number;
  if (counts && surface.starts_with("chunks:")) return number + " tokens at a time";
  throw Error(fmt::format("'{}' is not a surface", printable(surface, 40)), "--surfaces",
              "give some of again, after, batch:K, chunks:K, steps and cached");
}

void check_surfaces(const std::vector<std::string>& surfaces) {
  for (auto each = surfaces.begin(); each != surfaces.end(); ++each) {
    title_of(*each);
    if (std::find(surfaces.begin(), each, *each) == each) continue;
    throw Error(fmt::format("'{}' is given twice", *each), "--surfaces", "give it once");
  }
}

// Why a record that is not the same has no distance from the other.
std::string why_infinite(const RecordResult& result) {
  if (!result.failed()) return fmt::format("nothing is shown: {}", result.reason);
  if (result.failing_metric == Metric::kSize) return "the tensors have other sizes";
  return "values are no numbers";
}

// Such a log says nothing of what the engine computed. Empty where neither log does so.
std::string contradiction_in(const RecordResult& result, const std::string& checkpoint) {
  if (!result.contradicts_itself && result.reason != kReferenceUnsound) return "";
  return fmt::format("the log contradicts itself: {} at token {}{}", checkpoint, result.token_idx,
                     result.contradicts_itself ? fmt::format(", {}", result.reason) : "");
}

// How far a log is from another, checkpoint by checkpoint as the network computes.
struct Distances {
  struct OfCheckpoint {
    double rel_l2 = 0;       // root mean square over positions; infinite where there is none
    int64_t token_idx = -1;  // of the first that is not the same to the bit
    double rel_l2_there = 0;
    std::string why_infinite;  // that distance
    double worst_failed = 0;   // of records that say otherwise, not of those that say nothing
  };
  std::map<std::pair<int64_t, std::string>, OfCheckpoint> of;  // by order and name
  int64_t compared = 0;
  int64_t whole = 0;  // of these, with all values of both
  int64_t other_choices = 0;
  int64_t choices = 0;
  // Which record of the two logs says two things of one tensor; empty where none does.
  std::string contradiction;
};

Distances distances(const std::string& ref, const std::string& got) {
  CompareOptions options;
  options.align = AlignMode::kIndex;
  options.policy = Policy([](const std::string&) {
    Tolerance exact;
    exact.rel_l2 = 0.0;
    return exact;
  });
  const Comparison comparison = compare_logs(ref, got, options);
  Distances found;
  found.other_choices = comparison.argmax_total - comparison.argmax_agree;
  found.choices = comparison.argmax_total;
  std::map<std::pair<int64_t, std::string>, int64_t> counts;
  for (const RecordResult& result : comparison.results) {
    const auto id = static_cast<size_t>(result.checkpoint);
    const std::pair key(comparison.order[id], comparison.checkpoints[id].name);
    const bool same = result.evidence == Evidence::kWhole || result.evidence == Evidence::kPartial;
    const double rel_l2 = same                          ? 0.0
                          : result.metrics.rel_l2 > 0.0 ? result.metrics.rel_l2
                                                        : kInfinity;
    if (found.contradiction.empty()) found.contradiction = contradiction_in(result, key.second);
    Distances::OfCheckpoint& one = found.of[key];
    one.rel_l2 += rel_l2 * rel_l2;
    if (result.failed()) one.worst_failed = std::max(one.worst_failed, rel_l2);
    if (!same && (one.token_idx < 0 || result.token_idx < one.token_idx)) {
      one.token_idx = result.token_idx;
      one.rel_l2_there = rel_l2;
      one.why_infinite = why_infinite(result);
    }
    ++counts[key];
    ++found.compared;
    found.whole += result.evidence == Evidence::kPartial ? 0 : 1;
  }
  for (auto& [key, one] : found.of) {
    one.rel_l2 = std::sqrt(one.rel_l2 / static_cast<double>(counts.at(key)));
  }
  return found;
}

// The larger of both, checkpoint by checkpoint.
void take_larger(const Distances& other, Distances& noise) {
  for (const auto& [key, one] : other.of) {
    double& most = noise.of[key].rel_l2;
    if (std::isfinite(one.rel_l2)) most = std::max(most, one.rel_l2);
  }
}

// One engine, on one model.
class InvarianceCheck {
 public:
  InvarianceCheck(EngineProcess& process, const Precision& precision, const Subject& subject,
                  std::string folder)
      : process_(process), precision_(precision), subject_(subject), folder_(std::move(folder)) {
    for (int i = 0; i < kRepeats; ++i) {
      const std::string log = path(fmt::format("{}_{}", kAlone, i));
      alone_ = evaluate(kAlone, log);
      if (alone_.outcome != EngineAnswer::Outcome::kLogged) return;
    }
    cut_line_ = cut_line_of(reference());
    try {
      for (int i = 1; i < kRepeats; ++i) {
        const Distances repeat = distances(reference(), path(fmt::format("{}_{}", kAlone, i)));
        if (!repeat.contradiction.empty()) throw Error(repeat.contradiction, path("alone_0"));
        take_larger(repeat, noise_);
        noise_.compared = repeat.compared;
        noise_.whole = repeat.whole;
      }
      shown_ = shown();
    } catch (const Error& error) {
      alone_ = {EngineAnswer::Outcome::kCrashed, error.what()};
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
    tell_cut_lines(cell);
    return cell;
  }

 private:
  std::string path(std::string name) const {
    std::ranges::replace(name, ':', '_');
    return fmt::format("{}/{}-{}.jsonl", folder_, subject_.name, name);
  }
  std::string reference() const { return path(std::string(kAlone) + "_0"); }

  EngineAnswer evaluate(const std::string& surface, const std::string& log) {
    return evaluate(subject_.tokens, surface, log);
  }
  EngineAnswer evaluate(const std::vector<int32_t>& tokens, const std::string& surface,
                        const std::string& log) {
    const EngineAnswer answer = process_.run({.model_dir = subject_.model.folder,
                                              .gguf = subject_.model.gguf,
                                              .tokens = tokens,
                                              .surface = surface,
                                              .log = log});
    if (answer.outcome != EngineAnswer::Outcome::kLogged) return answer;
    const std::string other = other_tokens_of(log, tokens);
    if (other.empty()) return answer;
    return {EngineAnswer::Outcome::kCrashed, other};
  }
  EngineAnswer evaluate_other() { return evaluate(other_, kAlone, path("other")); }

  void tell_cut_lines(TableCell& cell) const {
    cell.cut_line = cut_line_of(cell.log);
    if (!cell.cut_line.empty()) cell.add_text("the last line of its log is cut off");
    if (cut_line_.empty()) return;
    cell.add_text("the last line of the log of the tokens alone is cut off");
    if (cell.cut_line.empty()) cell.cut_line = cut_line_;
  }

  // What is logged of the tokens alone, and whether it says anything of a surface.
  OutputShown shown() {
    const EngineAnswer answer = evaluate_other();
    if (answer.outcome != EngineAnswer::Outcome::kLogged) {
      return {.too_little = "evaluates no other prompt: " + answer.message};
    }
    return output_shown(reference(), subject_.tokens, path("other"), other_,
                        last_layer_of(subject_.model));
  }

  // The largest distance that is within noise. Results that change from run to run by more than
  // rounding can are no noise.
  double within(const Distances& noise, const std::string& checkpoint) const {
    double repeats = 0.0;
    for (const auto& [key, one] : noise.of) {
      if (key.second == checkpoint) repeats = one.rel_l2;
    }
    return std::min(kNoise * repeats, precision_.tolerance);
  }

  // Why nothing is shown where a surface is this near; empty where something is. If another prompt
  // is as near, the noise hides whether the prompt was read.
  std::string too_little(const Distances& noise) const {
    if (!shown_.too_little.empty()) return shown_.too_little;
    const double near = std::max(within(noise, shown_.checkpoint), precision_.clean);
    if (shown_.of_others > near) return "";
    return fmt::format(
        "logs nearly the same {} for other tokens: {:.1e} off, and {:.1e} shows nothing",
        shown_.checkpoint, shown_.of_others, near);
  }

  // Whether what is logged at all is off by more than a log of another form explains, such as a
  // list of log-probabilities where the tokens alone have all logits.
  bool is_far_off(const Distances& found) const {
    return std::ranges::any_of(found.of, [&](const auto& one) {
      const double explained = std::max(within(noise_, one.first.second), precision_.clean);
      return one.second.worst_failed > explained;
    });
  }

  // Whether the surface evaluates the tokens at once, as the tokens alone are evaluated.
  bool cuts_nothing(const std::string& surface) const {
    const int64_t tokens = std::ssize(subject_.tokens);
    if (surface.starts_with("chunks:")) return std::stoll(surface.substr(7)) >= tokens;
    return (surface == "steps" || surface == "cached") && tokens < 2;
  }

  EngineAnswer evaluate_row(const std::string& surface, TableCell& cell) {
    if (cuts_nothing(surface)) {
      return {EngineAnswer::Outcome::kUnsupported,
              fmt::format("nothing is cut there of {}: give more --tokens",
                          count_of(std::ssize(subject_.tokens), "token"))};
    }
    cell.log = path(surface);
    if (surface == kAgain) {
      cell.log = path(fmt::format("{}_{}", kAlone, kRepeats - 1));
      return alone_;
    }
    if (surface != kAfter) return evaluate(surface, cell.log);
    const EngineAnswer answer = evaluate_other();
    if (answer.outcome != EngineAnswer::Outcome::kLogged) return answer;
    return evaluate(kAlone, cell.log);
  }

  void judge_row(const std::string& surface, TableCell& cell) {
    cell.compare =
        fmt::format("assay compare {} {}", shell_quoted(reference()), shell_quoted(cell.log));
    const Distances found = distances(reference(), cell.log);
    if (!found.contradiction.empty()) {
      cell.finding = Finding::kCrashed;
      cell.text = found.contradiction;
      return;
    }
    const bool logs_less = found.compared < noise_.compared || found.whole < noise_.whole;
    if (found.of.empty() || (logs_less && !is_far_off(found))) {
      cell.finding = Finding::kUnsupported;
      cell.text = "logs less of it than of the tokens alone";
      return;
    }
    const auto& [output_key, output] = *found.of.rbegin();
    cell.checkpoint = output_key.second;
    cell.error = OutputError{output.rel_l2, found.compared, found.whole, found.compared, {}};
    Distances noise = noise_;
    const std::string twice = path(surface + "_twice");
    const bool differs =
        std::ranges::any_of(found.of, [](const auto& one) { return one.second.token_idx >= 0; });
    if (differs && surface != kAgain && surface != kAfter &&
        evaluate(surface, twice).outcome == EngineAnswer::Outcome::kLogged) {
      take_larger(distances(cell.log, twice), noise);
    }
    cell.finding = differs ? Finding::kWithinNoise : Finding::kSameBits;
    for (const auto& [key, one] : found.of) {
      if (one.rel_l2 <= within(noise, key.second)) continue;
      cell.finding = Finding::kDependent;
      cell.first_divergence = key.second;
      cell.text = text_of(one, found);
      break;
    }
    const double repeats = noise.of[output_key].rel_l2;
    if (differs && repeats > 0.0) {
      cell.text +=
          fmt::format("{}repeats are off by {:.1e}", cell.text.empty() ? "" : "; ", repeats);
    }
    const std::string lacks = too_little(noise);
    if (cell.finding != Finding::kDependent && !lacks.empty()) {
      cell.finding = Finding::kUnsupported;
      cell.text = lacks;
    }
  }

  static std::string text_of(const Distances::OfCheckpoint& first, const Distances& found) {
    std::string text =
        std::isfinite(first.rel_l2_there)
            ? fmt::format("first at token {}, off by {:.1e}", first.token_idx, first.rel_l2_there)
            : fmt::format("first at token {}, where {}", first.token_idx, first.why_infinite);
    text += found.of.size() == 1 ? ": only the output is logged"
                                 : "; all that was computed before it is the same";
    if (found.other_choices > 0) {
      text += fmt::format("; the likeliest token changes at {} of {}", found.other_choices,
                          found.choices);
    }
    return text;
  }

  EngineProcess& process_;
  const Precision& precision_;
  const Subject& subject_;
  std::string folder_;
  std::vector<int32_t> other_ = other_prompt(subject_.tokens);
  EngineAnswer alone_;
  OutputShown shown_;
  std::string cut_line_;  // of the log of the tokens alone
  Distances noise_;       // of the tokens alone
};

}  // namespace

std::vector<std::string> default_surfaces() {
  return {kAgain, kAfter, "batch:2", "batch:5", "chunks:7", "chunks:16", "steps", "cached"};
}

EngineTable invariance(const std::vector<EngineDeclaration>& engines,
                       const InvarianceOptions& options) {
  const std::vector<std::string> surfaces =
      options.surfaces.empty() ? default_surfaces() : options.surfaces;
  check_surfaces(surfaces);
  const WorkFolder work(options.suite.work);
  const std::vector<Subject> subjects = subjects_of(options, work);
  EngineTable table;
  table.kind = EngineTable::Kind::kInvariance;
  for (const Subject& subject : subjects) {
    for (const std::string& surface : surfaces) {
      table.rows.push_back(
          {subject.name + "/" + surface, subject.name, title_of(surface), {}, subject.digest});
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
      InvarianceCheck check(process, find_precision(engine.precision, engine.name), subject, logs);
      for (const std::string& surface : surfaces) {
        TableCell& cell = column.cells.emplace_back(check.check(surface));
        cell.command = fmt::format("assay invariance {}{} --surfaces {}{}", engine.typed,
                                   subject.flags, surface, options.suite.flags);
      }
      if (options.suite.progress) options.suite.progress(++done, total);
    }
    table.columns.push_back(std::move(column));
  }
  return table;
}

}  // namespace assay
