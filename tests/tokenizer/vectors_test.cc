// Real vocabularies (Llama, Qwen, Falcon, DeepSeek and others) against the test vectors that
// llama.cpp keeps beside them. scripts/fetch_vocabularies.py gets both.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "engine/tokenizer/text_stream.h"
#include "engine/tokenizer/tokenizer.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

fs::path vocabulary_dir() {
  const auto env = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (!env("ASSAY_VOCAB_DIR").empty()) return env("ASSAY_VOCAB_DIR");
  if (!env("ASSAY_CACHE").empty()) return fs::path(env("ASSAY_CACHE")) / "vocab";
  fs::path cache = env("XDG_CACHE_HOME");
  if (cache.empty()) cache = fs::path(env("HOME")) / ".cache";
  return cache / "assay" / "vocab";
}

std::string read_file(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos;) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  return parts;
}

struct Case {
  std::string file;  // llama-spm
  bool byte_level;   // every text comes back byte for byte
  size_t n_vectors;
  size_t n_lost_bytes = 0;  // without a token: those that no UTF-8 has, and control characters
};

class Vectors : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    path_ = vocabulary_dir() / ("ggml-vocab-" + GetParam().file + ".gguf");
    for (const char* suffix : {"", ".inp", ".out"}) {
      if (!fs::exists(path_.string() + suffix)) {
        GTEST_SKIP() << "vocabulary: no " << path_.string() << suffix << "; get it with "
                     << "scripts/fetch_vocabularies.py " << vocabulary_dir().string();
      }
    }
    tokenizer_ = Tokenizer::from_gguf(Gguf(path_.string()));
    ASSERT_NE(tokenizer_, nullptr);
    texts_ = split(read_file(path_.string() + ".inp"), "\n__ggml_vocab_test__\n");
  }

  fs::path path_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> texts_;
};

// If this fails, a prompt means something else to Assay than to its reference.
TEST_P(Vectors, EveryTextHasTheReferenceIds) {
  const std::vector<std::string> lines = split(read_file(path_.string() + ".out"), "\n");
  ASSERT_EQ(texts_.size(), GetParam().n_vectors);
  ASSERT_EQ(lines.size(), texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) {
    std::istringstream line(lines[i]);
    std::vector<int32_t> expected;
    for (int32_t id; line >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer_->encode(texts_[i], false), expected) << "text " << i << ": " << texts_[i];
  }
}

// Fed token by token, whole characters only, nothing lost.
TEST_P(Vectors, EveryTextComesBackAsAStream) {
  const TextStreamOptions options = {.at_start_of_text = true, .show_control_tokens = true};
  for (const std::string& text : texts_) {
    EXPECT_EQ(decode(*tokenizer_, tokenizer_->encode(text, false), options), text);
  }
}

// Bytes that are not UTF-8 must survive as well: no replacement on the way in.
TEST_P(Vectors, ArbitraryBytesSurvive) {
  std::set<char> lost;
  for (int byte = 0; byte < 256; ++byte) {
    const auto c = static_cast<char>(byte);
    if (tokenizer_->encode(std::string_view(&c, 1), false).empty()) lost.insert(c);
  }
  EXPECT_EQ(lost.size(), GetParam().n_lost_bytes);
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (size_t i = random() % 40; i > 0; --i) bytes += static_cast<char>(random() & 0xFF);
    std::string back;
    for (const int32_t id : tokenizer_->encode(bytes, false)) back += tokenizer_->token_bytes(id);
    if (!GetParam().byte_level && !bytes.empty()) back.erase(0, 1);  // the space prefix
    std::erase_if(bytes, [&](char c) { return lost.contains(c); });
    EXPECT_EQ(back, bytes);
  }
}

// A text that defeats any step quadratic in the length of a word, a run or the whole text.
TEST_P(Vectors, ALongTextTakesSeconds) {
  constexpr size_t kBytes = 250'000;
  std::mt19937 random(7);
  const auto repeat = [](const std::string& unit) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    return text;
  };
  std::string letters;
  while (letters.size() < kBytes) letters += static_cast<char>('a' + random() % 26);
  const std::pair<const char*, std::string> inputs[] = {
      {"prose", repeat("The quick brown fox, aged 17, jumps over\nthe lazy d\xC3\xB6g. ")},
      {"one letter", repeat("a")},
      {"spaces", repeat(" ")},
      {"newlines", repeat("\n")},
      {"digits", repeat("7")},
      {"random letters", letters},
      {"begun special tokens", repeat("<|")},
      {"special tokens", repeat("<s><|end|><|im_end|><|eot_id|> ")},
      {"broken UTF-8", repeat("a\xE2\x96")},
      {"emoji", repeat("\xF0\x9F\xA6\x99")},
  };
  for (const auto& [name, text] : inputs) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<int32_t> ids = tokenizer_->encode(text, false);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_FALSE(ids.empty());
    // Generous: a quadratic step costs minutes, a busy machine with sanitizers some seconds.
    EXPECT_LT(seconds.count(), 15.0) << name;
    if (std::getenv("ASSAY_TEST_TIMES") != nullptr) {
      std::printf("%-24s %8zu tokens %6.2f s\n", name, ids.size(), seconds.count());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    LlamaCpp, Vectors,
    testing::Values(Case{"llama-spm", false, 46}, Case{"phi-3", false, 46},
                    Case{"llama-bpe", true, 46}, Case{"qwen2", true, 46}, Case{"gpt-2", true, 46},
                    Case{"falcon", true, 46, 28}, Case{"command-r", true, 46},
                    Case{"starcoder", true, 46, 14}, Case{"deepseek-llm", true, 46, 13},
                    Case{"deepseek-coder", true, 46, 13}, Case{"qwen35", true, 50}),
    [](const auto& vectors) {
      std::string name = vectors.param.file;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace assay
