#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <set>

#include "assay/causes/find_causes.h"
#include "assay/causes/search.h"
#include "base/interrupt.h"
#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<float> random_values(size_t count) {
  static std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Logs whose parts cannot be of one network, or not of the model. What is wrong with them is
// reported; nothing is computed from it, and it takes no verdict back.
class UnfitLogs : public FaultyLogs {
 protected:
  using Edit = std::function<std::string(const std::string& line)>;
  // The log with each of its lines, which have their ends, replaced.
  std::string edited(const std::string& path, const Edit& edit) {
    std::ifstream lines(path);
    std::string text;
    for (std::string line; std::getline(lines, line);) text += edit(line + "\n");
    return put(std::filesystem::path(path).filename().string() + ".edited", text);
  }
  static Edit without(const std::string& checkpoint) {
    return [checkpoint](const std::string& line) {
      return line.find("\"checkpoint\":\"" + checkpoint + "\"") == std::string::npos ? line : "";
    };
  }

  struct Part {
    std::string name;
    std::vector<size_t> sizes;  // at each token; the last is that of all that follow
    bool differs = false;
  };
  // Compares two logs of these parts at `tokens` positions without a model.
  Comparison compare_parts(const std::vector<Part>& parts, int tokens) {
    std::string ref;
    std::string got;
    for (int token = 0; token < tokens; ++token) {
      for (const Part& part : parts) {
        const size_t at = std::min(static_cast<size_t>(token), part.sizes.size() - 1);
        const std::vector<float> values = random_values(part.sizes[at]);
        ref += line(part.name, token, values);
        got += line(part.name, token, part.differs ? random_values(values.size()) : values);
      }
    }
    return FaultyLogs::compare(nullptr, put("ref.jsonl", ref), put("got.jsonl", got));
  }

  static void expect_nothing_found(const Comparison& comparison) {
    EXPECT_FALSE(comparison.pass);
    EXPECT_THAT(comparison.causes, IsEmpty());
    EXPECT_FALSE(comparison.error_sources.empty());
    for (const ErrorSource& source : comparison.error_sources) {
      EXPECT_FALSE(source.own || source.inherited) << source.checkpoint.name;
    }
  }
};

TEST_F(UnfitLogs, DoesNotAddTensorsOfUnequalSizes) {
  const std::string residual = "layer_0_attn_residual";
  struct Case {
    size_t stream;
    size_t branch;
    std::string hint;
  };
  for (const Case& sizes :
       {Case{100000, 1, "embedding has 100000 elements, layer_0_attn_out has 1 elements"},
        Case{1, 1000, "embedding has 1 elements, layer_0_attn_out has 1000 elements"},
        Case{8, 8, "what it is computed from gives 8 elements, it has 4"}}) {
    const Comparison comparison = compare_parts({{"embedding", {sizes.stream}},
                                                 {"layer_0_attn_out", {sizes.branch}},
                                                 {residual, {4}, true}},
                                                4);
    expect_nothing_found(comparison);
    EXPECT_THAT(comparison.cause_hint, HasSubstr(sizes.hint));
  }
}

TEST_F(UnfitLogs, DoesNotMultiplyTensorsOfUnequalSizes) {
  for (const size_t gate : {size_t{1}, size_t{200000}}) {
    const Comparison comparison = compare_parts({{"layer_0_ffn_gate", {gate}},
                                                 {"layer_0_ffn_up", {1000}},
                                                 {"layer_0_ffn_act", {1000}, true}},
                                                4);
    EXPECT_FALSE(comparison.pass);
    EXPECT_THAT(comparison.causes, IsEmpty());
  }
}

TEST_F(UnfitLogs, ExtraRecordsMustHaveTheModelsSize) {
  const auto model = load("llama3");
  const auto right = make_reference_kernels();
  Negated negated(Checkpoint::kQ, 0);
  const std::string name = "layer_0_attn_norm";
  const Comparison comparison = FaultyLogs::compare(
      model.get(), edited(log(*model, *right, "ref", "ops"), without(name)),
      edited(log(*model, negated, "got", "ops"), [&](const std::string& text) {
        const size_t at = text.find("\"token_idx\":");
        return without(name)(text) == text ? text
                                           : line(name, std::stoi(text.substr(at + 12)), {1});
      }));
  ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
  EXPECT_EQ(comparison.causes[0].name, "sign");
  EXPECT_EQ(comparison.causes[0].checkpoint.name, "layer_0_q");
}

