#include "assay/golden/json_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::HasSubstr;

class JsonNodeTest : public LogFiles {
 protected:
  static size_t allocated() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  }
};

TEST_F(JsonNodeTest, ErrorsNameTheirPlace) {
  rapidjson::Document document;
  document.Parse(R"({"a":[{"b":1},{"b":{"":[7]}}]})");
  const std::string path = "f.json";
  const JsonNode root(document, path);
  const auto items = root.at("a").items();  // outlive the node they come from
  EXPECT_EQ(error_of([&] { items[0].at("b").text(); }), "f.json: 'a[0].b' is not a string");
  EXPECT_EQ(error_of([&] { items[0].at("c"); }), "f.json: 'a[0].c' is missing");
  EXPECT_EQ(error_of([&] { items[1].at("b").at("").items().at(0).text(); }),
            "f.json: 'a[1].b.[0]' is not a string");
  EXPECT_EQ(error_of([&] { root.items(); }), "f.json: the document is not an array");
}

// Breaks if each item stored its place as text: 52 KB of JSON took 160 MB, 1 MB about 60 GB.
TEST_F(JsonNodeTest, MemoryFollowsTheItemsWhateverTheirNames) {
  if (*ASSAY_SANITIZE != '\0')
    GTEST_SKIP() << "sanitizer: has an allocator that mallinfo2() does not know";
  constexpr size_t kName = 10'000;
  constexpr size_t kItems = 2'000;
  const std::string name(kName, 'p');
  std::string text = "{\"" + name + "\":[1";
  for (size_t i = 1; i < kItems; ++i) text += ",1";
  rapidjson::Document document;
  text += "]}";
  document.Parse(text.c_str());
  ASSERT_FALSE(document.HasParseError());
  const std::string path = "f.json";
  const JsonNode root(document, path);
  const size_t before = allocated();
  const auto items = root.at(name.c_str()).items();
  EXPECT_GT(allocated(), before);
  EXPECT_LT(allocated() - before, 200 * kItems + 2 * kName);
  ASSERT_EQ(items.size(), kItems);
  EXPECT_THAT(error_of([&] { items.back().text(); }), HasSubstr("f.json: 'ppp"));
}

}  // namespace
}  // namespace assay
