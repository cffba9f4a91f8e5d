// Flips of experts, proven by search: runs of a network whose every value depends on the experts
// that computed it, an honest engine beside its reference, and one with a fault.
//
//   ASSAY_PROOF_CASES=N   how many comparisons (20000)
//   ASSAY_PROOF_SEED=S    where the seeds start (1)
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/compare/proof/chance.h"
#include "tests/compare/proof/model_run.h"
#include "tests/compare/proof/proof_case.h"
#include "tests/compare/proof/setting.h"
#include "tests/fuzz/memory_file.h"

namespace assay::proof {
namespace {

// A layer's place and what it computes there. Two runs hold the same tensor, but for noise, where
// the keys are the same: the key is all that it is computed from.
struct Entry {
  std::string checkpoint;
  int64_t token;
  uint64_t key;
  std::vector<float> values;
};

struct MixtureShape {
  uint64_t seed;
  int layers;
  int tokens;
  int experts;
  int used;
};

uint64_t hash_of(const std::vector<int>& ids) {
  uint64_t state = ids.size();
  for (const int id : ids) state = mix(state, static_cast<uint64_t>(id));
  return state;
}

std::vector<float> drawn(uint64_t key, int count) {
  Chance chance(key);
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(chance.normal()));
  return values;
}

// The experts with the greatest logits, the greatest first.
std::vector<int> greatest(const std::vector<float>& logits, int count) {
  std::vector<int> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, std::greater<>(),
                           [&](int id) { return logits[static_cast<size_t>(id)]; });
  ids.resize(static_cast<size_t>(count));
  return ids;
}

using Place = std::pair<int, int>;  // layer, token

// What is special of a run at some places.
struct Twist {
  std::map<Place, double> ties;  // the last expert used and the first unused one, or the first two:
                                 // the gap between their logits
  bool in_order = false;         // the ties are of the first two
  bool swap = false;             // the other one of a tie is the greater
  bool by_id = false;            // experts are listed by ascending ids
  std::map<Place, std::vector<int>> forced;  // experts whatever the logits say
};

class Mixture {
 public:
  Mixture(const MixtureShape& shape, const Twist& twist, double noise, Chance& chance)
      : shape_(shape), twist_(twist), noise_(noise), chance_(chance) {}

  std::vector<Entry> run() {
    std::vector<uint64_t> streams;
    for (int t = 0; t < shape_.tokens; ++t) {
      streams.push_back(mix(shape_.seed, static_cast<uint64_t>(t)));
      add("embedding", t, streams.back(), drawn(streams.back(), 8));
    }
    for (int layer = 0; layer < shape_.layers; ++layer) {
      uint64_t context = mix(shape_.seed, static_cast<uint64_t>(layer) + 100);
      for (int t = 0; t < shape_.tokens; ++t) {
        uint64_t& stream = streams[static_cast<size_t>(t)];
        const std::string prefix = fmt::format("layer_{}_", layer);
        add(prefix + "attn_norm", t, mix(stream, 1), drawn(mix(stream, 1), 8));
        add(prefix + "k", t, mix(stream, 2), drawn(mix(stream, 2), 8));
        context = mix(context, stream);
        add(prefix + "attn", t, context, drawn(mix(context, 3), 8));
        stream = route({layer, t}, context);
        add(prefix + "output", t, stream, drawn(mix(stream, 4), 8));
      }
    }
    for (int t = 0; t < shape_.tokens; ++t) {
      const uint64_t stream = streams[static_cast<size_t>(t)];
      std::vector<float> logits = drawn(mix(stream, 5), 16);
      *std::ranges::max_element(logits) += 1;  // no tie of theirs
      add("logits", t, stream, std::move(logits));
    }
    std::ranges::stable_sort(entries_, {}, &Entry::token);
    return std::move(entries_);
  }

