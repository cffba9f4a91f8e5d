// What a cause says of each network that can have it.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assay/mistakes/mistake.h"
#include "assay/mistakes/network.h"
#include "engine/model.h"
#include "tests/support/paths.h"

namespace assay::mistakes {
namespace {

// Those in the repository, in F32: one of each architecture and kind of layer.
std::vector<std::string> golden_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path("golden"))) {
    if (entry.path().string().ends_with("-f32.gguf")) files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

bool can_be_made(const Mistake& mistake, const Network& network) {
  for (int i = 0; i < kCheckpoints; ++i) {
    if (!possible_ops(mistake, network, static_cast<Checkpoint>(i)).empty()) return true;
  }
  return false;
}

// A text that asks a layer for what it lacks would end the program where the mistake is tried.
TEST(MistakeText, IsThereForEachNetworkThatCanHaveIt) {
  const std::vector<std::string> files = golden_files();
  ASSERT_GT(files.size(), 50U);
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const Model model(std::make_shared<const Gguf>(file));
    const Network network = Network::of_model(model, 16);
    int n_texts = 0;
    for (const Mistake& mistake : mistake_catalogue()) {
      if (!mistake.text || !can_be_made(mistake, network)) continue;
      const std::vector<double> values =
          mistake.grid ? mistake.grid(network) : std::vector<double>{0};
      for (const double value : values) {
        EXPECT_FALSE(mistake.text(network, value).empty()) << mistake.cause;
        ++n_texts;
      }
    }
    EXPECT_GT(n_texts, 50);
  }
}

}  // namespace
}  // namespace assay::mistakes
