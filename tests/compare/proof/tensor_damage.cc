#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "assay/log/sketch.h"
#include "tests/compare/proof/damage_kinds.h"
#include "tests/compare/proof/damage_parts.h"

namespace assay::proof {

bool missing_record(Patient& patient) {
  const std::vector<Tensor*> tensors = held(patient);
  if (tensors.empty()) return false;
  const Tensor one = *patient.chance.pick(tensors);
  return remove_tensors(patient, [&](const Tensor& tensor) {
    return tensor.checkpoint == one.checkpoint && tensor.token == one.token;
  });
}

bool missing_checkpoint(Patient& patient) {
  const std::string name = patient.chance.pick(patient.scene.ref_form.checkpoints);
  return remove_tensors(patient, [&](const Tensor& tensor) { return tensor.checkpoint == name; });
}

bool missing_logits(Patient& patient) {
  return remove_tensors(patient,
                        [](const Tensor& tensor) { return tensor.checkpoint == "logits"; });
}

bool missing_last_layer(Patient& patient) {
  const std::string layer = "layer_" + std::to_string(patient.scene.network.n_layers - 1) + "_";
  return remove_tensors(patient,
                        [&](const Tensor& tensor) { return tensor.checkpoint.starts_with(layer); });
}

bool missing_token(Patient& patient) {
  const std::vector<Tensor*> tensors = held(patient);
  if (tensors.empty()) return false;
  const int64_t token = patient.chance.pick(tensors)->token;
  return remove_tensors(patient, [&](const Tensor& tensor) { return tensor.token == token; });
}

bool missing_first_token(Patient& patient) {
  return remove_tensors(patient, [](const Tensor& tensor) { return tensor.token == 0; });
}

bool missing_last_tokens(Patient& patient) {
  const auto from = 1 + patient.chance.below(static_cast<int>(patient.scene.ref.n_tokens()) - 1);
  return remove_tensors(patient, [&](const Tensor& tensor) { return tensor.token >= from; });
}

bool one_record_left(Patient& patient) {
  const std::vector<Tensor*> tensors = held(patient);
  if (tensors.empty()) return false;
  const Tensor one = *patient.chance.pick(tensors);
  return remove_tensors(patient, [&](const Tensor& tensor) {
    return tensor.checkpoint != one.checkpoint || tensor.token != one.token;
  });
}

bool missing_layers_of_decode(Patient& patient) {
  const int64_t prompt = patient.scene.ref.n_prompt;
  return remove_tensors(patient, [&](const Tensor& tensor) {
    return tensor.token >= prompt && tensor.checkpoint != "logits";
  });
}

bool torn_last_line(Patient& patient) {
  if (!missing_record(patient)) return false;
  // The record is there after all, but torn.
  const Scene& scene = patient.scene;
  const Tensor* torn = nullptr;
  for (const Tensor& tensor : scene.ref.tensors) {
    const bool there = scene.got.find(tensor.checkpoint, tensor.token) != nullptr;
    if (is_held(scene, tensor) && !there) torn = &tensor;
  }
  if (torn == nullptr) return false;
  patient.edit_logs = [line = make_line(*torn, scene.got_form)](Log&, Log& got) {
    got.lines.push_back(line);
    got.torn = true;
  };
  return true;
}

bool misspelt_checkpoint(Patient& patient) {
  const std::string name = patient.chance.pick(patient.scene.ref_form.checkpoints);
  if (!remove_tensors(patient, [&](const Tensor& t) { return t.checkpoint == name; })) return false;
  patient.edit_logs = [&scene = patient.scene, name](Log&, Log& got) {
    for (Tensor tensor : scene.ref.tensors) {
      if (tensor.checkpoint != name) continue;
      tensor.checkpoint += "s";
      got.lines.push_back(make_line(tensor, scene.got_form));
    }
  };
  return true;
}

bool scaled(Patient& patient) {
  const float factor =
      patient.chance.pick(std::vector<float>{0.5F, 0.8F, 1.25F, 2, 10, 1000, 1e-3F, -2});
  return change_elements(patient, [&](float x, int64_t, const Tensor&) { return factor * x; });
}

bool negated(Patient& patient) {
  return change_elements(patient, [](float x, int64_t, const Tensor&) { return -x; });
}

bool zeroed(Patient& patient) {
  return change_elements(patient, [](float, int64_t, const Tensor&) { return 0.0F; });
}

bool absolute(Patient& patient) {
  return change_elements(patient, [](float x, int64_t, const Tensor&) { return std::abs(x); });
}

bool biased(Patient& patient) {
  return change_some(patient, [&](Tensor& tensor) {
    const std::span<float> values = active(patient, tensor);
    const auto bias =
        static_cast<float>(patient.chance.uniform(0.2, 2) * rms(tensor.values, std::ssize(values)));
    for (float& value : values) value += bias;
  });
}

bool coarse(Patient& patient) {
  return change_some(patient, [&](Tensor& tensor) {
    const std::span<float> values = active(patient, tensor);
    const auto step = static_cast<float>(rms(tensor.values, std::ssize(values)));
    for (float& value : values) value = std::round(value / step) * step;
  });
}

bool noisy(Patient& patient) {
  const double level = patient.chance.uniform(0.15, 1);
  return change_some(patient, [&](Tensor& tensor) {
    const std::span<float> values = active(patient, tensor);
    const double scale = level * rms(tensor.values, std::ssize(values));
    for (float& value : values) {
      value = static_cast<float>(value + scale * patient.chance.normal());
    }
  });
}

bool permuted(Patient& patient) {
  return change_some(patient, [&](Tensor& tensor) {
    const std::span<float> values = active(patient, tensor);
    for (size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[patient.chance.next() % i]);
    }
  });
}

