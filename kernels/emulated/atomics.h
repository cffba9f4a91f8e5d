#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <type_traits>

#include "kernels/emulated/language.h"

// CUDA's atomics, on &x[i] of device or shared memory, for the types that CUDA has them for.
// Threads run one at a time, so that each is done at once; the order in which they come is the
// seed's.
namespace assay::emulated {

template <class T, class... Types>
concept OneOf = (std::same_as<T, Types> || ...);

// Puts next(old) in the place of old, and gives that.
template <class T, template <class> class Address, class Next>
T change_atomically(const Address<T>& at, const Next& next) {
  unsigned char* bytes = at.begin_atomic();
  T old;
  std::memcpy(&old, bytes, sizeof(T));
  const T value = next(old);
  std::memcpy(bytes, &value, sizeof(T));
  return old;
}

inline float without_subnormal(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

// NOLINTBEGIN(readability-identifier-naming): CUDA's own names

// Whole numbers wrap. A device adds floats in its global memory without subnormals, those in shared
// memory with them.
template <OneOf<int, unsigned, unsigned long long, float> T, template <class> class Address>
T atomicAdd(const Address<T>& at, std::type_identity_t<T> value) {
  return change_atomically(at, [&](T old) -> T {
    if constexpr (std::is_integral_v<T>) {
      using Bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Bits>(old) + static_cast<Bits>(value));
    } else if constexpr (Address<T>::kFlushesSubnormals) {
      return without_subnormal(without_subnormal(old) + without_subnormal(value));
    } else {
      return old + value;
    }
  });
}

template <OneOf<int, unsigned, long long, unsigned long long> T, template <class> class Address>
T atomicMax(const Address<T>& at, std::type_identity_t<T> value) {
  return change_atomically(at, [&](T old) { return std::max(old, value); });
}

template <OneOf<int, unsigned, long long, unsigned long long> T, template <class> class Address>
T atomicMin(const Address<T>& at, std::type_identity_t<T> value) {
  return change_atomically(at, [&](T old) { return std::min(old, value); });
}

template <OneOf<int, unsigned, unsigned long long, float> T, template <class> class Address>
T atomicExch(const Address<T>& at, std::type_identity_t<T> value) {
  return change_atomically(at, [&](T /*old*/) { return value; });
}

// `value` in the place of what equals `compare`.
template <OneOf<int, unsigned, unsigned long long> T, template <class> class Address>
T atomicCAS(const Address<T>& at, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return change_atomically(at, [&](T old) { return old == compare ? value : old; });
}

// NOLINTEND(readability-identifier-naming)

}  // namespace assay::emulated
