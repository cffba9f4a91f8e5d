#include "tests/cli/run_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rapidjson/document.h>
#include <termios.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;
using testing_support::TinyModel;

// What was written to a terminal; it may come in pieces, some time after the writer has ended.
std::string read_terminal(int terminal, size_t wanted) {
  constexpr int kMilliseconds = 10000;
  std::string got;
  pollfd ready{terminal, POLLIN, 0};
  while (got.size() < wanted && poll(&ready, 1, kMilliseconds) > 0) {
    char piece[4096];
    const ssize_t count = ::read(terminal, piece, sizeof(piece));
    if (count <= 0) break;
    got.append(piece, static_cast<size_t>(count));
  }
  return got;
}

// What would break: a model file whose tokens hold escape sequences would rule the user's terminal.
TEST_F(RunCommand, ATerminalIsShownHostileTokensAsText) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  ASSERT_TRUE(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
  const std::string name = ptsname(terminal);
  const int kept = open(name.c_str(), O_RDWR | O_NOCTTY);  // what is written stays there
  termios mode{};
  tcgetattr(kept, &mode);
  cfmakeraw(&mode);
  tcsetattr(kept, TCSANOW, &mode);
  const std::vector<std::pair<std::string, std::string>> hostile = {
      {"\x1b[31m", "\\x1b[31m"},
      {"\x1b]0;a\x07", "\\x1b]0;a\\x07"},
      {"\xe2\x80\xae", "\\xe2\\x80\\xae"},
      {"\xc2\x9b", "\\xc2\\x9b"},
      {"a\tb\n\r", "a\tb\n\\x0d"}};
  for (const auto& [token, shown] : hostile) {
    TinyModel model;
    model.texts["tokenizer.ggml.model"] = "llama";
    model.vocabulary = {token, "b", "c", "d", "e"};
    model.fill["output.weight"] = 0.0F;  // all logits are equal: the first token is chosen
    const std::vector<std::string> command = {"run", tiny(model), "--tokens",    "1",
                                              "-n",  "2",         "--ignore-eos"};
    EXPECT_EQ(run(command).out, token + token + "\n") << "a file gets it as it is";
    std::vector<std::string> as_json = command;
    as_json.emplace_back("--json");
    const std::string json = run(as_json).out;
    for (const char* raw : {"\x1b", "\x07", "\xe2\x80\xae", "\xc2\x9b"}) {
      EXPECT_EQ(json.find(raw), std::string::npos) << shown << " stands in JSON as it is";
    }
    rapidjson::Document parsed;
    EXPECT_EQ(parsed.Parse(json.c_str())["text"].GetString(), token + token);
    EXPECT_EQ(run(command, {}, name).exit_code, 0);
    const std::string wanted = shown + shown + "\n";
    EXPECT_EQ(read_terminal(terminal, wanted.size()), wanted);
  }
  close(kept);
  close(terminal);
}

TEST_F(RunCommand, JsonHasTheContractsKeysAndTheTextIsThatOfThePlainRun) {
  const auto json = run_json({"run", kModel, "--prompt", "GPU haiku", "-n", "5", "--ignore-eos",
                              "--threads", "2", "--backend", "cpu"});
  std::vector<std::string> keys;
  for (const auto& member : json.GetObject()) keys.emplace_back(member.name.GetString());
  EXPECT_THAT(keys, UnorderedElementsAre("tokens", "generated", "text", "backend", "math",
                                         "threads", "load_ms", "prefill_tok_s", "decode_tok_s"));
  EXPECT_EQ(json["generated"].Size(), 5U);
  EXPECT_STREQ(json["backend"].GetString(), "cpu");
  EXPECT_STREQ(json["math"].GetString(), "exact");
  EXPECT_EQ(json["threads"].GetInt(), 2);
  const Outcome plain = run({"run", kModel, "--prompt", "GPU haiku", "-n", "5", "--ignore-eos"});
  EXPECT_EQ(plain.out, json["text"].GetString() + std::string("\n"));
}

