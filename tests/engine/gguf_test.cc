#include "engine/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <functional>
#include <limits>
#include <ostream>

#include "base/error.h"
#include "base/thread_pool.h"
#include "tests/support/gguf_builder.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::GgufBuilder;

std::string temp_file(const std::string& name) {
  return testing::TempDir() + "gguf_test_" + name + ".gguf";
}

GgufBuilder good() {
  GgufBuilder builder;
  builder.text("general.architecture", "llama")
      .u32("llama.block_count", 2)
      .f32("llama.eps", 0.5F)
      .boolean("flag", true)
      .strings("tokens", {"a", "b"})
      .floats("scores", {1.0F, -2.0F})
      .ints("types", {1, -1})
      .key("big", GgufBuilder::kUint64, GgufBuilder::raw(std::numeric_limits<uint64_t>::max()))
      .f32_tensor("w", {3, 2}, {1, 2, 3, 4, 5, 6})
      .f32_tensor("b", {3}, {7, 8, 9});
  return builder;
}

class GgufVersion : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Versions, GgufVersion, testing::Values(2U, 3U));

TEST_P(GgufVersion, ReadsKeysAndTensors) {
  GgufBuilder builder = good();
  builder.version = GetParam();
  const Gguf gguf(builder.write(temp_file("good")));
  EXPECT_EQ(gguf.version(), GetParam());
  EXPECT_EQ(gguf.get_string("general.architecture"), "llama");
  EXPECT_EQ(gguf.get_int("llama.block_count"), 2);
  EXPECT_EQ(gguf.get_int("no.such", 5), 5);
  EXPECT_EQ(gguf.get_float("llama.eps"), 0.5);
  EXPECT_TRUE(gguf.get_bool("flag", false));
  EXPECT_THAT(gguf.get_strings("tokens"), ElementsAre("a", "b"));
  EXPECT_THAT(gguf.get_floats("scores"), ElementsAre(1.0, -2.0));
  EXPECT_THAT(gguf.get_ints("types"), ElementsAre(1, -1));
  const GgufTensor* w = gguf.find_tensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->rows(), 2);
  EXPECT_EQ(w->columns(), 3);
  EXPECT_EQ(w->data.size(), 24U);
  const GgufTensor* b = gguf.find_tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(reinterpret_cast<const float*>(b->data.data())[2], 9.0F);
}

TEST(Gguf, ReleasingTheArraysAndReadingTheTensorsLeavesTheRest) {
  Gguf gguf(good().write(temp_file("released")));
  ThreadPool pool(2);
  gguf.read_tensors(pool);
  gguf.release_arrays();
  EXPECT_EQ(gguf.find("tokens"), nullptr);
  EXPECT_EQ(gguf.get_string("general.architecture"), "llama");
  EXPECT_EQ(gguf.get_int("llama.block_count"), 2);
  const GgufTensor* b = gguf.find_tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(reinterpret_cast<const float*>(b->data.data())[2], 9.0F);
}

TEST(Gguf, TypedAccessNamesTheKey) {
  const Gguf gguf(good().write(temp_file("typed")));
  const auto message = [](const std::string& text) {
    return ThrowsMessage<Error>(HasSubstr(text));
  };
  EXPECT_THAT([&] { gguf.get_int("no.such"); }, message("key 'no.such' is missing"));
  EXPECT_THAT([&] { gguf.get_int("flag"); }, message("key 'flag' is not an integer"));
  EXPECT_THAT([&] { gguf.get_int("big"); }, message("key 'big' is not an integer below 2^63"));
  EXPECT_THAT([&] { gguf.get_string("flag"); }, message("key 'flag' is not a string"));
  EXPECT_THAT([&] { gguf.get_strings("scores"); },
              message("key 'scores' is not an array of strings"));
  EXPECT_THAT([&] { gguf.get_ints("tokens"); },
              message("key 'tokens' is not an array of integers"));
}

