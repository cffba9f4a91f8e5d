// Batches and ranks, proven by search: a run of several sequences, logged by one process, against
// the same run divided among ranks in every way, right and with one thing wrong.
//
//   ASSAY_PROOF_CASES=N   how many comparisons (1500)
//   ASSAY_PROOF_SEED=S    where the seeds start (1)
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "assay/compare/compare_logs.h"
#include "assay/log/record_text.h"
#include "assay/log/sketch.h"
#include "base/error.h"
#include "tests/compare/proof/chance.h"
#include "tests/support/temporary_folder.h"

namespace assay::proof {
namespace {

enum class Wrong {
  kNothing,
  kPiece,    // a rank computes something else
  kReplica,  // a rank has another bit than the others
  kNaN,
  kSketch,         // a part states another sketch
  kRecord,         // a rank does not log a part
  kRankFile,       // a rank's log is lost
  kRanksSwapped,   // two ranks take each other's place
  kNoDims,         // parts that do not say that they are
  kToken,          // a rank counts tokens otherwise
  kSequence,       // a sequence is lost
  kTokensSwapped,  // two sequences have each other's tokens in the header
  kPhase,          // a position is logged again with other values
};
constexpr int kWrongs = static_cast<int>(Wrong::kPhase) + 1;

enum class Division { kReplicas, kCut, kPartial };

struct Checkpoint {
  std::string name;
  int64_t width;
  Division division;
};

// One tensor, as (sequence, checkpoint, token).
using Key = std::tuple<size_t, size_t, int64_t>;

struct Scene {
  std::vector<std::vector<int64_t>> tokens;  // of each sequence
  std::vector<Checkpoint> checkpoints;
  std::map<Key, std::vector<float>> values;
  int64_t ranks = 1;
  bool rows = false;   // records of whole sequences
  bool heads = false;  // heads and sketches in the run; the reference has all values
};

Scene make_scene(Chance& chance) {
  Scene scene;
  const int sequences = chance.between(1, 3);
  for (int s = 0; s < sequences; ++s) {
    std::vector<int64_t>& tokens = scene.tokens.emplace_back();
    for (int t = chance.between(2, 4); t > 0; --t) tokens.push_back(100 * s + chance.below(50));
  }
  scene.ranks = chance.between(2, 4);
  const auto division = [&] { return static_cast<Division>(chance.below(3)); };
  scene.checkpoints = {{"embedding", 8, Division::kReplicas},
                       {"layer_0_q", 24, division()},
                       {"layer_0_ffn_act", 36, division()},
                       {"layer_0_output", 12, division()},
                       {"logits", 40, division()}};
  scene.rows = chance.one_in(3);
  scene.heads = !scene.rows && chance.one_in(2);
  for (size_t s = 0; s < scene.tokens.size(); ++s) {
    for (size_t c = 0; c < scene.checkpoints.size(); ++c) {
      for (int64_t t = 0; t < std::ssize(scene.tokens[s]); ++t) {
        std::vector<float>& values = scene.values[{s, c, t}];
        for (int64_t i = 0; i < scene.checkpoints[c].width; ++i) {
          values.push_back(static_cast<float>(chance.normal()));
        }
      }
    }
  }
  return scene;
}

std::string header(const std::vector<std::vector<int64_t>>& tokens,
                   const std::vector<std::string>& names) {
  std::vector<std::string> lists;
  for (const auto& list : tokens) lists.push_back(fmt::format("[{}]", fmt::join(list, ",")));
  return fmt::format("{{\"assay\":1,\"tokens\":[{}],\"sequences\":[\"{}\"]}}\n",
                     fmt::join(lists, ","), fmt::join(names, "\",\""));
}

Record record_of(const Checkpoint& checkpoint, const std::string& sequence, int64_t token,
                 std::vector<float> values) {
  Record record;
  record.checkpoint = checkpoint.name;
  record.sequence = sequence;
  record.token_idx = token;
  record.dtype = "f32";
  record.n = std::ssize(values);
  record.shape = {record.n};
  record.values = std::move(values);
  return record;
}

std::string reference(const Scene& scene) {
  std::vector<std::string> names;
  for (size_t s = 0; s < scene.tokens.size(); ++s) names.push_back(fmt::format("ref{}", s));
  std::string text = header(scene.tokens, names);
  for (const auto& [key, values] : scene.values) {
    const auto& [s, c, t] = key;
    append_record_line(text, record_of(scene.checkpoints[c], names[s], t, values));
  }
  return text;
}

// What the ranks log: a part of each tensor.
class RankedRun {
 public:
  RankedRun(const Scene& scene, Chance& chance) : scene_(scene), chance_(chance) {
    for (const auto& [key, values] : scene.values) divide(key, values);
    for (size_t s = 0; s < scene.tokens.size(); ++s) names_.push_back(fmt::format("{}", s));
    std::rotate(names_.begin(), names_.begin() + chance.below(static_cast<int>(names_.size())),
                names_.end());
    tokens_ = scene.tokens;
  }

