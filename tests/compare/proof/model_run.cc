#include "tests/compare/proof/model_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::proof {
namespace {

uint64_t hash(const std::string& text) {
  uint64_t state = text.size();
  for (const char c : text) state = mix(state, static_cast<unsigned char>(c));
  return state;
}

// Whether a checkpoint's name is layer_N_ and `op`.
bool ends_with(const std::string& name, const char* op) {
  const size_t at = name.find('_', 6);
  return name.starts_with("layer_") && at != std::string::npos && name.substr(at + 1) == op;
}

int size_of(const Network& network, const std::string& name) {
  if (name == "logits") return network.vocabulary;
  for (const char* op : {"k", "v", "k_rope"}) {
    if (ends_with(name, op)) return network.kv_dim;
  }
  for (const char* op : {"ffn_gate", "ffn_up", "ffn_act"}) {
    if (ends_with(name, op)) return network.ffn;
  }
  return network.hidden;
}

double scale_of(const Network& network, const std::string& name) {
  Chance chance(mix(network.seed, hash(name)));
  if (name == "logits") return chance.uniform(1, 6);
  return std::pow(10.0, chance.uniform(-network.spread, network.spread));
}

bool is_residual(const std::string& name) {
  return ends_with(name, "output") || ends_with(name, "attn_residual");
}

std::vector<float> draw(const Network& network, const std::string& name, uint64_t prefix) {
  Chance common(mix(mix(network.seed, hash(name)), 1));
  Chance own(mix(mix(network.seed, hash(name)), mix(prefix, 2)));
  const double scale = scale_of(network, name);
  const double own_share = std::sqrt(1 - network.shared * network.shared);
  std::vector<float> values(static_cast<size_t>(size_of(network, name)));
  for (float& value : values) {
    value =
        static_cast<float>(scale * (network.shared * common.normal() + own_share * own.normal()));
  }
  if (network.zero_one_in > 0 && name != "logits") {
    for (size_t i = 1; i < values.size(); ++i) {
      if (own.one_in(network.zero_one_in)) values[i] = 0;
    }
  }
  // The first is what the shortest heads hold: not by chance next to nothing.
  if (!(std::abs(values[0]) >= 0.3 * scale)) values[0] = static_cast<float>(scale);
  if (network.massive >= 0 && is_residual(name)) {
    values[static_cast<size_t>(network.massive)] =
        static_cast<float>(scale * network.massiveness * (1 + 0.01 * own.normal()));
  }
  return values;
}

// Leaves the largest well above all others, and the padding as it is.
void settle_choice(const Network& network, std::vector<float>& logits) {
  const auto real = static_cast<ptrdiff_t>(network.vocabulary - network.padding);
  const auto largest = std::max_element(logits.begin(), logits.begin() + real);
  *largest += static_cast<float>(0.7 * rms(logits, real));
  std::fill(logits.begin() + real, logits.end(), network.pad_value);
}

// Puts a second token `gap` below the first, or above it.
void make_tie(const Network& network, const Tie& tie, std::vector<float>& logits) {
  const int64_t real = network.vocabulary - network.padding;
  const auto first = static_cast<size_t>(argmax(logits));
  const auto second = (first + static_cast<size_t>(real) / 2) % static_cast<size_t>(real);
  const auto step = static_cast<float>(tie.gap * rms(logits, real));
  logits[second] = logits[first] - step;
  if (!tie.second) return;
  logits[second] = logits[first] + step;
  logits[first] -= 2 * step;
}

}  // namespace

Network make_network(Chance& chance) {
  Network network;
  network.seed = chance.next();
  network.n_layers = chance.between(1, 4);
  network.hidden = 8 * chance.between(2, 12);
  network.kv_dim = 8 * chance.between(1, network.hidden / 8);
  network.ffn = 8 * chance.between(3, 14);
  network.vocabulary = chance.between(40, chance.one_in(3) ? 300 : 120);
  network.shared = chance.one_in(3) ? 0 : 0.1 * chance.below(7);
  network.spread = chance.one_in(3) ? 0 : 0.5 * chance.between(1, 3);
  if (chance.one_in(4)) network.zero_one_in = chance.between(2, 12);
  if (chance.one_in(4)) {
    network.massive = chance.below(network.hidden);
    network.massiveness = chance.pick(std::vector<double>{30, 300, 5000});
  }
  return network;
}

std::vector<std::string> checkpoint_names(const Network& network) {
  std::vector<std::string> names = {"embedding"};
  for (int layer = 0; layer < network.n_layers; ++layer) {
    for (const char* op :
         {"attn_norm", "q", "k", "v", "q_rope", "k_rope", "attn", "attn_out", "attn_residual",
          "ffn_norm", "ffn_gate", "ffn_up", "ffn_act", "ffn_out", "output"}) {
      names.push_back("layer_" + std::to_string(layer) + "_" + op);
    }
  }
  names.insert(names.end(), {"final_norm", "logits"});
  return names;
}

Tensor* Run::find(const std::string& checkpoint, int64_t token) {
  for (Tensor& tensor : tensors) {
    if (tensor.token == token && tensor.checkpoint == checkpoint) return &tensor;
  }
  return nullptr;
}

const Tensor* Run::find(const std::string& checkpoint, int64_t token) const {
  return const_cast<Run*>(this)->find(checkpoint, token);
}

Run evaluate(const Network& network, const std::vector<std::string>& names,
             std::vector<int64_t> prompt, int64_t total, const std::optional<Tie>& tie) {
  Run run;
  run.n_prompt = static_cast<int64_t>(prompt.size());
  run.tokens = std::move(prompt);
  uint64_t prefix = 0;
  for (int64_t token = 0; token < total; ++token) {
    const int64_t id = run.tokens[static_cast<size_t>(token)];
    prefix = mix(prefix, static_cast<uint64_t>(id));
    std::vector<float> logits = draw(network, "logits", prefix);
    settle_choice(network, logits);
    if (tie && tie->token == token) make_tie(network, *tie, logits);
    for (const std::string& name : names) {
      if (name == "logits") {
        run.tensors.push_back({name, token, logits, {}});
      } else {
        const uint64_t from = name == "embedding" ? static_cast<uint64_t>(id) : prefix;
        run.tensors.push_back({name, token, draw(network, name, from), {}});
      }
    }
    if (token + 1 == run.n_tokens() && token + 1 < total) run.tokens.push_back(argmax(logits));
  }
  run.tokens.resize(static_cast<size_t>(total));
  run.n_prompt = std::min(run.n_prompt, total);
  return run;
}

int64_t active_elements(const Network& network, const Tensor& tensor) {
  const auto n = static_cast<int64_t>(tensor.values.size());
  const int64_t real = network.vocabulary - network.padding;
  return tensor.checkpoint == "logits" ? std::min(n, real) : n;
}

double rms(const std::vector<float>& values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = values[static_cast<size_t>(i)];
    sum += value * value;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

int64_t argmax(const std::vector<float>& values) {
  int64_t best = -1;
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > largest) {
      largest = values[i];
      best = static_cast<int64_t>(i);
    }
  }
  return best;
}

}  // namespace assay::proof
