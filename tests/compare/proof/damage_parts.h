#pragma once

// What the damages of tensors and of logs share.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/compare/proof/damage.h"
#include "tests/compare/proof/sight.h"

namespace assay::proof {

inline bool before_split(const Scene& scene, int64_t token) {
  return !scene.split || token < *scene.split;
}

inline bool is_held(const Scene& scene, const Tensor& tensor) {
  return scene.ref_form.logs(tensor) && before_split(scene, tensor.token);
}

template <typename Predicate>
bool remove_tensors(Patient& patient, const Predicate& goes) {
  std::vector<Tensor>& tensors = patient.scene.got.tensors;
  bool any = false;
  bool any_left = false;
  for (const Tensor& tensor : tensors) {
    if (!is_held(patient.scene, tensor)) continue;
    (goes(tensor) ? any : any_left) = true;
  }
  if (!any || !any_left) return false;
  std::erase_if(tensors, goes);
  return true;
}

// Tensors of got that the reference is compared with.
inline std::vector<Tensor*> held(Patient& patient) {
  std::vector<Tensor*> tensors;
  for (Tensor& tensor : patient.scene.got.tensors) {
    if (is_held(patient.scene, tensor)) tensors.push_back(&tensor);
  }
  return tensors;
}

// Some of those: one, all of one checkpoint, all of one token, or all.
inline std::vector<Tensor*> some(Patient& patient) {
  std::vector<Tensor*> tensors = held(patient);
  if (tensors.empty()) return {};
  const Tensor* one = patient.chance.pick(tensors);
  const int scope = patient.chance.below(4);
  std::erase_if(tensors, [&](const Tensor* tensor) {
    return (scope == 0 && tensor != one) || (scope == 1 && tensor->checkpoint != one->checkpoint) ||
           (scope == 2 && tensor->token != one->token);
  });
  return tensors;
}

template <typename Change>
bool change_some(Patient& patient, const Change& change) {
  const std::vector<Tensor*> tensors = some(patient);
  for (Tensor* tensor : tensors) change(*tensor);
  return !tensors.empty();
}

// All elements that are no padding.
template <typename Change>
bool change_elements(Patient& patient, const Change& change) {
  return change_some(patient, [&](Tensor& tensor) {
    const int64_t n = active_elements(patient.scene.network, tensor);
    for (int64_t i = 0; i < n; ++i) {
      float& value = tensor.values[static_cast<size_t>(i)];
      value = change(value, i, tensor);
    }
  });
}

inline std::span<float> active(Patient& patient, Tensor& tensor) {
  return std::span(tensor.values)
      .first(static_cast<size_t>(active_elements(patient.scene.network, tensor)));
}

inline int64_t logged_head(const LogForm& form, const Tensor& tensor) {
  const int64_t head = form.of(tensor.checkpoint).head;
  const auto n = static_cast<int64_t>(tensor.values.size());
  return head == RecordForm::kAll ? n : std::min(head, n);
}

// The first element that one of the logs does not have, or the middle where both have all.
inline int64_t beyond_head(Patient& patient, const Tensor& tensor) {
  const int64_t n = active_elements(patient.scene.network, tensor);
  const int64_t head = std::min(logged_head(patient.scene.ref_form, tensor),
                                logged_head(patient.scene.got_form, tensor));
  return head >= n ? n / 2 : head;
}

// What another network of the same sizes computes.
inline Run other_run(const Scene& scene) {
  Network other = scene.network;
  other.seed = mix(other.seed, 77);
  std::vector<int64_t> prompt(scene.got.tokens.begin(),
                              scene.got.tokens.begin() + scene.got.n_prompt);
  return evaluate(other, scene.got_form.checkpoints, prompt, scene.got.n_tokens(), std::nullopt);
}

// Independent values of a tensor's scale.
inline std::vector<float> other_values(Patient& patient, const Tensor& tensor) {
  std::vector<float> values = tensor.values;
  const int64_t n = active_elements(patient.scene.network, tensor);
  const double scale = rms(values, n);
  for (int64_t i = 0; i < n; ++i) {
    values[static_cast<size_t>(i)] = static_cast<float>(scale * patient.chance.normal());
  }
  return values;
}

inline bool is_whole(const Line& line) {
  return static_cast<int64_t>(line.values.size()) == line.shape[1];
}

// One line of got as the form writes it, which the reference has, too (log_damage.cc).
Line* pick_line(Log& log, const Scene& scene, Chance& chance,
                const std::function<bool(const Line&)>& fits);

// Edits one line of got that fits, of a scene that has such a one (log_damage.cc).
bool edit_got_line(Patient& patient, Outcome outcome, std::function<bool(const Line&)> fits,
                   std::function<void(Line&, Chance&)> edit);

}  // namespace assay::proof
