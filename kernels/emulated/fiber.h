#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/emulated/stack_switch.h"

namespace assay::emulated {

// Runs functions, one after the other, on a stack of its own. Such a function can stop in its
// middle, and continues from there when it is resumed: by who runs the fibers, or by another one's
// function that stops.
class Fiber {
 public:
  // Fibers with other numbers use other lines of the processor's caches.
  explicit Fiber(size_t number) : stack_offset_(number % kStackOffsets * kStackOffset) {}
  // A function that waits is left by an exception, so that what it holds is destroyed.
  ~Fiber() {
    ending_ = true;
    if (inside_) enter();
    switch_.discard_inside();
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs `body` from its start, or goes on where it waits, until a function waits for no other or
  // returns, this one or one that it went to. What that one throws is thrown here.
  void run(const std::function<void()>& body) {
    prepare(body);
    enter();
    if (left_->failure_) std::rethrow_exception(std::exchange(left_->failure_, nullptr));
  }

  // Called by the function: goes back to who called run().
  void wait() {
    leave();
    if (ending_) throw Ending();
  }
  // The same, but goes to another fiber, whose function is `body` if it has none.
  void wait_for(Fiber& next, const std::function<void()>& body) {
    next.prepare(body);
    left_ = this;
    switch_.go_to(next.switch_);
    arrive(std::move(next.inside_).resume());
    switch_.entered();
    if (ending_) throw Ending();
  }

  bool done() const { return body_ == nullptr; }

 private:
  struct Ending {};

  static constexpr size_t kStackBytes =
      size_t{256} * 1024;  // of address space; few pages are touched
  // Stacks begin at multiples of a page, where all would take turns in the same lines of the cache.
  static constexpr size_t kStackOffset = 192;
  static constexpr size_t kStackOffsets = 64;

  void prepare(const std::function<void()>& body) {
    if (done()) body_ = &body;
    if (!inside_) make();
  }

  void make() {
    boost::context::protected_fixedsize_stack allocator(kStackBytes);
    const auto stack = allocator.allocate();
    const size_t size = stack.size - stack_offset_;
    void* const top = static_cast<char*>(stack.sp) - stack_offset_;
    switch_.set_inside(static_cast<const char*>(top) - size, size);
    inside_ =
        boost::context::fiber(std::allocator_arg, boost::context::preallocated(top, size, stack),
                              allocator, [this](boost::context::fiber&& from) {
                                arrive(std::move(from));
                                switch_.entered();
                                while (!ending_) run_body();
                                left_ = this;
                                switch_.leave_finished();
                                return std::move(outside_);
                              });
  }

  void run_body() {
    try {
      (*body_)();
    } catch (const Ending&) {
      return;
    } catch (...) {
      failure_ = std::current_exception();
    }
    body_ = nullptr;
    leave();
  }

  void enter() {
    left_ = nullptr;
    switch_.enter();
    arrive(std::move(inside_).resume());
    switch_.left();
  }

  void leave() {
    left_ = this;
    switch_.leave();
    arrive(std::move(outside_).resume());
    switch_.entered();
  }

  // Keeps where who came here goes on.
  static void arrive(boost::context::fiber&& from) {
    (left_ == nullptr ? outside_ : left_->inside_) = std::move(from);
  }

  // Of this thread of the host: who came here, null for who runs the fibers, and where that one
  // goes on.
  // NOLINTBEGIN(readability-identifier-naming): private members
  static inline thread_local constinit Fiber* left_ = nullptr;
  static inline thread_local boost::context::fiber outside_;
  // NOLINTEND(readability-identifier-naming)

  size_t stack_offset_;
  const std::function<void()>* body_ = nullptr;
  bool ending_ = false;
  std::exception_ptr failure_;
  boost::context::fiber inside_;
  StackSwitch switch_;
};

// Fibers that are used again: to make one costs as much as many kernels take.
using Fibers = std::vector<std::unique_ptr<Fiber>>;

}  // namespace assay::emulated
