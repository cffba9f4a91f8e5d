#include "kernels/emulated/access_history.h"

#include <fmt/format.h>

namespace assay::emulated {

bool AccessHistory::conflicts(const Access& earlier, const Toucher& who, const LaunchOrder& order) {
  if (earlier.who.launch != who.launch) return false;
  if (earlier.who.block != who.block) return !order.of_blocks.separates(earlier.who, who);
  return !order.in_block.separates(earlier.who.who, who.who);
}

void AccessHistory::note(Reads& reads, const Access& access) {
  const Toucher& first = reads[0].who;
  const Toucher& who = access.who;
  if (first.launch != who.launch ||
      (first.block == who.block && first.who.thread == who.who.thread)) {
    reads[0] = access;
  } else if (first.block == who.block && same_warp(first.who.thread, who.who.thread)) {
    reads[1] = access;
  } else {
    reads[2] = access;
  }
}

AccessHistory::Race AccessHistory::race(size_t word, const Toucher& who, const LaunchOrder& order,
                                        bool with_reads) const {
  const Word& touched = words_[word];
  if (conflicts(touched.write, who, order)) return {&touched.write, "wrote"};
  for (const Access& read : touched.reads) {
    if (with_reads && conflicts(read, who, order)) return {&read, "read"};
  }
  return {};
}

template <class Keep>
std::string AccessHistory::touch(size_t first, size_t count, const Toucher& who,
                                 const LaunchOrder& order, const char* does, bool with_reads,
                                 const Keep& keep) {
  for (size_t i = first / word_bytes_; i < (first + count + word_bytes_ - 1) / word_bytes_; ++i) {
    const auto [earlier, did] = race(i, who, order, with_reads);
    if (earlier != nullptr) {
      return fmt::format(
          "a race for device memory: {} what thread {} of block {} {} at line {}, with nothing "
          "that orders them",
          does, earlier->who.who.thread, earlier->who.block, did, earlier->line);
    }
    keep(i);
  }
  return {};
}

std::string AccessHistory::read(size_t first, size_t count, const Toucher& who,
                                const LaunchOrder& order, const Place& place) {
  return touch(first, count, who, order, "reads", false, [&](size_t i) {
    note(words_[i].reads, {who, place.line});
  });
}

std::string AccessHistory::write(size_t first, size_t count, const Toucher& who,
                                 const LaunchOrder& order, const Place& place) {
  return touch(first, count, who, order, "writes", true, [&](size_t i) {
    words_[i].write = {who, place.line};
  });
}

}  // namespace assay::emulated