TEST_F(RunCommand, TokensAreTakenAsTheyAreAndAPromptFileAsItIs) {
  const auto by_tokens = run_json({"run", kModel, "--tokens", "5,6,7", "-n", "0"});
  EXPECT_EQ(by_tokens["tokens"].Size(), 3U) << "no BOS is added";
  EXPECT_EQ(by_tokens["generated"].Size(), 0U);
  const std::string file = put("prompt.txt", "two words\n");
  const auto by_file = run_json({"run", kModel, "--prompt-file", file, "-n", "0"});
  const auto by_text = run_json({"run", kModel, "--prompt", "two words\n", "-n", "0"});
  EXPECT_EQ(by_file["tokens"], by_text["tokens"]);
}

// The log of -n N: the prompt's positions and those of all generated tokens but the last.
TEST_F(RunCommand, TheLogHasEveryPositionThatWasEvaluated) {
  const std::string log = path("log.jsonl");
  run_json({"run", tiny(), "--tokens", "1,2", "-n", "2", "--log", log, "--checkpoints",
            "embedding,logits"});
  EXPECT_THAT(records(log), ElementsAre("embedding@0", "embedding@1", "embedding@2", "logits@0",
                                        "logits@1", "logits@2"));
  run_json({"run", tiny(), "--tokens", "1,2", "-n", "0", "--log", log, "--checkpoints", "logits"});
  EXPECT_THAT(records(log), ElementsAre("logits@0", "logits@1")) << "a second run starts anew";
}

TEST_F(RunCommand, TheLogsHeaderSaysWhatRan) {
  const std::string log = path("log.jsonl");
  run_json({"run", tiny(), "--tokens", "1,2", "-n", "1", "--log", log});
  LogReader reader(log);
  ASSERT_NE(reader.next(), nullptr);
  ASSERT_TRUE(reader.header());
  EXPECT_EQ(reader.header()->model.arch, "llama");
  EXPECT_EQ(reader.header()->model.sha256.size(), 64U);
  EXPECT_EQ(reader.header()->model.type, "F32");
  EXPECT_THAT(reader.header()->tokens, ElementsAre(1, 2));
  EXPECT_EQ(reader.header()->engine, "assay");
}

TEST_F(RunCommand, TheEnvironmentCanAskForALog) {
  const std::string log = path("env.jsonl");
  setenv("ORCH_LOG_FILE", log.c_str(), 1);
  setenv("ORCH_LOG_TEAM", "blue", 1);
  setenv("ORCH_LOG_VALUES", "2", 1);
  run_json({"run", tiny(), "--tokens", "1,2", "-n", "1"});
  unsetenv("ORCH_LOG_FILE");
  unsetenv("ORCH_LOG_TEAM");
  unsetenv("ORCH_LOG_VALUES");
  LogReader reader(log);
  const Record* record = reader.next();
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->checkpoint, "logits");
  EXPECT_EQ(record->team, "blue");
  EXPECT_EQ(record->values.size(), 2U);
}

