#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace assay::emulated {

// Runs functions, one after the other, on a stack of its own. Such a function can stop in its
// middle, and goes on from there when it is resumed.
class Fiber {
 public:
  Fiber() = default;
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
    inside_ = std::move(inside_).resume();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  // Called by the function: goes back to who started or resumed it.
  void wait() { outside_ = std::move(outside_).resume(); }

  bool done() const { return body_ == nullptr; }

 private:
  static constexpr size_t kStackBytes = 256 * 1024;  // of address space; few pages are touched

  void make() {
    inside_ = boost::context::fiber(std::allocator_arg,
                                    boost::context::protected_fixedsize_stack(kStackBytes),
                                    [this](boost::context::fiber&& outside) {
                                      outside_ = std::move(outside);
                                      for (;;) run_body();
                                      return std::move(outside_);
                                    });
  }

  void run_body() {
    try {
      (*body_)();
    } catch (const boost::context::detail::forced_unwind&) {
      throw;  // the fiber is destroyed while the function waits
    } catch (...) {
      failure_ = std::current_exception();
    }
    body_ = nullptr;
    wait();
  }

  const std::function<void()>* body_ = nullptr;
  std::exception_ptr failure_;
  boost::context::fiber inside_;
  boost::context::fiber outside_;
};

// Fibers that are used again: to make one costs as much as many kernels take.
using Fibers = std::vector<std::unique_ptr<Fiber>>;

}  // namespace assay::emulated
