#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "assay/compare/value_metrics.h"
#include "assay/log/sketch.h"
#include "tests/compare/proof/damage_kinds.h"
#include "tests/compare/proof/damage_parts.h"

namespace assay::proof {

bool wrong_size(Patient& patient) {
  const int change = patient.chance.pick(std::vector<int>{-8, -1, 1, 1, 2, 8, 64});
  return change_some(patient, [&](Tensor& tensor) {
    const auto n = static_cast<int64_t>(tensor.values.size()) + change;
    if (tensor.checkpoint == "logits" && (n % 32 == 0 || tensor.values.size() % 32 == 0)) return;
    tensor.values.resize(static_cast<size_t>(n), tensor.values.back() * 0.5F);
  });
}

Line* pick_line(Log& log, const Scene& scene, Chance& chance,
                const std::function<bool(const Line&)>& fits) {
  std::vector<Line*> lines;
  for (Line& line : log.lines) {
    const Tensor* ref = scene.ref.find(line.checkpoint, line.token_idx - scene.got_form.offset);
    if (ref != nullptr && is_held(scene, *ref) && fits(line)) lines.push_back(&line);
  }
  return lines.empty() ? nullptr : chance.pick(lines);
}

bool edit_got_line(Patient& patient, Outcome outcome, std::function<bool(const Line&)> fits,
                   std::function<void(Line&, Chance&)> edit) {
  Chance draws(1);
  Log probe = make_log(patient.scene.got, patient.scene.got_form, patient.scene.network);
  if (pick_line(probe, patient.scene, draws, fits) == nullptr) return false;
  patient.outcome = outcome;
  const uint64_t seed = patient.chance.next();
  patient.edit_logs = [&scene = patient.scene, seed, fits = std::move(fits),
                       edit = std::move(edit)](Log&, Log& got) {
    Chance chance(seed);
    edit(*pick_line(got, scene, chance, fits), chance);
  };
  return true;
}

// The line of a head claims one element more or fewer.
bool wrong_n(Patient& patient) {
  const int change = patient.chance.pick(std::vector<int>{-1, 1, 1, 5});
  const bool with_shape = patient.chance.one_in(2);
  return edit_got_line(
      patient, Outcome::kNotPass,
      [](const Line& line) { return !is_whole(line) && line.checkpoint != "logits"; },
      [=](Line& line, Chance&) {
        line.n = line.shape[1] + change;
        if (with_shape) line.shape[1] += change;
      });
}

// A head claims to be the whole tensor.
bool head_as_whole(Patient& patient) {
  return edit_got_line(
      patient, Outcome::kNotPass,
      [](const Line& line) { return !is_whole(line) && !line.values.empty(); },
      [](Line& line, Chance&) {
        line.shape[1] = std::ssize(line.values);
        if (line.n) line.n = line.shape[1];
      });
}

bool value_too_many(Patient& patient) {
  return edit_got_line(patient, Outcome::kNotPass, is_whole, [](Line& line, Chance& chance) {
    const auto at = static_cast<ptrdiff_t>(chance.next() % line.values.size());
    line.values.insert(line.values.begin() + at, line.values.front());
  });
}

namespace {

std::vector<float> drawn_values(size_t n, double scale, Chance& chance) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(scale * chance.normal());
  return values;
}

// Of which the reference or the line itself has all values, or the same keys.
bool is_checked(const Scene& scene, const Line& line, unsigned key) {
  const RecordForm& ref = scene.ref_form.of(line.checkpoint);
  return is_whole(line) || ref.head == RecordForm::kAll || (ref.summary & key) != 0;
}

bool is_padded(const Scene& scene, const Line& line) {
  return line.checkpoint == "logits" && scene.network.padding > 0;
}

// Whether other elements are so large that an error of all values that are logged is within 1 %.
bool is_swamped(const Line& line) {
  const double part =
      static_cast<double>(std::ssize(line.values)) / static_cast<double>(line.shape[1]);
  return norm_of_finite(line.values) < 0.1 * line.summary.l2 * std::sqrt(part);
}

// A number of the summary that is off by several times what the tensor is.
void forge(unsigned key, Summary& summary, Chance& chance) {
  const double size = std::max({summary.l2, std::abs(summary.min), std::abs(summary.max)});
  if (key == kMin) summary.min -= 3 * size;
  if (key == kMax) summary.max += 3 * size;
  if (key == kMean) summary.mean += 3 * size;
  if (key == kL2) summary.l2 *= chance.one_in(2) ? 4 : 0.1;
  if (key == kNonfinite) {
    summary.nonfinite = 3;
    summary.nan = 3;
  }
  if (key == kTop) {
    for (TopValue& top : summary.top) top.value += static_cast<float>(3 * size);
  }
}

}  // namespace

