#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace assay {

// The SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace assay
