#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "tests/support/paths.h"

namespace assay {

// The folder of goldens that fake_oracle.py fills.
class TinyGolden {
 public:
  explicit TinyGolden(std::string root) : root_(std::move(root)) {
    std::filesystem::create_directories(root_);
    write("", "");
    std::ofstream(root_ + "/inventory.txt") << "tiny F32 haiku layers\ntiny F32 long layers\n";
  }

  static std::string command() { return "python3 " + source_path("tests/golden/fake_oracle.py"); }

  // Lets the oracle write to `out`, in place of the goldens.
  int write_to(const std::string& out, const std::string& nudge, const std::string& fake) const {
    const std::string variables =
        "ASSAY_GOLDEN_OUT=" + out + " NUDGE=" + (nudge.empty() ? "0" : nudge) + " FAKE=" + fake;
    return std::system((variables + " " + command() + " > /dev/null").c_str());
  }
  int write(const std::string& nudge, const std::string& fake) const {
    return write_to(root_, nudge, fake);
  }

  const std::string& root() const { return root_; }
  std::string folder() const { return root_ + "/tiny/"; }

  // All files of the golden, by name.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      std::ifstream file(entry.path(), std::ios::binary);
      files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
    }
    return files;
  }

 private:
  std::string root_;
};

}  // namespace assay
