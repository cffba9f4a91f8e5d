#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define ASSAY_ASAN_FIBERS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASSAY_ASAN_FIBERS
#endif
#endif

#if defined(ASSAY_ASAN_FIBERS)
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

#if defined(ASSAY_ASAN_FIBERS)
  void enter() {
    __sanitizer_start_switch_fiber(&outside_, inside_bottom_, inside_bytes_);
  }
  void entered() {
    __sanitizer_finish_switch_fiber(inside_, &outside_bottom_, &outside_bytes_);
  }
  void leave() {
    __sanitizer_start_switch_fiber(&inside_, outside_bottom_, outside_bytes_);
  }
  void leave_finished() {
    __sanitizer_start_switch_fiber(nullptr, outside_bottom_, outside_bytes_);
  }
  void left() {
    __sanitizer_finish_switch_fiber(outside_, nullptr, nullptr);
  }
  // The stack is freed: what comes to its addresses next is not stack.
  void discard_inside() {
    __asan_unpoison_memory_region(inside_bottom_, inside_bytes_);
  }
#else
  void enter() {}
  void entered() {}
  void leave() {}
  void leave_finished() {}
  void left() {}
  void discard_inside() {}
#endif

 private:
  const void* inside_bottom_ = nullptr;
  size_t inside_bytes_ = 0;
#if defined(ASSAY_ASAN_FIBERS)
  void* inside_ = nullptr;  // what AddressSanitizer keeps of each stack meanwhile
  void* outside_ = nullptr;
  const void* outside_bottom_ = nullptr;
  size_t outside_bytes_ = 0;
#endif
};

}  // namespace assay::emulated