// Every prefix of a good file must be refused, not read beyond its end.
TEST(Gguf, RejectsTruncatedFilesOfEveryLength) {
  const std::string whole = good().bytes();
  for (size_t length = 1; length < whole.size(); ++length) {
    const std::string path = GgufBuilder::write_bytes(temp_file("cut"), whole.substr(0, length));
    EXPECT_THROW(Gguf{path}, Error) << "cut at " << length << " of " << whole.size();
  }
}

// Breaks if one range could stand for the norms of a hundred layers, each copied: 2 MB took 269 MB;
// or if inspect showed a file as sound that run refuses.
TEST(Gguf, RejectsTensorsThatShareBytes) {
  GgufBuilder builder = good();
  builder.tensor_at("other", 0, {6}, 0, "");
  const std::string path = builder.write(temp_file("overlap"));
  EXPECT_THAT([&] { Gguf{path}; },
              ThrowsMessage<Error>(AllOf(HasSubstr(path), HasSubstr("'w'"), HasSubstr("'other'"),
                                         HasSubstr("share bytes of the file"))));
}

constexpr uint32_t kInt8 = 1;

std::string array_of(uint32_t type, uint64_t count) {
  return GgufBuilder::raw(type) + GgufBuilder::raw(count);
}

size_t allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Breaks if each element were kept as 64 bits: an array of int8 took 8.6 times its bytes.
// A row that ends within a block, or a file that ends within one, would be read beyond its end.
TEST(Gguf, RejectsTensorsOfEachTypeThatAreNotWholeBlocks) {
  for (const TensorType type : kAllTensorTypes) {
    const TensorTypeInfo& info = tensor_type_info(type);
    const auto number = static_cast<uint32_t>(type);
    const auto columns = static_cast<uint64_t>(info.block_elements);
    const std::string name(info.name);
    const Gguf whole(good()
                         .tensor("t", number, {columns, 3}, std::string(3 * info.block_bytes, 'x'))
                         .write(temp_file(name)));
    ASSERT_NE(whole.find_tensor("t"), nullptr) << name;
    EXPECT_EQ(whole.find_tensor("t")->type, type);
    EXPECT_EQ(whole.find_tensor("t")->data.size(), 3 * info.block_bytes) << name;
    const std::string cut = std::string(3 * info.block_bytes - 1, 'x');
    EXPECT_THAT(
        [&] {
          Gguf{good().tensor("t", number, {columns, 3}, cut).write(temp_file(name))};
        },
        ThrowsMessage<Error>(AllOf(HasSubstr("tensor 't'"), HasSubstr("beyond the end"))))
        << name;
    if (columns == 1) continue;
    EXPECT_THAT(
        [&] { Gguf{good().tensor("t", number, {columns + 1}, cut).write(temp_file(name))}; },
        ThrowsMessage<Error>(AllOf(HasSubstr("tensor 't'"), HasSubstr("in a " + name + " block"))))
        << name;
  }
}

