#include "tests/compare/proof/scene.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/compare/proof/sight.h"

namespace assay::proof {
namespace {

constexpr double kMaxHeadError = 4e-3;

bool is_one_of(Variant variant, std::initializer_list<Variant> those) {
  return std::find(those.begin(), those.end(), variant) != those.end();
}

unsigned draw_summary(Chance& chance) {
  switch (chance.below(6)) {
    case 0:
      return kWholeSummary & ~kL2;
    case 1:
      return kWholeSummary & ~kTop;
    case 2:
      return 1U + static_cast<unsigned>(chance.below(kWholeSummary));
    default:
      return kWholeSummary;
  }
}

RecordForm draw_form(Chance& chance) {
  RecordForm form;
  const int kind = chance.below(9);
  const bool has_head = kind < 6;
  const bool all = kind < 2;
  if (!all) {
    const std::vector<int64_t> heads = {1, 2, 4, 8, 10, 10, 20};
    form.head = has_head ? chance.pick(heads) : 0;
  }
  if (kind == 1 || kind == 3 || kind == 5 || kind == 6 || kind == 8) {
    form.summary = draw_summary(chance);
  }
  form.sketch = kind == 4 || kind == 5 || kind == 7 || kind == 8 || (kind == 1 && chance.one_in(2));
  form.n_given = chance.below(4) > 0;
  return form;
}

bool is_all(const RecordForm& form) {
  return form.head == RecordForm::kAll;
}

bool has_head(const RecordForm& form, int64_t most) {
  return is_all(form) || form.head >= most;
}

// Whether two lines state something that can be held together.
bool have_common(const RecordForm& a, const RecordForm& b) {
  const auto both = [&](unsigned key) {
    return (is_all(a) || (a.summary & key) != 0) && (is_all(b) || (b.summary & key) != 0);
  };
  const bool sketches = (is_all(a) || a.sketch) && (is_all(b) || b.sketch);
  return (has_head(a, 1) && has_head(b, 1)) || sketches || both(kL2) || (both(kMin) && both(kMax));
}

bool tells_choice(const RecordForm& form) {
  return is_all(form) || (form.summary & (kArgmax | kTop)) == (kArgmax | kTop);
}

// Whether the two forms let a variant's logs be recognised for what they are.
bool suits(Variant variant, const Network& network, const RecordForm& a, const RecordForm& b,
           bool logits) {
  if (!have_common(a, b)) return false;
  const auto both = [&](auto holds) { return holds(a) && holds(b); };
  const auto heads_of = [&](int64_t count) {
    return both([&](const RecordForm& form) { return has_head(form, count); });
  };
  const bool sketches = both([](const RecordForm& form) { return is_all(form) || form.sketch; });
  if (variant == Variant::kOffsetOne) return heads_of(4) || sketches;
  if (variant == Variant::kHeapWordsInGot || variant == Variant::kHeapWordsInRef) {
    return logits || heads_of(10);
  }
  if (variant == Variant::kWholeSequence || (variant == Variant::kMasked && logits)) {
    return both(is_all);
  }
  if (!logits) return true;
  // Finite padding is most of a sketch and of a summary.
  if (variant == Variant::kPadding && std::isfinite(network.pad_value)) return heads_of(4);
  if (variant == Variant::kPaddedVocabulary) {
    return both(is_all) || (heads_of(4) && !is_all(a) && !is_all(b) && a.summary == 0 &&
                            b.summary == 0 && !a.sketch && !b.sketch);
  }
  if (is_one_of(variant, {Variant::kSplit, Variant::kTieFlip, Variant::kSharedMaximum})) {
    return both(tells_choice);
  }
  if (is_one_of(variant, {Variant::kLogProbabilities, Variant::kTopLogprobs})) return both(is_all);
  return true;
}

void draw_forms(Variant variant, const Network& network, bool logits, Chance& chance,
                RecordForm& ref, RecordForm& got) {
  for (int attempt = 0; attempt < 30; ++attempt) {
    ref = draw_form(chance);
    got = chance.one_in(2) ? ref : draw_form(chance);
    if (suits(variant, network, ref, got, logits)) return;
  }
  ref = got = RecordForm();
}

std::vector<std::string> draw_checkpoints(const Network& network, int64_t tokens, Chance& chance) {
  const std::vector<std::string> all = checkpoint_names(network);
  const int kind = chance.below(12);
  if (kind < 2) return {"logits"};
  if (kind == 2 && tokens * network.n_layers <= 8) return all;
  std::vector<std::string> names;
  for (const std::string& name : all) {
    const bool is_layer = name == "embedding" || name == "logits" || name.ends_with("_output");
    if (kind < 8 ? is_layer && name.find("attn") == std::string::npos : chance.one_in(6)) {
      names.push_back(name);
    }
  }
  if (names.empty()) names.push_back("logits");
  return names;
}

std::vector<int64_t> draw_prompt(const Network& network, int64_t length, Chance& chance) {
  const int real = network.vocabulary - network.padding;
  const int kinds = chance.one_in(3) ? 3 : real - 1;  // few: tokens are there again
  std::vector<int64_t> prompt = {0};
  while (std::ssize(prompt) < length) prompt.push_back(1 + chance.below(kinds));
  return prompt;
}

// Adds what rounding and another order of sums change, up to `level` of the tensor; less where the
// first `head` values would be further off than that.
void add_noise(const Network& network, double level, int64_t head, Chance& chance, Tensor& tensor) {
  const int64_t n = active_elements(network, tensor);
  std::vector<double> sizes;
  for (int64_t i = 0; i < n; ++i) {
    sizes.push_back(std::abs(static_cast<double>(tensor.values[static_cast<size_t>(i)])));
  }
  std::vector<double> sorted = sizes;
  std::nth_element(sorted.begin(), sorted.begin() + n / 2, sorted.end());
  const double usual = sorted[static_cast<size_t>(n / 2)];
  const double relative = chance.uniform();
  std::vector<double> noise;
  for (const double size : sizes) {
    const double scale = relative * size + (size == 0 ? 0 : (1 - relative) * usual);
    noise.push_back(0.8 * level * scale * chance.normal());
  }
  double squares = 0;
  double head_squares = 0;
  for (int64_t i = 0; i < std::min(head, n); ++i) {
    squares += noise[static_cast<size_t>(i)] * noise[static_cast<size_t>(i)];
    head_squares += sizes[static_cast<size_t>(i)] * sizes[static_cast<size_t>(i)];
  }
  const double error = head_squares > 0 ? std::sqrt(squares / head_squares) : 0;
  const double factor = error > kMaxHeadError ? kMaxHeadError / error : 1;
  for (int64_t i = 0; i < n; ++i) {
    float& value = tensor.values[static_cast<size_t>(i)];
    value = static_cast<float>(value + factor * noise[static_cast<size_t>(i)]);
  }
}

// Words of a freed block: the low halves of pointers are any float, the high ones denormal.
std::vector<float> heap_words(int pairs, Chance& chance) {
  std::vector<float> words;
  for (int i = 0; i < pairs; ++i) {
    const double low = std::pow(10.0, chance.uniform(16, 37));
    words.push_back(static_cast<float>(chance.one_in(2) ? low : -low));
    words.push_back(std::bit_cast<float>(static_cast<uint32_t>(
        chance.one_in(2) ? 0x7F00 + chance.below(256) : 0x5500 + chance.below(256))));
  }
  return words;
}

void put_heap_words(Run& run, const LogForm& form, Chance& chance) {
  for (Tensor& tensor : run.tensors) {
    if (tensor.checkpoint == "logits" || !form.logs(tensor) || !chance.one_in(3)) continue;
    tensor.garbage = heap_words(chance.between(1, 2), chance);
  }
}

// Log-probabilities in place of logits.
void normalise(const Network& network, Run& run) {
  for (Tensor& tensor : run.tensors) {
    if (tensor.checkpoint != "logits") continue;
    const int64_t n = active_elements(network, tensor);
    const double largest = tensor.values[static_cast<size_t>(argmax(tensor.values))];
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += std::exp(tensor.values[static_cast<size_t>(i)] - largest);
    }
    const double log_sum = largest + std::log(sum);
    for (int64_t i = 0; i < n; ++i) {
      float& value = tensor.values[static_cast<size_t>(i)];
      value = static_cast<float>(value - log_sum);
    }
  }
}

void pad_vocabulary(Run& run, Chance& chance) {
  const float pad = chance.pick(std::vector<float>{-INFINITY, -1e30F, -1e9F});
  for (Tensor& tensor : run.tensors) {
    if (tensor.checkpoint != "logits") continue;
    const size_t padded = (tensor.values.size() + 63) / 64 * 64;
    if (padded - tensor.values.size() >= 2) tensor.values.resize(padded, pad);
  }
}

// Masks some tokens of both, and none that is chosen.
void mask(Scene& scene, Chance& chance) {
  const float with = chance.pick(std::vector<float>{-INFINITY, -1e4F, -65504, -1e30F, -3e38F});
  const auto one_in = chance.pick(std::vector<int>{2, 10, 50});
  for (Tensor& ref : scene.ref.tensors) {
    if (ref.checkpoint != "logits") continue;
    Tensor& got = *scene.got.find("logits", ref.token);
    for (int i = 0; i < static_cast<int>(ref.values.size()); ++i) {
      const auto at = static_cast<size_t>(i);
      if (i != argmax(ref.values) && chance.one_in(one_in)) ref.values[at] = got.values[at] = with;
    }
  }
}

class SceneMaker {
 public:
  SceneMaker(Variant variant, Chance& chance) : variant_(variant), chance_(chance) {}

