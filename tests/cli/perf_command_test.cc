#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/cli/program.h"

namespace assay {
namespace {

class PerfCommand : public Program {
 protected:
  // `count` repetitions of two benchmarks, the second one slower by `slowdown`.
  std::string bench(const std::string& name, double slowdown, int count = 12) {
    std::string text = R"({"context": {"date": ")" + name + R"("}, "benchmarks": [)";
    for (int i = 0; i < count; ++i) {
      const double wave = 1 + 0.001 * (i * 7 % 5);
      text += i > 0 ? "," : "";
      text += entry("add", 100 * wave) + "," + entry("matvec|<b>", 900 * wave * slowdown);
    }
    return put(name, text + "]}");
  }

  // As many repetitions as show that nothing has changed.
  static std::string entries(const std::string& name) {
    std::string text = entry(name, 1);
    for (int i = 1; i < 12; ++i) text += "," + entry(name, 1);
    return text;
  }

  // Of a time that is no other entry's to the last digit, as no two runs measure the same.
  static std::string entry(const std::string& name, double time) {
    static int made = 0;
    time *= 1 + 1e-5 * (++made % 47);
    return R"({"name": ")" + name + R"(", "run_name": ")" + name +
           R"(", "run_type": "iteration", "real_time": )" + std::to_string(time) +
           R"(, "time_unit": "ns"})";
  }
};

TEST_F(PerfCommand, OnlyAConfirmedSlowFails) {
  const std::string base = bench("base.json", 1.0);
  const Outcome same = run({"perf", base, bench("same.json", 1.0)});
  EXPECT_EQ(same.exit_code, 0);
  EXPECT_EQ(same.err, "");
  expect_error({"perf", base, base},
               base + ": is the same file as " + base +
                   "; compared with itself it shows nothing: give the one that is judged");
  const auto expect_copy = [&](const std::string& copy) {
    expect_error({"perf", base, copy, "--allow-missing", "m*"},
                 copy + ": has the times of " + base +
                     "; no two runs measure the same times: give what the head measured");
  };
  expect_copy(put("copy.json", contents(base)));
  std::string anew = contents(base);
  anew.replace(anew.find("date"), 4, "time");
  expect_copy(put("anew.json", anew + "\n"));
  // One time of a coarse clock may be the same: too few, as any other.
  const std::string once =
      R"({"benchmarks": [{"name": "add", "real_time": 5, "time_unit": "ms"}]})";
  const Outcome chance = run({"perf", put("once.json", once), put("again.json", once + " ")});
  EXPECT_EQ(chance.exit_code, 2);
  EXPECT_THAT(chance.err, testing::HasSubstr("1 pair is too few to tell"));
  EXPECT_EQ(run({"perf", base, bench("fast.json", 0.9)}).exit_code, 0);
  const Outcome slow = run({"perf", base, bench("slow.json", 1.1)});
  EXPECT_EQ(slow.exit_code, 1);
  EXPECT_THAT(slow.out, testing::StartsWith("SLOW  1 slower, 0 faster, 1 the same, 0 unsure\n"));
  EXPECT_THAT(slow.out, testing::HasSubstr("+10.0 %"));
}

