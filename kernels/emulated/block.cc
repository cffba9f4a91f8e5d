#include "kernels/emulated/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace assay::emulated {
namespace {

const char* name_of(WarpOperation operation) {
  switch (operation) {
    case WarpOperation::kSync:
      return "__syncwarp";
    case WarpOperation::kShuffle:
      return "a shuffle";
    case WarpOperation::kMultiply:
      return "a matrix product";
  }
  return "";
}

std::string text(const Dim3& index) {
  return fmt::format("({},{},{})", index.x, index.y, index.z);
}

std::string text(const Place& place) {
  return fmt::format("{}:{}", place.file, place.line);
}

}  // namespace

thread_local constinit Block* Block::current_ = nullptr;

Block::Block(std::string_view kernel, const LaunchShape& shape, const DeviceMemory& memory,
             Fibers& fibers, uint64_t seed, EmulatedCounts& counts, const Watchers& watchers)
    : kernel_(kernel),
      shape_(shape),
      memory_(memory),
      fibers_(fibers),
      random_(seed),
      counts_(counts),
      watchers_(watchers),
      toucher_{.launch = static_cast<uint32_t>(counts.launches), .who = {}},
      shared_(thread_order_, watchers.most_shared_bytes) {
  const Dim3& dim = shape.block;
  threads_.resize(size_t{dim.x} * dim.y * dim.z);
  warps_.resize((threads_.size() + kWarpSize - 1) / kWarpSize);
  order_.resize(threads_.size());
  std::iota(order_.begin(), order_.end(), 0U);
  for (unsigned i = 0; i < threads_.size(); ++i) {
    threads_[i].index = {i % dim.x, i / dim.x % dim.y, i / dim.x / dim.y};
  }
  while (fibers_.size() < threads_.size())
    fibers_.push_back(std::make_unique<Fiber>(fibers_.size()));
}

void Block::run(const Dim3& index, const std::function<void()>& body) {
  index_ = index;
  toucher_.block = index.x + shape_.grid.x * (index.y + shape_.grid.y * index.z);
  body_ = &body;
  thread_order_.begin_block();
  shared_.begin_block(shape_.shared_bytes);
  for (Thread& thread : threads_) {
    thread.state = State::kReady;
    thread.has_waited = !shape_.starts_early;
    thread.n_atomics = 0;
    thread.copies.clear();
  }
  if (random_ != 0) {
    for (size_t i = order_.size(); i > 1; --i) {
      random_ = random_ * 6364136223846793005U + 1442695040888963407U;
      std::swap(order_[i - 1], order_[(random_ >> 33U) % i]);
    }
  }
  Block* const outer = std::exchange(current_, this);
  try {
    while (run_ready_threads() || release_exchanges() || release_barrier()) continue;
    const auto done = [](const Thread& thread) { return thread.state == State::kDone; };
    if (!std::all_of(threads_.begin(), threads_.end(), done)) report_stuck();
    if (watchers_.counter != nullptr) watchers_.counter->end_block();
  } catch (...) {
    current_ = outer;
    throw;
  }
  current_ = outer;
}

// Threads that wait go on to the next themselves: each time that one comes back here, it has ended
// or there is no other.
bool Block::run_ready_threads() {
  bool any = false;
  for (turn_ = 0; next_ready(); ++turn_) {
    any = true;
    fibers_[running_]->run(*body_);
    if (!fibers_[running_]->done()) continue;
    threads_[running_].state = State::kDone;
    check_waited("ends", Place::here());
  }
  return any;
}

// Makes the first thread that is ready, from turn_ on, the running one, if there is one.
bool Block::next_ready() {
  for (; turn_ < order_.size(); ++turn_) {
    if (threads_[order_[turn_]].state != State::kReady) continue;
    running_ = order_[turn_];
    toucher_.who = thread_order_.accessor(running_);
    return true;
  }
  return false;
}