 private:
  uint64_t route(Place place, uint64_t context) {
    const std::string prefix = fmt::format("layer_{}_", place.first);
    std::vector<float> router = drawn(mix(context, 6), shape_.experts);
    make_tie(place, router);
    const std::vector<float>& logits =
        add(prefix + "router", place.second, context, std::move(router));
    std::vector<int> ids = greatest(logits, shape_.used);
    if (twist_.forced.contains(place)) ids = twist_.forced.at(place);
    if (twist_.by_id) std::ranges::sort(ids);
    std::vector<float> weights;
    for (const int id : ids) {
      weights.push_back(std::exp(logits[static_cast<size_t>(id)]));
    }
    const float sum = std::accumulate(weights.begin(), weights.end(), 0.0F);
    for (float& weight : weights) weight /= sum;
    std::vector<float> outs;
    for (const int id : ids) {
      const std::vector<float> out = drawn(mix(mix(context, 7), static_cast<uint64_t>(id)), 6);
      outs.insert(outs.end(), out.begin(), out.end());
    }
    std::vector<int> sorted = ids;
    std::ranges::sort(sorted);
    const uint64_t used = mix(context, hash_of(sorted));
    entries_.push_back({prefix + "experts", place.second, mix(context, hash_of(ids)),
                        std::vector<float>(ids.begin(), ids.end())});
    add(prefix + "expert_weights", place.second, mix(used, 8), weights);
    add(prefix + "expert_out", place.second, mix(used, 9), outs);
    add(prefix + "shared_out", place.second, context, drawn(mix(context, 10), 8));
    return used;
  }

  void make_tie(Place place, std::vector<float>& router) const {
    const auto tie = twist_.ties.find(place);
    if (tie == twist_.ties.end()) return;
    const std::vector<int> order = greatest(router, shape_.experts);
    const auto at = static_cast<size_t>(twist_.in_order ? 0 : shape_.used - 1);
    float& first = router[static_cast<size_t>(order[at])];
    float& second = router[static_cast<size_t>(order[at + 1])];
    second = first - static_cast<float>(tie->second);
    if (twist_.swap) std::swap(first, second);
  }

  // The tensor as it is logged: with noise of the engine's.
  const std::vector<float>& add(const std::string& checkpoint, int64_t token, uint64_t key,
                                std::vector<float> values) {
    for (float& value : values) {
      value *= static_cast<float>(1 + noise_ * (2 * chance_.uniform() - 1));
    }
    entries_.push_back({checkpoint, token, key, std::move(values)});
    return entries_.back().values;
  }

  const MixtureShape& shape_;
  const Twist& twist_;
  double noise_;
  Chance& chance_;
  std::vector<Entry> entries_;
};

std::string text_of(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& entry : entries) {
    std::vector<std::string> values;
    for (const float value : entry.values) {
      values.push_back(std::isnan(value) ? "\"NaN\"" : fmt::format("{}", value));
    }
    text += fmt::format(
        R"({{"checkpoint":"{}","token_idx":{},"dtype":"f32","shape":[1,{}],"values":[{}]}})"
        "\n",
        entry.checkpoint, entry.token, values.size(), fmt::join(values, ","));
  }
  return text;
}

// Two logs and what their comparison must come to.
class Case {
 public:
  explicit Case(uint64_t seed) : chance_(seed) {
    shape_ = {chance_.next(), chance_.between(1, 3), chance_.between(1, 4), chance_.between(4, 12),
              0};
    shape_.used = chance_.between(2, shape_.experts - 2);
    noise_ = std::pow(10.0, chance_.uniform(-7, -3));
    twist_.in_order = chance_.one_in(4);
    const int ties = chance_.below(3);
    for (int i = 0; i < ties; ++i) twist_.ties[place()] = noise_ * chance_.uniform(0, 0.01);
    ref_ = Mixture(shape_, twist_, 0, chance_).run();
    twist_.swap = chance_.below(4) > 0;
    twist_.by_id = chance_.one_in(6);
  }

  // An honest engine.
  void right() { got_ = Mixture(shape_, twist_, noise_, chance_).run(); }

  // Names of the ways in which an engine is wrong.
  static constexpr const char* kFaults[] = {
      "other_expert", "other_expert_forged", "id_alone",      "without_router", "wrong_value",
      "nan",          "ids_out_of_range",    "nan_in_router", "order_alone"};

  // False where this run cannot have that fault.
  bool wrong(std::string_view fault) {
    if (fault == "other_expert" || fault == "other_expert_forged") {
      if (!force_wide_margin()) return false;
    }
    right();
    if (!twist_.forced.empty() && !is_reached_alike()) return false;
    if (fault == "other_expert") return true;
    if (fault == "other_expert_forged") return forge_router();
    if (fault == "id_alone") return change_id(false);
    if (fault == "ids_out_of_range") return change_id(true);
    if (fault == "without_router") return remove_router_of_a_flip();
    if (fault == "wrong_value") return scale_unaffected();
    if (fault == "order_alone") return reverse_ids();
    Entry& entry = pick(got_, fault == "nan_in_router" ? "_router" : "");
    entry.values[static_cast<size_t>(chance_.below(static_cast<int>(entry.values.size())))] =
        std::numeric_limits<float>::quiet_NaN();
    return true;
  }