// What would break: a slowdown that no number of these pairs could confirm, passed as none.
TEST_F(PerfCommand, TooFewPairsForWhatSeemsSlowerAreNotComparable) {
  const std::string base = bench("base.json", 1.0);
  const std::string slow = bench("few.json", 1.1, 5);
  const Outcome few = run({"perf", base, slow});
  EXPECT_EQ(few.exit_code, 2);
  EXPECT_THAT(few.out, testing::HasSubstr("5 pairs of repetitions are too few"));
  EXPECT_EQ(few.err, "assay: " + slow +
                         ": matvec|<b> seems slower (+10.0 %), and 5 pairs are too few to confirm "
                         "it; take 9 or more\n");
  const std::string report = folder_ + "/report.json";
  EXPECT_EQ(run({"perf", base, slow, "--format", "json", "-o", report}).exit_code, 2);
  EXPECT_THAT(contents(report), testing::HasSubstr(R"("pairs_needed":9,"too_few_pairs":true,)"));
  EXPECT_THAT(contents(report), testing::StartsWith(R"({"verdict":"UNSURE","pass":false,)"));
  const Outcome faster = run({"perf", base, bench("faster.json", 0.9, 5)});
  EXPECT_EQ(faster.exit_code, 2);
  EXPECT_THAT(faster.err, testing::HasSubstr("5 pairs are too few to tell whether it is slower; "
                                             "take 9 or more\n"));
  const Outcome one = run({"perf", base, bench("one.json", 1.0, 1)});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_THAT(one.err, testing::HasSubstr("1 pair is too few to tell whether it is slower"));
}

// What would break: a head that is three times as slow from its 13th repetition on, judged by the
// twelve that the base has too.
TEST_F(PerfCommand, RepetitionsThatOnlyOneFileHasAreNotLeftOut) {
  const auto text = [](int fast, int slow) {
    std::string entries;
    for (int i = 0; i < fast + slow; ++i) {
      entries += (i > 0 ? "," : "") + entry("add", i < fast ? 100 : 300);
    }
    return R"({"context": {}, "benchmarks": [)" + entries + "]}";
  };
  const std::string base = put("base.json", text(12, 0));
  const std::string longer = put("longer.json", text(12, 12));
  EXPECT_EQ(run({"perf", base, put("same.json", text(12, 0))}).exit_code, 0);
  for (const auto& [from, to] : {std::pair(base, longer), {longer, base}}) {
    const Outcome outcome = run({"perf", from, to});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.out, testing::HasSubstr("what has no partner is left out"));
    EXPECT_EQ(outcome.err, "assay: " + to +
                               ": has more or fewer repetitions than the base of 1 benchmark, such "
                               "as add: those without a partner may be slower; run both with the "
                               "same --benchmark_repetitions\n");
    EXPECT_THAT(run({"perf", from, to, "--json"}).out,
                testing::AllOf(testing::HasSubstr(R"("pass":false)"),
                               testing::HasSubstr(R"("unpaired":["add"])")));
  }
  EXPECT_EQ(run({"perf", base, put("slow.json", text(0, 13))}).exit_code, 1);
}

// What would break: times that vary by a third, in which a slowdown of a tenth hides, read as a
// pass.
TEST_F(PerfCommand, WhatIsUnsureIsSaidNotToBeShown) {
  std::string base = R"({"context": {}, "benchmarks": [)";
  std::string head = base;
  for (int i = 0; i < 12; ++i) {
    base += (i > 0 ? "," : "") + entry("add", 100) + "," + entry("noisy", 100);
    head += (i > 0 ? "," : "") + entry("add", 100) + "," + entry("noisy", i % 2 == 0 ? 70 : 130);
  }
  const std::string noisy = put("noisy.json", head + "]}");
  base = put("base.json", base + "]}");
  const Outcome outcome = run({"perf", base, noisy});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              testing::StartsWith("UNSURE  0 slower, 0 faster, 1 the same, 1 unsure\n"
                                  "1 of 2 benchmarks is not shown to be as fast: "
                                  "noisy is between 30.0 % faster and 30.0 % slower (95 %)"));
  const Outcome json = run({"perf", base, noisy, "--format", "json", "-o", folder_ + "/o.json"});
  EXPECT_THAT(json.err,
              testing::StartsWith("assay: warning: " + noisy + ": 1 of 2 benchmarks is "));
  EXPECT_THAT(contents(folder_ + "/o.json"), testing::HasSubstr(R"("unsure":"1 of 2 benchmarks)"));
}