// Breaks if a variable held in one case and not in another: each is its flag's default.
TEST_F(RunCommand, AFlagStandsBeforeItsVariableAndTheVariableBeforeTheDefault) {
  const std::string log = path("log.jsonl");
  const std::vector<std::string> base = {"run", tiny(), "--tokens", "1,2", "-n", "1"};
  const auto first_record = [&](const std::vector<std::string>& flags, const std::string& file) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    LogReader reader(file);
    const Record* record = reader.next();
    return record != nullptr ? *record : Record();
  };
  // Not an error: nothing is logged.
  setenv("ORCH_LOG_TEAM", "blue", 1);
  setenv("ORCH_LOG_VALUES", "2", 1);
  setenv("ASSAY_LOG_CHECKPOINTS", "final_norm", 1);
  EXPECT_EQ(run(base).exit_code, 0);
  // With --log they say how, and a flag stands before them.
  Record record = first_record({"--log", log}, log);
  EXPECT_EQ(record.team, "blue");
  EXPECT_EQ(record.values.size(), 2U);
  EXPECT_EQ(record.checkpoint, "final_norm");
  record = first_record(
      {"--log", log, "--team", "red", "--values", "3", "--checkpoints", "embedding"}, log);
  EXPECT_EQ(record.team, "red");
  EXPECT_EQ(record.values.size(), 3U);
  EXPECT_EQ(record.checkpoint, "embedding");
  // The file too, and flags that need one have one then.
  const std::string env_log = path("env.jsonl");
  setenv("ORCH_LOG_FILE", env_log.c_str(), 1);
  record = first_record({"--sketch", "--team", "green"}, env_log);
  EXPECT_TRUE(record.sketch.has_value());
  EXPECT_EQ(record.team, "green");
  EXPECT_EQ(record.checkpoint, "final_norm");
  std::filesystem::remove(env_log);
  first_record({"--log", log}, log);
  EXPECT_FALSE(std::filesystem::exists(env_log));
  for (const char* name :
       {"ORCH_LOG_FILE", "ORCH_LOG_TEAM", "ORCH_LOG_VALUES", "ASSAY_LOG_CHECKPOINTS"}) {
    EXPECT_THAT(run({"run", "--help"}).out, HasSubstr(name));
    unsetenv(name);
  }
  expect_error({"run", tiny(), "--tokens", "1", "--sketch"},
               "--sketch requires --log; see assay run --help");
}

TEST_F(RunCommand, GenerationStopsAtTheFilesEndTokenUnlessTold) {
  TinyModel model;
  const auto all = run_json({"run", tiny(model), "--tokens", "1", "-n", "4"});
  const int first = all["generated"][0].GetInt();
  model.ints["tokenizer.ggml.eos_token_id"] = static_cast<uint32_t>(first);
  const auto stopped = run_json({"run", tiny(model), "--tokens", "1", "-n", "4"});
  EXPECT_EQ(stopped["generated"].Size(), 1U);
  const auto ignored = run_json({"run", tiny(model), "--tokens", "1", "-n", "4", "--ignore-eos"});
  EXPECT_EQ(ignored["generated"], all["generated"]);
}