  // Its header says that all tokens are the prompt's: after other logits nothing is generated.
  std::string ref() const {
    std::vector<int> tokens(static_cast<size_t>(shape_.tokens));
    std::iota(tokens.begin(), tokens.end(), 0);
    return fmt::format("{{\"assay\":1,\"tokens\":[{}]}}\n", fmt::join(tokens, ",")) + text_of(ref_);
  }
  std::string got() const { return text_of(got_); }
  bool has_flip() const { return !flips().empty(); }

 private:
  Place place() { return {chance_.below(shape_.layers), chance_.below(shape_.tokens)}; }

  static Entry* find(std::vector<Entry>& entries, const std::string& checkpoint, int64_t token) {
    const auto found = std::ranges::find_if(entries, [&](const Entry& entry) {
      return entry.checkpoint == checkpoint && entry.token == token;
    });
    return found == entries.end() ? nullptr : &*found;
  }

  Entry& pick(std::vector<Entry>& entries, const std::string& end) {
    std::vector<Entry*> fitting;
    for (Entry& entry : entries) {
      if (entry.checkpoint.ends_with(end)) fitting.push_back(&entry);
    }
    return *chance_.pick(fitting);
  }

  // Chooses an expert that the reference's logits put far below, where no earlier flip reaches.
  bool force_wide_margin() {
    const Place at = place();
    twist_.swap = false;
    const std::vector<float>& router =
        find(ref_, fmt::format("layer_{}_router", at.first), at.second)->values;
    std::vector<int> ids = greatest(router, shape_.used);
    const std::vector<int> all = greatest(router, shape_.experts);
    const int last = all.back();
    const double margin =
        router[static_cast<size_t>(ids.back())] - router[static_cast<size_t>(last)];
    if (!(margin > 0.2)) return false;
    ids.back() = last;
    forced_ = {at, last};
    twist_.forced[at] = ids;
    return true;
  }

  // Whether no honest flip leads to the place of the forced one.
  bool is_reached_alike() {
    const std::string router = fmt::format("layer_{}_router", forced_.first.first);
    const int64_t token = forced_.first.second;
    return find(ref_, router, token)->key == find(got_, router, token)->key;
  }

  // The engine's router agrees with its choice.
  bool forge_router() {
    const auto [at, expert] = forced_;
    std::vector<float>& router =
        find(got_, fmt::format("layer_{}_router", at.first), at.second)->values;
    const std::vector<int> all = greatest(router, shape_.experts);
    router[static_cast<size_t>(expert)] = router[static_cast<size_t>(all.front())] + 0.01F;
    return true;
  }

  // The log names another expert than the one that computed.
  bool change_id(bool out_of_range) {
    Entry& entry = pick(got_, "_experts");
    const auto at = static_cast<size_t>(chance_.below(shape_.used));
    const std::string layer = entry.checkpoint.substr(0, entry.checkpoint.size() - 7);
    const std::vector<float>& router = find(got_, layer + "router", entry.token)->values;
    const int last = greatest(router, shape_.experts).back();
    const double below = entry.values[at] - static_cast<float>(last);
    if (!out_of_range && below == 0) return false;
    const double margin = router[static_cast<size_t>(entry.values[at])] -
                          static_cast<double>(router[static_cast<size_t>(last)]);
    if (!out_of_range && !(margin > 0.2)) return false;
    if (std::ranges::find(entry.values, static_cast<float>(last)) != entry.values.end()) {
      return false;
    }
    const float beyond[] = {static_cast<float>(shape_.experts), -1, 0.5F,
                            entry.values[(at + 1) % entry.values.size()]};
    entry.values[at] = out_of_range ? beyond[chance_.below(4)] : static_cast<float>(last);
    const Entry* other = find(ref_, entry.checkpoint, entry.token);
    return other->values != entry.values;
  }