TEST_F(PerfCommand, WhatTheHeadSkipsIsNotComparable) {
  const std::string base = bench("base.json", 1.0);
  std::string text = contents(bench("head.json", 1.0));
  for (size_t at = 0; (at = text.find("matvec", at)) != std::string::npos; ++at) {
    if (text.compare(at - 9, 8, "\"name\": ") == 0) continue;
    const size_t time = text.find("\"real_time\"", at);
    if (time != std::string::npos) {
      text.replace(time, text.find('}', time) - time, R"("skipped": true, "skip_message": "no")");
    }
  }
  const Outcome outcome = run({"perf", base, put("head.json", text)});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  EXPECT_THAT(outcome.err,
              testing::HasSubstr("head.json: skips 1 benchmark that the base measured, "
                                 "such as matvec|<b> (no)"));
  EXPECT_THAT(outcome.out, testing::HasSubstr("skipped in the head: matvec|<b> (no)"));
}

// Breaks if a benchmark that is gone, or not run any more, drops out of what is judged unseen.
TEST_F(PerfCommand, WhatTheHeadLacksIsNotComparableUnlessAccepted) {
  const std::string base = put("base.json", R"({"benchmarks": [)" + entries("add") + "," +
                                                entries("sort<char[4]>/8") + "]}");
  const std::string head = put("head.json", R"({"benchmarks": [)" + entries("add") + "]}");
  const Outcome outcome = run({"perf", base, head});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  EXPECT_EQ(outcome.err, "assay: " + head +
                             ": lacks 1 benchmark that the base measured, such as sort<char[4]>/8; "
                             "measure it, or accept that it is gone with --allow-missing GLOB\n");
  EXPECT_THAT(outcome.out, testing::HasSubstr("missing in the head: sort<char[4]>/8\n"));
  const Outcome json = run({"perf", base, head, "--format", "json"});
  EXPECT_EQ(json.exit_code, 2);
  EXPECT_THAT(json.out, testing::HasSubstr(R"("pass":false,)"));
  EXPECT_THAT(json.out, testing::HasSubstr(R"("missing":["sort<char[4]>/8"],)"));
  EXPECT_EQ(run({"perf", head, base}).exit_code, 0) << "a benchmark more";
  for (const char* glob : {"sort*", "sort<char[4]>/8"}) {
    const Outcome allowed = run({"perf", base, head, "--allow-missing", glob});
    EXPECT_EQ(allowed.exit_code, 0) << allowed.err;
    EXPECT_THAT(allowed.out, testing::HasSubstr("only in the base: sort<char[4]>/8, accepted by"));
  }
  EXPECT_EQ(run({"perf", base, head, "--allow-missing", "add"}).exit_code, 2);
  expect_error({"perf", base, head, "--allow-missing", "sorted*"},
               "--allow-missing: " + base +
                   " has no benchmark 'sorted*'; give a glob of benchmarks that the base has");
}

TEST_F(PerfCommand, HostsAreNotComparedUnlessAccepted) {
  const auto of_host = [&](const std::string& file, const std::string& name) {
    std::string text = contents(bench(file, 1.0));
    return put(file, text.insert(text.find("\"date\""), R"("host_name": ")" + name + R"(", )"));
  };
  const std::string left = of_host("left.json", "left");
  const std::string right = of_host("right.json", "right");
  EXPECT_EQ(run({"perf", left, of_host("again.json", "left")}).exit_code, 0);
  expect_error({"perf", left, right},
               right + ": host_name is right here and left in " + left +
                   ": times of unlike runs cannot be compared; run both by turns on one machine: "
                   "scripts/perf.sh; or accept it with --any-machine");
  const Outcome accepted = run({"perf", left, right, "--any-machine"});
  EXPECT_EQ(accepted.exit_code, 0) << accepted.err;
  EXPECT_THAT(accepted.out, testing::HasSubstr("host_name is left in the base, right in the head"));
}

