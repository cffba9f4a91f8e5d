#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "tests/cli/program.h"
#include "tests/golden/tiny_golden.h"

namespace assay {

// Runs assay golden on a golden that a small script records.
class GoldenCommand : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    for (const char* name : {"CI", "ASSAY_UPDATE", "NUDGE", "FAKE"}) unsetenv(name);
    golden_ = std::make_unique<TinyGolden>(folder_ + "/golden");
  }
  void TearDown() override {
    for (const char* name : {"CI", "ASSAY_UPDATE", "NUDGE", "FAKE"}) unsetenv(name);
    Program::TearDown();
  }

  Outcome golden(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "golden");
    arguments.insert(arguments.end(), {"--folder", golden_->root()});
    return run(arguments);
  }
  Outcome record(const std::string& nudge, const std::string& fake = "") {
    setenv("NUDGE", nudge.c_str(), 1);
    setenv("FAKE", fake.c_str(), 1);
    return golden({"record", "tiny"});
  }

  // Exit code 2, and one line on standard error after what the oracle printed.
  static void expect_refused(const Outcome& outcome, const std::string& message) {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, testing::HasSubstr(message));
    EXPECT_TRUE(outcome.err.ends_with("\n"));
  }

  void replace_in(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = contents(file);
    ASSERT_NE(text.find(from), std::string::npos) << from;
    std::ofstream(file, std::ios::binary) << text.replace(text.find(from), from.size(), to);
  }

  // Puts a log into the golden, or as `suffix` says beside it, and its hash into that manifest.
  void put_log(const std::string& name, const std::string& text, const std::string& suffix = "") {
    const std::string manifest = path("manifest.json" + suffix);
    if (!std::filesystem::exists(manifest)) std::filesystem::copy(path("manifest.json"), manifest);
    replace_in(manifest, file_sha256_of(contents(path(name))), file_sha256_of(text));
    put("golden/tiny/" + name + suffix, text);
  }

  // Each record of `from` once more as `to`.
  static std::string with_copies(const std::string& log, const std::string& from,
                                 const std::string& to) {
    std::string text;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
      text += line + "\n";
      const size_t at = line.find('"' + from + '"');
      if (at != std::string::npos) text += line.replace(at + 1, from.size(), to) + "\n";
    }
    return text;
  }

  static std::string without(const std::string& log, const std::string& checkpoint) {
    std::string text;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
      if (line.find('"' + checkpoint + '"') == std::string::npos) text += line + "\n";
    }
    return text;
  }

  static std::string file_sha256_of(const std::string& text) {
    return sha256_hex(std::as_bytes(std::span(text)));
  }

  std::string path(const std::string& name) const { return golden_->folder() + name; }

  std::unique_ptr<TinyGolden> golden_;
};

}  // namespace assay