TEST_F(UnfitLogs, ReadsLogitsUpToTheShorterSize) {
  std::string ref;
  std::string got;
  for (int token = 0; token < 5; ++token) {
    std::vector<float> padded = random_values(1 << 18);
    std::vector<float> bare = random_values(1 << 17);
    padded[0] = bare[0] = 100;  // both go on with token 0
    ref += line("logits", token, padded);
    got += line("logits", token, bare);
  }
  const Comparison comparison =
      FaultyLogs::compare(nullptr, put("ref.jsonl", ref), put("got.jsonl", got));
  EXPECT_FALSE(comparison.pass);
  EXPECT_THAT(comparison.causes, IsEmpty());
}

// Breaks if the reference were suspected where a vocabulary that is filled up has another argmax.
TEST_F(UnfitLogs, AFilledUpVocabularyIsNoMistakeOfTheReference) {
  const auto model = load("tinyllama");
  const auto right = make_reference_kernels();
  const std::string ref = log(*model, *right, "ref", "ops");
  const std::string size = std::to_string(model->config().n_vocab);
  const std::string more = std::to_string(model->config().n_vocab + 2);
  const std::string got = edited(log(*model, *right, "got", "ops"), [&](const std::string& line) {
    if (line.find("\"checkpoint\":\"logits\"") == std::string::npos) return line;
    std::string text = line;
    const size_t shape = text.find("\"shape\":[1," + size + "]");
    text.replace(text.find(size, shape), size.size(), more);
    text.insert(text.find(']', text.find("\"values\":[")), ",99,99");
    const size_t summary = text.find(",\"summary\"");
    return text.substr(0, summary) + "}\n";
  });
  for (const Model* known : std::vector<const Model*>{model.get(), nullptr}) {
    const Comparison comparison = FaultyLogs::compare(known, ref, got);
    ASSERT_FALSE(comparison.pass);
    ASSERT_EQ(comparison.first_divergence->checkpoint.name, "logits");
    EXPECT_THAT(comparison.causes, IsEmpty());
    EXPECT_EQ(comparison.cause_hint.find("the reference that computes something else"),
              std::string::npos);
    if (known == nullptr) continue;
    EXPECT_THAT(comparison.cause_hint,
                HasSubstr("the " + size +
                          " elements of logits that both logs have are what the "
                          "model gives; the judged log has " +
                          more + ", the reference " + size));
  }
}

TEST_F(UnfitLogs, AcceptsSizesThatVaryByToken) {
  for (const auto& sizes : {std::vector<size_t>{1 << 17, 16}, std::vector<size_t>{32, 1 << 17}}) {
    const Comparison comparison = compare_parts({{"layer_0_q", sizes, true}}, 5);
    EXPECT_FALSE(comparison.pass);
    EXPECT_THAT(comparison.causes, IsEmpty());
  }
}

TEST_F(UnfitLogs, SkipsTokensOutsideTheVocabulary) {
  const auto model = load("llama3");
  for (const std::string token : {"999999999", "4294967297", "-1"}) {
    const auto right = make_reference_kernels();
    Noise noise;
    const auto edit = [&](const std::string& path) {
      return edited(path, [&](std::string line) {
        const size_t at = line.find("\"tokens\":[1,");
        if (at != std::string::npos) line.replace(at, 12, "\"tokens\":[" + token + ",");
        return without("embedding")(without("layer_0_attn_norm")(line));
      });
    };
    const Comparison comparison =
        FaultyLogs::compare(model.get(), edit(log(*model, *right, "ref", "ops")),
                            edit(log(*model, noise, "got", "ops")));
    EXPECT_FALSE(comparison.pass);
    EXPECT_THAT(comparison.causes, IsEmpty());
    EXPECT_THAT(comparison.cause_hint, HasSubstr("all values of embedding are needed"));
  }
}

// A file may change after it was judged.
TEST_F(UnfitLogs, SearchErrorsKeepTheVerdict) {
  const auto model = load("tinyllama");
  const auto right = make_reference_kernels();
  Negated negated(Checkpoint::kQ, 0);
  const std::string ref = log(*model, *right, "ref", "ops");
  const std::string got = log(*model, negated, "got", "ops");
  Comparison comparison = compare_logs(ref, got, CompareOptions());
  std::filesystem::resize_file(got, 100);
  find_causes(model.get(), comparison);
  EXPECT_FALSE(comparison.pass);
  EXPECT_THAT(comparison.causes, IsEmpty());
  EXPECT_THAT(comparison.cause_hint, HasSubstr("the search for the cause ended: "));
  EXPECT_THAT(comparison.cause_hint, HasSubstr(got));
  // With the model of other logs nothing can be found.
  const auto other = load("gpt2");
  EXPECT_THROW(find_causes(other.get(), comparison), Error);
}

