#include "assay/mutate/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace assay {
namespace {

// A mistake of the catalogue as a fault.
Fault fault_of(const mistakes::Mistake& mistake, const mistakes::Injected& injected) {
  Fault fault{.name = injected.name,
              .group = injected.group,
              .what = injected.what,
              .cause = mistake.cause,
              .in_one_layer = is_in_layer(injected.at) && !injected.in_every_layer,
              .unsupported_reason = injected.unsupported_reason};
  fault.inject = [&mistake, &injected, in_one_layer = fault.in_one_layer](const FaultSite& site) {
    const int layer = in_one_layer ? site.layer : 0;
    const auto applies = [&injected, layer](const OpSite& call) {
      const auto& also = injected.also;
      return (call.layer == layer || injected.in_every_layer) &&
             (call.checkpoint == injected.at ||
              std::find(also.begin(), also.end(), call.checkpoint) != also.end());
    };
    return Injection{.found_at = {.checkpoint = injected.at, .layer = layer},
                     .hooks = mistake.edit,
                     .applies = applies,
                     .parameter = injected.parameter,
                     .in_arguments = injected.in_arguments};
  };
  return fault;
}

std::vector<Fault> all_faults() {
  std::vector<Fault> faults;
  for (auto part : {mutate::token_faults(), mutate::embedding_faults(), mutate::linear_faults(),
                    mutate::attention_faults(), mutate::output_faults(), mutate::number_faults(),
                    mutate::quantised_faults(), mutate::sampling_faults()}) {
    for (Fault& fault : part) faults.push_back(std::move(fault));
  }
  for (const mistakes::Mistake& mistake : mistakes::mistake_catalogue()) {
    for (const mistakes::Injected& injected : mistake.faults) {
      faults.push_back(fault_of(mistake, injected));
    }
  }
  std::stable_sort(faults.begin(), faults.end(),
                   [](const Fault& a, const Fault& b) { return a.group < b.group; });
  return faults;
}

constexpr UnobservableFault kUnobservable[] = {
    {"an activation is +0 where it should be -0",
     "every op that reads it gives the same number. Of dequantised weights the sign of zero is "
     "held: the vectors are compared bit for bit"},
    {"softmax subtracts another number than the highest score",
     "it cancels in the division; where it does not, because exp() overflows, it is "
     "softmax-without-max"},
    {"tied embeddings are read as an output matrix of their own", "it is the same matrix"},
    {"query heads are mapped to kv heads by modulo, with one kv head or as many as query heads",
     "both maps are the same; gqa-modulo is tried where they are not"},
    {"long rotary factors for short ones where the two are equal", "it is the same table"},
    {"all positions are shifted alike, seen in logs of layers or logits",
     "rotary attention knows differences of positions only. Logs with every op catch it, as "
     "rope-position-off-by-one"},
};

// Letters to insert, delete or change to make one of the other (Levenshtein 1966).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string FaultPlace::name() const {
  switch (kind) {
    case Kind::kCheckpoint:
      return checkpoint_name(checkpoint, layer);
    case Kind::kPromptTokens:
      return "prompt tokens";
    case Kind::kGeneratedTokens:
      return "generated tokens";
  }
  return {};
}

const std::vector<Fault>& fault_catalogue() {
  static const std::vector<Fault> faults = all_faults();
  return faults;
}

std::span<const UnobservableFault> unobservable_faults() {
  return kUnobservable;
}

const Fault& find_fault(const std::string& name) {
  const std::vector<Fault>& faults = fault_catalogue();
  const auto distance = [&](const Fault& fault) { return edit_distance(fault.name, name); };
  const auto nearest =
      std::min_element(faults.begin(), faults.end(),
                       [&](const Fault& a, const Fault& b) { return distance(a) < distance(b); });
  if (nearest->name == name) return *nearest;
  throw Error(fmt::format("there is no fault '{}'", name), "--fault",
              fmt::format("'{}' is the nearest; assay mutate --list has all", nearest->name));
}

}  // namespace assay