void Block::wait(State state, const Place& place) {
  Thread& thread = threads_[running_];
  thread.state = state;
  thread.place = place;
  Fiber& own = *fibers_[running_];
  if (next_ready()) {
    own.wait_for(*fibers_[running_], *body_);
  } else {
    own.wait();
  }
}

void Block::barrier(const Place& place) {
  wait(State::kAtBarrier, place);
}

// All threads must be at one and the same barrier.
bool Block::release_barrier() {
  for (const Thread& thread : threads_) {
    if (thread.state != State::kAtBarrier || !same_place(thread.place, threads_[0].place)) {
      return false;
    }
  }
  for (Thread& thread : threads_) thread.state = State::kReady;
  thread_order_.pass_barrier();
  if (watchers_.counter != nullptr) watchers_.counter->pass_barrier();
  return true;
}

void Block::meet(WarpOperation operation, uint32_t mask, const Place& place) {
  Thread& thread = threads_[running_];
  if ((mask >> lane() & 1U) == 0) {
    fail(fmt::format("calls {} with the mask {:#010x}, which leaves out its own lane {}",
                     name_of(operation), mask, lane()),
         place);
  }
  thread.operation = operation;
  thread.mask = mask;
  if (watchers_.counter != nullptr) watchers_.counter->meet(running_);
  wait(State::kExchanging, place);
}

void Block::reject_lane(unsigned lane, const Place& place) const {
  fail(fmt::format("a shuffle reads from lane {}, which does not take part (mask {:#010x})", lane,
                   met()),
       place);
}

void Block::begin_copy(SharedMemory::Array& array, int64_t index, const uint8_t* from,
                       const Place& place) {
  if (!shared_.begin_copy(array, index, accessor(), place)) {
    fail(shared_.why_not_write(array, index, accessor()), place);
  }
  Thread& thread = threads_[running_];
  thread.copies.push_back({thread.closed_groups, &array, index, from});
  if (watchers_.counter == nullptr) return;
  constexpr size_t kBytes = 16;
  count_global(MemoryUse::kGlobalCopy, from, kBytes, kBytes, place);
  count_shared(MemoryUse::kSharedWrite, array, index, kBytes, place);
  watchers_.counter->begin_copy(running_, kBytes);
}

void Block::wait_for_copies(uint32_t groups, const Place& place) {
  Thread& thread = threads_[running_];
  const auto is_due = [&](const Copy& copy) { return copy.group + groups < thread.closed_groups; };
  auto copy = thread.copies.begin();
  for (; copy != thread.copies.end() && is_due(*copy); ++copy) {
    shared_.finish_copy(*copy->array, copy->index, copy->from, accessor(), place);
  }
  thread.copies.erase(thread.copies.begin(), copy);
  if (watchers_.counter != nullptr) watchers_.counter->wait_for_copies(running_, groups);
}

bool Block::takes_part(unsigned thread, const Thread& in) const {
  if (thread >= threads_.size()) return false;
  const Thread& other = threads_[thread];
  return other.state == State::kExchanging && other.operation == in.operation &&
         other.mask == in.mask && same_place(other.place, in.place);
}

bool Block::release_exchanges() {
  bool any = false;
  for (unsigned i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state == State::kExchanging && release_exchange(i)) any = true;
  }
  return any;
}

// What the lanes contribute is copied: a lane that runs on may come to its next exchange before the
// others have read. That one is not released before they have.
bool Block::release_exchange(unsigned thread) {
  const Thread& in = threads_[thread];
  const unsigned first = thread / kWarpSize * kWarpSize;
  const uint32_t mask = in.mask;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1U) != 0 && !takes_part(first + lane, in)) return false;
  }
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    warps_[thread / kWarpSize].contribution[lane] = threads_[first + lane].contribution;
    threads_[first + lane].state = State::kReady;
  }
  if (in.operation == WarpOperation::kSync) thread_order_.pass_warp_sync(thread / kWarpSize, mask);
  return true;
}

