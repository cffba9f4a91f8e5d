#pragma once

#include <cstring>

namespace assay::emulated {

// A line of a kernel's source. As a default argument, here() is the line of the call.
struct Place {
  const char* file = "";
  int line = 0;

  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Most often the file is the very same string.
inline bool same_place(const Place& a, const Place& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

}  // namespace assay::emulated
