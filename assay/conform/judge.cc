#include "assay/conform/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "assay/causes/find_causes.h"
#include "assay/compare/checkpoint_order.h"
#include "assay/compare/log_index.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/nothing_in_common.h"
#include "assay/conform/explanations.h"
#include "assay/conform/logged_output.h"
#include "assay/conform/output_error.h"
#include "base/error.h"
#include "base/shell.h"
#include "engine/model.h"

namespace assay {
namespace {

constexpr double kLeftByExplanation = 0.1;
constexpr double kLeftWhereRounded = 1.0 / 3.0;
// Within this, no engine in float32 is nearer to another network.
constexpr double kNearest = 1e-5;
// How much further than the feature a mistake has to be from a log that shows the feature.
constexpr double kFurtherThanFeature = 1.005;
// Of explanations that leave so nearly the same, none is preferred.
constexpr double kAlike = 2.0;

bool is_full_precision(const Precision& precision) {
  return precision.name == "float32";
}

void explain(const Feature& feature, const Precision& precision, const std::string& folder,
             TableCell& cell) {
  const double error = cell.error->rel_l2;
  const bool full = is_full_precision(precision);
  const double most =
      full ? std::max(precision.clean, std::min(precision.tolerance, kLeftByExplanation * error))
           : std::min(precision.tolerance, kLeftWhereRounded * error);
  const std::vector<Explanation> found = best_explanations(feature, precision.clean, folder, cell);
  if (!found.empty() && found.front().left <= most) {
    const Explanation& best = found.front();
    const bool ignored = std::ranges::all_of(best.mistakes, &Counterfactual::ignored);
    cell.finding = ignored ? Finding::kIgnored : Finding::kMisread;
    cell.cause = causes_of(best);
    cell.text = text_of(best);
    cell.from_explained = best.left;
    for (size_t i = 1; i < found.size(); ++i) {
      if (found[i].left > kAlike * best.left && found[i].left > precision.clean) break;
      cell.text += "; or " + text_of(found[i]);
    }
  }
  Comparison comparison = compared(feature.reference, cell.log, precision.clean);
  if (comparison.first_divergence) {
    cell.first_divergence = comparison.first_divergence->checkpoint.name;
  }
  if (!cell.cause.empty()) return;
  const Model model(std::make_shared<Gguf>(folder));
  try {
    find_causes(&model, comparison);
  } catch (const Error& problem) {  // the log is of another model, by its header
    cell.text = problem.what();
    return;
  }
  if (!comparison.causes.empty()) {
    const Cause& cause = comparison.causes.front();
    // Rounding is no mistake: how far it may lead decides.
    if (cause.name == kRounding && (!full || error <= precision.tolerance)) {
      cell.text = cause.sentence;
      return;
    }
    // What explains nearly all squares may leave far more than rounding does.
    if (std::sqrt(std::max(0.0, 1.0 - cause.explained)) * error <= most) {
      cell.finding = Finding::kMisread;
      cell.cause = cause.name;
      cell.text = cause.sentence;
      return;
    }
    cell.text = "in part, " + cause.sentence;
  }
  // A mistake and rounding explain too much.
  if (!full || error <= precision.tolerance) return;
  const auto mixed = mixed_explanation(feature, most, folder, cell);
  if (!mixed) return;
  cell.finding = Finding::kMisread;
  cell.cause = causes_of(mixed->feature) + ", " + mixed->cause.name;
  cell.text = text_of(mixed->feature) + ", and " + mixed->cause.sentence;
}

// Of several sequences, none of which is known to be of the case's tokens, nothing was compared.
void fail_for_sequences(const std::string& log) {
  const auto sequences = LogIndex::read_run(log, {});
  if (sequences.size() < 2) return;
  throw Error(fmt::format("its log holds {} sequences, such as '{}' and '{}', and none is known to "
                          "be of the case's tokens",
                          sequences.size(), printable(sequences[0]->sequence(), 40),
                          printable(sequences[1]->sequence(), 40)),
              log, "log one, without a name, or the tokens of each in the header");
}

// Takes the logits of the engine's log, or the output of its last layer if it has none.
void find_output(const Feature& feature, const std::string& folder, TableCell& cell) {
  cell.checkpoint = kLogitsName;
  try {
    cell.error = output_error(feature.reference, cell.log, cell.checkpoint);
    if (cell.error->positions > 0) return;
  } catch (const NothingInCommon&) {
    cell.error.reset();
  }
  const Model model(std::make_shared<Gguf>(folder));
  cell.checkpoint = fmt::format("layer_{}_output", model.config().n_layers - 1);
  try {
    cell.error = output_error(feature.reference, cell.log, cell.checkpoint);
    if (cell.error->positions > 0) return;
  } catch (const NothingInCommon&) {
    cell.error.reset();
  }
  fail_for_sequences(cell.log);
  throw Error(fmt::format("its log has no values of logits, logprobs or {} at the positions of the "
                          "case",
                          cell.checkpoint),
              cell.log);
}

// Right logits are no excuse for another checkpoint that is wrong: what an engine logs under a name
// of Assay's is its own statement of what it computed there. Held to what rounding may cost, the
// first as the network computes decides. Names that Assay does not know say nothing.
void require_right_checkpoints(const Feature& feature, const Precision& precision,
                               TableCell& cell) {
  for (const auto& [name, error] : inner_errors(feature.reference, cell.log, precision.tolerance)) {
    if (error.rel_l2 <= precision.tolerance) continue;
    cell.finding = Finding::kDiffers;
    cell.text = fmt::format(
        "{} within {:.1e}, but {} {}", cell.checkpoint, cell.error->rel_l2, name,
        error.problem.empty() ? fmt::format("is off by {:.1e}", error.rel_l2) : error.problem);
    cell.error = error;
    cell.checkpoint = name;
    cell.first_divergence = name;
    return;
  }
}

// Rounding of an engine may be as large as what a mistake changes. A log that is nearer to a
// mistake shows that mistake; and one that is about as near to it as to the feature does not show
// which of them was computed: nothing, if that is so of all. Mistakes that move the logits by more
// than twice its error are further away.
void require_nearest(const Feature& feature, const std::string& folder, TableCell& cell) {
  const double error = cell.error->rel_l2;
  const auto may_be_nearer = [&](const Counterfactual& each) {
    return each.small || kLoud <= 2 * error;
  };
  if (error <= kNearest || std::ranges::none_of(feature.counterfactuals, may_be_nearer)) return;
  const std::vector<Explanation> all = explanations(feature, folder, cell);
  const Explanation& nearest = all.front();
  if (nearest.left >= kFurtherThanFeature * error) return;
  if (nearest.left <= kLeftWhereRounded * error) {
    cell.finding = nearest.mistakes.front()->ignored ? Finding::kIgnored : Finding::kMisread;
    cell.cause = causes_of(nearest);
    cell.text = text_of(nearest);
    cell.from_explained = nearest.left;
    return;
  }
  if (all.back().left < kFurtherThanFeature * error) cell.finding = Finding::kUnsupported;
  cell.text +=
      fmt::format("{}rounds too much to tell it, {:.1e} away, from an engine that {}, {:.1e} away",
                  cell.text.empty() ? "" : "; ", error, text_of(nearest), nearest.left);
}

// What find_output() takes.
bool is_output(const std::string& checkpoint) {
  const CheckpointName name = parse_checkpoint_name(checkpoint);
  return checkpoint == kLogitsName || (name.layer >= 0 && name.op == "output");
}

bool is_whole(const TableCell& cell) {
  return cell.checkpoint == kLogitsName && cell.error->whole == cell.error->total;
}

void find_too_little(TableCell& cell) {
  cell.finding = Finding::kUnsupported;
  cell.text = "logs too little of it: give all logits of all positions, or their sketches";
}

// What an engine logged may be right and show nothing: the output of a layer says nothing of the
// head, one position nothing of a window. Then the feature is not honoured, but unsupported.
// `limit` is how far a log may be from the feature that still is honoured.
void require_evidence(const Feature& feature, double limit, const std::string& folder,
                      TableCell& cell) {
  if (cell.error->positions < cell.error->total) {
    cell.text += fmt::format("{}at {} of {} positions", cell.text.empty() ? "" : ", ",
                             cell.error->positions, cell.error->total);
  }
  if (is_whole(cell)) return require_nearest(feature, folder, cell);
  if (feature.counterfactuals.empty()) return find_too_little(cell);
  const Explanation nearest = explanations(feature, folder, cell).front();
  cell.from_nearest_mistake = std::min(nearest.left, std::numeric_limits<double>::max());
  if (!(nearest.left > limit)) {
    cell.finding = Finding::kUnsupported;
    cell.text = "logs too little to tell it from an engine that " + text_of(nearest);
    return;
  }
  if (cell.error->whole >= cell.error->positions) return;
  cell.text += fmt::format("{}by a part of its {}", cell.text.empty() ? "" : ", ", cell.checkpoint);
}

}  // namespace

const Precision& precision_of(const EngineDeclaration& engine, const Feature& feature) {
  const Precision* precision = &find_precision(engine.precision, engine.name);
  for (const FeatureTensor& tensor : feature.tensors) {
    if (tensor.type == TensorType::kF32) continue;
    const char* name = tensor.type == TensorType::kF16    ? "float16"
                       : tensor.type == TensorType::kBF16 ? "bfloat16"
                                                          : "int8";
    const Precision& own = find_precision(name, feature.name);
    if (own.clean > precision->clean) precision = &own;
  }
  return *precision;
}

void judge(const Feature& feature, const Precision& precision, const std::string& folder,
           TableCell& cell) {
  cell.compare = fmt::format("assay compare {} {} --model {}", shell_quoted(feature.reference),
                             shell_quoted(cell.log), shell_quoted(folder));
  try {
    const std::string other = other_tokens_of(cell.log, feature.tokens);
    if (!other.empty()) throw Error(other, cell.log, "log the tokens that were evaluated");
    find_output(feature, folder, cell);
  } catch (const Error& error) {
    cell.finding = Finding::kCrashed;
    cell.text = error.what();
    return;
  }
  const double error = cell.error->rel_l2;
  cell.finding = error <= precision.clean ? Finding::kHonoured : Finding::kDiffers;
  if (error <= precision.clean) {
    require_evidence(feature, precision.clean, folder, cell);
    require_right_checkpoints(feature, precision, cell);
    return;
  }
  if (std::isfinite(error)) explain(feature, precision, folder, cell);
  if (cell.finding != Finding::kDiffers) return;
  if (error <= precision.tolerance) {
    cell.finding = Finding::kHonoured;
    cell.text = fmt::format("is off by {:.1e}, which {} may cost{}{}", error, precision.name,
                            cell.text.empty() ? "" : ": ", cell.text);
    require_evidence(feature, precision.tolerance, folder, cell);
    require_right_checkpoints(feature, precision, cell);
  } else if (std::isfinite(error)) {
    cell.text =
        fmt::format("is off by {:.1e}; {}", error,
                    cell.text.empty() ? "no mistake that was tried explains it" : cell.text);
  } else {
    cell.text = cell.error->problem;
  }
}

void judge_figures(const Feature& feature, const Precision& precision, TableCell& cell) {
  if (is_bad(cell.finding) || !cell.error) return;
  if (cell.error->total != std::ssize(feature.tokens)) {
    throw Error(fmt::format("is of {} positions, and the case has {}", cell.error->total,
                            feature.tokens.size()));
  }
  if (cell.finding == Finding::kHonoured && !is_output(cell.checkpoint)) {
    throw Error(
        fmt::format("is 'honoured' by '{}', and conform judges logits or the output of the "
                    "last layer",
                    printable(cell.checkpoint, 60)));
  }
  const double error = cell.error->rel_l2;
  if (!(error <= precision.tolerance)) {
    cell.text = fmt::format("is off by {:.1e}, more than {} may cost; its file says '{}'", error,
                            precision.name, finding_name(cell.finding));
    cell.finding = Finding::kDiffers;
    return;
  }
  if (cell.finding == Finding::kUnsupported || is_whole(cell)) return;
  if (feature.counterfactuals.empty()) return find_too_little(cell);
  if (!cell.from_nearest_mistake) {
    throw Error("is 'honoured' by a part of the logits, without from_nearest_mistake");
  }
  const double limit = error <= precision.clean ? precision.clean : precision.tolerance;
  if (!(*cell.from_nearest_mistake > limit)) find_too_little(cell);
}

}  // namespace assay