  Scene make() {
    scene_.network = make_network(chance_);
    // Printed with six decimals, a word beside a zero is a word only where zeros are rare.
    if (is_one_of(variant_, {Variant::kHeapWordsInGot, Variant::kHeapWordsInRef})) {
      scene_.network.zero_one_in = 0;
    }
    if (variant_ == Variant::kPadding) {
      scene_.network.padding = chance_.between(2, 20);
      scene_.network.vocabulary += scene_.network.padding;
      scene_.network.pad_value =
          chance_.pick(std::vector<float>{-INFINITY, -INFINITY, -1e30F, -1e9F});
    }
    draw_lengths();
    draw_logs();
    run_both();
    disturb();
    dress();
    return std::move(scene_);
  }

 private:
  void draw_lengths() {
    const bool long_prompt =
        is_one_of(variant_, {Variant::kOffsetOne, Variant::kBosLeftOut, Variant::kBosAdded});
    prompt_ = draw_prompt(scene_.network,
                          long_prompt ? chance_.between(5, 8) : chance_.between(2, 7), chance_);
    n_prompt_ = std::ssize(prompt_);
    total_ = n_prompt_ + chance_.below(5);
    if (variant_ == Variant::kSplit) total_ = std::max(total_, n_prompt_ + 2);
    if (variant_ == Variant::kOwnTokens) total_ = std::max(total_, n_prompt_ + 1);
  }

