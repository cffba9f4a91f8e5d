// Every fault of the catalogue that has a cause's name, put into every layer or into a single one,
// seen in logs that hold nothing but logits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "assay/mutate/catalogue.h"
#include "assay/mutate/faulty_kernels.h"
#include "base/thread_pool.h"
#include "tests/causes/logits_logs.h"

namespace assay {
namespace {

using testing::IsEmpty;

constexpr LogitsForm kForms[] = {LogitsForm::kAll, LogitsForm::kHeadAndSketch, LogitsForm::kTop20};

struct Expected {
  std::string model;
  bool in_every_layer = true;
  bool in_each_form = false;  // if not, the forms take turns
  // Of the faults that change the logits beyond the tolerance, those that are not named,
  std::set<std::string> missed = {};
  size_t named = 0;  // and how many are, of all forms together
  // Named as another one that is the same function.
  std::set<std::string> alike = {};
};

void PrintTo(const Expected& expected, std::ostream* out) {
  *out << expected.model;
}

struct Tally {
  size_t named = 0;
  std::set<std::string> missed;
  std::vector<std::string> wrong;
};

class WholeNetwork : public LogitsLogs, public testing::WithParamInterface<Expected> {
 protected:
  static bool is_possible(const Fault& fault, const Model& model) {
    if (!fault.inject || (!GetParam().in_every_layer && !fault.in_one_layer)) return false;
    return !fault.unsupported_reason || fault.unsupported_reason(model).empty();
  }

  static Logits logits_with(const Fault& fault) {
    const auto model = load(GetParam().model);
    Injection injection =
        fault.inject({.model = *model, .layer = static_cast<int>(model->config().n_layers / 2)});
    if (GetParam().in_every_layer && injection.applies) {
      injection.applies = [in_one = injection.applies,
                           layer = injection.found_at.layer](OpSite site) {
        if (is_in_layer(site.checkpoint)) site.layer = layer;
        return in_one(site);
      };
    }
    const auto network = mistakes::Network::of_model(*model, std::ssize(tokens_));
    ThreadPool pool(1);
    const auto right = make_cpu_kernels(pool);
    FaultyKernels kernels(network, *right, injection);
    return logits_of(*model, kernels);
  }

  static void add(const Fault& fault, LogitsForm form, const Comparison& comparison, Tally& tally) {
    if (comparison.pass) return;  // the fault does nothing, or next to nothing
    const std::string found = comparison.causes.empty() ? "" : comparison.causes[0].name;
    const std::string what = fmt::format("{} of form {}", fault.name, static_cast<int>(form));
    if (found.empty()) {
      if (!fault.cause.empty()) tally.missed.insert(what);
    } else if (found == fault.cause) {
      ++tally.named;
    } else if (!GetParam().alike.contains(what)) {
      tally.wrong.push_back(what + ": " + comparison.causes[0].sentence);
    }
  }
};

TEST_P(WholeNetwork, NamesMistakesByLogitsAloneAndNoneWrongly) {
  const auto model = load(GetParam().model);
  ThreadPool pool(1);
  const auto kernels = make_cpu_kernels(pool);
  const Logits right = logits_of(*model, *kernels);
  Tally tally;
  size_t turn = 0;
  for (const Fault& fault : fault_catalogue()) {
    if (!is_possible(fault, *model)) continue;
    const Logits faulty = logits_with(fault);
    const LogitsForm turns[] = {kForms[turn++ % std::size(kForms)]};
    for (const LogitsForm form : GetParam().in_each_form ? std::span<const LogitsForm>(kForms)
                                                         : std::span<const LogitsForm>(turns)) {
      const std::string ref = log(right, "ref", form);
      add(fault, form, compare(model.get(), ref, log(faulty, "got", form), 1e-5), tally);
    }
  }
  EXPECT_THAT(tally.wrong, IsEmpty());
  EXPECT_EQ(tally.missed, GetParam().missed);
  EXPECT_EQ(tally.named, GetParam().named);
}

// All are named. OLMo2's attention that is scaled before a norm is that norm with another eps: the
// sentence has both.
INSTANTIATE_TEST_SUITE_P(
    , WholeNetwork,
    testing::Values(
        Expected{"tinyllama", true, true, {}, 261}, Expected{"gpt2", true, true, {}, 213},
        Expected{"olmo2", true, false, {}, 81, {"scaled of form 2"}},
        Expected{"qwen3", true, false, {}, 90}, Expected{"qwen2.5", true, false, {}, 90},
        Expected{"llama3", true, false, {}, 85}, Expected{"granite", true, false, {}, 89},
        Expected{"phi3", true, false, {}, 91}, Expected{"tinyllama", false, false, {}, 75}),
    [](const testing::TestParamInfo<Expected>& one) {
      std::string name = one.param.model;
      std::erase(name, '.');
      return name + (one.param.in_every_layer ? "" : "InOneLayer");
    });

}  // namespace
}  // namespace assay
