#include "kernels/emulated/access_history.h"

#include <fmt/format.h>

namespace assay::emulated {

std::string AccessHistory::describe(const char* does, const Race& race) {
  const Access& earlier = *race.earlier;
  return fmt::format(
      "a race for device memory: {} what thread {} of block {} {} at line {}, with nothing that "
      "orders them",
      does, earlier.who.who.thread, earlier.who.block, race.is_with_write ? "wrote" : "read",
      earlier.line);
}

}  // namespace assay::emulated