bool forged_summary(Patient& patient) {
  const unsigned key =
      patient.chance.pick(std::vector<unsigned>{kMin, kMax, kMean, kL2, kNonfinite, kTop});
  const Scene& scene = patient.scene;
  const auto fits = [&scene, key](const Line& line) {
    return (line.summary_keys & key) != 0 && is_checked(scene, line, key) &&
           !is_padded(scene, line);
  };
  return edit_got_line(patient, Outcome::kNotPass, fits,
                       [key](Line& line, Chance& chance) { forge(key, line.summary, chance); });
}

// A number far beyond the norm, which one of the two logs states or has a sketch of.
bool absurd_number(Patient& patient) {
  const unsigned key = patient.chance.pick(std::vector<unsigned>{kMin, kMax, kMean, kTop});
  const Scene& scene = patient.scene;
  const auto fits = [&scene, key](const Line& line) {
    const RecordForm& ref = scene.ref_form.of(line.checkpoint);
    const bool bounded = is_whole(line) || line.sketch || (line.summary_keys & kL2) != 0 ||
                         ref.head == RecordForm::kAll || ref.sketch || (ref.summary & kL2) != 0;
    return (line.summary_keys & key) != 0 && bounded && !is_padded(scene, line);
  };
  return edit_got_line(patient, Outcome::kNotPass, fits, [key](Line& line, Chance& chance) {
    for (int i = 0; i < 4; ++i) forge(key, line.summary, chance);  // 12 times the norm at least
  });
}

// Honest values, but the summary is that of other values, larger ones.
bool summary_of_another(Patient& patient) {
  const Scene& scene = patient.scene;
  const auto fits = [&scene](const Line& line) {
    return (line.summary_keys & kL2) != 0 && is_checked(scene, line, kL2) &&
           !is_padded(scene, line);
  };
  return edit_got_line(patient, Outcome::kNotPass, fits, [](Line& line, Chance& chance) {
    const auto n = static_cast<size_t>(line.shape[1]);
    const double scale = 3 * line.summary.l2 / std::sqrt(static_cast<double>(n));
    line.summary = summarize(drawn_values(n, scale, chance));
  });
}

bool forged_sketch(Patient& patient) {
  const int how = patient.chance.below(4);
  const Scene& scene = patient.scene;
  const auto fits = [&scene, how](const Line& line) {
    const RecordForm& ref = scene.ref_form.of(line.checkpoint);
    return line.sketch && !is_padded(scene, line) &&
           (is_whole(line) || ref.head == RecordForm::kAll || ref.sketch ||
            (how == 3 && (ref.summary & kL2) != 0));
  };
  return edit_got_line(patient, Outcome::kNotPass, fits, [how](Line& line, Chance& chance) {
    const double norm = sketch_norm(*line.sketch);
    if (how == 0) {
      const auto n = static_cast<size_t>(line.shape[1]);
      line.sketch =
          compute_sketch(drawn_values(n, norm / std::sqrt(static_cast<double>(n)), chance));
    }
    for (double& number : *line.sketch) {
      if (how == 1) number = 0;
      if (how == 2) number *= -1;
      if (how == 3) number *= 6;
    }
  });
}

