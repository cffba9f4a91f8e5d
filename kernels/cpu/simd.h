#pragma once

// F32x16, sixteen float lanes, F64x16, as many of double, and I32x16, for the instruction set this
// source is compiled for.
//
// The kernels of this folder are compiled once for each instruction set, each time in a namespace
// of its own (ASSAY_ISA). All sets offer the same operations and each gives the same bits on all of
// them, so that a kernel written with them gives the same bits everywhere: products and sums are
// fused where the source says fma and nowhere else, and a sum over lanes is one fixed tree.
//
// Nothing but intrinsics and <cstdint>, <cstddef>, <cstring> may be used here: an inline function
// of another header could be compiled with instructions that the processor lacks, and the linker
// keep that copy for everyone.
//
// `partial` loads and stores touch the first n lanes only, 0 < n < 16; the others load as zero.

// four_bit_codes.h is written with what the header before it defines.
// clang-format off
#if !defined(ASSAY_FORCE_PORTABLE) && defined(__AVX512F__) && defined(__AVX512BW__) && \
    defined(__AVX512VL__) && defined(__AVX512DQ__)
#if defined(ASSAY_AMX)
#define ASSAY_ISA amx
#elif defined(__AVX512VNNI__)
#define ASSAY_ISA avx512vnni
#else
#define ASSAY_ISA avx512
#endif
#include "kernels/cpu/simd_avx512.h"
#elif !defined(ASSAY_FORCE_PORTABLE) && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#if defined(__AVXVNNI__)
#define ASSAY_ISA avxvnni
#else
#define ASSAY_ISA avx2
#endif
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/four_bit_codes.h"
#else
#define ASSAY_ISA portable
#include "kernels/cpu/simd_portable.h"
#include "kernels/cpu/four_bit_codes.h"
#endif
// clang-format on