  void draw_logs() {
    std::vector<std::string> names = draw_checkpoints(scene_.network, total_, chance_);
    const bool about_logits =
        is_one_of(variant_, {Variant::kSplit, Variant::kTieFlip, Variant::kSharedMaximum,
                             Variant::kPadding, Variant::kMasked, Variant::kPaddedVocabulary,
                             Variant::kLogProbabilities, Variant::kTopLogprobs});
    if (about_logits && names.back() != "logits") names.push_back("logits");
    if (is_one_of(variant_, {Variant::kHeapWordsInGot, Variant::kHeapWordsInRef}))
      names.insert(names.begin(), names[0] == "embedding" ? "layer_0_q" : "embedding");
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const std::string& name : checkpoint_names(scene_.network)) {
      if (std::binary_search(names.begin(), names.end(), name)) logged_.push_back(name);
    }
    for (LogForm* form : {&scene_.ref_form, &scene_.got_form}) {
      form->checkpoints = logged_;
      form->to = total_;
      draw_style(*form);
    }
    draw_record_forms();
    draw_coordinates();
  }

  void draw_style(LogForm& form) {
    form.header = static_cast<LogForm::Header>(chance_.below(4));
    form.order = static_cast<LogForm::Order>(chance_.below(4));
    form.shuffle = chance_.next();
    form.print = static_cast<Print>(chance_.below(3));
    // "%.6f" is honest only of what is not small.
    if (form.print == Print::kSixDecimals && scene_.network.spread > 0)
      form.print = Print::kShortest;
    form.shape_as_text = chance_.one_in(4);
    form.bare_nonfinite = chance_.one_in(4);
    form.with_origin = chance_.one_in(4);
  }

