#include "assay/golden/log_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "assay/compare/checkpoint_order.h"
#include "assay/compare/compare_logs.h"
#include "assay/compare/self_check.h"
#include "assay/golden/floors.h"
#include "assay/golden/stated_choices.h"
#include "assay/log/log_reader.h"
#include "base/error.h"
#include "model/architecture.h"

namespace assay {
namespace {

constexpr std::string_view kOwnEngine = "assay";
constexpr std::string_view kOfDoubles = "_vs_f64";  // what the names of floors end with
constexpr std::string_view kDoubles = "float64";

// Whether a checkpoint belongs to a set; nothing for a set of globs.
std::optional<bool> is_of_set(const std::string& set, const std::string& checkpoint) {
  if (set == "ops") return true;
  if (set == "logits") return checkpoint == "logits";
  if (set != "layers") return {};
  const CheckpointName name = parse_checkpoint_name(checkpoint);
  return checkpoint == "embedding" || checkpoint == "logits" ||
         (name.layer >= 0 && name.op == "output");
}

// The ops that every layer of a log of the set holds, where `checkpoints` are those of the log: of
// all ops, each that any of its layers has.
std::set<std::string> ops_of_set(const std::string& set,
                                 const std::map<std::string, std::set<int64_t>>& checkpoints) {
  if (set == "layers") return {"output"};
  if (set != "ops") return {};
  std::set<std::string> ops = {"attn", "output"};
  for (const auto& [checkpoint, positions] : checkpoints) {
    const CheckpointName name = parse_checkpoint_name(checkpoint);
    if (name.layer >= 0 && name.known) ops.insert(name.op);
  }
  return ops;
}

int64_t layers_up_to(const std::string& checkpoint) {
  return int64_t{parse_checkpoint_name(checkpoint).layer} + 1;
}

template <typename Values>
bool has_nan(const Values& values) {
  return std::any_of(values.begin(), values.end(), [](auto value) { return std::isnan(value); });
}

// Whether one of the numbers that a record states is finite and not zero.
bool states_a_number(const Record& record) {
  const auto counts = [](auto value) { return std::isfinite(value) && value != 0; };
  if (std::any_of(record.values.begin(), record.values.end(), counts)) return true;
  if (record.sketch && std::any_of(record.sketch->begin(), record.sketch->end(), counts)) {
    return true;
  }
  return record.summary && (counts(record.summary->min) || counts(record.summary->max));
}

// Null if an engine can be compared with the record.
const char* unusable_reason(const Record& record) {
  if (record.values.empty() && record.n > 0) return "no value";
  // A number that a summary omits is NaN, too: its count of NaN decides.
  const bool nan = has_nan(record.values) || (record.sketch && has_nan(*record.sketch)) ||
                   (record.summary && record.summary->nan.value_or(0) > 0);
  if (nan) return "a NaN, which nothing can match,";
  return states_a_number(record) ? nullptr
                                 : "nothing but zeros or infinities, which prove nothing,";
}

class LogCheck {
 public:
  LogCheck(const std::string& path, const GoldenManifest& manifest, const GoldenFile& file,
           const GoldenLog& log, int64_t n_layers, const std::string& hint)
      : path_(path),
        manifest_(manifest),
        file_(file),
        log_(log),
        n_layers_(n_layers),
        hint_(hint),
        choices_(log, std::ssize(prompt()), manifest.padding_ids) {}

  void check() {
    LogReader reader(path_);
    const Record* record = reader.next();
    if (record == nullptr) throw no_records_error(reader);
    if (!reader.header()) fail("has no header that says what was recorded");
    check_header(*reader.header());
    for (; record != nullptr; record = reader.next()) add(*record);
    if (!reader.warnings().empty()) fail("its last line is cut off");
    check_checkpoints();
    for (const auto& [checkpoint, positions] : seen_) check_positions(checkpoint, positions);
    check_tolerances();
    fail_if(choices_.check_smallest());
    check_evidence();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(what, path_, hint_); }
  void fail_if(const std::string& what) const {
    if (!what.empty()) fail(what);
  }

  const std::vector<int32_t>& prompt() const { return manifest_.prompts.at(log_.prompt).tokens; }

