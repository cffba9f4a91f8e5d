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

void AccessHistory::note(Pair& pair, const Access& access) {
  const Access& first = pair[0];
  const bool is_free = first.who.launch != access.who.launch || same_warp(first.who, access.who);
  pair[is_free ? 0 : 1] = access;
}

AccessHistory::Race AccessHistory::race(size_t word, const Toucher& who, bool with_reads) const {
  const Word& touched = words_[word];
  if (conflicts(touched.write, who)) return {&touched.write, "wrote"};
  for (const Access& read : touched.reads) {
    if (with_reads && conflicts(read, who)) return {&read, "read"};
  }
  return {};
}

template <class Keep>
std::string AccessHistory::touch(size_t first, size_t count, const Toucher& who, const char* does,
                                 bool with_reads, const Keep& keep) {
  for (size_t i = first / word_bytes_; i < (first + count + word_bytes_ - 1) / word_bytes_; ++i) {
    const auto [earlier, did] = race(i, who, with_reads);
    if (earlier != nullptr) {
      return fmt::format(
          "a race for device memory: {} what thread {} of block {} {} at line {}, with nothing "
          "that orders them",
          does, earlier->who.thread, earlier->who.block, did, earlier->line);
    }
    keep(i);
  }
  return {};
}

std::string AccessHistory::read(size_t first, size_t count, const Toucher& who,
                                const Place& place) {
  return touch(first, count, who, "reads", false, [&](size_t i) {
    note(words_[i].reads, {who, place.line});
  });
}

std::string AccessHistory::write(size_t first, size_t count, const Toucher& who,
                                 const Place& place) {
  return touch(first, count, who, "writes", true, [&](size_t i) {
    words_[i].write = {who, place.line};
  });
}

}  // namespace assay::emulated
