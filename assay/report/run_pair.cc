#include "assay/report/run_pair.h"

#include <fmt/format.h>

#include "base/error.h"

namespace assay {

std::string divergence_place(const std::optional<FirstDivergence>& first) {
  if (!first) return "-";
  return fmt::format("{} at {}", printable(first->checkpoint.title(), 60), first->token_idx);
}

void append_pair(const RunPair& pair, JsonObject& object) {
  object.member("verdict", verdict_name(pair.verdict));
  object.member("pass", pair.pass);
  object.member("compared", pair.compared);
  object.member("failed", pair.failed);
  object.member("unproven", pair.unproven);
  object.member("partial", pair.partial);
  object.member("without_argmax", pair.without_argmax);
  object.member("median_rel_l2", pair.median_rel_l2);
  object.member("worst_rel_l2", pair.worst_rel_l2);
  object.member("worst_of_tolerance", pair.worst_of_tolerance);
  object.object_or_null("first_divergence", pair.first_divergence,
                        [](JsonObject& place, const FirstDivergence& first) {
                          place.member("checkpoint", first.checkpoint.name);
                          place.member("token_idx", first.token_idx);
                          place.member("metric", metric_name(first.metric));
                          place.member("value", first.value);
                          place.member("tolerance", first.tolerance);
                        });
}

}  // namespace assay
