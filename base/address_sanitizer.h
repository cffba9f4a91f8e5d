#pragma once

// Defines ASSAY_ADDRESS_SANITIZER where code is compiled for it, by g++ or clang.
#if defined(__SANITIZE_ADDRESS__)
#define ASSAY_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASSAY_ADDRESS_SANITIZER
#endif
#endif
