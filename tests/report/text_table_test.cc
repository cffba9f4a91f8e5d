#include "assay/report/text_table.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TextTable example(size_t keys) {
  TextTable table({"name", "prompt", "rms", "kl", "status"}, keys);
  table.add({"q", "haiku", "0.5", "0.25", "noise"});
  return table;
}

TEST(TextTable, ShowsAllWhereThereIsRoom) {
  const std::string all =
      "  name  prompt  rms    kl  status\n"
      "  q      haiku  0.5  0.25   noise\n";
  EXPECT_EQ(example(1).text({}), all);
  EXPECT_EQ(example(1).text({33, false}), all);
  EXPECT_TRUE(example(1).fits({33, false}));
  EXPECT_FALSE(example(1).fits({32, false}));
}

// Breaks if a reader could take a table with columns left out for a whole one.
TEST(TextTable, NamesTheColumnsThatDoNotFit) {
  EXPECT_EQ(example(1).text({22, false}),
            "  name  prompt  status\n"
            "  q      haiku   noise\n"
            "  too narrow here for: rms, kl\n");
}

// Breaks if rows became indistinguishable.
TEST(TextTable, NeverLeavesOutTheKeys) {
  EXPECT_EQ(example(2).text({10, false}),
            "  name  prompt  status\n"
            "  q      haiku   noise\n"
            "  too narrow here for: rms, kl\n");
}

}  // namespace
}  // namespace assay