  // False where this scene has nothing of the kind.
  bool damage(Wrong wrong) {
    const auto pick = [&](auto&& is_it) -> Part* {
      std::vector<Part*> fitting;
      for (Part& part : parts_) {
        if (is_it(part)) fitting.push_back(&part);
      }
      return fitting.empty() ? nullptr : chance_.pick(fitting);
    };
    const auto divided = [&](const Part& part) { return part.division != Division::kReplicas; };
    const auto any = [](const Part&) { return true; };
    Part* part = nullptr;
    switch (wrong) {
      case Wrong::kNothing:
        return true;
      case Wrong::kPiece:
        part = pick(divided);
        if (part == nullptr) return false;
        for (float& value : part->values) value = -value - 0.5F;
        return true;
      case Wrong::kReplica:
        part = pick([&](const Part& p) { return !divided(p); });
        part->values[0] = std::nextafter(part->values[0], 9.0F);
        return true;
      case Wrong::kNaN:
        part = pick(any);
        part->values[part->values.size() / 2] = std::numeric_limits<float>::quiet_NaN();
        return true;
      case Wrong::kSketch:
        part = pick(any);
        part->other_sketch = true;
        return scene_.heads;
      case Wrong::kRecord:
        part = pick(divided);
        if (part != nullptr) part->left_out = true;
        return part != nullptr && !scene_.rows;
      case Wrong::kRankFile:
        lost_rank_ = chance_.below(static_cast<int>(scene_.ranks));
        return lost_rank_ + 1 < scene_.ranks && std::ranges::any_of(parts_, divided);
      case Wrong::kRanksSwapped:
        swapped_ =
            std::ranges::any_of(parts_, [](const Part& p) { return p.division == Division::kCut; });
        return swapped_;
      case Wrong::kNoDims:
        no_dims_ = std::ranges::any_of(parts_, divided);
        return no_dims_;
      case Wrong::kToken:
        part = pick(divided);
        if (part != nullptr) part->token += 1;
        return part != nullptr && !scene_.rows;
      case Wrong::kSequence:
        lost_sequence_ = chance_.below(static_cast<int>(names_.size()));
        return names_.size() > 1;
      case Wrong::kTokensSwapped:
        if (names_.size() < 2 || tokens_[0].size() != tokens_[1].size()) return false;
        std::swap(tokens_[0], tokens_[1]);
        return true;
      case Wrong::kPhase:
        again_ = true;
        return !scene_.rows;
    }
    return false;
  }

  // The log of each rank.
  std::vector<std::string> files() const {
    std::vector<std::string> texts(static_cast<size_t>(scene_.ranks));
    for (int64_t rank = 0; rank < scene_.ranks; ++rank) {
      std::string& text = texts[static_cast<size_t>(rank)];
      if (rank != lost_rank_) text = header(tokens_, names_) + records(rank);
    }
    if (again_) {
      Part part = parts_.front();
      part.values[0] += 1;
      append_record_line(texts.front(), record(part, part.rank));
    }
    std::erase(texts, "");
    return texts;
  }

 private:
  struct Part {
    Key key;
    int64_t token;
    int64_t rank;
    Division division;
    std::vector<float> values;
    bool other_sketch = false;
    bool left_out = false;
  };

  void divide(const Key& key, const std::vector<float>& values) {
    const Division division = scene_.checkpoints[std::get<1>(key)].division;
    std::vector<std::vector<float>> of_rank(static_cast<size_t>(scene_.ranks));
    if (division == Division::kReplicas) std::ranges::fill(of_rank, values);
    if (division == Division::kCut) {
      for (size_t i = 0; i < values.size(); ++i) {
        // Uneven: the last rank has what is left.
        const size_t width = values.size() / of_rank.size();
        of_rank[std::min(i / width, of_rank.size() - 1)].push_back(values[i]);
      }
    }
    if (division == Division::kPartial) {
      of_rank.front() = values;
      for (size_t rank = 1; rank < of_rank.size(); ++rank) {
        for (float& value : of_rank.front()) {
          of_rank[rank].push_back(static_cast<float>(chance_.normal()));
          value -= of_rank[rank].back();
        }
      }
    }
    for (int64_t rank = 0; rank < scene_.ranks; ++rank) {
      parts_.push_back(
          {key, std::get<2>(key), rank, division, std::move(of_rank[static_cast<size_t>(rank)])});
    }
  }

