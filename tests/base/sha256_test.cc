#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string_view>

namespace assay {
namespace {

std::string of(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}

// FIPS 180-2, appendix B.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace assay