  void check_header(const LogHeader& header) const {
    if (header.model.sha256 != file_.sha256) {
      fail(
          fmt::format("is of another model file than the {} that the manifest states", file_.type));
    }
    if (!std::equal(prompt().begin(), prompt().end(), header.tokens.begin(), header.tokens.end())) {
      fail(fmt::format("is of other tokens than the prompt '{}'", log_.prompt));
    }
    check_stated("arch", header.model.arch, manifest_.arch);
    check_stated("type", header.model.type, file_.type);
    check_stated("prompt", header.prompt.value_or(""), manifest_.prompts.at(log_.prompt).text);
    check_oracle(header);
  }

  // What computed the log: another program than the one that is judged, as exactly as the floors
  // say, by its own choices.
  void check_oracle(const LogHeader& header) const {
    if (header.engine == kOwnEngine) {
      fail("is of Assay's own engine, as 'engine' in its header says, which a golden is to judge");
    }
    if (manifest_.tolerance.floor.ends_with(kOfDoubles) && header.math != kDoubles) {
      fail(fmt::format("{} in the 'math' of its header, and the floor '{}' is an error against {}",
                       header.math.empty() ? "says nothing"
                                           : fmt::format("says '{}'", printable(header.math, 60)),
                       printable(manifest_.tolerance.floor, 60), kDoubles));
    }
    if (!header.routing.empty()) {
      fail("has experts that another log chose, as 'routing' in its header says");
    }
    if (!header.sampling.empty()) {
      fail("has tokens that were drawn, as 'sampling' in its header says, and not the likeliest");
    }
  }

  void check_stated(const char* key, const std::string& stated, const std::string& manifest) const {
    if (stated.empty() || stated == manifest) return;
    fail(fmt::format("says '{}' in the '{}' of its header, and the manifest '{}'",
                     printable(stated, 60), key, printable(manifest, 60)));
  }

  void add(const Record& record) {
    if (!is_of_set(log_.set, record.checkpoint).value_or(true)) {
      fail(fmt::format("has '{}', which is not of the set '{}'", record.checkpoint, log_.set));
    }
    const char* reason = unusable_reason(record);
    if (reason != nullptr) {
      fail(fmt::format("has {} of '{}' at {}", reason, record.checkpoint, record.token_idx));
    }
    const std::string_view contradiction = contradiction_of(record);
    if (!contradiction.empty()) {
      fail(fmt::format("has '{}' at {}, of which {} contradict each other", record.checkpoint,
                       record.token_idx, contradiction));
    }
    const int64_t width = widths_.try_emplace(record.checkpoint, record.n).first->second;
    if (record.n != width) {
      fail(fmt::format("has '{}' of {} elements at {}, and of {} before", record.checkpoint,
                       record.n, record.token_idx, width));
    }
    if (!seen_[record.checkpoint].insert(record.token_idx).second) {
      fail(fmt::format("has '{}' at {} twice", record.checkpoint, record.token_idx));
    }
    fail_if(choices_.take(record));
  }

  void check_checkpoints() const {
    for (const auto& [checkpoint, floors] : file_.floors_by_checkpoint) {
      if (seen_.count(checkpoint) > 0 || !is_of_set(log_.set, checkpoint).value_or(false)) continue;
      fail(fmt::format("has no '{}', of which the manifest has floors", checkpoint));
    }
    const std::set<std::string> ops = ops_of_set(log_.set, seen_);
    if (!ops.empty()) demand("embedding");
    if (!ops.empty() || log_.set == "logits") demand("logits");
    int64_t n_layers = std::max<int64_t>(n_layers_, 1);
    for (const auto& [checkpoint, positions] : seen_) {
      n_layers = std::max(n_layers, layers_up_to(checkpoint));
    }
    for (int64_t layer = 0; layer < n_layers; ++layer) {
      for (const std::string& op : ops) {
        if (!may_lack(op)) demand(fmt::format("layer_{}_{}", layer, op));
      }
    }
  }

  // Whether not all layers of the architecture compute the op: rotations in some, with their norms,
  // a cutoff of activations, or what a variant of the layer does not have.
  bool may_lack(const std::string& op) const {
    const Architecture* architecture = find_architecture(manifest_.arch);
    const std::optional<Checkpoint> checkpoint = find_checkpoint(op, true);
    if (architecture == nullptr || !checkpoint) return false;
    const auto lacks = [&](const LayerVariant& variant) {
      return find_spec(variant.ops, *checkpoint) == nullptr;
    };
    if (lacks({.ops = architecture->layer}) || std::ranges::any_of(architecture->variants, lacks)) {
      return true;
    }
    if (checkpoint == Checkpoint::kFfnCutoff) return true;
    return (checkpoint == Checkpoint::kQRope || checkpoint == Checkpoint::kKRope ||
            checkpoint == Checkpoint::kQRopeNorm || checkpoint == Checkpoint::kKRopeNorm) &&
           (architecture->unrotated_period > 0 || architecture->rotated != Rotated::kAll);
  }