  // Entries of experts whose sets differ though all that led to them is the same.
  std::vector<const Entry*> flips() const {
    std::vector<const Entry*> all;
    for (size_t i = 0; i < ref_.size(); ++i) {
      if (!ref_[i].checkpoint.ends_with("_experts") || i >= got_.size()) continue;
      std::vector<float> a = ref_[i].values;
      std::vector<float> b = got_[i].values;
      std::ranges::sort(a);
      std::ranges::sort(b);
      if (a != b && ref_[i - 1].key == got_[i - 1].key) all.push_back(&ref_[i]);
    }
    return all;
  }

  bool remove_router_of_a_flip() {
    const std::vector<const Entry*> all = flips();
    if (all.empty()) return false;
    const Entry* first = all.front();
    const int64_t token = first->token;
    const std::string name = first->checkpoint.substr(0, first->checkpoint.size() - 7) + "router";
    for (std::vector<Entry>* log : {&ref_, &got_}) {
      std::erase_if(*log, [&](const Entry& entry) {
        return entry.checkpoint == name && entry.token == token;
      });
      if (chance_.one_in(2)) break;
    }
    return true;
  }

  // What was computed from the same in both, and is not the same.
  bool scale_unaffected() {
    std::vector<size_t> same;
    for (size_t i = 0; i < ref_.size(); ++i) {
      const bool by_position = !ref_[i].checkpoint.ends_with("_experts");
      if (ref_[i].key == got_[i].key && by_position) same.push_back(i);
    }
    for (float& value : got_[chance_.pick(same)].values) value *= 1.3F;
    return true;
  }

  // The ids in another order, the rest as it is.
  bool reverse_ids() {
    Entry& entry = pick(got_, "_experts");
    const std::string layer = entry.checkpoint.substr(0, entry.checkpoint.size() - 7);
    const std::vector<float>& weights = find(got_, layer + "expert_weights", entry.token)->values;
    const Entry* other = find(ref_, layer + "expert_weights", entry.token);
    if (other->key != find(got_, layer + "expert_weights", entry.token)->key) return false;
    if (!(std::abs(weights.front() - weights.back()) > 0.2F * weights.front())) return false;
    std::swap(entry.values.front(), entry.values.back());
    return true;
  }

  Chance chance_;
  MixtureShape shape_{};
  Twist twist_;
  double noise_ = 0;
  std::vector<Entry> ref_;
  std::vector<Entry> got_;
  std::pair<Place, int> forced_;
};

Answer compare(const Case& made) {
  const auto file = [](const std::string& text) {
    return testing_support::MemoryFile(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  return compare_files(file(made.ref()).path(), file(made.got()).path());
}

uint64_t first_seed() {
  return setting("ASSAY_PROOF_SEED", 1);
}

uint64_t n_cases() {
  return setting("ASSAY_PROOF_CASES", 20000) / 8;
}

// Breaks if an honest engine fails because experts were level, listed by their ids, or because of
// what follows from either.
TEST(ExpertsProofTest, HonestFlipsPass) {
  int flipped = 0;
  int failed = 0;
  for (uint64_t seed = first_seed(); seed < first_seed() + n_cases(); ++seed) {
    Case made(seed);
    made.right();
    flipped += made.has_flip() ? 1 : 0;
    const Answer answer = compare(made);
    if (answer.exit == Answer::Exit::kPass && answer.sound) continue;
    if (++failed <= 3) ADD_FAILURE() << "seed " << seed << ": " << answer.text;
  }
  EXPECT_EQ(failed, 0);
  EXPECT_GT(flipped, static_cast<int>(n_cases() / 10)) << "nothing is proven of flips";
}

// Breaks if a wrong engine passes because experts flip, or may.
TEST(ExpertsProofTest, NoFaultPasses) {
  std::map<std::string, int> made_of;
  int passed = 0;
  for (uint64_t seed = first_seed(); seed < first_seed() + n_cases(); ++seed) {
    const char* fault = Case::kFaults[seed % std::size(Case::kFaults)];
    Case made(seed);
    if (!made.wrong(fault)) continue;
    ++made_of[fault];
    const Answer answer = compare(made);
    if (answer.exit == Answer::Exit::kDiverged && answer.sound) continue;
    if (++passed <= 5) ADD_FAILURE() << fault << ", seed " << seed << ": " << answer.text;
  }
  EXPECT_EQ(passed, 0);
  for (const char* fault : Case::kFaults) {
    EXPECT_GT(made_of[fault], static_cast<int>(n_cases() / 200)) << fault;
  }
}

}  // namespace
}  // namespace assay::proof
