#pragma once

#include <cstddef>

#include "base/address_sanitizer.h"

#if defined(ASSAY_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace assay::emulated {

// Tells AddressSanitizer that the stack changes, and which is the other; nothing without it. Each
// call is made right before or right after the change.
class StackSwitch {
 public:
  void set_inside(const void* bottom, size_t bytes) {
    inside_bottom_ = bottom;
    inside_bytes_ = bytes;
  }

#if defined(ASSAY_ADDRESS_SANITIZER)
  void enter() {
    __sanitizer_start_switch_fiber(&outside().kept, inside_bottom_, inside_bytes_);
    is_from_outside() = true;
  }
  void go_to(const StackSwitch& next) {
    __sanitizer_start_switch_fiber(&kept_, next.inside_bottom_, next.inside_bytes_);
    is_from_outside() = false;
  }
  void entered() {
    Outside ignored;
    Outside& from = is_from_outside() ? outside() : ignored;
    __sanitizer_finish_switch_fiber(kept_, &from.bottom, &from.bytes);
  }
  void leave() {
    __sanitizer_start_switch_fiber(&kept_, outside().bottom, outside().bytes);
  }
  void leave_finished() {
    __sanitizer_start_switch_fiber(nullptr, outside().bottom, outside().bytes);
  }
  void left() {
    __sanitizer_finish_switch_fiber(outside().kept, nullptr, nullptr);
  }
  // The stack is freed: what comes to its addresses next is not stack.
  void discard_inside() {
    __asan_unpoison_memory_region(inside_bottom_, inside_bytes_);
  }

 private:
  // The stack of who runs the fibers, and what AddressSanitizer keeps of it meanwhile.
  struct Outside {
    void* kept = nullptr;
    const void* bottom = nullptr;
    size_t bytes = 0;
  };
  static Outside& outside() {
    static thread_local Outside stack;
    return stack;
  }
  static bool& is_from_outside() {
    static thread_local bool is = true;
    return is;
  }

  void* kept_ = nullptr;  // by AddressSanitizer, of this stack
#else
  void enter() {}
  void go_to(const StackSwitch& /*next*/) {}
  void entered() {}
  void leave() {}
  void leave_finished() {}
  void left() {}
  void discard_inside() {}

 private:
#endif
  const void* inside_bottom_ = nullptr;
  size_t inside_bytes_ = 0;
};

}  // namespace assay::emulated