TEST_F(PerfCommand, ReportsInJsonAndMarkdown) {
  const std::string base = bench("base.json", 1.0);
  const std::string head = bench("slow.json", 1.1);
  EXPECT_THAT(run({"perf", base, head, "--format", "json"}).out,
              testing::AllOf(testing::StartsWith(R"({"verdict":"SLOW","pass":false,)"),
                             testing::HasSubstr(R"({"name":"matvec|<b>","verdict":"SLOW",)")));
  const Outcome github = run({"perf", base, head, "--format", "github"});
  EXPECT_THAT(github.out, testing::StartsWith("::error title=matvec|<b> is slower::matvec|<b>: "));
  EXPECT_THAT(github.out, testing::HasSubstr("\n### Speed: SLOW\n"));
  EXPECT_THAT(github.out, testing::HasSubstr("| matvec&#124;&#60;b&#62; |"));
}

// Breaks if Markdown were appended to what the next run reads as JSON.
TEST_F(PerfCommand, GithubsSummaryIsNotAppendedToAnInput) {
  const std::string base = bench("base.json", 1.0);
  const std::string before = contents(base);
  setenv("GITHUB_STEP_SUMMARY", base.c_str(), 1);
  const Outcome outcome = run({"perf", base, bench("head.json", 1.0), "--format", "github"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err,
              testing::HasSubstr(base + ": the summary would overwrite its input; give another "
                                        "GITHUB_STEP_SUMMARY"));
  unsetenv("GITHUB_STEP_SUMMARY");
  EXPECT_EQ(contents(base), before);
}

// Breaks if a report took the place of a comparison that it is made of, or was read as one by the
// next run; before or after an error.
TEST_F(PerfCommand, NoReportInsideAFolderOfAccuracy) {
  const std::string base = bench("base.json", 1.0);
  const std::string head = bench("head.json", 1.0);
  std::filesystem::create_directories(folder_ + "/before");
  std::filesystem::create_directories(folder_ + "/after");
  const std::string kept = put("after/gpt2-Q8_0-fast-haiku.json", "{}");
  for (const std::string& file : {kept, folder_ + "/before/report.json"}) {
    const std::vector<std::string> arguments = {
        "perf", base, head, "--accuracy", folder_ + "/before", folder_ + "/after", "-o", file};
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, testing::HasSubstr(file + ": the report would be part of its input"));
    std::vector<std::string> wrong = arguments;
    wrong.push_back("--nosuch");
    EXPECT_EQ(run(wrong).exit_code, 2);
  }
  EXPECT_EQ(contents(kept), "{}");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/before/report.json"));
}

