// What llama-perplexity --kl-divergence-base wrote (tests/dump/base_logprobs_test.cc says how)
// against what Assay computes of the same tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <fstream>

#include "tests/cli/run_command.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kBase = source_path("tests/data/base_logprobs/tinyllama-f32.kld");
const std::string kChunk1 = "1,270,291,310,287,311,299,301,306,294,272,308,266,261,271,290";

class BaseLogprobsCommand : public RunCommand {
 protected:
  static std::string tinyllama(const std::string& type) {
    return source_path("golden/tinyllama/tinyllama-" + type + ".gguf");
  }
  std::string follow(const std::string& base, const std::string& type) {
    const std::string log = path("got-" + type + ".jsonl");
    const Outcome outcome = run({"run", tinyllama(type), "--follow", base, "--checkpoints",
                                 "logits", "--values", "all", "--log", log});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return log;
  }
  rapidjson::Document compare(const std::string& ref, const std::string& got, int exit_code,
                              const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"compare", ref, got, "--format", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
    rapidjson::Document json;
    json.Parse(outcome.out.c_str());
    EXPECT_FALSE(json.HasParseError()) << outcome.out;
    return json;
  }
  static double largest_error(const rapidjson::Document& json) {
    double largest = 0;
    for (const auto& result : json["results"].GetArray()) {
      largest = std::max(largest, result["rel_l2"].GetDouble());
    }
    return largest;
  }
};

// Breaks if a row were another position's or sequence's, or a code another value: then the engine
// that computes the same would be elsewhere by 1e-1. What is left is half a step of the codes.
TEST_F(BaseLogprobsCommand, AnEngineThatComputesTheSameIsInParity) {
  const std::string got = follow(kBase, "f32");
  const auto json = compare(kBase, got, 0);
  EXPECT_EQ(json["summary"]["compared"].GetInt(), 21);
  EXPECT_EQ(json["summary"]["argmax_agree"].GetInt(), 21);
  EXPECT_EQ(json["evidence"]["unproven"].GetInt(), 0);
  EXPECT_LT(largest_error(json), 1e-5) << "measured: 7.6e-6";
  const auto turned = compare(got, kBase, 0, {"--tokens", "8..14"});
  EXPECT_EQ(turned["summary"]["argmax_agree"].GetInt(), 21);
  EXPECT_LT(largest_error(turned), 4e-5) << "logits are smaller than their log-probabilities";
  const auto open = compare(got, kBase, 2);
  EXPECT_EQ(open["evidence"]["unproven"].GetInt(), 27) << "the first half of each chunk";
}

// Breaks if what import wrote were another log than what compare reads.
TEST_F(BaseLogprobsCommand, AnImportedFileIsTheSameLog) {
  const std::string log = path("base.jsonl");
  EXPECT_EQ(run({"import", kBase, "-o", log}).exit_code, 0);
  EXPECT_EQ(compare(kBase, log, 0)["verdict"], "match");
  const std::string by_log = contents(follow(log, "f32"));
  EXPECT_EQ(contents(follow(kBase, "f32")), by_log);
  EXPECT_THAT(by_log, HasSubstr(R"("sequences":["0","1","2"])"));
  const Outcome analyzed = run({"analyze", kBase, "--json"});
  EXPECT_EQ(analyzed.exit_code, 0) << analyzed.err;
  EXPECT_THAT(analyzed.out, HasSubstr("\"records\":21"));
}

// Breaks if an engine that computes something else passed.
TEST_F(BaseLogprobsCommand, AnotherModelIsNot) {
  const auto json = compare(kBase, follow(kBase, "q4_k_m"), 1);
  EXPECT_EQ(json["summary"]["failed"].GetInt(), 21);
  EXPECT_EQ(json["first_divergence"]["token_idx"].GetInt(), 8);
}