// What a line's own values and sketch say of the tensor, its summary denies.
bool summary_against_own_line(Patient& patient) {
  const bool in_values = patient.chance.one_in(2);
  const Scene& scene = patient.scene;
  const auto fits = [&scene, in_values](const Line& line) {
    if (is_padded(scene, line)) return false;
    return in_values ? line.values.size() >= 2 && (line.summary_keys & kMax) != 0
                     : line.sketch && (line.summary_keys & kL2) != 0;
  };
  return edit_got_line(patient, Outcome::kNotPass, fits, [in_values](Line& line, Chance&) {
    if (!in_values) {
      for (double& number : *line.sketch) number *= 6;
      return;
    }
    const Summary whole = line.summary;
    const double size = std::max(std::abs(whole.min), std::abs(whole.max));
    const float least = *std::min_element(line.values.begin(), line.values.end());
    line.summary.max = least - size;
  });
}

// The values are wrong; what stands for the whole tensor is right.
bool forged_values(Patient& patient) {
  const Scene& scene = patient.scene;
  const auto fits = [&scene](const Line& line) {
    const RecordForm& ref = scene.ref_form.of(line.checkpoint);
    return line.values.size() >= 4 && (line.summary_keys != 0 || line.sketch) &&
           !is_swamped(line) && (is_whole(line) || ref.head == RecordForm::kAll || ref.head >= 4);
  };
  return edit_got_line(patient, Outcome::kNotPass, fits, [](Line& line, Chance&) {
    for (float& value : line.values) value = -value;
  });
}

// The reference contradicts itself: nothing is proved by it.
bool reference_forged(Patient& patient) {
  Scene& scene = patient.scene;
  const auto fits = [](const Line& line) {
    return is_whole(line) && (line.sketch || (line.summary_keys & kL2) != 0);
  };
  Log probe = make_log(scene.ref, scene.ref_form, scene.network);
  Chance draws(1);
  const auto held_line = [&scene, fits](Log& log, Chance& chance) -> Line* {
    std::vector<Line*> lines;
    for (Line& line : log.lines) {
      const int64_t token = line.token_idx - scene.ref_form.offset;
      if (fits(line) && before_split(scene, token) && !is_padded(scene, line)) {
        lines.push_back(&line);
      }
    }
    return lines.empty() ? nullptr : chance.pick(lines);
  };
  if (held_line(probe, draws) == nullptr) return false;
  patient.outcome = Outcome::kNotPass;
  patient.edit_logs = [held_line, seed = patient.chance.next()](Log& ref, Log&) {
    Chance chance(seed);
    Line& line = *held_line(ref, chance);
    if (line.sketch) {
      for (double& number : *line.sketch) number *= -3;
    } else {
      line.summary.l2 *= 4;
    }
  };
  return true;
}

bool conflicting_copy(Patient& patient) {
  const bool in_ref = patient.chance.one_in(3);
  patient.outcome = Outcome::kNotPass;
  const uint64_t seed = patient.chance.next();
  Scene& scene = patient.scene;
  const RecordForm& logits = in_ref ? scene.ref_form.logits : scene.got_form.logits;
  const RecordForm& others = in_ref ? scene.ref_form.others : scene.got_form.others;
  if (logits.head == 0 || others.head == 0) return false;
  if (held(patient).empty()) return false;
  patient.edit_logs = [&scene, in_ref, seed](Log& ref, Log& got) {
    Chance chance(seed);
    Log& log = in_ref ? ref : got;
    Line copy = *pick_line(got, scene, chance, [](const Line&) { return true; });
    if (in_ref) copy = chance.pick(ref.lines);
    for (float& value : copy.values) value = -2 * value;
    log.lines.insert(log.lines.begin() + chance.below(static_cast<int>(log.lines.size())), copy);
  };
  return true;
}

bool other_tokens(Patient& patient) {
  Scene& scene = patient.scene;
  if (scene.split) return false;
  scene.ref_form.header = scene.got_form.header = LogForm::Header::kTokens;
  patient.outcome = Outcome::kNotPass;
  const auto at = static_cast<size_t>(patient.chance.below(static_cast<int>(scene.got.n_prompt)));
  patient.edit_logs = [at](Log&, Log& got) { got.tokens[at] += 1; };
  return true;
}