// A change that is faster and breaks a floor: exit code 1, in every format.
TEST_F(PerfCommand, RefusesWhatBreaksItsFloor) {
  const auto folder = [this](const std::string& name, const std::string& x_floor,
                             const std::string& missing = "0") {
    std::filesystem::create_directory(folder_ + "/" + name);
    put(name + "/gpt2-Q8_0-fast-haiku.json",
        R"({"pass":true,"summary":{"unmatched_ref":)" + missing +
            R"(},"results":[{"checkpoint":"logits","token_idx":3,"tolerance":3e-3,)"
            R"("floor":1e-3,"x_floor":)" +
            x_floor + "}]}");
    return folder_ + "/" + name;
  };
  const std::string before = folder("before", "0.8");
  const std::string after = folder("after", "2.5");
  const std::string base = bench("base.json", 1.0);
  const std::string head = bench("fast.json", 0.9);
  const std::string as_exact = folder("as_exact", "0.8");
  EXPECT_EQ(run({"perf", base, head, "--accuracy", before, as_exact}).exit_code, 0);
  expect_error({"perf", base, head, "--accuracy", before, before},
               before + ": is the same file as " + before +
                   "; compared with itself it shows nothing: give the one that is judged");
  const Outcome refused = run({"perf", base, head, "--accuracy", before, after});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.out, testing::StartsWith("REFUSED  0 slower, 1 faster, "));
  EXPECT_THAT(refused.out,
              testing::HasSubstr("gpt2 Q8_0 fast is refused: it breaks its floor: 2.5 times as far "
                                 "from its golden as the floor at logits at token 3 of haiku"));
  for (const char* format : {"json", "html", "github"}) {
    const Outcome outcome =
        run({"perf", base, head, "--accuracy", before, after, "--format", format});
    EXPECT_EQ(outcome.exit_code, 1) << format;
    EXPECT_THAT(outcome.out, testing::HasSubstr("REFUSED")) << format;
  }
  const Outcome lost = run({"perf", base, head, "--accuracy", before, folder("lost", "0", "125")});
  EXPECT_EQ(lost.exit_code, 1);
  EXPECT_THAT(lost.out, testing::HasSubstr("gpt2 Q8_0 fast is refused: the head's log lacks 125 "
                                           "records of its golden of the prompt haiku"));
  const auto edited = [&](const std::string& name, const std::string& part,
                          const std::string& other) {
    const std::string path = folder(name, "0.1") + "/gpt2-Q8_0-fast-haiku.json";
    std::string text = contents(path);
    put(name + "/gpt2-Q8_0-fast-haiku.json", text.replace(text.find(part), part.size(), other));
    return run({"perf", base, head, "--accuracy", before, folder_ + "/" + name});
  };
  const Outcome wide = edited("wide", R"(3e-3,"floor":1e-3)", R"(0.3,"floor":0.1)");
  EXPECT_EQ(wide.exit_code, 1);
  EXPECT_THAT(wide.out, testing::HasSubstr("gpt2 Q8_0 fast is refused: its floor at logits of the "
                                           "prompt haiku is 0.001 in the base and 0.1 in the "
                                           "head: both are to be held to the same"));
  const Outcome narrow = edited("narrow", "logits", "embedding");
  EXPECT_EQ(narrow.exit_code, 1);
  EXPECT_THAT(narrow.out, testing::HasSubstr("gpt2 Q8_0 fast is refused: of 1 record of logits"));
  expect_error({"perf", base, head, "--accuracy", before, folder_ + "/none"},
               folder_ +
                   "/none: cannot read the folder: No such file or directory; give what "
                   "bench/accuracy.py wrote");
}

// What GitHub takes of a step is 1 MiB: it shows nothing of a longer summary.
TEST_F(PerfCommand, KeepsTheSummaryUnderAMebibyte) {
  const auto long_file = [&](const std::string& name) {
    std::string text = R"({"benchmarks": [)";
    for (int i = 0; i < 10000; ++i) {
      text += i > 0 ? "," : "";
      text += entry(std::string(150, '*') + std::to_string(i), 1);
    }
    return put(name, text + "]}");
  };
  const Outcome outcome =
      run({"perf", long_file("base.json"), long_file("head.json"), "--format", "github"});
  EXPECT_LT(outcome.out.size(), size_t{1} << 20);
  EXPECT_THAT(outcome.out, testing::HasSubstr("more benchmarks do not fit into the summary."));
}

TEST_F(PerfCommand, RefusesBadInput) {
  const std::string base = bench("base.json", 1.0);
  const std::string other = put("other.json", R"({"benchmarks": [)" + entry("other", 1) + "]}");
  expect_error({"perf", base, other}, other + ": no benchmark in common with " + base +
                                          "; run both with the same --benchmark_filter");
  expect_error({"perf", base, base, "--alpha", "0.5"},
               "--alpha: 0.5 is not above 0 and below 0.5; it is the chance of a false alarm, such "
               "as 0.01");
  expect_error({"perf", base, base, "--min-effect", "nan"},
               "--min-effect: nan is not above 0 and below 1; 0.02 takes less than 2 % for the "
               "same");
  expect_error({"perf", base, base, "-o", base},
               base + ": the report would overwrite its input; give another -o");
  EXPECT_EQ(run({"perf", base}).exit_code, 2);
  EXPECT_EQ(run({"perf", base, folder_ + "/none.json"}).exit_code, 2);
}

}  // namespace
}  // namespace assay