// Breaks if a fault of the engine hid beside codes of 16 bits, or a chunk that was not evaluated
// passed.
TEST_F(BaseLogprobsCommand, AFaultOfTheEngineIsFound) {
  for (const std::string fault : {"kv-k-shifted", "scale-missing", "rope-pairing"}) {
    const std::string log = path(fault + ".jsonl");
    ASSERT_EQ(run({"mutate", tinyllama("f32"), "--tokens", kChunk1, "--fault", fault, "--log", log,
                   "--checkpoints", "logits"})
                  .exit_code,
              0)
        << fault;
    EXPECT_GE(compare(kBase, log, 1)["summary"]["failed"].GetInt(), 1) << fault;
  }
  const std::string one = path("one.jsonl");
  run_json({"run", tinyllama("f32"), "--tokens", kChunk1, "-n", "0", "--checkpoints", "logits",
            "--values", "all", "--log", one});
  const auto json = compare(kBase, one, 2);
  EXPECT_EQ(json["summary"]["failed"].GetInt(), 0);
  EXPECT_EQ(json["evidence"]["unproven"].GetInt(), 14) << "two chunks are missing";
}

// Breaks if a token that the file knows only as unlikely could be likely in the other log, or had
// to be as likely as the bound.
TEST_F(BaseLogprobsCommand, AClippedTokenIsHeldToItsBound) {
  std::string bytes = "_logits_";
  const auto put_number = [&](auto number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  for (const int32_t number : {4, 4, 1, 0, 1, 2, 3}) put_number(number);
  put_number(16.0F / 65535);
  put_number(-16.1269F);
  for (const int code : {65535, 57344, 1, 0}) put_number(static_cast<uint16_t>(code));
  const std::string base = put("base.kld", bytes);
  const auto log = [&](float clipped) {
    return put("got.jsonl", R"({"assay":1,"tokens":[0,1,2,3]})"
                            "\n" +
                                line("logits", 2, {5, 3, -11, clipped}));
  };
  EXPECT_EQ(compare(base, log(-80), 0)["evidence"]["partial"].GetInt(), 1);
  compare(base, log(-11), 0);
  compare(base, log(-10.5F), 1);
  compare(base, log(2), 1);
  compare(base, log(9), 1);
}

// Breaks if chunks were given another first token than the model would: a warning says what was
// assumed where the file does not show it, and the model's own flag counts where there is one.
TEST_F(BaseLogprobsCommand, AModelKnowsItsBos) {
  const Outcome analyzed = run({"analyze", kBase});
  EXPECT_THAT(analyzed.err, HasSubstr("its 3 chunks is taken to begin with the token 1"));
  const std::string log = path("own.jsonl");
  const Outcome imported = run({"import", kBase, "--bos", "none", "-o", log});
  EXPECT_THAT(imported.err, Not(HasSubstr("warning")));
  EXPECT_THAT(contents(log), HasSubstr("[293,270,")) << "the text's own token";
  const std::string got = follow(kBase, "f32");
  EXPECT_EQ(compare(log, got, 2)["evidence"]["unproven"].GetInt(), 14) << "other tokens";
  const Outcome followed = run({"run", tinyllama("f32"), "--follow", kBase});
  EXPECT_THAT(followed.err, Not(HasSubstr("warning"))) << "the model says it";
}

// Breaks if a damaged file were a crash, a stack trace or a shorter log.
TEST_F(BaseLogprobsCommand, ADamagedFileIsOneLine) {
  const std::string cut = put("cut.kld", contents(kBase).substr(0, 9000));
  const std::string message =
      cut +
      ": is cut off: it has 9000 bytes, and its header says 3 chunks of 16 tokens and a "
      "vocabulary of 318, 13736 bytes; let llama-perplexity --kl-divergence-base run to its "
      "end; --chunks N makes a smaller file";
  expect_error({"compare", cut, kBase}, message);
  expect_error({"analyze", cut}, message);
  expect_error({"import", cut, "-o", path("log.jsonl")}, message);
  expect_error({"run", tinyllama("f32"), "--follow", cut}, message);
  expect_error({"import", kBase, "--bos", "x"},
               "--bos: 'x' is not a token id; give ids from 0 to 2147483647, separated by commas");
  expect_error({"import", kBase, "--bos", "1,2"},
               "--bos: '1,2' is no token id; give the model's id of BOS, or none");
  expect_error({"import", kBase, "--vocabulary", "318"},
               kBase + ": is no response of a server; leave out --vocabulary");
}

}  // namespace
}  // namespace assay