// Wrong, and the first values under words of a freed block.
bool wrong_under_heap_words(Patient& patient) {
  return change_some(patient, [&](Tensor& tensor) {
    tensor.values = other_values(patient, tensor);
    tensor.garbage = {1e30F, std::bit_cast<float>(0x7FFFU), -3e22F, std::bit_cast<float>(0x7F12U)};
  });
}

// Four values under words of a freed block, and no more than that is logged.
bool head_of_heap_words(Patient& patient) {
  RecordForm few;
  few.head = 4;
  patient.scene.got_form.others = few;
  const bool right = patient.chance.one_in(2);
  bool any = false;
  for (Tensor* tensor : some(patient)) {
    if (tensor->checkpoint == "logits") continue;
    if (!right) tensor->values = other_values(patient, *tensor);
    tensor->garbage = {1e30F, std::bit_cast<float>(0x7FFFU), -3e22F, std::bit_cast<float>(0x7F12U)};
    any = true;
  }
  if (any) patient.outcome = Outcome::kNotPass;
  return any;
}

// The reference's head has garbage, and got's tail is wrong.
bool wrong_behind_reference_garbage(Patient& patient) {
  const bool out_of_scale = patient.chance.one_in(2);
  const std::vector<Tensor*> tensors = some(patient);
  bool any = false;
  for (Tensor* tensor : tensors) {
    if (tensor->checkpoint == "logits") continue;
    Tensor* ref = patient.scene.ref.find(tensor->checkpoint, tensor->token);
    if (out_of_scale) {
      ref->garbage = {1e25F};
    } else {
      ref->garbage = {1e30F, std::bit_cast<float>(0x7FFFU)};
    }
    const std::vector<float> other = other_values(patient, *tensor);
    const int64_t from = std::max<int64_t>(4, beyond_head(patient, *tensor));
    if (from >= std::ssize(other)) continue;
    std::copy(other.begin() + from, other.end(), tensor->values.begin() + from);
    any = true;
  }
  return any;
}

bool nan_in_own_checkpoint(Patient& patient) {
  Scene& scene = patient.scene;
  std::vector<Tensor*> tensors;
  const int64_t token = patient.chance.below(static_cast<int>(scene.got.n_tokens()));
  Tensor own{"layer_0_attn_scores", token, drawn_values(24, 1, patient.chance), {}};
  own.values[0] = patient.chance.one_in(2) ? NAN : INFINITY;
  scene.got.tensors.push_back(own);
  scene.got_form.checkpoints.push_back(own.checkpoint);
  return true;
}

bool nan_in_own_token(Patient& patient) {
  Scene& scene = patient.scene;
  if (scene.split || scene.ref_form.to <= scene.ref.n_prompt) return false;
  scene.ref_form.to = patient.chance.between(static_cast<int>(scene.ref.n_prompt),
                                             static_cast<int>(scene.ref_form.to) - 1);
  for (Tensor& tensor : scene.got.tensors) {
    if (tensor.token >= scene.ref_form.to) tensor.values[0] = NAN;
  }
  return true;
}

bool nan_after_split(Patient& patient) {
  Scene& scene = patient.scene;
  if (!scene.split) return false;
  for (Tensor& tensor : scene.got.tensors) {
    if (tensor.token >= *scene.split) tensor.values[0] = NAN;
  }
  return true;
}

// got has a first token that the reference leaves out, which is NaN.
bool nan_before_offset(Patient& patient) {
  Scene& scene = patient.scene;
  if (scene.split || scene.ref.n_prompt < 5) return false;
  scene.ref_form.from = 1;
  scene.ref_form.offset = -1;
  const bool told = patient.chance.one_in(2);
  scene.ref_form.header = scene.got_form.header =
      told ? LogForm::Header::kTokens : LogForm::Header::kNone;
  for (Tensor& tensor : scene.got.tensors) {
    if (tensor.token == 0) tensor.values[0] = NAN;
  }
  if (outcome_of(scene) == Outcome::kPass) return false;
  patient.outcome = Outcome::kNotPass;
  return true;
}

