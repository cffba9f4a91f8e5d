#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "tests/compare/proof/damage_kinds.h"
#include "tests/compare/proof/damage_parts.h"

namespace assay::proof {

// Both mask the same tokens, and the logits of all others are wrong.
bool wrong_beside_mask(Patient& patient) {
  Scene& scene = patient.scene;
  scene.ref_form.logits = scene.got_form.logits = RecordForm();
  const float mask = patient.chance.pick(std::vector<float>{-1e4F, -65504, -1e9F, -1e30F, -3e38F});
  bool any = false;
  for (Tensor* tensor : some(patient)) {
    if (tensor->checkpoint != "logits" || !scene.got_form.logs(*tensor)) continue;
    Tensor* ref = scene.ref.find("logits", tensor->token);
    if (ref->values.size() != tensor->values.size()) return false;
    tensor->values = other_values(patient, *tensor);
    const int real = static_cast<int>(active_elements(scene.network, *tensor));
    const int count = patient.chance.between(1, real / 2);
    const int first = patient.chance.pick(std::vector<int>{0, real - count, (real - count) / 2});
    const bool apart = patient.chance.one_in(2);
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(apart ? patient.chance.below(real) : first + i);
      tensor->values[at] = ref->values[at] = mask;
    }
    any = true;
  }
  if (any) patient.outcome = Outcome::kNotPass;
  return any;
}

// Both have the same value that no engine computes, and all others are wrong.
bool wrong_beside_garbage_of_both(Patient& patient) {
  const float garbage = patient.chance.pick(std::vector<float>{1e11F, -1e20F, 1e30F, 3e38F});
  bool any = false;
  for (Tensor* tensor : some(patient)) {
    const int64_t logged = std::min(logged_head(patient.scene.ref_form, *tensor),
                                    logged_head(patient.scene.got_form, *tensor));
    Tensor* ref = patient.scene.ref.find(tensor->checkpoint, tensor->token);
    const int64_t n = std::min(logged, active_elements(patient.scene.network, *tensor));
    if (n < 10 || !patient.scene.got_form.logs(*tensor)) continue;
    tensor->values = other_values(patient, *tensor);
    const auto at = static_cast<size_t>(patient.chance.below(static_cast<int>(n)));
    tensor->values[at] = ref->values[at] = garbage;
    any = true;
  }
  if (any) patient.outcome = Outcome::kNotPass;
  return any;
}

// got's head of logits has an infinity where the reference lists none.
bool infinity_beyond_reference_head(Patient& patient) {
  Scene& scene = patient.scene;
  if (scene.network.padding > 0) return false;  // it may be one of those that the reference counts
  scene.ref_form.logits.head = patient.chance.pick(std::vector<int64_t>{0, 1, 4});
  scene.got_form.logits.head = 10;
  const auto fits = [](const Line& line) {
    return line.checkpoint == "logits" && !is_whole(line) && line.values.size() == 10;
  };
  return edit_got_line(patient, Outcome::kNotPass, fits, [](Line& line, Chance& chance) {
    line.values[static_cast<size_t>(chance.between(4, 9))] = -INFINITY;
  });
}

// All that is logged of some logits is infinite on both sides.
bool nothing_but_infinities(Patient& patient) {
  Scene& scene = patient.scene;
  RecordForm& form = scene.ref_form.logits;
  form = RecordForm();
  if (patient.chance.one_in(2)) form.head = 10;
  scene.got_form.logits = form;
  const float what = patient.chance.one_in(4) ? INFINITY : -INFINITY;
  bool any = false;
  for (Tensor* tensor : some(patient)) {
    if (tensor->checkpoint != "logits" || !scene.got_form.logs(*tensor)) continue;
    Tensor* ref = scene.ref.find("logits", tensor->token);
    std::fill(tensor->values.begin(), tensor->values.end(), what);
    std::fill(ref->values.begin(), ref->values.end(), what);
    any = true;
  }
  if (any) patient.outcome = Outcome::kNotPass;
  return any;
}

