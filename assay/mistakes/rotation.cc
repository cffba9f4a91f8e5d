#include "assay/mistakes/rotation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/mistakes/number_text.h"

namespace assay::mistakes {

KernelHooks rotated(std::function<void(Rotation&, const OpContext&)> edit) {
  return {.rope = [edit = std::move(edit)](const OpContext& context, RopeCall call,
                                           Kernels& kernels) {
    const std::vector<int64_t>& positions = context.inputs.positions;
    Rotation rotation{context.network.rope_at(context.op()), {positions.begin(), positions.end()}};
    edit(rotation, context);
    std::vector<float> table = rope_table(rotation.settings, rotation.positions);
    const size_t width = 2 * rotation.settings.frequencies.size();
    for (size_t t = 0; t < rotation.positions.size(); ++t) {
      if (rotation.positions[t] < rotation.table_end) continue;
      std::fill_n(table.begin() + static_cast<std::ptrdiff_t>(t * width), width, 0.0F);
    }
    call.cos_sin = table.data();
    call.pairing = rotation.settings.pairing;
    call.rotary_dim = 2 * std::ssize(rotation.settings.frequencies);
    call.first_turned = rotation.settings.first_turned;
    kernels.run(call);
  }};
}

Matrix turned_heads(const Network& network, const Matrix& right, bool to_halves) {
  Matrix out = right;
  const int64_t head_dim = network.head_dim;
  const int64_t first = network.rope ? network.rope->first_turned : 0;
  const int64_t pairs = (head_dim - first) / 2;
  for (int64_t t = 0; t < out.rows; ++t) {
    for (int64_t head = first; head + 2 * pairs <= out.columns; head += head_dim) {
      for (int64_t p = 0; p < pairs; ++p) {
        for (int64_t part = 0; part < 2; ++part) {
          const int64_t adjacent = head + 2 * p + part;
          const int64_t halves = head + part * pairs + p;
          out.row(t)[to_halves ? halves : adjacent] = right.row(t)[to_halves ? adjacent : halves];
        }
      }
    }
  }
  return out;
}

Injected of_both(std::string name, std::string what, double parameter) {
  return {.name = std::move(name),
          .group = FaultGroup::kRotary,
          .what = std::move(what),
          .at = Checkpoint::kQRope,
          .unsupported_reason = needs_rotary,
          .parameter = with(parameter),
          .also = {Checkpoint::kKRope}};
}

Injected of_table(std::string name, std::string what, UnsupportedReason reason,
                  std::function<double(const OpContext&)> parameter) {
  Injected fault = of_both(std::move(name), std::move(what));
  fault.unsupported_reason = std::move(reason);
  fault.parameter = std::move(parameter);
  fault.in_every_layer = true;
  fault.in_arguments = true;
  return fault;
}

std::vector<double> factors_of(const RopeSettings& settings) {
  if (!(settings.base > 0)) return {};
  std::vector<double> factors = rope_frequencies(settings.base, settings.frequencies.size());
  bool any = false;
  for (size_t i = 0; i < factors.size(); ++i) {
    factors[i] /= settings.frequencies[i];
    any = any || std::abs(factors[i] - 1) > 1e-6;
  }
  return any ? factors : std::vector<double>();
}

bool has_factors(const Network& network, Op op) {
  return network.rope && !factors_of(network.rope_at(op)).empty();
}

bool has_table_factor(const Network& network, Op op) {
  return network.rope && network.rope_at(op).factor != 1;
}

std::string rounded(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  const double nice = std::round(value / unit) * unit;
  return std::abs(value / nice - 1) < 1e-3 ? fmt::format("{:.15g}", nice)
                                           : fmt::format("{:.4g}", value);
}

std::string rounded_unlike(double value, double other) {
  return rounded(value) == rounded(other) ? number_unlike(value, other) : rounded(value);
}

}  // namespace assay::mistakes