  // What a right engine is held to.
  void check_tolerances() const {
    try {
      const Policy policy = floor_policy(manifest_, file_);
      for (const auto& [checkpoint, positions] : seen_) policy.tolerance(checkpoint);
    } catch (const Error& error) {
      fail(fmt::format("cannot be compared with: {}", error.what()));
    }
  }

  // A log that holds the same must be shown to be right, whole: heads without sketches, or logits
  // that do not say which token they choose, would leave any engine unproven.
  void check_evidence() const {
    CompareOptions options;
    options.policy = floor_policy(manifest_, file_);
    options.whole_required = true;
    const Comparison itself = compare_logs(path_, path_, options);
    if (itself.pass) return;
    const auto refuse = [&](const CheckpointName& checkpoint, int64_t token_idx,
                            std::string_view reason) {
      fail(fmt::format("cannot show that a log equal to it is right: '{}' at {}: {}",
                       checkpoint.name, token_idx, reason));
    };
    if (itself.first_divergence) {
      const FirstDivergence& first = *itself.first_divergence;
      refuse(first.checkpoint, first.token_idx,
             fmt::format("fails by {}", metric_name(first.metric)));
    }
    if (const auto& first = itself.evidence.first_unproven) {
      refuse(first->checkpoint, first->token_idx, first->reason);
    }
    fail(fmt::format("cannot show that a log equal to it is right: {}",
                     verdict_name(itself.verdict)));
  }

  void demand(const std::string& checkpoint) const {
    if (seen_.count(checkpoint) > 0) return;
    fail(fmt::format("has no '{}', which belongs to the set '{}'", checkpoint, log_.set));
  }

  void check_positions(const std::string& checkpoint, const std::set<int64_t>& seen) const {
    // All: the prompt's, and those of the generated tokens but the last.
    const int64_t all = std::ssize(prompt()) + std::max<int64_t>(log_.n_predict - 1, 0);
    const int64_t count = log_.positions ? std::ssize(*log_.positions) : all;
    const std::string stated =
        fmt::format("the manifest states {}{} positions", log_.positions ? "" : "all ", count);
    auto at = seen.begin();
    for (int64_t i = 0; i < count; ++i, ++at) {
      const int64_t want = log_.positions ? (*log_.positions)[static_cast<size_t>(i)] : i;
      if (at != seen.end() && *at == want) continue;
      if (at != seen.end() && *at < want) break;
      fail(fmt::format("has no '{}' at {}, {}", checkpoint, want, stated));
    }
    if (at != seen.end()) fail(fmt::format("has '{}' at {}, {}", checkpoint, *at, stated));
  }

  const std::string& path_;
  const GoldenManifest& manifest_;
  const GoldenFile& file_;
  const GoldenLog& log_;
  int64_t n_layers_;
  const std::string& hint_;
  StatedChoices choices_;
  std::map<std::string, std::set<int64_t>> seen_;  // positions by checkpoint
  std::map<std::string, int64_t> widths_;
};

}  // namespace

int64_t layers_of(const GoldenFile& file,
                  const std::function<std::string(const std::string&)>& place) {
  int64_t n_layers = 0;
  for (const auto& [checkpoint, floors] : file.floors_by_checkpoint) {
    n_layers = std::max(n_layers, layers_up_to(checkpoint));
  }
  for (const GoldenLog& log : file.logs) {
    try {
      LogReader reader(place(log.file), Depth::kKeys);
      while (const Record* record = reader.next()) {
        n_layers = std::max(n_layers, layers_up_to(record->checkpoint));
      }
    } catch (const Error&) {  // check_golden_log() tells it
    }
  }
  return n_layers;
}

void check_golden_log(const std::string& path, const GoldenManifest& manifest,
                      const GoldenFile& file, const GoldenLog& log, int64_t n_layers,
                      const std::string& hint) {
  LogCheck(path, manifest, file, log, n_layers, hint).check();
}

}  // namespace assay