TEST_F(RunCommand, WithoutAVocabularyTheIdsAreShown) {
  const Outcome outcome = run({"run", tiny(), "--tokens", "1", "-n", "3"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, testing::MatchesRegex("[0-4] [0-4] [0-4]\n"));
}

// Breaks if the log were given the number of a closed standard output.
TEST_F(RunCommand, AClosedStandardOutputIsToldAndLeavesTheLogWhole) {
  const std::string log = path("log.jsonl");
  const std::string command = program_path("assay") + " run " + tiny() + " --tokens 1 -n 2 --log " +
                              log + " >&- 2>/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2);
  EXPECT_FALSE(records(log).empty());
}

// Breaks if a message that cannot be written ended the program by a signal.
TEST_F(RunCommand, FullStandardStreamsAreExitCodesAndNoCrash) {
  const auto exit_code = [&](const std::string& arguments) {
    const int status = std::system((program_path("assay") + " " + arguments).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const std::string model = tiny();
  EXPECT_EQ(exit_code("run " + model + " --tokens 1 -n 2 >/dev/null 2>/dev/full"), 0);
  EXPECT_EQ(exit_code("bogus 2>/dev/full"), 2);
  for (const std::string command : {"run --tokens 1 --json ", "inspect --json ", "inspect "}) {
    EXPECT_EQ(exit_code(command + model + " >/dev/full 2>/dev/null"), 2) << command;
  }
}

TEST_F(RunCommand, AFullContextEndsWithWhatWasGenerated) {
  const std::string log = path("log.jsonl");
  for (const bool json : {false, true}) {
    std::vector<std::string> arguments = {"run", kModel,          "--tokens",     "1,2,3",
                                          "-n",  "1000",          "--ignore-eos", "--log",
                                          log,   "--checkpoints", "logits"};
    if (json) arguments.emplace_back("--json");
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(
        outcome.err,
        HasSubstr("warning: the model's context is full: generation ended after 638 tokens, "
                  "with 3 of the prompt\n"));
    EXPECT_NE(outcome.out, "") << "what was generated until then is lost";
    EXPECT_EQ(records(log).size(), 640U);
    if (!json) continue;
    rapidjson::Document object;
    object.Parse(outcome.out.c_str());
    ASSERT_TRUE(object.IsObject()) << outcome.out;
    EXPECT_EQ(object["generated"].Size(), 638U);
  }
  // One that ends just there has nothing to warn of; a prompt that does not fit is an error.
  const Outcome whole = run({"run", kModel, "--tokens", "1,2,3", "-n", "638", "--ignore-eos"});
  EXPECT_EQ(whole.exit_code, 0);
  EXPECT_THAT(whole.err, Not(HasSubstr("context")));
  std::string ids = "1";
  for (int i = 0; i < 640; ++i) ids += ",1";
  expect_error({"run", kModel, "--tokens", ids},
               std::string(kModel) +
                   ": the prompt has 641 tokens, the model's context 640; use a shorter prompt");
}

// What `assay tokenize` prints, and what is read off it.
TEST_F(RunCommand, TokensMayStandInBracketsAndApart) {
  for (const char* ids : {"[1,2,3]", "1, 2, 3", " [1, 2 ,3]\n"}) {
    EXPECT_THAT(run_json({"run", tiny(), "--tokens", ids, "-n", "0"})["tokens"].Size(), 3U) << ids;
  }
  for (const char* ids : {"[]", "[1,2", "1 2", "[[1]]"}) {
    EXPECT_EQ(run({"run", tiny(), "--tokens", ids}).exit_code, 2) << ids;
  }
}

TEST_F(RunCommand, SamplingThatIsNotDoneIsToldOf) {
  const std::vector<std::string> base = {"run", tiny(), "--tokens", "1", "-n", "2"};
  const auto warned = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), base.begin(), base.end());
    const Outcome outcome = run(flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.err.find("warning: without --temp") != std::string::npos;
  };
  EXPECT_TRUE(warned({"--seed", "3", "--top-k", "4"}));
  EXPECT_TRUE(warned({"--top-p", "0.5"}));
  EXPECT_FALSE(warned({"--seed", "3", "--temp", "0.5"}));
  EXPECT_FALSE(warned({"--seed", "3", "--temp", "0"}));
  EXPECT_FALSE(warned({}));
}

TEST_F(RunCommand, EveryMistakeHasItsMessage) {
  const std::string model = tiny();
  expect_error({"run", path("none.gguf"), "--tokens", "1"},
               path("none.gguf") + ": cannot open: No such file or directory; check the path");
  expect_error({"run", put("empty.gguf", ""), "--tokens", "1"},
               path("empty.gguf") + ": the file is empty");
  expect_error({"run", put("text.gguf", "hello, world"), "--tokens", "1"},
               path("text.gguf") +
                   ": is not a GGUF file (it does not begin with 'GGUF'); give a "
                   "model file in the GGUF format, or the folder of a model in safetensors");
  expect_error({"run", model, "--tokens", "1,5"},
               model + ": token 5 is not in the vocabulary of 5; give ids from 0 to 4");
  expect_error({"run", model, "--prompt", "x"},
               model +
                   ": the file has no vocabulary to read the prompt with; give the prompt as "
                   "ids with --tokens");
  expect_error({"run", model, "--tokens", "1", "--batch", "0"},
               "--batch: '0' is not a whole number from 1 to 65536; see assay run --help");
  expect_error({"run", model, "--tokens", "1", "--top-k", "1.5"},
               "--top-k: '1.5' is not a whole number from 0 to 9223372036854775807; see assay run "
               "--help");
  for (const char* flag : {"-n", "--temp", "--batch"}) {
    expect_error({"run", model, "--inject", "ref.jsonl", flag, "1"},
                 std::string(flag) + " excludes --inject; see assay run --help");
  }
  expect_error(
      {"run", model, "--tokens", "1,,2"},
      "--tokens: '' is not a token id; give ids from 0 to 2147483647, separated by commas");
  expect_error({"run", model, "--tokens", "1", "--log", ""},
               "--log: the path is empty; give a file to write");
  expect_error({"run", kModel, "--tokens", "1", "--log", "-"},
               "--log: a log is not written to standard output; give a file, ./- for one of that "
               "name");
  expect_error({"run", model, "--tokens", "1", "--temp", "-1"},
               "--temp: -1 is out of range; give a number of 0 or more");
  // Breaks if a warning came before the error.
  expect_error({"run", model, "--tokens", "1", "--top-p", "2"},
               "--top-p: 2 is out of range; give a number above 0 and up to 1");
  expect_error({"run", model, "--prompt-file", path("none")},
               path("none") + ": cannot open: No such file or directory; check the path");
  expect_error({"run", model, "--prompt-file", folder_},
               folder_ + ": is a directory; give the path of a file");
  expect_error({"run", model, "--prompt-file", "/dev/zero"},
               "/dev/zero: is longer than 256 MiB; give a shorter text");
  expect_error({"run", model, "--tokens", "1", "--log", "/no/such/folder/log"},
               "/no/such/folder/log: cannot open the log for writing: No such file or directory; "
               "log into an existing folder that is writable");
  expect_error({"run", model, "--tokens", "1", "--log", path("l"), "--checkpoints", "nothing"},
               "--checkpoints: the model has no checkpoint 'nothing'; give logits, layers, ops, or "
               "globs such as 'layer_0_*,logits'");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"run", model},
           {"run", model, "--tokens", "1", "--prompt", "x"},
           {"run", model, "--tokens", "1,x"},
           {"run", model, "--tokens", "99999999999"},
           {"run", model, "--tokens", "1", "-n", "-1"},
           {"run", model, "--tokens", ""},
           {"run", model, "--tokens", "0x1"},
           {"run", model, "--tokens", "1", "--threads", "0x2"},
           {"run", model, "--tokens", "1", "--threads", "1025"},
           {"run", model, "--tokens", "1", "-n", "many"},
           {"run", model, "--tokens", "1", "--seed", "18446744073709551616"},
           {"run", model, "--tokens", "1", "--kv", "f8"},
           {"run", model, "--tokens", "1", "--backend", "tpu"},
           {"run", model, "--tokens", "1", "--log", path("l"), "--values", "some"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

// Breaks if opening the log emptied a file before all that can be refused was.
TEST_F(RunCommand, NothingIsOverwrittenByAMistake) {
  const std::string model = tiny();
  expect_error({"run", model, "--tokens", "1", "--log", model},
               model + ": the log would overwrite the model; give another --log");
  EXPECT_EQ(run({"inspect", model}).exit_code, 0);
  const std::string old = put("old.jsonl", "precious\n");
  expect_error({"run", kModel, "--prompt-file", old, "--log", old},
               old + ": the log would overwrite its input; give another --log");
  EXPECT_EQ(run({"run", model, "--tokens", "9", "--log", old}).exit_code, 2);
  EXPECT_EQ(run({"run", model, "--tokens", "1", "--log", old, "--checkpoints", "x"}).exit_code, 2);
  EXPECT_EQ(contents(old), "precious\n");
}

// Breaks if the page had no time between tokens to show.
TEST_F(RunCommand, RecordsSayWhenTheyWereLogged) {
  unsetenv("ASSAY_LOG_TS");
  EXPECT_EQ(run({"run", kModel, "--tokens", "1,2", "-n", "4", "--log", path("l")}).exit_code, 0);
  setenv("ASSAY_LOG_TS", "off", 1);
  std::map<int64_t, std::string> last;
  LogReader reader(path("l"));
  while (const Record* record = reader.next()) {
    ASSERT_TRUE(record->ts) << record->checkpoint;
    last[record->token_idx] = *record->ts;
  }
  EXPECT_GT(last.at(4), last.at(3)) << "a token takes no time";
  const Outcome page = run({"compare", path("l"), path("l"), "--format", "html"});
  EXPECT_EQ(page.exit_code, 0);
  EXPECT_THAT(page.out, HasSubstr("\"ref_times\":[["));
}

// Breaks if the text and the log stood between each other's lines, or if opening the log emptied
// what the shell has opened as a standard stream.
TEST_F(RunCommand, ALogOnAStandardStreamIsRefused) {
  const auto shell = [&](const std::string& arguments) {
    const std::string command =
        program_path("assay") + " run " + tiny() + " --tokens 1 " + arguments;
    const int status =
        std::system(("bash -o pipefail -c '(" + command + ") 2> " + path("err") + "'").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << arguments;
    return contents(path("err"));
  };
  const std::string kept = put("kept", "precious\n");
  const std::string out = "standard output is the same file, and the text goes there";
  EXPECT_THAT(shell("--log /dev/stdout >> " + kept), HasSubstr("assay: /dev/stdout: " + out));
  EXPECT_THAT(shell("--log " + kept + " >> " + kept), HasSubstr("assay: " + kept + ": " + out));
  EXPECT_THAT(shell("--log " + kept + " < " + kept), HasSubstr("standard input is the same file"));
  EXPECT_THAT(shell("--log /dev/stdout | cat > " + path("piped")), HasSubstr(out));
  EXPECT_EQ(contents(path("piped")), "");
  shell("--log /dev/stderr > " + path("o"));
  shell("--log /dev/fd/1 > " + path("o"));
  EXPECT_EQ(contents(kept), "precious\n");
  setenv("ORCH_LOG_FILE", "/dev/stdout", 1);
  EXPECT_EQ(run({"run", tiny(), "--tokens", "1"}).exit_code, 2);
  unsetenv("ORCH_LOG_FILE");
  // A device that keeps nothing is everybody's.
  EXPECT_EQ(run({"run", tiny(), "--tokens", "1", "--log", "/dev/null"}, {}, "/dev/null").exit_code,
            0);
}

TEST_F(RunCommand, TokenizeGivesAJsonArray) {
  EXPECT_EQ(run({"tokenize", kModel, "--text", "a", "--no-bos"}).exit_code, 0);
  const std::string with_bos = run({"tokenize", kModel, "--text", "a"}).out;
  const std::string without = run({"tokenize", kModel, "--text", "a", "--no-bos"}).out;
  EXPECT_EQ(with_bos, "[1," + without.substr(1)) << "tinyllama's file asks for BOS";
  EXPECT_EQ(run({"tokenize", kModel, "-f", put("a.txt", "a")}).out, with_bos);
  const std::string model = tiny();
  expect_error({"tokenize", model, "--text", "a"},
               model +
                   ": has no vocabulary; give a GGUF file that has one, or a folder with "
                   "tokenizer.json");
}

TEST_F(RunCommand, InspectShowsTheModel) {
  const auto json = [&] {
    rapidjson::Document parsed;
    parsed.Parse(run({"inspect", kModel, "--json"}).out.c_str());
    return parsed;
  }();
  EXPECT_STREQ(json["architecture"].GetString(), "llama");
  EXPECT_STREQ(json["type"].GetString(), "Q8_0");
  EXPECT_EQ(json["hyperparameters"]["llama.block_count"].GetInt(), 2);
  EXPECT_GT(json["tensors"].Size(), 10U);
  EXPECT_THAT(run({"inspect", kModel}).out, HasSubstr("blk.1.ffn_down.weight"));
}

}  // namespace
}  // namespace assay
