#include "assay/mutate/golden_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "assay/golden/golden_error.h"
#include "assay/mutate/mutant.h"
#include "assay/record/snapshot_probe.h"
#include "base/error.h"

namespace assay {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The place of a checkpoint as the network computes; what ends it stands after all layers.
int order_of(Checkpoint checkpoint, int layer) {
  const int within = static_cast<int>(checkpoint);
  if (checkpoint == Checkpoint::kEmbedding) return 0;
  if (checkpoint >= Checkpoint::kFinalNorm)
    return std::numeric_limits<int>::max() - kCheckpoints + within;
  return layer * kCheckpoints + within;
}

// The first wrong thing is outside the network.
LaneResult wrong_tokens(FaultPlace::Kind kind) {
  return {.caught = true,
          .place = FaultPlace{.kind = kind}.name(),
          .ratio = kInfinity,
          .worst_ratio = kInfinity};
}

// What a sampler may choose, by the golden. Throws Error where that has an id that the model does
// not have.
std::vector<bool> choosable(const GoldenCase& golden, int64_t n_vocab) {
  std::vector<bool> result(static_cast<size_t>(n_vocab), true);
  for (const int32_t id : golden.padding_ids) {
    if (id < 0 || id >= n_vocab) {
      throw Error(fmt::format("'padding_ids' has {}, the vocabulary of {} has {} tokens", id,
                              golden.model_path, n_vocab),
                  golden.manifest_path, "leave it out, or record the golden again");
    }
    result[static_cast<size_t>(id)] = false;
  }
  return result;
}

// The tokens of both, with what comes after them as the oracle chose it.
bool follows_golden(Mutant& mutant, const GoldenCase& golden, Probe& probe) {
  const auto allowed = choosable(golden, mutant.model().config().n_vocab);
  bool same = true;
  auto logits = mutant.eval(golden.tokens, &probe);
  for (size_t i = 0; i < golden.greedy.size(); ++i) {
    if (i > 0) logits = mutant.eval({&golden.greedy[i - 1], 1}, &probe);
    try {
      same = mutant.sample(logits, allowed) == golden.greedy[i] && same;
    } catch (const Error&) {  // no logit is a number
      same = false;
    }
  }
  return same;
}

// Passes what it sees to several.
class Judges : public Probe {
 public:
  explicit Judges(std::vector<Probe*> judges) : judges_(std::move(judges)) {}
  bool wants(Checkpoint checkpoint, int layer) override {
    return std::any_of(judges_.begin(), judges_.end(),
                       [&](Probe* judge) { return judge->wants(checkpoint, layer); });
  }
  void observe(Checkpoint checkpoint, int layer, int64_t first, int64_t n_tokens, int64_t width,
               const float* values) override {
    for (Probe* judge : judges_) {
      judge->observe(checkpoint, layer, first, n_tokens, width, values);
    }
  }

 private:
  std::vector<Probe*> judges_;
};

LaneResult judge_snapshot(const std::vector<CheckpointHash>& want, SnapshotProbe& probe) {
  const SnapshotProbe::Result got = probe.result();
  for (size_t i = 0; i < want.size(); ++i) {
    const bool same = i < got.checkpoints.size() && got.checkpoints[i] == want[i].checkpoint &&
                      got.values[i].hash == want[i].hash;
    if (same) continue;
    return {
        .caught = true, .place = want[i].checkpoint, .ratio = kInfinity, .worst_ratio = kInfinity};
  }
  return {};
}

}  // namespace

GoldenJudge::GoldenJudge(const GoldenCase& golden, int64_t n_layers, bool op_level)
    : records_(static_cast<size_t>(n_layers * kCheckpoints)) {
  std::map<std::string, std::vector<const GoldenRecord*>> by_name;
  for (const GoldenRecord& record : golden.records) {
    if (record.op_level || !op_level) by_name[record.record.checkpoint].push_back(&record);
  }
  for (int layer = 0; layer < n_layers; ++layer) {
    for (int i = 0; i < kCheckpoints; ++i) {
      const auto checkpoint = static_cast<Checkpoint>(i);
      if (layer > 0 && !is_in_layer(checkpoint)) continue;
      records_of(checkpoint, layer) = by_name[checkpoint_name(checkpoint, layer)];
    }
  }
}

std::vector<const GoldenRecord*>& GoldenJudge::records_of(Checkpoint checkpoint, int layer) {
  const auto row = static_cast<size_t>(is_in_layer(checkpoint) ? layer : 0);
  return records_[row * kCheckpoints + static_cast<size_t>(checkpoint)];
}

bool GoldenJudge::wants(Checkpoint checkpoint, int layer) {
  return !records_of(checkpoint, layer).empty();
}

void GoldenJudge::observe(Checkpoint checkpoint, int layer, int64_t first_token_idx,
                          int64_t n_tokens, int64_t width, const float* values) {
  for (const GoldenRecord* golden : records_of(checkpoint, layer)) {
    const int64_t t = golden->record.token_idx - first_token_idx;
    if (t < 0 || t >= n_tokens) continue;
    const double error =
        golden_error(golden->record, {values + t * width, static_cast<size_t>(width)});
    const double ratio = std::isnan(error) ? kInfinity : error / golden->tolerance;
    result_.worst_ratio = std::max(result_.worst_ratio, ratio);
    if (ratio <= 1.0) continue;
    const Key key{golden->record.token_idx, order_of(checkpoint, layer)};
    if (first_ && std::tie(first_->token_idx, first_->order) <= std::tie(key.token_idx, key.order))
      continue;
    first_ = key;
    result_.caught = true;
    result_.place = golden->record.checkpoint;
    result_.token_idx = key.token_idx;
    result_.ratio = ratio;
  }
}

GoldenLane run_golden_lane(const GoldenCase& golden, const Fault* fault, Kernels& kernels) {
  if (fault != nullptr && fault->edit_vocabulary) {
    const auto tokenizer = make_faulty_tokenizer(*golden.gguf, fault);
    if (tokenizer->encode(golden.prompt_text, true) == golden.tokens) return {};
    const LaneResult wrong = wrong_tokens(FaultPlace::Kind::kPromptTokens);
    return {wrong, wrong, {}};
  }
  const auto n_positions = static_cast<int64_t>(golden.tokens.size() + golden.greedy.size());
  Mutant mutant(golden.gguf, kernels, {.fault = fault, .n_positions = n_positions});
  const int64_t n_layers = mutant.model().config().n_layers;
  GoldenJudge everything(golden, n_layers, false);
  GoldenJudge op_level(golden, n_layers, true);
  SnapshotProbe snapshot(n_layers, SnapshotProbe::Keeps::kHashes);
  Judges judges({&everything, &op_level});
  if (!golden.snapshot.empty()) judges = Judges({&everything, &op_level, &snapshot});
  const bool same_tokens = follows_golden(mutant, golden, judges);
  GoldenLane lane{everything.result(), op_level.result(),
                  judge_snapshot(golden.snapshot, snapshot)};
  // In fast math a near tie may flip, in a sound engine, too.
  for (LaneResult* result : {&lane.everything, &lane.op_level}) {
    if (golden.math == Math::kFast) break;
    if (!same_tokens && !result->caught) {
      *result = wrong_tokens(FaultPlace::Kind::kGeneratedTokens);
    }
  }
  return lane;
}

}  // namespace assay
