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
// middle, and continues from there when it is resumed.
class Fiber {
 public:
  Fiber() = default;
  // A function that waits is left by an exception, so that what it holds is destroyed.
  ~Fiber() {
    ending_ = true;
    if (inside_) enter();
    switch_.discard_inside();
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs `body` from its start until it waits or returns. Only when the last one has returned.
  void start(const std::function<void()>& body) {
    body_ = &body;
    if (!inside_) make();
    resume();
  }

  // Goes on where the function waits. What it throws is thrown here.
  void resume() {
    enter();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  // Called by the function: goes back to who started or resumed it.
  void wait() {
    leave();
    if (ending_) throw Ending();
  }

  bool done() const { return body_ == nullptr; }

 private:
  struct Ending {};

  static constexpr size_t kStackBytes =
      size_t{256} * 1024;  // of address space; few pages are touched

  void make() {
    boost::context::protected_fixedsize_stack allocator(kStackBytes);
    const auto stack = allocator.allocate();
    switch_.set_inside(static_cast<const char*>(stack.sp) - stack.size, stack.size);
    inside_ = boost::context::fiber(std::allocator_arg,
                                    boost::context::preallocated(stack.sp, stack.size, stack),
                                    allocator, [this](boost::context::fiber&& outside) {
                                      switch_.entered();
                                      outside_ = std::move(outside);
                                      while (!ending_) run_body();
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
    switch_.enter();
    inside_ = std::move(inside_).resume();
    switch_.left();
  }

  void leave() {
    switch_.leave();
    outside_ = std::move(outside_).resume();
    switch_.entered();
  }

  const std::function<void()>* body_ = nullptr;
  bool ending_ = false;
  std::exception_ptr failure_;
  boost::context::fiber inside_;
  boost::context::fiber outside_;
  StackSwitch switch_;
};

// Fibers that are used again: to make one costs as much as many kernels take.
using Fibers = std::vector<std::unique_ptr<Fiber>>;

}  // namespace assay::emulated