TEST(Gguf, AnArrayTakesNoMoreMemoryThanItsBytes) {
  constexpr size_t kCount = size_t{4} << 20;
  for (const uint32_t type : {uint32_t{GgufBuilder::kUint8}, kInt8, uint32_t{GgufBuilder::kBool}}) {
    GgufBuilder builder = good();
    builder.key("many", GgufBuilder::kArray,
                array_of(type, kCount) + std::string(kCount, type == kInt8 ? '\xff' : '\1'));
    const std::string path = builder.write(temp_file("array"));
    const size_t before = allocated();
    const Gguf gguf(path);
    EXPECT_LT(allocated() - before, kCount + 100'000) << "type " << type;
    EXPECT_EQ(std::get<GgufArray>(*gguf.find("many")).size(), kCount);
  }
}

TEST(Gguf, ReadsNumbersOfEachWidth) {
  GgufBuilder builder = good();
  const auto array = [&](const std::string& name, uint32_t type, auto a, auto b) {
    builder.key(name, GgufBuilder::kArray,
                array_of(type, 2) + GgufBuilder::raw(a) + GgufBuilder::raw(b));
  };
  array("i8", kInt8, int8_t{-128}, int8_t{127});
  array("u8", GgufBuilder::kUint8, uint8_t{0}, uint8_t{255});
  array("i16", 3, int16_t{-32768}, int16_t{32767});
  array("u16", 2, uint16_t{0}, uint16_t{65535});
  array("u32", GgufBuilder::kUint32, uint32_t{0}, uint32_t{4294967295});
  array("i64", 11, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  array("u64", GgufBuilder::kUint64, uint64_t{1}, uint64_t{1} << 63);
  array("f64", GgufBuilder::kFloat64, 1e300, -0.5);
  array("bools", GgufBuilder::kBool, uint8_t{1}, uint8_t{0});
  const Gguf gguf(builder.write(temp_file("widths")));
  EXPECT_THAT(gguf.get_ints("i8"), ElementsAre(-128, 127));
  EXPECT_THAT(gguf.get_ints("u8"), ElementsAre(0, 255));
  EXPECT_THAT(gguf.get_ints("i16"), ElementsAre(-32768, 32767));
  EXPECT_THAT(gguf.get_ints("u16"), ElementsAre(0, 65535));
  EXPECT_THAT(gguf.get_ints("u32"), ElementsAre(0, 4294967295));
  EXPECT_THAT(gguf.get_ints("i64"), ElementsAre(std::numeric_limits<int64_t>::min(),
                                                std::numeric_limits<int64_t>::max()));
  EXPECT_THAT([&] { gguf.get_ints("u64"); },
              ThrowsMessage<Error>(HasSubstr("key 'u64' is not an array of integers below 2^63")));
  EXPECT_THAT(gguf.get_floats("f64"), ElementsAre(1e300, -0.5));
  EXPECT_THAT(gguf.get_floats("i8"), ElementsAre(-128.0, 127.0));
  for (const char* key : {"f64", "bools"}) {
    EXPECT_THAT([&] { gguf.get_ints(key); },
                ThrowsMessage<Error>(HasSubstr("is not an array of integers")));
  }
}

struct HostileCase {
  std::string name;
  std::function<void(GgufBuilder&)> spoil;
  std::string message;
};

// Without it googletest prints the bytes of a case, some of which nobody has set.
void PrintTo(const HostileCase& hostile, std::ostream* out) {
  *out << hostile.name;
}

class HostileGguf : public testing::TestWithParam<HostileCase> {};

TEST_P(HostileGguf, IsRejectedNamingTheKeyOrTensor) {
  GgufBuilder builder = good();
  GetParam().spoil(builder);
  const std::string path = builder.write(temp_file(GetParam().name));
  EXPECT_THAT([&] { Gguf{path}; },
              ThrowsMessage<Error>(AllOf(HasSubstr(path), HasSubstr(GetParam().message))));
}

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kF32 = 0;
constexpr uint32_t kOfBlocks = 2;  // Q4_0, 32 elements each

INSTANTIATE_TEST_SUITE_P(
    Files, HostileGguf,
    testing::Values(
        HostileCase{"magic", [](auto& b) { b.magic = "GGML"; }, "not a GGUF file"},
        HostileCase{"version", [](auto& b) { b.version = 4; },
                    "is of GGUF version 4; Assay reads versions 2 and 3"},
        HostileCase{"big_endian", [](auto& b) { b.version = 0x03000000; }, "big-endian"},
        HostileCase{"key_count", [](auto& b) { b.extra_keys = kHuge / 2; },
                    "more than the file can hold"},
        HostileCase{"tensor_count", [](auto& b) { b.extra_tensors = kHuge / 2; },
                    "more than the file can hold"},
        HostileCase{"string_length",
                    [](auto& b) { b.key("k", GgufBuilder::kString, GgufBuilder::raw(kHuge)); },
                    "inside key 'k'"},
        HostileCase{"array_length",
                    [](auto& b) { b.key("k", GgufBuilder::kArray, array_of(4, kHuge / 4)); },
                    "key 'k' says it has"},
        HostileCase{"string_array_length",
                    [](auto& b) { b.key("k", GgufBuilder::kArray, array_of(8, 1U << 30)); },
                    "key 'k' says it has"},
        HostileCase{"array_type", [](auto& b) { b.key("k", GgufBuilder::kArray, array_of(77, 0)); },
                    "key 'k' is an array of the unknown type 77"},
        HostileCase{"nested_array",
                    [](auto& b) { b.key("k", GgufBuilder::kArray, array_of(9, 1)); },
                    "key 'k' is an array of arrays"},
        HostileCase{"value_type", [](auto& b) { b.key("k", 13, ""); },
                    "key 'k' has the unknown type 13"},
        HostileCase{"boolean",
                    [](auto& b) { b.key("k", GgufBuilder::kBool, std::string(1, '\2')); },
                    "key 'k' is the boolean 2"},
        HostileCase{"empty_key", [](auto& b) { b.u32("", 1); }, "the name of key"},
        HostileCase{"long_key", [](auto& b) { b.u32(std::string(70000, 'k'), 1); },
                    "length of 70000"},
        HostileCase{"duplicate_key", [](auto& b) { b.u32("llama.block_count", 3); },
                    "key 'llama.block_count' stands in the file twice"},
        HostileCase{"alignment", [](auto& b) { b.u32("general.alignment", 12); },
                    "general.alignment"},
        HostileCase{"alignment_zero", [](auto& b) { b.u32("general.alignment", 0); },
                    "general.alignment"},
        HostileCase{"duplicate_tensor", [](auto& b) { b.f32_tensor("w", {1}, {1}); },
                    "tensor 'w' stands in the file twice"},
        HostileCase{"no_dims", [](auto& b) { b.tensor("t", kF32, {}, ""); },
                    "tensor 't' has 0 dimensions"},
        HostileCase{"many_dims",
                    [](auto& b) {
                      b.tensor("t", kF32, {1, 1, 1, 1, 1}, "abcd");
                    },
                    "tensor 't' has 5 dimensions"},
        HostileCase{"zero_dim",
                    [](auto& b) {
                      b.tensor("t", kF32, {4, 0}, "");
                    },
                    "tensor 't' has a dimension of 0"},
        HostileCase{"huge_dim", [](auto& b) { b.tensor("t", kF32, {kHuge}, ""); },
                    "tensor 't' has a dimension of"},
        HostileCase{"dims_overflow",
                    [](auto& b) {
                      b.tensor("t", kF32, {1ULL << 40, 1ULL << 40}, "");
                    },
                    "tensor 't': its dimensions overflow"},
        HostileCase{"bytes_overflow", [](auto& b) { b.tensor("t", kF32, {(1ULL << 63) - 1}, ""); },
                    "tensor 't': its size overflows"},
        HostileCase{"beyond_end", [](auto& b) { b.tensor("t", kF32, {1000}, "abcd"); },
                    "tensor 't': 4000 bytes"},
        HostileCase{"offset", [](auto& b) { b.tensor_at("t", kF32, {1}, kHuge - 31, "abcd"); },
                    "tensor 't': 4 bytes at offset"},
        HostileCase{"misaligned", [](auto& b) { b.tensor_at("t", kF32, {1}, 4, ""); },
                    "tensor 't': its offset 4"},
        HostileCase{"tensor_type", [](auto& b) { b.tensor("t", 99, {1}, "abcd"); },
                    "tensor 't' has the type number 99"},
        HostileCase{"partial_block", [](auto& b) { b.tensor("t", kOfBlocks, {33}, "abcd"); },
                    "tensor 't': rows of 33"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace assay
