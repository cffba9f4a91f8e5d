#include "kernels/emulated/instruction_counter.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace assay {

void LineCounts::add(const LineCounts& others) {
  instructions += others.instructions;
  wavefronts += others.wavefronts;
  most_wavefronts = std::max(most_wavefronts, others.most_wavefronts);
  sectors += others.sectors;
}

LineCounts KernelCounts::total() const {
  LineCounts sum;
  for (const auto& [line, counts] : lines) sum.add(counts);
  return sum;
}

void KernelCounts::add(const KernelCounts& others) {
  launches += others.launches;
  load_chain += others.load_chain;
  waited_bytes += others.waited_bytes;
  waits += others.waits;
  for (const auto& [line, counts] : others.lines) lines[line].add(counts);
}

}  // namespace assay

namespace assay::emulated {
namespace {

constexpr uint64_t kBanks = 32;
constexpr uint64_t kWordBytes = 4;
constexpr uint64_t kSectorBytes = 32;

const char* text(MemoryUse use) {
  switch (use) {
    case MemoryUse::kSharedRead:
      return "reads shared memory";
    case MemoryUse::kSharedWrite:
      return "writes shared memory";
    case MemoryUse::kGlobalRead:
      return "reads device memory";
    case MemoryUse::kGlobalWrite:
      return "writes device memory";
    case MemoryUse::kGlobalCopy:
      return "copies device memory";
  }
  return "";
}

// The different words of `bytes` each from `address` on, of the lanes [first, last) of `mask`, with
// `unit` bytes a word.
template <class Addresses>
std::vector<uint64_t> words_of(const Addresses& address, uint32_t mask, unsigned first,
                               unsigned last, uint64_t bytes, uint64_t unit) {
  std::vector<uint64_t> words;
  for (unsigned lane = first; lane < last; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    for (uint64_t word = address[lane] / unit; word <= (address[lane] + bytes - 1) / unit; ++word) {
      words.push_back(word);
    }
  }
  std::ranges::sort(words);
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

template <class Addresses>
uint64_t wavefronts_of(const Addresses& address, uint32_t mask, uint32_t bytes) {
  const unsigned at_once = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;  // lanes
  uint64_t sum = 0;
  for (unsigned first = 0; first < kWarpSize; first += at_once) {
    std::array<uint64_t, kBanks> in_bank = {};
    for (const uint64_t word : words_of(address, mask, first, first + at_once, bytes, kWordBytes)) {
      ++in_bank[word % kBanks];
    }
    sum += *std::ranges::max_element(in_bank);
  }
  return sum;
}

}  // namespace

void InstructionCounter::begin_launch(std::string_view kernel, size_t n_threads) {
  kernel_ = &kernels_[std::string(kernel)];
  ++kernel_->launches;
  longest_chain_ = 0;
  counts_.clear();
  threads_.assign(n_threads, {});
  for (Thread& thread : threads_) thread.copies.push_back(0);
  warps_.resize((n_threads + kWarpSize - 1) / kWarpSize);
}

void InstructionCounter::end_launch() {
  kernel_->load_chain += longest_chain_;
}

void InstructionCounter::end_block() {
  finish_instructions();
  for (size_t first = 0; first < threads_.size(); first += kWarpSize) {
    uint64_t most = 0;
    for (size_t i = first; i < std::min(first + kWarpSize, threads_.size()); ++i) {
      Thread& thread = threads_[i];
      wait(thread, 0);
      most = std::max(most, thread.n_waits);
      kernel_->waited_bytes += thread.waited_bytes;
      thread.n_waits = thread.waited_bytes = 0;
      thread.copies.assign(1, 0);
      ++thread.part;
    }
    kernel_->waits += most;
    longest_chain_ = std::max(longest_chain_, most);
  }
}

uint32_t InstructionCounter::line_of(const Place& place, MemoryUse use) {
  const auto next = static_cast<uint32_t>(lines_.size());
  const auto [found, is_first] = line_numbers_.try_emplace({place.file, place.line, use}, next);
  if (is_first) lines_.push_back({place, use});
  return found->second;
}

void InstructionCounter::access(MemoryUse use, unsigned thread, uint64_t address, size_t bytes,
                                size_t most, const Place& place) {
  const uint32_t line = line_of(place, use);
  for (size_t done = 0; done < bytes; done += most) {
    const auto piece = static_cast<uint32_t>(std::min(most, bytes - done));
    access_piece(line, thread, address + done, piece);
  }
  if (use == MemoryUse::kGlobalRead) ask(line, threads_[thread], bytes);
}

void InstructionCounter::access_piece(uint32_t line, unsigned thread, uint64_t address,
                                      uint32_t bytes) {
  Thread& own = threads_[thread];
  if (own.occurrences.size() <= line) own.occurrences.resize(line + 1);
  Occurrences& occurrences = own.occurrences[line];
  if (occurrences.part != own.part) occurrences = {own.part, 0};
  const uint64_t key = own.part << 40U | uint64_t{line} << 24U | occurrences.count++;
  Instruction& instruction = warps_[thread / kWarpSize].instructions[key];
  const unsigned lane = thread % kWarpSize;
  instruction.line = line;
  instruction.bytes = std::max(instruction.bytes, bytes);
  instruction.mask |= 1U << lane;
  instruction.address[lane] = address;
}

// The loops that count are those inside the innermost whose turns come one by one.
void InstructionCounter::ask(uint32_t line, Thread& thread, size_t bytes) {
  uint64_t at_once = 1;
  uint32_t loop = 0;
  for (auto l = thread.loops.rbegin(); l != thread.loops.rend() && l->turns > 1; ++l) {
    at_once *= l->turns;
    loop = l->number;
  }
  if (thread.asked.size() <= line) thread.asked.resize(line + 1);
  const Asked& before = thread.asked[line];
  const bool is_asked = before.times > 0 && before.wait == thread.n_waits;
  if (is_asked && (before.loop != loop || before.times >= at_once)) wait(thread, 0);
  Asked& asked = thread.asked[line];
  if (asked.wait != thread.n_waits || asked.loop != loop) asked = {thread.n_waits, loop, 0};
  ++asked.times;
  thread.asked_bytes += bytes;
}

// For what it has loaded, and for `copied_bytes` that are under way; for nothing, it does not wait.
void InstructionCounter::wait(Thread& thread, size_t copied_bytes) {
  const size_t bytes = thread.asked_bytes + copied_bytes;
  if (bytes == 0) return;
  ++thread.n_waits;
  thread.waited_bytes += bytes;
  thread.asked_bytes = 0;
}

void InstructionCounter::wait_for_copies(unsigned thread, uint32_t groups) {
  std::vector<size_t>& copies = threads_[thread].copies;
  if (copies.size() <= groups + 1) return;
  const auto due = copies.end() - 1 - groups;
  if (std::any_of(copies.begin(), due, [](size_t bytes) { return bytes > 0; })) {
    wait(threads_[thread], std::accumulate(copies.begin(), copies.end(), size_t{0}));
  }
  copies.erase(copies.begin(), due);
}

void InstructionCounter::meet(unsigned thread) {
  ++threads_[thread].part;
  wait(threads_[thread], 0);
}

void InstructionCounter::pass_barrier() {
  finish_instructions();
  uint64_t last = 0;
  for (const Thread& thread : threads_) last = std::max(last, thread.part);
  for (Thread& thread : threads_) {
    thread.part = last + 1;
    wait(thread, 0);
  }
}

void InstructionCounter::enter_loop(unsigned thread, uint32_t turns) {
  Thread& own = threads_[thread];
  own.loops.push_back({++own.n_loops, turns});
}

void InstructionCounter::finish_instructions() {
  for (Warp& warp : warps_) {
    for (const auto& [key, instruction] : warp.instructions) count(instruction);
    warp.instructions.clear();
  }
}

LineCounts& InstructionCounter::counts_of(uint32_t line) {
  if (counts_.size() <= line) counts_.resize(lines_.size());
  if (counts_[line] == nullptr) {
    const auto& [place, use] = lines_[line];
    counts_[line] = &kernel_->lines[fmt::format("{}:{} {}", place.file, place.line, text(use))];
  }
  return *counts_[line];
}

void InstructionCounter::count(const Instruction& instruction) {
  const Line& line = lines_[instruction.line];
  LineCounts& counts = counts_of(instruction.line);
  ++counts.instructions;
  if (is_shared(line.use)) {
    const uint64_t wavefronts =
        wavefronts_of(instruction.address, instruction.mask, instruction.bytes);
    counts.wavefronts += wavefronts;
    counts.most_wavefronts = std::max(counts.most_wavefronts, wavefronts);
  } else {
    counts.sectors += words_of(instruction.address, instruction.mask, 0, kWarpSize,
                               instruction.bytes, kSectorBytes)
                          .size();
  }
}

}  // namespace assay::emulated
