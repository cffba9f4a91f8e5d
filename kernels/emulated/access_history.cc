#include "kernels/emulated/access_history.h"

#include <fmt/format.h>

namespace assay::emulated {

std::string AccessHistory::describe_race(const char* does, const Access& earlier) {
  return fmt::format(
      "a race for device memory: {} what thread {} of block {} {} at line {}, with nothing that "
      "orders them",
      does, earlier.who.who.thread, earlier.who.block, earlier.is_write ? "wrote" : "read",
      earlier.line);
}

}  // namespace assay::emulated