  void draw_record_forms() {
    LogForm& ref = scene_.ref_form;
    LogForm& got = scene_.got_form;
    draw_forms(variant_, scene_.network, true, chance_, ref.logits, got.logits);
    ref.others = ref.logits;
    got.others = got.logits;
    if (chance_.one_in(2) || !suits(variant_, scene_.network, ref.others, got.others, false)) {
      draw_forms(variant_, scene_.network, false, chance_, ref.others, got.others);
    }
  }

  void draw_coordinates() {
    LogForm& ref = scene_.ref_form;
    LogForm& got = scene_.got_form;
    if (variant_ == Variant::kOffsetOne) {
      got.offset = 1;
      LogForm& without = chance_.one_in(2) ? ref : got;
      without.header = chance_.one_in(2) ? LogForm::Header::kNone : LogForm::Header::kBare;
      if (got.names_tokens()) got.header = LogForm::Header::kBare;
    }
    if (variant_ == Variant::kBosLeftOut || variant_ == Variant::kBosAdded) {
      LogForm& without = variant_ == Variant::kBosLeftOut ? got : ref;
      without.from = 1;
      without.offset = -1;
    }
    if (is_one_of(variant_, {Variant::kBosLeftOut, Variant::kBosAdded, Variant::kSplit})) {
      ref.header = got.header = LogForm::Header::kTokens;
    }
    if (variant_ == Variant::kOwnTokens) {
      ref.to = chance_.between(static_cast<int>(n_prompt_), static_cast<int>(total_) - 1);
    }
    if (variant_ == Variant::kOwnCheckpoints) {
      ref.checkpoints.clear();
      for (const std::string& name : logged_) {
        if (chance_.one_in(2)) ref.checkpoints.push_back(name);
      }
      if (ref.checkpoints.empty()) ref.checkpoints.push_back(logged_.back());
    }
  }

  void run_both() {
    std::optional<Tie> tie;
    level_ = std::pow(10.0, chance_.uniform(-7, -2.6));
    const double gap = 0.3 * std::max(level_, 1e-5);
    if (variant_ == Variant::kSplit) {
      scene_.split = chance_.between(static_cast<int>(n_prompt_), static_cast<int>(total_) - 1);
      tie = Tie{*scene_.split - 1, false, gap};
      // Two tokens look alike in a residual stream that is all but one massive activation: where
      // nothing before it is logged, no comparison could see that they are not the same.
      if (logged_.front() != "embedding") scene_.network.massive = -1;
    }
    if (variant_ == Variant::kTieFlip) tie = Tie{free_token(), false, gap};
    scene_.ref = evaluate(scene_.network, logged_, prompt_, total_, tie);
    if (variant_ == Variant::kSharedMaximum) share_maximum();
    if (tie) {
      tie->second = true;
      tie_ = tie->token;
      scene_.got = evaluate(scene_.network, logged_, prompt_, total_, tie);
    } else {
      scene_.got = scene_.ref;
    }
  }

  // One whose choice has no say in the tokens that follow.
  int64_t free_token() {
    return chance_.one_in(2) ? total_ - 1 : chance_.below(static_cast<int>(n_prompt_) - 1);
  }

  void share_maximum() {
    std::vector<float>& logits = scene_.ref.find("logits", free_token())->values;
    const auto first = static_cast<size_t>(argmax(logits));
    const int count = chance_.between(1, 8);
    for (int i = 0; i < count; ++i) {
      logits[static_cast<size_t>(chance_.below(scene_.network.vocabulary))] = logits[first];
    }
  }

  // Where values of both are compared, how many.
  int64_t head_of(const std::string& checkpoint) const {
    const auto count = [&](const LogForm& form) {
      const RecordForm& record = form.of(checkpoint);
      return is_all(record) ? std::numeric_limits<int64_t>::max() : record.head;
    };
    return std::min(count(scene_.ref_form), count(scene_.got_form));
  }

