#include "assay/causes/evidence.h"

#include <algorithm>
#include <cmath>

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
  double largest = 0;
  for (const int64_t position : positions) {
    const Record* ref_record = store.ref(checkpoint, position);
    const Record* got_record = store.got(checkpoint, position);
    if (ref_record == nullptr || got_record == nullptr) continue;
    const Record& ref = *ref_record;
    const Record& got = *got_record;
    Token token;
    token.token_idx = position;
    size_t count = std::min(ref.values.size(), got.values.size());
    const bool same_size = ref.n == got.n;
    if (!(ref.has_all_values() && got.has_all_values()) && same_size && has_sketch(ref) &&
        has_sketch(got)) {
      token.form = Form::kSketch;
    } else if (!(ref.has_all_values() && got.has_all_values())) {
      token.form = Form::kHead;
    }
    if (token.form != Form::kSketch && count == 0) continue;
    token.head = count;
    token.ref = project(token.form, ref, count);
    token.got = project(token.form, got, count);
    for (size_t i = 0; i < token.ref.size(); ++i) {
      if (std::isfinite(token.ref[i]) && std::isfinite(token.got[i])) continue;
      token.ref[i] = token.got[i] = 0;
      token.holes.push_back(i);
    }
    largest = std::max(largest, square_sum(token.ref, token.got));
    tokens_.push_back(std::move(token));
  }
  for (Token& token : tokens_) {
    token.differs = square_sum(token.ref, token.got) > kDiffers * kDiffers * largest;
  }
}

bool Evidence::has_all_values() const {
  return !tokens_.empty() && std::all_of(tokens_.begin(), tokens_.end(), [](const Token& token) {
    return token.form == Form::kAll;
  });
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
    features = project(token.form, row, token.head);
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
