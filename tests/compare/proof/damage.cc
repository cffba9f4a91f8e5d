#include "tests/compare/proof/damage.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "assay/log/sketch.h"
#include "tests/compare/proof/sight.h"

namespace assay::proof {
namespace {

bool before_split(const Scene& scene, int64_t token) {
  return !scene.split || token < *scene.split;
}

bool is_held(const Scene& scene, const Tensor& tensor) {
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
std::vector<Tensor*> held(Patient& patient) {
  std::vector<Tensor*> tensors;
  for (Tensor& tensor : patient.scene.got.tensors) {
    if (is_held(patient.scene, tensor)) tensors.push_back(&tensor);
  }
  return tensors;
}

// Some of those: one, all of one checkpoint, all of one token, or all.
std::vector<Tensor*> some(Patient& patient) {
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

std::span<float> active(Patient& patient, Tensor& tensor) {
  return std::span(tensor.values)
      .first(static_cast<size_t>(active_elements(patient.scene.network, tensor)));
}

int64_t logged_head(const LogForm& form, const Tensor& tensor) {
  const int64_t head = form.of(tensor.checkpoint).head;
  const auto n = static_cast<int64_t>(tensor.values.size());
  return head == RecordForm::kAll ? n : std::min(head, n);
}

// The first element that one of the logs does not have, or the middle where both have all.
int64_t beyond_head(Patient& patient, const Tensor& tensor) {
  const int64_t n = active_elements(patient.scene.network, tensor);
  const int64_t head = std::min(logged_head(patient.scene.ref_form, tensor),
                                logged_head(patient.scene.got_form, tensor));
  return head >= n ? n / 2 : head;
}

// What another network of the same sizes computes.
Run other_run(const Scene& scene) {
  Network other = scene.network;
  other.seed = mix(other.seed, 77);
  std::vector<int64_t> prompt(scene.got.tokens.begin(),
                              scene.got.tokens.begin() + scene.got.n_prompt);
  return evaluate(other, scene.got_form.checkpoints, prompt, scene.got.n_tokens(), std::nullopt);
}

// Independent values of a tensor's scale.
std::vector<float> other_values(Patient& patient, const Tensor& tensor) {
  std::vector<float> values = tensor.values;
  const int64_t n = active_elements(patient.scene.network, tensor);
  const double scale = rms(values, n);
  for (int64_t i = 0; i < n; ++i) {
    values[static_cast<size_t>(i)] = static_cast<float>(scale * patient.chance.normal());
  }
  return values;
}

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
  // Of logs that do not tell their choice nobody can say that the two were not level.
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

bool wrong_size(Patient& patient) {
  const int change = patient.chance.pick(std::vector<int>{-8, -1, 1, 1, 2, 8, 64});
  return change_some(patient, [&](Tensor& tensor) {
    const auto n = static_cast<int64_t>(tensor.values.size()) + change;
    if (tensor.checkpoint == "logits" && (n % 32 == 0 || tensor.values.size() % 32 == 0)) return;
    tensor.values.resize(static_cast<size_t>(n), tensor.values.back() * 0.5F);
  });
}

// One line of got as the form writes it, which the reference has, too.
Line* pick_line(Log& log, const Scene& scene, Chance& chance,
                const std::function<bool(const Line&)>& fits) {
  std::vector<Line*> lines;
  for (Line& line : log.lines) {
    const Tensor* ref = scene.ref.find(line.checkpoint, line.token_idx - scene.got_form.offset);
    if (ref != nullptr && is_held(scene, *ref) && fits(line)) lines.push_back(&line);
  }
  return lines.empty() ? nullptr : chance.pick(lines);
}

bool is_whole(const Line& line) {
  return static_cast<int64_t>(line.values.size()) == line.shape[1];
}

// Edits one line of got that fits, of a scene that has such a one.
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

// The tensor of a head is told to have one element more or fewer.
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

// A head is told to be the whole tensor.
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
           (is_whole(line) || ref.head == RecordForm::kAll || ref.head >= 4);
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

constexpr Damage kDamages[] = {
    {"missing_record", missing_record},
    {"missing_checkpoint", missing_checkpoint},
    {"missing_logits", missing_logits},
    {"missing_last_layer", missing_last_layer},
    {"missing_token", missing_token},
    {"missing_first_token", missing_first_token},
    {"missing_last_tokens", missing_last_tokens},
    {"missing_layers_of_decode", missing_layers_of_decode},
    {"one_record_left", one_record_left},
    {"torn_last_line", torn_last_line},
    {"misspelt_checkpoint", misspelt_checkpoint},
    {"scaled", scaled},
    {"negated", negated},
    {"zeroed", zeroed},
    {"absolute", absolute},
    {"biased", biased},
    {"coarse", coarse},
    {"noisy", noisy},
    {"permuted", permuted},
    {"shifted_by_one", shifted_by_one},
    {"halves_swapped", halves_swapped},
    {"tail_zeroed", tail_zeroed},
    {"tail_of_another", tail_of_another},
    {"large_beyond_head", large_beyond_head},
    {"huge_beyond_head", huge_beyond_head},
    {"nonfinite_values", nonfinite_values},
    {"all_nan", all_nan},
    {"nan_beyond_head", nan_beyond_head},
    {"argmax_swapped", argmax_swapped},
    {"other_model", other_model},
    {"stale_rows", stale_rows},
    {"rows_ahead", rows_ahead},
    {"frozen_rows", frozen_rows},
    {"rows_swapped", rows_swapped},
    {"stale_behind_garbage", stale_behind_garbage},
    {"layers_swapped", layers_swapped},
    {"went_on_otherwise", went_on_otherwise},
    {"prompt_ended_early", prompt_ended_early},
    {"wrong_size", wrong_size},
    {"wrong_n", wrong_n},
    {"head_as_whole", head_as_whole},
    {"value_too_many", value_too_many},
    {"forged_summary", forged_summary},
    {"summary_of_another", summary_of_another},
    {"forged_sketch", forged_sketch},
    {"summary_against_own_line", summary_against_own_line},
    {"forged_values", forged_values},
    {"reference_forged", reference_forged},
    {"conflicting_copy", conflicting_copy},
    {"other_tokens", other_tokens},
    {"wrong_under_heap_words", wrong_under_heap_words},
    {"head_of_heap_words", head_of_heap_words},
    {"wrong_behind_reference_garbage", wrong_behind_reference_garbage},
    {"nan_in_own_checkpoint", nan_in_own_checkpoint},
    {"nan_in_own_token", nan_in_own_token},
    {"nan_after_split", nan_after_split},
    {"nan_before_offset", nan_before_offset},
    {"shifted_behind_garbage", shifted_behind_garbage},
    {"nothing_in_common", nothing_in_common},
    {"zero_head_against_summary", zero_head_against_summary},
};

}  // namespace

std::span<const Damage> all_damages() {
  return kDamages;
}

Outcome outcome_of(const Scene& scene) {
  Outcome outcome = Outcome::kPass;
  for (const Tensor& ref : scene.ref.tensors) {
    if (!is_held(scene, ref)) continue;
    const Tensor* got = scene.got.find(ref.checkpoint, ref.token);
    if (got == nullptr || !scene.got_form.logs(*got)) {
      outcome = std::max(outcome, Outcome::kNotPass);
      continue;
    }
    const Sight sight = compare_sight(scene.network, ref, scene.ref_form.of(ref.checkpoint), *got,
                                      scene.got_form.of(ref.checkpoint));
    if (sight.wrong) outcome = std::max(outcome, Outcome::kNotPass);
    if (sight.whole) outcome = Outcome::kDiverge;
  }
  for (const Tensor& got : scene.got.tensors) {
    const Tensor* ref = scene.ref.find(got.checkpoint, got.token);
    const bool own = ref == nullptr || !is_held(scene, *ref);
    const RecordForm& form = scene.got_form.of(got.checkpoint);
    if (own && scene.got_form.logs(got) && shows_nonfinite(scene.network, got, form)) {
      outcome = Outcome::kDiverge;
    }
  }
  return outcome;
}

}  // namespace assay::proof