// Log-probabilities of other logits beside right ones.
bool logits_restated_wrong(Patient& patient) {
  Scene& scene = patient.scene;
  scene.ref_form.logits = scene.got_form.logits = RecordForm();
  std::vector<Tensor*> logits = held(patient);
  std::erase_if(logits, [&](const Tensor* tensor) {
    return tensor->checkpoint != "logits" || !scene.got_form.logs(*tensor);
  });
  if (logits.empty()) return false;
  Tensor wrong = *patient.chance.pick(logits);
  std::rotate(wrong.values.begin(), wrong.values.begin() + 1, wrong.values.end());
  patient.outcome = Outcome::kDiverge;
  LogForm form = scene.got_form;
  form.logprobs_top = static_cast<int>(wrong.values.size());
  patient.edit_logs = [line = make_line(wrong, form)](Log&, Log& got) {
    got.lines.push_back(line);
  };
  return true;
}

namespace {

// Lines of the most probable tokens, of got alone.
bool edit_logprobs(Patient& patient, std::function<void(Line&, const Tensor& ref, Chance&)> edit) {
  Scene& scene = patient.scene;
  if (scene.got_form.logprobs_top == 0) return false;
  patient.outcome = Outcome::kNotPass;
  const uint64_t seed = patient.chance.next();
  patient.edit_logs = [&scene, seed, edit = std::move(edit)](Log&, Log& got) {
    Chance chance(seed);
    std::vector<Line*> lines;
    for (Line& line : got.lines) {
      if (!line.top.empty()) lines.push_back(&line);
    }
    Line& line = *chance.pick(lines);
    edit(line, *scene.ref.find("logits", line.token_idx - scene.got_form.offset), chance);
  };
  return true;
}

}  // namespace

// By a factor that no vocabulary's sum of probabilities has, or that the logits do not.
bool logprobs_off(Patient& patient) {
  const double sign = patient.chance.one_in(2) ? 1 : -1;
  return edit_logprobs(patient, [sign](Line& line, const Tensor& ref, Chance&) {
    double largest = 0;
    for (const float value : ref.values) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
    for (TopValue& top : line.top) {
      largest = std::max(largest, std::abs(static_cast<double>(top.value)));
    }
    for (TopValue& top : line.top) top.value += static_cast<float>(sign * (2 + 0.3 * largest));
  });
}

bool logprobs_nan(Patient& patient) {
  return edit_logprobs(patient, [](Line& line, const Tensor&, Chance& chance) {
    line.top[chance.next() % line.top.size()].value = NAN;
  });
}

// The least probable is impossible, and is not in the reference, which tells all.
bool logprobs_impossible(Patient& patient) {
  if (patient.scene.ref_form.logprobs_top > 0) return false;
  return edit_logprobs(
      patient, [](Line& line, const Tensor&, Chance&) { line.top.back().value = -INFINITY; });
}

// Each lists other tokens, with the same probabilities.
bool logprobs_of_other_tokens(Patient& patient) {
  Scene& scene = patient.scene;
  const int count = patient.chance.between(1, 3);
  scene.ref_form.logprobs_top = scene.got_form.logprobs_top = count;
  const std::vector<Tensor*> tensors = held(patient);
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor* tensor) {
    return tensor->checkpoint == "logits" && scene.got_form.logs(*tensor);
  });
  if (found == tensors.end()) return false;
  patient.outcome = Outcome::kNotPass;
  patient.edit_logs = [&scene, token = (*found)->token](Log& ref, Log& got) {
    const auto line_of = [&](Log& log, int64_t offset) {
      return std::find_if(log.lines.begin(), log.lines.end(), [&](const Line& line) {
        return !line.top.empty() && line.token_idx == token + offset;
      });
    };
    const std::vector<TopValue> own = line_of(got, scene.got_form.offset)->top;
    std::vector<TopValue>& others = line_of(ref, scene.ref_form.offset)->top;
    int64_t next = 0;
    const auto is_listed = [&](const TopValue& top) { return top.index == next; };
    for (size_t i = 0; i < own.size(); ++i) {
      while (std::any_of(own.begin(), own.end(), is_listed)) ++next;
      others[i] = {next++, own[i].value};
    }
  };
  return true;
}

}  // namespace assay::proof