// One mistake may be tried with hundreds of values.
TEST_F(UnfitLogs, WorkLimitStopsATry) {
  const auto model = load("tinyllama");
  Noise noise;
  const Comparison comparison = FaultyLogs::compare("tinyllama", noise, "layers", false);
  const causes::Op op{Checkpoint::kOutput, 0};
  const causes::Network network = causes::Network::of_model(*model, 12);
  causes::TensorStore store(comparison);
  const double base = causes::Chain(network, store, op, {0, 5, 11}).base_multiplications();
  ASSERT_GT(base, 0);
  const auto search = [&](double most) {
    causes::Search tried(network, store, op, {}, {}, most);
    tried.run();
    // What it did not try has a name.
    EXPECT_EQ(tried.not_tried().empty(), std::isinf(most)) << most;
    EXPECT_EQ(std::set(tried.not_tried().begin(), tried.not_tried().end()).size(),
              tried.not_tried().size());
    return std::make_pair(tried.multiplications(), tried.judgement().hint);
  };
  // The judged tokens are more than three: base is less than one run.
  EXPECT_EQ(search(0.5 * base).first, 0);
  EXPECT_THAT(search(0.5 * base).second, HasSubstr("; 0 of "));
  const auto [made, hint] = search(10 * base);
  EXPECT_LE(made, 15 * base);
  EXPECT_GT(made, 5 * base);
  EXPECT_THAT(hint, HasSubstr("; 0 of "));
  const auto [all, last] = search(std::numeric_limits<double>::infinity());
  EXPECT_GT(all, 100 * base);
  EXPECT_THAT(last, HasSubstr("no known mistake"));
}

TEST_F(UnfitLogs, AttentionWorkCountsItsKeys) {
  const auto model = load("tinyllama");
  Noise noise;
  const Comparison comparison = FaultyLogs::compare("tinyllama", noise, "ops", false);
  causes::TensorStore store(comparison);
  const causes::Network network = causes::Network::of_model(*model, 12);
  const causes::Chain chain(network, store, {Checkpoint::kAttn, 0}, {3, 11});
  ASSERT_TRUE(chain.complete());
  EXPECT_EQ(chain.base_multiplications(),
            static_cast<double>(2 * (8 * 12 + 50) * model->config().q_width()));
}

TEST_F(UnfitLogs, InterruptEndsTheSearch) {
  Comparison comparison = compare_parts(
      {{"embedding", {8}}, {"layer_0_attn_out", {8}}, {"layer_0_attn_residual", {8}, true}}, 4);
  const auto at_the_first_mistake = [](int64_t done, int64_t) {
    EXPECT_EQ(done, 0);
    interrupt(SIGINT);
  };
  comparison.causes.clear();
  comparison.error_sources.clear();
  EXPECT_THROW(find_causes(nullptr, comparison, at_the_first_mistake), Interrupted);
  interrupt(0);
}

// A name may count layers that no network has.
TEST_F(UnfitLogs, AcceptsAnyLayerNumber) {
  const Comparison comparison = compare_parts({{"layer_2000000_output", {8}, true}}, 4);
  EXPECT_FALSE(comparison.pass);
  EXPECT_THAT(comparison.causes, IsEmpty());
  EXPECT_FALSE(comparison.cause_hint.empty());
}

// Breaks if --model were advised where it alone does not help: of ten values of each tensor, and no
// tokens, nothing can be computed with it either.
TEST_F(UnfitLogs, SuggestsAModelIfNothingElseIsMissing) {
  const auto model = load("tinyllama");
  const auto right = make_reference_kernels();
  const Edit without_header = [](const std::string& line) {
    return line.starts_with("{\"assay\"") ? "" : line;
  };
  const auto hint = [&](const std::string& set, int64_t values, bool header) {
    Noise noise;
    const std::string ref = log(*model, *right, "ref", set, values);
    const std::string got = log(*model, noise, "got", set, values);
    const Comparison comparison = header ? FaultyLogs::compare(nullptr, ref, got)
                                         : FaultyLogs::compare(nullptr, edited(ref, without_header),
                                                               edited(got, without_header));
    EXPECT_THAT(comparison.causes, IsEmpty());
    return comparison.cause_hint;
  };
  for (const char* set : {"ops", "logits"}) {
    const std::string in_part = hint(set, 10, false);
    EXPECT_THAT(in_part, HasSubstr("log all values of what it is computed from, such as "));
    EXPECT_LT(in_part.find("--checkpoints ops --values all"), in_part.find("--model")) << in_part;
    EXPECT_THAT(hint(set, 10, true), HasSubstr("; give --model to look further"));
  }
  EXPECT_THAT(hint("layers", 10, true), HasSubstr("--values all, or give --model: "));
  EXPECT_THAT(hint("layers", 10, false), Not(HasSubstr("--model")));
  EXPECT_THAT(hint("ops", kAllValues, false), HasSubstr("; give --model to look further"));
  EXPECT_THAT(hint("logits", kAllValues, false), HasSubstr("such as final_norm"));
}

}  // namespace
}  // namespace assay