bool shifted_by_one(Patient& patient) {
  return change_some(patient, [&](Tensor& tensor) {
    const std::span<float> values = active(patient, tensor);
    std::rotate(values.begin(), values.begin() + 1, values.end());
  });
}

bool halves_swapped(Patient& patient) {
  return change_some(patient, [&](Tensor& tensor) {
    const std::span<float> values = active(patient, tensor);
    std::rotate(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  });
}

bool tail_zeroed(Patient& patient) {
  return change_some(patient, [&](Tensor& tensor) {
    const std::span<float> values = active(patient, tensor);
    std::fill(values.begin() + beyond_head(patient, tensor), values.end(), 0.0F);
  });
}

bool tail_of_another(Patient& patient) {
  return change_some(patient, [&](Tensor& tensor) {
    const std::vector<float> other = other_values(patient, tensor);
    const int64_t from = beyond_head(patient, tensor);
    std::copy(other.begin() + from, other.end(), tensor.values.begin() + from);
  });
}

bool large_beyond_head(Patient& patient) {
  return change_some(patient, [&](Tensor& tensor) {
    const std::span<float> values = active(patient, tensor);
    const auto at = static_cast<size_t>(beyond_head(patient, tensor));
    const auto size = static_cast<double>(values.size());
    values[at] = static_cast<float>(patient.chance.pick(std::vector<double>{1, 5, 30, 500}) *
                                    rms(tensor.values, std::ssize(values)) * std::sqrt(size));
  });
}

// So large that it would be garbage, were it logged.
bool huge_beyond_head(Patient& patient) {
  bool all = true;
  const bool any = change_some(patient, [&](Tensor& tensor) {
    const auto at = static_cast<size_t>(beyond_head(patient, tensor));
    const int64_t logged = std::max(logged_head(patient.scene.ref_form, tensor),
                                    logged_head(patient.scene.got_form, tensor));
    all = all && static_cast<int64_t>(at) >= logged;
    tensor.values[at] = patient.chance.pick(std::vector<float>{1e12F, -1e20F, 1e38F});
  });
  return any && all;
}

bool nonfinite_values(Patient& patient) {
  const float what = patient.chance.pick(std::vector<float>{NAN, INFINITY, -INFINITY});
  const int count = patient.chance.between(1, 3);
  return change_some(patient, [&](Tensor& tensor) {
    const std::span<float> values = active(patient, tensor);
    for (int i = 0; i < count; ++i) values[patient.chance.next() % values.size()] = what;
  });
}

bool all_nan(Patient& patient) {
  return change_elements(patient, [](float, int64_t, const Tensor&) { return NAN; });
}

bool nan_beyond_head(Patient& patient) {
  return change_some(patient, [&](Tensor& tensor) {
    tensor.values[static_cast<size_t>(beyond_head(patient, tensor))] = NAN;
  });
}

bool argmax_swapped(Patient& patient) {
  return change_some(patient, [&](Tensor& tensor) {
    if (tensor.checkpoint != "logits") return;
    const std::span<float> values = active(patient, tensor);
    const auto first = static_cast<size_t>(argmax(tensor.values));
    std::swap(values[first], values[patient.chance.next() % values.size()]);
  });
}

bool other_model(Patient& patient) {
  const Run other = other_run(patient.scene);
  const bool everything = patient.chance.one_in(2);
  const auto replace = [&](Tensor& tensor) {
    const Tensor* there = other.find(tensor.checkpoint, tensor.token);
    if (there != nullptr && there->values.size() == tensor.values.size()) {
      tensor.values = there->values;
    }
  };
  if (!everything) return change_some(patient, replace);
  for (Tensor& tensor : patient.scene.got.tensors) replace(tensor);
  return true;
}

namespace {

// Gives each of got's tensors the values that another token has; `from` maps tokens.
template <typename From>
bool move_rows(Patient& patient, const From& from) {
  const std::vector<std::string>& names = patient.scene.ref_form.checkpoints;
  const std::string name = patient.chance.one_in(2) ? "" : patient.chance.pick(names);
  const Run before = patient.scene.got;
  for (Tensor& tensor : patient.scene.got.tensors) {
    if (!name.empty() && tensor.checkpoint != name) continue;
    const Tensor* there = before.find(tensor.checkpoint, from(tensor.token));
    if (there != nullptr) tensor.values = there->values;
  }
  patient.shifts = true;
  return true;
}

}  // namespace

bool stale_rows(Patient& patient) {
  return move_rows(patient, [](int64_t token) { return token - 1; });
}

bool rows_ahead(Patient& patient) {
  return move_rows(patient, [](int64_t token) { return token + 1; });
}

bool frozen_rows(Patient& patient) {
  return move_rows(patient, [](int64_t) { return 0; });
}

bool rows_swapped(Patient& patient) {
  const int tokens = static_cast<int>(patient.scene.ref.n_tokens());
  const int64_t a = patient.chance.below(tokens);
  const int64_t b = patient.chance.below(tokens);
  return move_rows(patient, [=](int64_t token) { return token == a ? b : token == b ? a : token; });
}

bool stale_behind_garbage(Patient& patient) {
  if (!stale_rows(patient)) return false;
  for (Tensor& tensor : patient.scene.got.tensors) {
    if (tensor.token == 0) tensor.values = other_values(patient, tensor);
  }
  return true;
}

bool layers_swapped(Patient& patient) {
  std::vector<Tensor*> tensors = held(patient);
  if (tensors.empty()) return false;
  const std::string a = patient.chance.pick(tensors)->checkpoint;
  const std::string b = patient.chance.pick(tensors)->checkpoint;
  bool any = false;
  for (Tensor& tensor : patient.scene.got.tensors) {
    if (tensor.checkpoint != a || a == b) continue;
    Tensor* other = patient.scene.got.find(b, tensor.token);
    if (other == nullptr || other->values.size() != tensor.values.size()) continue;
    std::swap(tensor.values, other->values);
    any = true;
  }
  return any;
}

// The engine went on with another token although no two were level.
bool went_on_otherwise(Patient& patient) {
  Scene& scene = patient.scene;
  if (scene.split || scene.ref.n_tokens() <= scene.ref.n_prompt) return false;
  std::vector<int64_t> tokens = scene.ref.tokens;
  const int64_t from =
      scene.ref.n_prompt +
      patient.chance.below(static_cast<int>(scene.ref.n_tokens() - scene.ref.n_prompt));
  const int real = scene.network.vocabulary - scene.network.padding;
  int64_t& token = tokens[static_cast<size_t>(from)];
  token = (token + 1 + patient.chance.below(real - 2)) % real;
  tokens.resize(static_cast<size_t>(from) + 1);
  const Run other = evaluate(scene.network, scene.got_form.checkpoints, tokens,
                             scene.ref.n_tokens(), std::nullopt);
  for (Tensor& tensor : scene.got.tensors) {
    const Tensor* there = other.find(tensor.checkpoint, tensor.token);
    if (tensor.token >= from && there != nullptr) tensor.values = there->values;
  }
  // Logs that do not state their choice do not show that the two were not level.
  const auto tells = [](const LogForm& form) {
    const bool logged = std::find(form.checkpoints.begin(), form.checkpoints.end(), "logits") !=
                        form.checkpoints.end();
    return logged && (form.logits.head == RecordForm::kAll || (form.logits.summary & kArgmax) != 0);
  };
  return tells(scene.ref_form) && tells(scene.got_form);
}

// The same behind a header that lets the prompt end before the two part.
bool prompt_ended_early(Patient& patient) {
  Scene& scene = patient.scene;
  if (scene.split || scene.ref.n_prompt < 3) return false;
  const int64_t from = patient.chance.between(2, static_cast<int>(scene.ref.n_prompt) - 1);
  const Run other = other_run(scene);
  for (Tensor& tensor : scene.got.tensors) {
    const Tensor* there = other.find(tensor.checkpoint, tensor.token);
    if (tensor.token >= from && there != nullptr && there->values.size() == tensor.values.size()) {
      tensor.values = there->values;
    }
  }
  scene.got_form.n_prompt = patient.chance.between(1, static_cast<int>(from));
  scene.ref_form.header = scene.got_form.header = LogForm::Header::kTokens;
  if (outcome_of(scene) == Outcome::kPass) return false;
  patient.outcome = Outcome::kNotPass;
  return true;
}

}  // namespace assay::proof
