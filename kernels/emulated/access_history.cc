#include "kernels/emulated/access_history.h"

#include <fmt/format.h>

namespace assay::emulated {
namespace {

constexpr uint32_t kLanes = 32;

bool same_warp(const Toucher& a, const Toucher& b) {
  return a.block == b.block && a.thread / kLanes == b.thread / kLanes;
}

}  // namespace

bool AccessHistory::conflicts(const Access& earlier, const Toucher& who) {
  if (earlier.who.launch != who.launch || same_warp(earlier.who, who)) return false;
  return earlier.who.block != who.block || earlier.who.barriers == who.barriers;
}

std::string AccessHistory::read(size_t first, size_t count, const Toucher& who,
                                const Place& place) {
  for (size_t i = first / word_bytes_; i < (first + count + word_bytes_ - 1) / word_bytes_; ++i) {
    Word& word = words_[i];
    if (conflicts(word.write, who)) {
      return fmt::format(
          "a race for device memory: reads what thread {} of block {} wrote at line {}, with "
          "nothing "
          "that orders them",
          word.write.who.thread, word.write.who.block, word.write.line);
    }
    const bool first_is_free =
        word.reads[0].who.launch != who.launch || same_warp(word.reads[0].who, who);
    word.reads[first_is_free ? 0 : 1] = {who, place.line};
  }
  return {};
}

std::string AccessHistory::write(size_t first, size_t count, const Toucher& who,
                                 const Place& place) {
  for (size_t i = first / word_bytes_; i < (first + count + word_bytes_ - 1) / word_bytes_; ++i) {
    Word& word = words_[i];
    for (const Access* earlier : {&word.write, &word.reads[0], &word.reads[1]}) {
      if (!conflicts(*earlier, who)) continue;
      return fmt::format(
          "a race for device memory: writes what thread {} of block {} {} at line {}, with nothing "
          "that orders them",
          earlier->who.thread, earlier->who.block, earlier == &word.write ? "wrote" : "read",
          earlier->line);
    }
    word.write = {who, place.line};
  }
  return {};
}

}  // namespace assay::emulated
