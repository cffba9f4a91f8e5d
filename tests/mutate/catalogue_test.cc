#include "assay/mutate/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/error.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// The issue asks for sixty; a part of the catalogue that is not joined in would go unseen.
TEST(Catalogue, HasSixtyFaultsOfDifferentNames) {
  std::set<std::string> names;
  std::set<FaultGroup> groups;
  for (const Fault& fault : fault_catalogue()) {
    EXPECT_TRUE(names.insert(fault.name).second) << fault.name;
    EXPECT_FALSE(fault.what.empty()) << fault.name;
    groups.insert(fault.group);
  }
  EXPECT_GE(names.size(), 60U);
  EXPECT_GE(groups.size(), 12U);
}

// A cause that no comparison names could never be checked against one.
TEST(Catalogue, CausesAreThoseThatComparisonsName) {
  const std::set<std::string> known = {"",
                                       "rope_pairing",
                                       "rope_position",
                                       "rope_base",
                                       "attention_scale",
                                       "attention_mask",
                                       "gqa_map",
                                       "kv_shift",
                                       "head_order",
                                       "transpose",
                                       "gate_up_swapped",
                                       "activation_kind",
                                       "eps",
                                       "norm_kind",
                                       "norm_weight_plus_one",
                                       "bias_missing",
                                       "residual",
                                       "scale",
                                       "sign",
                                       "token_shift",
                                       "row_shift",
                                       "rounding",
                                       "quant_block"};
  for (const Fault& fault : fault_catalogue())
    EXPECT_EQ(known.count(fault.cause), 1U) << fault.name;
}

TEST(Catalogue, ANameThatIsMistypedGetsTheNearest) {
  EXPECT_EQ(find_fault("rope-pairing").name, "rope-pairing");
  EXPECT_THAT([] { find_fault("rope-paring"); },
              ThrowsMessage<Error>(HasSubstr("'rope-pairing' is the nearest")));
}

}  // namespace
}  // namespace assay
