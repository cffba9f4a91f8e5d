#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "assay/log/json_text.h"
#include "assay/log/log_reader.h"
#include "assay/log/log_writer.h"
#include "tests/compare/log_files.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"

namespace assay {

// As engine.c has it.
inline float number(uint64_t i) {
  const uint64_t word = i * 0x9E3779B97F4A7C15U;
  const auto bits = static_cast<uint32_t>(word >> 32);
  if (i % 3 == 1) return static_cast<float>(static_cast<int>(bits >> 12)) / 1024.0F - 500.0F;
  if (i % 3 == 2) return static_cast<float>(bits % 1000);
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline std::vector<float> numbers(size_t n, uint64_t seed) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = number(seed + i);
  return values;
}

using Environment = std::map<std::string, std::string>;

class TapTest : public LogFiles {
 protected:
  // Runs `engine mode` with nothing of ours in the environment but `environment`.
  std::pair<int, std::string> run_engine(const std::string& mode, const Environment& environment,
                                         const std::string& engine = program_path("tap_engine")) {
    std::vector<std::string> arguments = {"env"};
    for (const char* name :
         {"ORCH_LOG_FILE", "ORCH_LOG_TEAM", "ORCH_LOG_VALUES", "ASSAY_LOG_CHECKPOINTS"}) {
      arguments.insert(arguments.end(), {"-u", name});
    }
    for (const auto& [name, value] : environment) arguments.push_back(name + "=" + value);
    arguments.insert(arguments.end(), {engine, mode});
    return run_program(arguments);
  }

  std::string log() const { return folder_ + "/log.jsonl"; }

  // What LogWriter writes of the records that `engine records` logs as f32.
  std::string written_by_log_writer(const std::string& team, int64_t head) {
    const std::string path = folder_ + "/want.jsonl";
    LogWriter writer(path, {.team = team, .head_values = head, .summary = true, .sketch = true});
    writer.write_header(
        {.model = {.name = "m\"\\", .sha256 = "ab", .arch = "llama", .type = "Q4_1"},
         .tokens = {1, 2, -3},
         .prompt = "line\n\x01 caf\xC3\xA9 \xFF\xC3",
         .engine = "tap",
         .backend = "",
         .math = "exact",
         .checkpoints = "layers,\"q\""});
    const size_t sizes[] = {0, 1, 5, 8, 9, 100, 3000};
    for (size_t i = 0; i < std::size(sizes); ++i) {
      writer.write("layer_0_output", static_cast<int64_t>(i), numbers(sizes[i], 1000 * i));
    }
    const int64_t cube[] = {2, 3, 4};
    writer.write(
        "layer_\xED\xA0\x80\x7F\xF4\x8F\xBF\xBF\xC2\x9B\xE2\x80\xAE\xF3\xA0\x81\x81\xC2\xADn", 7,
        cube, numbers(24, 1));
    writer.close();
    return contents(path);
  }

  // Sums of such numbers are exact, in any order.
  void expect_denormals(const std::string& engine) {
    std::vector<float> values(200);
    for (uint32_t i = 0; i < 200; ++i) {
      values[i] = std::bit_cast<float>(0x100U * (i + 1) | (i % 3 == 2 ? 0x80000000U : 0));
    }
    const std::string path = folder_ + "/denormals.jsonl";
    LogWriter writer(path, {.team = "", .summary = true, .sketch = true});
    const size_t sizes[] = {3, 20, 200};
    for (int64_t i = 0; i < 3; ++i) writer.write("x", i, std::span(values).first(sizes[i]));
    writer.close();
    for (const std::string mode : {"denormals", "flushed"}) {
      const auto [exit_code, text] =
          run_engine(mode, {{"ORCH_LOG_FILE", log()}, {"ASSAY_LOG_CHECKPOINTS", "ops"}}, engine);
      ASSERT_EQ(exit_code, 0) << mode << " " << text;
      EXPECT_EQ(contents(log()), contents(path)) << mode;
    }
  }

  // What `write` writes at `path` is `bare` with the time of each record in it, in order.
  static void expect_times(const std::function<void()>& write, const std::string& path,
                           const std::string& bare) {
    std::string last;
    std::string end;
    append_json_time(last);
    write();
    append_json_time(end);
    static const std::regex kTime(
        R"re((,"token_idx":\d+),"ts":("\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"))re");
    const std::string text = contents(path);
    EXPECT_EQ(std::regex_replace(text, kTime, "$1"), bare);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
              std::distance(std::sregex_iterator(text.begin(), text.end(), kTime), {}) +
                  (text.starts_with("{\"assay\"") ? 1 : 0));
    for (auto at = std::sregex_iterator(text.begin(), text.end(), kTime);
         at != std::sregex_iterator(); ++at) {
      EXPECT_LE(last, (*at)[2].str());
      last = (*at)[2].str();
    }
    EXPECT_LE(last, end);
  }

  void expect_records(const std::string& engine) {
    for (const auto& [team, values, head] :
         {std::tuple<std::string, std::string, int64_t>{"", "", 10},
          {"te\"am", "all", kAllValues},
          {"x", "0", 0},
          {"x", "50", 50}}) {
      const auto [exit_code, text] = run_engine("records",
                                                {{"ORCH_LOG_FILE", log()},
                                                 {"ORCH_LOG_TEAM", team},
                                                 {"ORCH_LOG_VALUES", values},
                                                 {"ASSAY_LOG_CHECKPOINTS", "ops"}},
                                                engine);
      ASSERT_EQ(exit_code, 0) << text;
      const std::string got = contents(log());
      EXPECT_EQ(got.substr(0, got.find("{\"checkpoint\":\"half\"")),
                written_by_log_writer(team, head));
    }
  }
};

}  // namespace assay
