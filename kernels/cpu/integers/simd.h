#pragma once

// What the int8 products need beside simd.h: I32x8 and F32x8, eight lanes, and products of unsigned
// codes with signed bytes, four of them added into each 32-bit lane. These sums are whole numbers
// and never overflow, so they are the same in any order and on every instruction set.

#include "kernels/cpu/simd.h"

// clang-format off
#if !defined(ASSAY_FORCE_PORTABLE) && defined(__AVX2__)
#include "kernels/cpu/integers/simd_x86.h"
#else
#include "kernels/cpu/integers/simd_portable.h"
#endif
// clang-format on
