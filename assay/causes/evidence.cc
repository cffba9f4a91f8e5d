#include "assay/causes/evidence.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "assay/compare/log_probabilities.h"
#include "assay/log/sketch.h"

namespace assay::causes {
namespace {

constexpr double kHolds = 0.1;     // share of a token's difference that may be left
constexpr double kDiffers = 0.05;  // times the largest difference of any token

// Beside a sketch the head's values are too light to count in sums of squares: they only vote.
constexpr double kOfVoters = 1e-9;

std::vector<double> features_of(const Sketch& sketch, std::span<const float> head) {
  std::vector<double> features(sketch.begin(), sketch.end());
  for (double& feature : features) feature /= std::sqrt(static_cast<double>(kSketchSize));
  for (const float value : head) features.push_back(kOfVoters * value);
  return features;
}

// `count` values of the head are known to both logs.
std::vector<double> project(Evidence::Form form, std::span<const float> values, size_t count) {
  const std::span<const float> head = values.first(count);
  if (form == Evidence::Form::kSketch) return features_of(compute_sketch(values), head);
  return {head.begin(), head.end()};
}

std::vector<double> project(Evidence::Form form, const Record& record, size_t count) {
  if (form == Evidence::Form::kSketch && !record.has_all_values()) {
    return features_of(*record.sketch, std::span(record.values).first(count));
  }
  return project(form, record.values, count);
}

bool has_sketch(const Record& record) {
  return record.has_all_values() || record.sketch.has_value();
}

// Of all tokens.
std::vector<double> log_probabilities(std::span<const float> logits) {
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const double log_sum = largest + std::log(sum);
  std::vector<double> values;
  values.reserve(logits.size());
  for (const float logit : logits) values.push_back(static_cast<double>(logit) - log_sum);
  return values;
}

// A record's statements about them, by ascending ids.
std::vector<Stated> log_probabilities(const Record& record) {
  std::vector<Stated> stated;
  if (record.has_all_values() && !record.values.empty()) {
    for (const double value : log_probabilities(record.values)) {
      stated.push_back({std::ssize(stated), value});
    }
  } else if (record.checkpoint == kLogProbabilitiesName) {
    for (const TopValue& top : record.top) stated.push_back({top.index, top.value});
    std::ranges::sort(stated, {}, &Stated::id);
  }
  return stated;
}

std::vector<double> at_ids(const std::vector<double>& values, const std::vector<int64_t>& ids) {
  std::vector<double> result;
  result.reserve(ids.size());
  for (const int64_t id : ids) result.push_back(values[static_cast<size_t>(id)]);
  return result;
}

Evidence::Token token_of(const std::vector<Stated>& ref, const std::vector<Stated>& got) {
  Evidence::Token token;
  token.form = Evidence::Form::kLogProbabilities;
  token.stated = ref;
  token.head = static_cast<size_t>(std::max(ref.back().id, got.back().id)) + 1;
  for (const Stated& one : got) {
    const auto known = std::ranges::lower_bound(ref, one.id, {}, &Stated::id);
    if (known == ref.end() || known->id != one.id) {
      token.untold.push_back(one);
      continue;
    }
    token.ids.push_back(one.id);
    token.ref.push_back(known->value);
    token.got.push_back(one.value);
  }
  return token;
}

// What both records say of logits, where one of them says it in log-probabilities.
std::optional<Evidence::Token> token_of_log_probabilities(const Record& ref, const Record& got) {
  if (!is_logits_name(ref.checkpoint) || ref.n != got.n) return std::nullopt;
  const auto is_list = [](const Record& record) {
    return record.checkpoint == kLogProbabilitiesName && !record.has_all_values();
  };
  if (!is_list(ref) && !is_list(got) && !are_log_probabilities(ref, got)) return std::nullopt;
  const std::vector<Stated> of_ref = log_probabilities(ref);
  const std::vector<Stated> of_got = log_probabilities(got);
  if (of_ref.empty() || of_got.empty()) return std::nullopt;
  return token_of(of_ref, of_got);
}

// Elements from `first` on that are not finite in one of the logs become 0 in both.
void make_holes(Evidence::Token& token, size_t first = 0) {
  for (size_t i = first; i < token.ref.size(); ++i) {
    if (std::isfinite(token.ref[i]) && std::isfinite(token.got[i])) continue;
    token.ref[i] = token.got[i] = 0;
    token.holes.push_back(i);
  }
}

// What both records hold of one tensor; nothing where that is no value and no sketch.
std::optional<Evidence::Token> token_of(const Record& ref, const Record& got) {
  if (auto token = token_of_log_probabilities(ref, got)) return token;
  Evidence::Token token;
  const size_t count = std::min(ref.values.size(), got.values.size());
  if (!(ref.has_all_values() && got.has_all_values())) {
    const bool sketched = ref.n == got.n && has_sketch(ref) && has_sketch(got);
    token.form = sketched ? Evidence::Form::kSketch : Evidence::Form::kHead;
  }
  if (token.form != Evidence::Form::kSketch && count == 0) return std::nullopt;
  token.head = count;
  token.ref = project(token.form, ref, count);
  token.got = project(token.form, got, count);
  return token;
}

}  // namespace

double square_sum(const std::vector<double>& a) {
  double sum = 0;
  for (const double x : a) sum += x * x;
  return sum;
}

double square_sum(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

double Fit::ratio() const {
  return residual / std::max(std::min(difference, norm), 1e-300);
}

Evidence::Evidence(TensorStore& store, const std::string& checkpoint,
                   const std::vector<int64_t>& positions) {
  for (const int64_t position : positions) {
    const Record* ref = store.ref(checkpoint, position);
    const Record* got = store.got(checkpoint, position);
    if (ref == nullptr || got == nullptr) continue;
    std::optional<Token> token = token_of(*ref, *got);
    if (!token) continue;
    token->token_idx = position;
    make_holes(*token);
    tokens_.push_back(*std::move(token));
  }
  mark_differing();
  mark_first_failure(store.comparison(), checkpoint);
}

void Evidence::mark_first_failure(const Comparison& comparison, const std::string& checkpoint) {
  for (const RecordResult& result : comparison.results) {  // sorted by token
    const auto at = static_cast<size_t>(result.checkpoint);
    if (!result.failed() || comparison.checkpoints[at].name != checkpoint) continue;
    for (Token& token : tokens_) token.fails_first = token.token_idx == result.token_idx;
    return;
  }
}

void Evidence::mark_differing() {
  double largest = 0;
  for (const Token& token : tokens_) {
    largest = std::max(largest, square_sum(token.ref, token.got));
  }
  for (Token& token : tokens_) {
    token.differs = square_sum(token.ref, token.got) > kDiffers * kDiffers * largest;
  }
}

void Evidence::complete(const Matrix& right, const std::vector<int64_t>& positions) {
  constexpr double kAgrees = 1e-2;
  for (Token& token : tokens_) {
    const auto place = std::find(positions.begin(), positions.end(), token.token_idx);
    if (token.untold.empty() || place == positions.end()) continue;
    if (right.columns < static_cast<int64_t>(token.head)) continue;
    const std::vector<double> known = log_probabilities(right.row_span(place - positions.begin()));
    double off = 0;
    double all = 0;
    for (const Stated& one : token.stated) {
      const double value = known[static_cast<size_t>(one.id)];
      off += (one.value - value) * (one.value - value);
      all += one.value * one.value;
    }
    if (!(off <= kAgrees * kAgrees * all)) continue;
    const size_t told = token.ids.size();
    for (const Stated& one : token.untold) {
      token.ids.push_back(one.id);
      token.ref.push_back(known[static_cast<size_t>(one.id)]);
      token.got.push_back(one.value);
    }
    token.untold.clear();
    make_holes(token, told);
  }
  mark_differing();
}

bool Evidence::has_all_values() const {
  return !tokens_.empty() && std::all_of(tokens_.begin(), tokens_.end(), [](const Token& token) {
    return token.form == Form::kAll;
  });
}

bool Evidence::is_of_log_probabilities() const {
  return std::ranges::any_of(
      tokens_, [](const Token& token) { return token.form == Form::kLogProbabilities; });
}

std::vector<std::vector<double>> Evidence::features(const Matrix& values,
                                                    const std::vector<int64_t>& positions) const {
  std::vector<std::vector<double>> result;
  for (const Token& token : tokens_) {
    const auto place = std::find(positions.begin(), positions.end(), token.token_idx);
    std::vector<double>& features = result.emplace_back();
    if (place == positions.end()) continue;
    const std::span<const float> row = values.row_span(place - positions.begin());
    if (row.empty() || std::isnan(row[0]) || row.size() < token.head) continue;
    features = token.form == Form::kLogProbabilities ? at_ids(log_probabilities(row), token.ids)
                                                     : project(token.form, row, token.head);
    for (const size_t hole : token.holes) features[hole] = 0;
  }
  return result;
}

Fit Evidence::fit(const Matrix& predicted, const std::vector<int64_t>& positions) const {
  return fit(features(predicted, positions));
}

Fit Evidence::fit(const std::vector<std::vector<double>>& predicted) const {
  Fit fit;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const Token& token = tokens_[i];
    if (predicted[i].empty()) {
      fit.unpredicted += token.differs ? 1 : 0;
      continue;
    }
    const double residual = square_sum(token.got, predicted[i]);
    const double difference = square_sum(token.got, token.ref);
    const double norm = square_sum(token.got);
    fit.residual += residual;
    fit.difference += difference;
    fit.norm += norm;
    fit.scale += square_sum(token.ref);
    if (token.fails_first && difference > 0) fit.first_left = residual / difference;
    const size_t size = token.got.size();
    const bool votes_alone = token.form == Form::kSketch && token.head > 0;
    fit.features += static_cast<int64_t>(votes_alone ? size - token.head : size);
    for (size_t k = votes_alone ? size - token.head : 0; k < size; ++k) {
      const double left = std::abs(token.got[k] - predicted[i][k]);
      const double all = std::abs(token.got[k] - token.ref[k]);
      fit.nearer += left < all ? 1 : 0;
      fit.farther += left > all ? 1 : 0;
    }
    if (!token.differs) continue;
    ++fit.tokens;
    fit.held += residual <= kHolds * std::min(difference, norm) ? 1 : 0;
  }
  return fit;
}

}  // namespace assay::causes
