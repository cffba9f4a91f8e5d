#include "base/count_of.h"

namespace assay {

std::string plural(bool is_one, std::string_view one, std::string_view many) {
  if (is_one) return std::string(one);
  return many.empty() ? std::string(one) + "s" : std::string(many);
}

}  // namespace assay