// got's prompt lacks more than the first token: no BOS.
bool prompt_cut(Patient& patient) {
  Scene& scene = patient.scene;
  const int most = static_cast<int>(scene.got.n_prompt) - 3;
  if (scene.split || scene.got_form.offset != 0 || scene.ref_form.from != 0 || most < 2)
    return false;
  scene.got_form.from = patient.chance.between(2, most);
  scene.got_form.offset = -scene.got_form.from;
  scene.ref_form.header = scene.got_form.header = LogForm::Header::kTokens;
  patient.outcome = Outcome::kNotPass;
  return true;
}

// After a tie got's header names a third token.
bool split_into_another_token(Patient& patient) {
  Scene& scene = patient.scene;
  if (!scene.split) return false;
  const auto at = static_cast<size_t>(*scene.split);
  const int64_t vocabulary = scene.network.vocabulary - scene.network.padding;
  int64_t token = patient.chance.below(static_cast<int>(vocabulary));
  while (token == scene.ref.tokens[at] || token == scene.got.tokens[at]) {
    token = (token + 1) % vocabulary;
  }
  patient.outcome = Outcome::kNotPass;
  patient.edit_logs = [&scene, at, token](Log&, Log& got) {
    got.tokens.assign(scene.got.tokens.begin(),
                      scene.got.tokens.begin() + static_cast<ptrdiff_t>(at));
    got.tokens.push_back(token);
  };
  return true;
}

// Garbage in the first token of got, which an offset found in the data would leave out: the last
// of the reference is then unproven.
bool shifted_behind_garbage(Patient& patient) {
  Scene& scene = patient.scene;
  if (scene.split || scene.ref_form.to != scene.got_form.to) return false;
  const Run before = scene.got;
  for (Tensor& tensor : scene.got.tensors) {
    const Tensor* there = before.find(tensor.checkpoint, tensor.token - 1);
    tensor.values = there != nullptr ? there->values : other_values(patient, tensor);
  }
  patient.shifts = true;
  return true;
}

// The one has four values, the other the extremes and the mean: nothing to hold together.
bool nothing_in_common(Patient& patient) {
  Scene& scene = patient.scene;
  RecordForm few;
  few.head = 4;
  RecordForm extremes;
  extremes.head = 0;
  extremes.summary = patient.chance.one_in(2) ? kMin | kMax | kMean : kMean | kNonfinite;
  const bool in_ref = patient.chance.one_in(2);
  RecordForm& a = patient.chance.one_in(2) ? scene.ref_form.others : scene.ref_form.logits;
  RecordForm& b = &a == &scene.ref_form.others ? scene.got_form.others : scene.got_form.logits;
  a = in_ref ? few : extremes;
  b = in_ref ? extremes : few;
  const bool logits = &a == &scene.ref_form.logits;
  bool any = false;
  const bool zero = patient.chance.one_in(3);
  for (Tensor* tensor : held(patient)) {
    if ((tensor->checkpoint == "logits") != logits) continue;
    tensor->values = other_values(patient, *tensor);
    if (zero) std::fill(tensor->values.begin(), tensor->values.end(), 0.0F);
    any = true;
  }
  patient.outcome = Outcome::kNotPass;
  return any;
}

// Heads of zeros against a summary.
bool zero_head_against_summary(Patient& patient) {
  if (!nothing_in_common(patient)) return false;
  Scene& scene = patient.scene;
  const auto clear = [](Run& run, const LogForm& form) {
    for (Tensor& tensor : run.tensors) {
      if (form.of(tensor.checkpoint).head == 4) std::fill_n(tensor.values.begin(), 4, 0.0F);
    }
  };
  clear(scene.ref, scene.ref_form);
  clear(scene.got, scene.got_form);
  return true;
}

}  // namespace assay::proof
