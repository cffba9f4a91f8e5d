// The catalogue of mistakes, by the models of the suite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "assay/conform/feature.h"
#include "assay/conform/feature_model.h"
#include "assay/mistakes/mistake.h"
#include "assay/mistakes/network.h"
#include "engine/gguf.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace assay::mistakes {
namespace {

class CatalogueOfMistakes : public TemporaryFolder {
 protected:
  // Takes what the model can have from those that none had so far.
  void visit(const std::string& path) {
    const Model model(std::make_shared<Gguf>(path));
    Network network = Network::of_model(model, kPositions);
    network.n_prompt = kPositions;
    std::erase_if(left_, [&](size_t i) {
      for (int number = 0; number < kCheckpoints; ++number) {
        const auto checkpoint = static_cast<Checkpoint>(number);
        if (!possible_ops(mistake_catalogue()[i], network, checkpoint).empty()) return true;
      }
      return false;
    });
  }

  static constexpr int64_t kPositions = 8;
  std::set<size_t> left_;  // mistakes that no model can have
};

// Breaks if a mistake changed something that no op reads: then it is tried on no log, and an engine
// that makes it gets no cause.
TEST_F(CatalogueOfMistakes, ModelsCanHaveEachOfThem) {
  for (size_t i = 0; i < mistake_catalogue().size(); ++i) left_.insert(i);
  for (const Feature& feature : read_suite(source_path("conform/suite"), {})) {
    write_feature_folder(feature, feature.config, {}, path("model"));
    visit(path("model"));
    if (!feature.name.starts_with("weights_")) continue;  // of the types of blocks
    write_feature_gguf(feature, path("model"), path("model.gguf"));
    visit(path("model.gguf"));
  }
  const Model model(std::make_shared<Gguf>(path("model")));
  const Network network = Network::of_model(model, kPositions);
  std::vector<std::string> texts;
  for (const size_t i : left_) {
    const Mistake& mistake = mistake_catalogue()[i];
    texts.push_back(mistake.text ? mistake.text(network, 2.0) : mistake.faults.front().name);
  }
  EXPECT_THAT(
      texts,
      testing::UnorderedElementsAre(
          // Only where no model says what the factors are.
          "rotates with the frequency base 2 and no frequency factors",
          // A fault alone: a log of it is explained by the keys of some layers before.
          "shared-kv-of-earlier-layer",
          // Only with eleven layers or more.
          "has the weights of another layer: they are ordered by their numbers as text (0, 1, 10, "
          "11, 2)"));
}

}  // namespace
}  // namespace assay::mistakes
