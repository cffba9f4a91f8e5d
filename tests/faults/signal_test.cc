#include "tests/faults/fault_case.h"

namespace assay {
namespace {

using testing::HasSubstr;

struct Signal {
  int number;
  int exit_code;
  const char* name;
};

// What a user who wants no more of it, or a job's time limit, sends.
class Interruption : public FaultCase, public testing::WithParamInterface<Signal> {
 protected:
  // Sends the signal once `ready` holds and expects the program to end by it; `progress` is what it
  // told before.
  void interrupt(pid_t child, const std::function<bool()>& ready,
                 const std::string& progress = "") {
    EXPECT_TRUE(wait_for(ready));
    kill(child, GetParam().number);
    const Outcome outcome = finish(child);
    EXPECT_EQ(outcome.exit_code, GetParam().exit_code);
    EXPECT_EQ(outcome.err, progress + "assay: interrupted by " + GetParam().name + "\n");
  }
  void ready_config() {
    put("config.json",
        R"({"model_type":"llama","hidden_size":2048,"intermediate_size":8192,"vocab_size":32000,)"
        R"("num_hidden_layers":16,"num_attention_heads":16,"num_key_value_heads":16,)"
        R"("max_position_embeddings":512,"rms_norm_eps":1e-5})");
  }
};

TEST_P(Interruption, LeavesAWholeLog) {
  const std::string log = path("log.jsonl");
  auto arguments = long_run(log);
  interrupt(start(arguments), [&] { return size_of(log) > 10000; });
  const std::string cut = contents(log);
  EXPECT_EQ(cut.back(), '\n');
  arguments[8] = path("whole.jsonl");
  EXPECT_EQ(run(arguments).exit_code, 0);
  const std::string whole = contents(path("whole.jsonl"));
  EXPECT_TRUE(whole.starts_with(cut));
  EXPECT_LT(cut.size(), whole.size()) << "it came too late to interrupt anything";
}

// A pipe is written in pieces: breaks if the last record were left half written.
TEST_P(Interruption, LeavesAWholeLogInAPipeThatIsRead) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  auto arguments = long_run("/dev/fd/" + std::to_string(ends[1]));
  arguments.insert(arguments.end(), {"--values", "all"});
  const pid_t child = start(arguments, [&] { close(ends[0]); });
  close(ends[1]);
  std::string log;
  char piece[1000];
  for (ssize_t got = 0; (got = ::read(ends[0], piece, sizeof(piece))) > 0;) {
    if (log.size() < 50000 && log.size() + static_cast<size_t>(got) >= 50000) {
      kill(child, GetParam().number);
    }
    log.append(piece, static_cast<size_t>(got));
  }
  close(ends[0]);
  EXPECT_EQ(finish(child).exit_code, GetParam().exit_code);
  EXPECT_GT(log.size(), 50000U);
  EXPECT_TRUE(log.ends_with('\n'));
}

// Breaks if a model that is half written stood there like a whole one, or its remains.
TEST_P(Interruption, OfSynthLeavesNoFile) {
  ready_config();
  const auto before = files();
  interrupt(start({"synth", path("config.json"), "-o", path("model.gguf"), "--threads", "1"}),
            [&] { return files().size() > before.size(); });
  EXPECT_EQ(files(), before);
}

TEST_P(Interruption, OfConvertLeavesNoFile) {
  for (const std::string ending : {"npz", "safetensors"}) {
    const std::string log = path("log.jsonl");
    if (!std::filesystem::exists(log)) {
      std::string text;
      for (int i = 0; i < 200000; ++i) text += line("logits", i, {1, 2, 3});
      put("log.jsonl", text);
    }
    const auto before = files();
    interrupt(start({"convert", log, path("out." + ending)}),
              [&] { return files().size() > before.size(); });
    EXPECT_EQ(files(), before);
  }
}

// It waits for its input in a read that nothing will answer.
TEST_P(Interruption, OfCompareLeavesTheReportThatWasThere) {
  const std::string report = put("report.json", "before");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto before = files();
  const pid_t child = start({"compare", kLog, "-", "--format", "json", "-o", report}, [&] {
    dup2(ends[0], STDIN_FILENO);
    close(ends[1]);
  });
  EXPECT_EQ(write(ends[1], "{", 1), 1);
  interrupt(child, [&] {
    pollfd waiting{ends[0], POLLIN, 0};
    return poll(&waiting, 1, 0) == 0;  // it has read what there was
  });
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(contents(report), "before");
  EXPECT_EQ(files(), before);
}

// The oracle of a golden is a process of its own, which must not go on alone.
TEST_P(Interruption, OfAnOracleEndsIt) {
  copy_golden();
  const std::string started = path("started");
  const std::string oracle_command = "echo $$ > " + started + "; exec sleep 100";
  const pid_t child = start(
      {"golden", "record", "tinyllama", "--folder", path("golden"), "--oracle", oracle_command},
      [] { setenv("ASSAY_UPDATE", "new", 1); });
  interrupt(
      child, [&] { return size_of(started) > 1; },
      "assay: recording tinyllama: " + oracle_command + "\n");
  const pid_t oracle = std::stoi(contents(started));
  EXPECT_EQ(kill(oracle, 0), -1) << "the oracle still runs";
}

INSTANTIATE_TEST_SUITE_P(All, Interruption,
                         testing::Values(Signal{SIGINT, 130, "SIGINT"},
                                         Signal{SIGTERM, 143, "SIGTERM"},
                                         Signal{SIGHUP, 129, "SIGHUP"}),
                         [](const auto& test) { return std::string(test.param.name); });

// What a caller that wants to hear nothing of its children leaves to all that it starts: the system
// then forgets how a child ended. Breaks if an oracle that failed were taken for one that did not.
TEST_F(FaultCase, AnOracleThatFailsIsToldWhereSigchldIsIgnored) {
  copy_golden();
  const Outcome outcome = run_in(
      [] {
        signal(SIGCHLD, SIG_IGN);
        setenv("ASSAY_UPDATE", "new", 1);
      },
      {"golden", "record", "tinyllama", "--folder", path("golden"), "--oracle", "exit 3"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("exit 3: the oracle ended with exit code 3, nothing was recorded"));
}

// The same of Python: a file that is there and does not hold what the program says it holds.
TEST_F(FaultCase, APythonThatFailsIsToldWhereSigchldIsIgnored) {
  const std::string program = put("python", "#!/bin/sh\n: > \"$5\"\necho the reason >&2\nexit 1\n");
  std::filesystem::permissions(program, std::filesystem::perms(0755));
  const auto before = files();
  const Outcome outcome = run_in(
      [&] {
        signal(SIGCHLD, SIG_IGN);
        setenv("ASSAY_PYTHON", program.c_str(), 1);
      },
      {"convert", kLog, path("out.parquet")});
  expect_one_line(outcome, path("out.parquet") + ": the reason");
  EXPECT_EQ(files(), before);
}

// What nohup and a shell's background jobs ask for.
TEST_F(FaultCase, AnIgnoredSignalStaysIgnored) {
  const std::string log = path("log.jsonl");
  const pid_t child = start(long_run(log), [] { signal(SIGINT, SIG_IGN); });
  EXPECT_TRUE(wait_for([&] { return size_of(log) > 10000; }));
  kill(child, SIGINT);
  EXPECT_EQ(finish(child).exit_code, 0);
}

}  // namespace
}  // namespace assay
