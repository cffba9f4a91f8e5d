#pragma once

// Included by simd.h for the instruction sets that have no shuffle of 16 floats.
namespace assay::ASSAY_ISA {

// Codes of four bits, of which only the low four bits of each lane count, to the values they stand
// for.
class FourBitCodes {
 public:
  // scale * (code - offset)
  static ASSAY_ALWAYS_INLINE FourBitCodes scaled(F32x16 scale, float offset) {
    // -0 is the one shift that changes no product, not even a zero of either sign.
    return FourBitCodes(scale, offset, splat(-0.0F));
  }
  // scale * code + shift, rounded after each step
  static ASSAY_ALWAYS_INLINE FourBitCodes affine(F32x16 scale, F32x16 shift) {
    return FourBitCodes(scale, 0.0F, shift);
  }
  ASSAY_ALWAYS_INLINE F32x16 values(I32x16 codes) const {
    const F32x16 numbers = sub(to_float(bit_and(codes, 0xF)), splat(offset_));
    return add_exact_product(scale_, numbers, shift_);
  }

 private:
  ASSAY_ALWAYS_INLINE FourBitCodes(F32x16 scale, float offset, F32x16 shift)
      : scale_(scale), offset_(offset), shift_(shift) {}
  F32x16 scale_;
  float offset_;
  F32x16 shift_;
};

}  // namespace assay::ASSAY_ISA
