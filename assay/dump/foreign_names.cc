#include "assay/dump/foreign_names.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <span>

namespace assay {
namespace {

using enum Checkpoint;

struct Known {
  std::string_view bare;
  ForeignTarget target;
};

// Bare names within a layer. Left out is what has two meanings: "attn" (before the output's product
// or after it), "mlp.act_fn" (before it is multiplied by up, or after), norms of TransformerLens
// (with their weights or without).
constexpr Known kInLayer[] = {
    // Assay's own names need no row; GGUF's, and llama.cpp's.
    {"attnoutput", {kAttnOut}},
    {"ffndown", {kFfnOut}},
    {"attnq", {kQ}},
    {"attnk", {kK}},
    {"attnv", {kV}},
    {"attnqkv", {kQ, "q"}},
    {"attnqkv", {kK, "k"}},
    {"attnqkv", {kV, "v"}},
    {"attnqnorm", {kQNorm}},
    {"attnknorm", {kKNorm}},
    {"ffngateinp", {kRouter}},
    {"lout", {kOutput}},
    // Modules of transformers, vLLM and MLX, where nothing is said of the kind of model.
    {"inputlayernorm", {kAttnNorm}},
    {"selfattnqproj", {kQ, "", true}},
    {"selfattnkproj", {kK, "", true}},
    {"selfattnvproj", {kV}},
    {"selfattnqkvproj", {kQ, "q", true}},
    {"selfattnqkvproj", {kK, "k", true}},
    {"selfattnqkvproj", {kV, "v"}},
    {"selfattnoproj", {kAttnOut}},
    {"selfattnqnorm", {kQNorm}},
    {"selfattnknorm", {kKNorm}},
    {"selfattn", {kAttnOut}},
    {"mlpgateproj", {kFfnGate}},
    {"mlpupproj", {kFfnUp}},
    {"mlpgateupproj", {kFfnGate, "1/2"}},
    {"mlpgateupproj", {kFfnUp, "2/2"}},
    {"mlpdownproj", {kFfnOut}},
    {"mlp", {kFfnOut}},
    // The same without what they stand in.
    {"qproj", {kQ, "", true}},
    {"kproj", {kK, "", true}},
    {"vproj", {kV}},
    {"oproj", {kAttnOut}},
    {"attnqproj", {kQ, "", true}},
    {"attnkproj", {kK, "", true}},
    {"attnvproj", {kV}},
    {"attnoproj", {kAttnOut}},
    {"gateproj", {kFfnGate}},
    {"upproj", {kFfnUp}},
    {"downproj", {kFfnOut}},
    // Meta's, as tinygrad, candle, burn and older MLX have them: rows of Q and K are in pairs.
    {"attentionnorm", {kAttnNorm}},
    {"attentionwq", {kQ}},
    {"attentionwk", {kK}},
    {"attentionwv", {kV}},
    {"attentionwo", {kAttnOut}},
    {"attention", {kAttnOut}},
    {"feedforwardw1", {kFfnGate}},
    {"feedforwardw3", {kFfnUp}},
    {"feedforwardw2", {kFfnOut}},
    {"feedforwardswiglulinearinner", {kFfnGate}},
    {"feedforwardswiglulinearouter", {kFfnUp}},
    {"feedforward", {kFfnOut}},
    {"wq", {kQ}},
    {"wk", {kK}},
    {"wv", {kV}},
    {"wo", {kAttnOut}},
    {"w1", {kFfnGate}},
    {"w3", {kFfnUp}},
    {"w2", {kFfnOut}},
    // TransformerLens.
    {"hookresidpost", {kOutput}},
    {"hookresidmid", {kAttnResidual}},
    {"hookattnout", {kAttnOut}},
    {"hookmlpout", {kFfnOut}},
    {"attnhookq", {kQ, "", true}},
    {"attnhookk", {kK, "", true}},
    {"attnhookv", {kV}},
    {"mlphookpost", {kFfnAct}},
    // Plain words.
    {"residpost", {kOutput}},
    {"residmid", {kAttnResidual}},
    {"mlpout", {kFfnOut}},
    {"mlpnorm", {kFfnNorm}},
    {"ln1", {kAttnNorm}},
    {"ln2", {kFfnNorm}},
    {"norm1", {kAttnNorm}},
    {"norm2", {kFfnNorm}},
};

// Ends of bare names outside of the layers.
constexpr Known kOutside[] = {
    {"embedtokens", {kEmbedding}},
    {"tokembeddings", {kEmbedding}},
    {"tokembedding", {kEmbedding}},
    {"tokenembd", {kEmbedding}},
    {"tokenembedding", {kEmbedding}},
    {"tokenembeddings", {kEmbedding}},
    {"wordembeddings", {kEmbedding}},
    {"wte", {kEmbedding}},
    {"embeddings", {kEmbedding}},
    {"embed", {kEmbedding}},
    {"hookembed", {kEmbedding}},
    {"norm", {kFinalNorm}},
    {"outputnorm", {kFinalNorm}},
    {"lnf", {kFinalNorm}},
    {"normf", {kFinalNorm}},
    {"lnfinal", {kFinalNorm}},
    {"finallayernorm", {kFinalNorm}},
    {"lmhead", {kLogits}},
    {"head", {kLogits}},
    {"output", {kLogits}},
    {"unembed", {kLogits}},
    {"embedout", {kLogits}},
    {"resultoutput", {kLogits}},
};

constexpr std::string_view kLayerWords[] = {"layer",  "layers", "blk", "blks",        "block",
                                            "blocks", "h",      "l",   "decoderlayer"};
// What stands before the modules outside of the layers, and says nothing.
constexpr std::string_view kRoots[] = {"model", "transformer", "decoder", "languagemodel", "llm"};
// What a hook adds for what its module returns.
constexpr std::string_view kResults[] = {"output", "out",           "forward",
                                         "result", "hidden_states", "0"};

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}
char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

// The last part of a path, where there are several.
size_t last_part(std::string_view name) {
  return name.find_last_of("./:");
}

std::string letters_and_digits(std::string_view name) {
  std::string bare;
  for (const char c : name) {
    if (is_digit(c) || is_letter(c)) bare += lower(c);
  }
  return bare;
}

// Assay's own name, written with any separators.
std::optional<Checkpoint> own(std::string_view bare, bool in_layer) {
  for (int i = 0; i < kCheckpoints; ++i) {
    const auto each = static_cast<Checkpoint>(i);
    if (is_in_layer(each) == in_layer && letters_and_digits(checkpoint_op(each)) == bare) {
      // It has two meanings elsewhere.
      return each == kAttn ? std::nullopt : std::optional(each);
    }
  }
  return std::nullopt;
}

std::vector<ForeignTarget> targets_of(std::string_view bare, std::span<const Known> known,
                                      bool in_layer) {
  if (const auto checkpoint = own(bare, in_layer)) return {{*checkpoint}};
  std::vector<ForeignTarget> targets;
  for (const Known& each : known) {
    if (each.bare == bare) targets.push_back(each.target);
  }
  return targets;
}

}  // namespace