  void disturb() {
    for (Tensor& tensor : scene_.got.tensors) {
      const std::vector<float> exact = tensor.values;
      add_noise(scene_.network, level_ * chance_.uniform(0.3, 1), head_of(tensor.checkpoint),
                chance_, tensor);
      if (tensor.checkpoint != "logits" || tensor.token != tie_) continue;
      const auto chosen = static_cast<size_t>(argmax(exact));
      const auto other =
          static_cast<size_t>(argmax(scene_.ref.find("logits", tensor.token)->values));
      tensor.values[chosen] = exact[chosen];
      tensor.values[other] = exact[other];
    }
  }

  void dress() {
    const bool in_ref = chance_.one_in(2);
    Run& run = in_ref ? scene_.ref : scene_.got;
    LogForm& form = in_ref ? scene_.ref_form : scene_.got_form;
    LogForm& other = in_ref ? scene_.got_form : scene_.ref_form;
    switch (variant_) {
      case Variant::kMasked:
        return mask(scene_, chance_);
      case Variant::kPaddedVocabulary:
        return pad_vocabulary(run, chance_);
      case Variant::kCopies:
        (in_ref ? scene_.ref_copies : scene_.got_copies) = chance_.between(1, 3);
        return;
      case Variant::kNoFinalNewline:
        scene_.final_newline = false;
        return;
      case Variant::kHeapWordsInGot:
        return put_heap_words(scene_.got, scene_.got_form, chance_);
      case Variant::kHeapWordsInRef:
        return put_heap_words(scene_.ref, scene_.ref_form, chance_);
      case Variant::kLogProbabilities:
        return normalise(scene_.network, run);
      case Variant::kTopLogprobs:
        form.logprobs_top = chance_.between(2, 20);
        if (chance_.one_in(3)) other.logprobs_top = chance_.between(2, 20);
        return;
      case Variant::kWholeSequence:
        form.whole_sequence = true;
        other.whole_sequence = chance_.one_in(3);
        form.nested = chance_.one_in(2);
        return;
      case Variant::kNestedValues:
        form.nested = true;
        return;
      default:
        return;
    }
  }

  Variant variant_;
  Chance& chance_;
  Scene scene_;
  std::vector<int64_t> prompt_;
  int64_t n_prompt_ = 0;
  int64_t total_ = 0;
  std::vector<std::string> logged_;
  double level_ = 0;
  int64_t tie_ = -1;
};

void add_copies(int count, Chance& chance, Log& log) {
  for (int i = 0; i < count; ++i) {
    const Line copy = chance.pick(log.lines);
    log.lines.insert(log.lines.begin() + chance.below(static_cast<int>(log.lines.size())), copy);
  }
}

}  // namespace

std::string_view variant_name(Variant variant) {
  static constexpr std::string_view kNames[] = {"plain",
                                                "offset_one",
                                                "bos_left_out",
                                                "bos_added",
                                                "split",
                                                "tie_flip",
                                                "shared_maximum",
                                                "padding",
                                                "masked",
                                                "padded_vocabulary",
                                                "own_checkpoints",
                                                "own_tokens",
                                                "copies",
                                                "no_final_newline",
                                                "heap_words_in_got",
                                                "heap_words_in_ref",
                                                "log_probabilities",
                                                "top_logprobs",
                                                "whole_sequence",
                                                "nested_values"};
  static_assert(std::size(kNames) == kVariants);
  return kNames[static_cast<size_t>(variant)];
}

Scene make_scene(Variant variant, Chance& chance) {
  return SceneMaker(variant, chance).make();
}

Log ref_log(const Scene& scene, Chance& chance) {
  Log log = make_log(scene.ref, scene.ref_form, scene.network);
  add_copies(scene.ref_copies, chance, log);
  log.final_newline = scene.final_newline;
  return log;
}

Log got_log(const Scene& scene, Chance& chance) {
  Log log = make_log(scene.got, scene.got_form, scene.network);
  add_copies(scene.got_copies, chance, log);
  log.final_newline = scene.final_newline;
  return log;
}

}  // namespace assay::proof