// No thread can continue: reports the first that waits, and one that it waits for.
void Block::report_stuck() {
  const auto waits = [](const Thread& thread) { return thread.state != State::kDone; };
  // A meeting first: threads at a barrier may wait for those who meet.
  auto found = std::find_if(threads_.begin(), threads_.end(), [](const Thread& thread) {
    return thread.state == State::kExchanging;
  });
  if (found == threads_.end()) found = std::find_if(threads_.begin(), threads_.end(), waits);
  const auto thread = static_cast<unsigned>(found - threads_.begin());
  if (found->state == State::kExchanging) {
    const unsigned first = thread / kWarpSize * kWarpSize;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      if ((found->mask >> lane & 1U) == 0 || takes_part(first + lane, *found)) continue;
      fail_in(thread,
              fmt::format("waits in {} with the mask {:#010x} for lane {}, {}",
                          name_of(found->operation), found->mask, lane, describe(first + lane)),
              found->place);
    }
  }
  for (unsigned i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state == State::kAtBarrier && same_place(threads_[i].place, found->place)) {
      continue;
    }
    fail_in(thread,
            fmt::format("waits at a __syncthreads that not all threads reach: {}", describe(i)),
            found->place);
  }
  fail_in(thread, "cannot go on", found->place);
}

std::string Block::describe(unsigned thread) const {
  if (thread >= threads_.size()) return "which the block does not have";
  const Thread& t = threads_[thread];
  const std::string who = fmt::format("thread {} ", text(t.index));
  switch (t.state) {
    case State::kDone:
      return who + "has ended";
    case State::kAtBarrier:
      return who + "waits at the __syncthreads of " + text(t.place);
    case State::kExchanging:
      return who + fmt::format("waits in {} with the mask {:#010x} at {}", name_of(t.operation),
                               t.mask, text(t.place));
    case State::kReady:
      break;
  }
  return who + "runs";
}

void Block::count_shared(MemoryUse use, const SharedMemory::Array& array, int64_t index,
                         size_t most, const Place& place) {
  if (watchers_.counter == nullptr) return;
  const auto [offset, bytes] = SharedMemory::place_of(array, index);
  watchers_.counter->access(use, running_, offset, bytes, most, place);
}

void Block::count_load_anywhere(const void* address, size_t bytes, const Place& place) {
  const std::optional<size_t> offset = shared_.offset_of(address);
  if (offset) {
    watchers_.counter->access(MemoryUse::kSharedRead, running_, *offset, bytes, bytes, place);
  } else {
    count_global(MemoryUse::kGlobalRead, address, bytes, bytes, place);
  }
}

void Block::fence() {
  block_order_.fence(toucher());
  if (watchers_.stores != nullptr) watchers_.stores->drain(toucher());
}

// Blocks run one after the other: a thread that waits for one that has not begun waits forever.
void Block::begin_atomic(const void* address, size_t bytes, const Place& place) {
  constexpr uint32_t kMostAtomics = 1'000'000;
  check(address, bytes, place);
  check_written(address, bytes, place);
  if (++threads_[running_].n_atomics > kMostAtomics) {
    fail(
        "makes a million atomic operations: it waits for a block that cannot run before this one "
        "has ended",
        place);
  }
  block_order_.atomic(toucher());
}

void Block::reject_address(const void* address, size_t bytes, const Place& place) const {
  fail(fmt::format("touches {} bytes of device memory out of bounds, at {}", bytes,
                   memory_.describe(address)),
       place);
}

void Block::reject_unwritten(const void* address, size_t bytes, const Place& place) const {
  fail(fmt::format("reads {} bytes of device memory that was never written, at {}", bytes,
                   memory_.describe(address)),
       place);
}

void Block::fail(const std::string& what, const Place& place) const {
  fail_in(running_, what, place);
}

void Block::fail_in(unsigned thread, const std::string& what, const Place& place) const {
  throw Error(fmt::format("kernel {}, block {}, thread {}: {}", kernel_, text(index_),
                          text(threads_[thread].index), what),
              text(place));
}

}  // namespace assay::emulated