std::string bare_name(std::string_view name) {
  for (size_t at = last_part(name); at != std::string_view::npos; at = last_part(name)) {
    const bool is_result = std::ranges::find(kResults, name.substr(at + 1)) != std::end(kResults);
    if (!is_result) break;
    name = name.substr(0, at);
  }
  return letters_and_digits(name);
}

std::optional<LayerDigits> find_layer_digits(std::string_view name) {
  for (size_t begin = 0; begin < name.size(); ++begin) {
    if (!is_digit(name[begin])) continue;
    size_t end = begin;
    while (end < name.size() && is_digit(name[end])) ++end;
    // The word before the number, with a separator between or without.
    size_t word = begin;
    if (word > 0 && !is_letter(name[word - 1]) && !is_digit(name[word - 1])) --word;
    size_t first = word;
    while (first > 0 && (is_letter(name[first - 1]) || name[first - 1] == '_')) --first;
    const std::string_view before = name.substr(first, word - first);
    const size_t underscore = before.rfind('_');
    const std::string whole = letters_and_digits(before);
    const std::string last = letters_and_digits(
        underscore == std::string_view::npos ? before : before.substr(underscore + 1));
    const bool is_layer = std::ranges::find(kLayerWords, whole) != std::end(kLayerWords) ||
                          std::ranges::find(kLayerWords, last) != std::end(kLayerWords);
    if (is_layer && (end == name.size() || !is_letter(name[end]))) return LayerDigits{begin, end};
    begin = end;
  }
  return std::nullopt;
}

std::vector<ForeignTarget> foreign_targets_in_layer(std::string_view module) {
  const std::string bare = bare_name(module);
  if (bare.empty()) return {{kOutput}};
  return targets_of(bare, kInLayer, true);
}

std::vector<ForeignTarget> foreign_targets_outside(std::string_view name) {
  std::string bare = letters_and_digits(name);
  for (bool cut = true; cut;) {
    if (auto targets = targets_of(bare, kOutside, false); !targets.empty()) return targets;
    cut = false;
    for (const std::string_view root : kRoots) {
      if (!bare.starts_with(root)) continue;
      bare.erase(0, root.size());
      cut = true;
      break;
    }
  }
  return {};
}

}  // namespace assay