  std::string dims(Division division) const {
    const std::string tokens = scene_.rows ? "t " : "";
    if (no_dims_) return tokens + "h";
    return division == Division::kCut       ? tokens + "h[tp]"
           : division == Division::kPartial ? "+[tp] " + tokens + "h"
                                            : tokens + "h";
  }

  Record record(const Part& part, int64_t rank) const {
    const auto& [s, c, t] = part.key;
    Record made = record_of(scene_.checkpoints[c], names_[s], part.token, part.values);
    made.rank = Rank{.tp = rank};
    if (swapped_ && rank < 2) made.rank->tp = 1 - rank;
    made.dims = dims(part.division);
    if (!scene_.heads) return made;
    made.summary = summarize(made.values);
    made.sketch = compute_sketch(made.values);
    if (part.other_sketch) {
      for (double& sum : *made.sketch) sum = 3 * sum + 5;
    }
    made.values.resize(std::min<size_t>(made.values.size(), 4));
    return made;
  }

  std::string records(int64_t rank) const {
    std::string text;
    std::map<std::pair<size_t, size_t>, Record> rows;
    for (const Part& part : parts_) {
      const auto& [s, c, t] = part.key;
      if (part.rank != rank || part.left_out || static_cast<int64_t>(s) == lost_sequence_) continue;
      Record made = record(part, rank);
      if (!scene_.rows) {
        append_record_line(text, made);
        continue;
      }
      const int64_t width = made.n;
      const auto [place, first] = rows.try_emplace({s, c}, made);
      Record& all = place->second;
      if (!first) all.values.insert(all.values.end(), made.values.begin(), made.values.end());
      all.n = std::ssize(all.values);
      all.shape = {width == 0 ? 0 : all.n / width, width};
    }
    for (const auto& [place, all] : rows) append_record_line(text, all);
    return text;
  }

  const Scene& scene_;
  Chance& chance_;
  std::vector<Part> parts_;
  std::vector<std::string> names_;
  std::vector<std::vector<int64_t>> tokens_;
  int64_t lost_rank_ = -1;
  int64_t lost_sequence_ = -1;
  bool swapped_ = false;
  bool no_dims_ = false;
  bool again_ = false;
};

class RanksProof : public TemporaryFolder {};

// Breaks if a right run of any form failed, or a wrong one of any kind passed.
TEST_F(RanksProof, OnlyRightRunsPass) {
  const auto number = [](const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::atoi(text);
  };
  const int cases = number("ASSAY_PROOF_CASES", 1500);
  const int seed = number("ASSAY_PROOF_SEED", 1);
  std::map<int, int> tried;
  for (int i = 0; i < cases; ++i) {
    Chance chance(static_cast<uint64_t>(seed + i));
    const Scene scene = make_scene(chance);
    RankedRun run(scene, chance);
    const auto wrong = static_cast<Wrong>(i % (2 * kWrongs) < kWrongs ? i % kWrongs : 0);
    if (!run.damage(wrong)) continue;
    ++tried[static_cast<int>(wrong)];
    std::filesystem::remove_all(path("run"));
    std::filesystem::create_directories(path("run"));
    const std::vector<std::string> files = run.files();
    for (size_t f = 0; f < files.size(); ++f) put(fmt::format("run/{}.jsonl", f), files[f]);
    const std::string ref = put("ref.jsonl", reference(scene));
    CompareOptions options;
    options.n_threads = 1;
    bool pass = false;
    std::string text;
    try {
      const Comparison comparison = compare_logs(ref, path("run"), options);
      pass = comparison.pass;
      text = std::string(verdict_name(comparison.verdict));
      if (comparison.first_divergence) {
        text += " at " + comparison.first_divergence->checkpoint.title();
      }
      if (pass) {
        EXPECT_EQ(comparison.evidence.whole, std::ssize(scene.values)) << seed + i;
      }
    } catch (const Error& error) {
      text = error.what();
    }
    ASSERT_EQ(pass, wrong == Wrong::kNothing)
        << "case " << seed + i << ", kind " << static_cast<int>(wrong) << ": " << text;
  }
  for (int kind = 0; kind < kWrongs; ++kind) EXPECT_GT(tried[kind], cases / 200) << kind;
}

}  // namespace
}  // namespace assay::proof
