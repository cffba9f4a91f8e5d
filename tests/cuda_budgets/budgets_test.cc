// Guards against slowness that need no GPU: what ptxas reports for each kernel, and what decoding a
// token asks of an emulated device. None may grow beyond what budgets.json records.

#include "tests/cuda_budgets/budgets.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "engine/session.h"
#include "kernels/emulated/emulated.h"
#include "kernels/fused.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing_support::Budgets;
using testing_support::Costs;

// "value_kernel<F16>" of the mangled name, without namespaces and parameters.
[[maybe_unused]] std::string kernel_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  EXPECT_EQ(status, 0) << mangled;
  std::string name = status == 0 ? text.get() : mangled;
  name = std::regex_replace(name, std::regex("\\(anonymous namespace\\)"), "unnamed");
  name.resize(std::min(name.size(), name.find('(')));  // without the parameters
  return std::regex_replace(name, std::regex("^void |[A-Za-z0-9_]+::"), "");
}

// What ptxas wrote of one source, of its kernels for sm_90.
[[maybe_unused]] void read_report(const std::string& path, std::map<std::string, Costs>& kernels) {
  const std::regex entry("Compiling entry function '([^']+)' for '([^']+)'");
  const std::regex spills(
      "(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill");
  const std::regex used("Used (\\d+) registers");
  const std::regex shared("(\\d+) bytes smem");
  std::ifstream file(path);
  Costs* costs = nullptr;
  std::smatch found;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_search(line, found, entry)) {
      costs = found[2] == "sm_90" ? &kernels[kernel_name(found[1])] : nullptr;
      if (costs != nullptr) *costs = {{"shared_bytes", 0}};
    }
    if (costs == nullptr) continue;
    if (std::regex_search(line, found, spills)) {
      (*costs)["stack_bytes"] = std::stoull(found[1]);
      (*costs)["spill_bytes"] = std::stoull(found[2]) + std::stoull(found[3]);
    }
    if (std::regex_search(line, found, used)) (*costs)["registers"] = std::stoull(found[1]);
    if (std::regex_search(line, found, shared)) (*costs)["shared_bytes"] = std::stoull(found[1]);
  }
}

// A kernel that takes more registers keeps fewer threads on the device; one that spills reads and
// writes memory in its innermost loop.
TEST(PtxasBudget, NoKernelTakesMoreRegistersOrSpills) {
#if defined(ASSAY_PTXAS_REPORTS)
  Budgets budgets;
  if (Budgets::recording()) budgets.set_text("nvcc", ASSAY_NVCC_VERSION);
  if (budgets.text("nvcc") != ASSAY_NVCC_VERSION) {
    GTEST_SKIP() << "nvcc: this is " << ASSAY_NVCC_VERSION << ", the figures are of "
                 << budgets.text("nvcc");
  }
  std::map<std::string, Costs> kernels;
  for (const auto& file : std::filesystem::directory_iterator(ASSAY_PTXAS_REPORTS)) {
    if (file.path().extension() == ".ptxas") read_report(file.path(), kernels);
  }
  ASSERT_FALSE(kernels.empty());
  for (const auto& [name, costs] : kernels) {
    EXPECT_EQ(costs.size(), 4U) << name << ": ptxas writes its figures in another form";
  }
  budgets.hold("kernels", kernels);
#else
  GTEST_SKIP() << "nvcc: built without CUDA";
#endif
}

// Of all matrices that a token is multiplied with.
size_t matrix_bytes(const Model& model) {
  const auto bytes = [](const WeightMatrix& w) {
    return w.data == nullptr ? 0 : static_cast<size_t>(w.rows) * row_bytes(w.type, w.columns);
  };
  size_t sum = bytes(model.output.weight);
  for (const Layer& layer : model.layers) {
    for (const OpSpec& op : model.config().layers.front().ops) {
      sum += bytes(layer.linear(op.out).weight);
    }
  }
  return sum;
}

constexpr const char* kModels[] = {"tinyllama", "llama3", "qwen2.5", "phi3", "gpt2"};

// What a model is run with.
struct Variant {
  Math math;
  std::string file;  // of each model, named after its type
  std::string name;  // in budgets.json
};

const Variant kVariants[] = {{Math::kExact, "q4_k_m", "exact"},
                             {Math::kFast, "q4_k_m", "fast"},
                             {Math::kFast, "f16", "fast_f16"}};

Model load(const std::string& name, const Variant& variant) {
  return Model(std::make_shared<Gguf>(source_path("golden/") + name + "/" + name + "-" +
                                      variant.file + ".gguf"));
}

// Of what is read of weights, `once` of them read once. 16 bytes in which one chunk ends and the
// next begins are asked for twice.
void expect_each_weight_once(const std::string& name, uint64_t read, size_t once) {
  const double ratio = static_cast<double>(read) / static_cast<double>(once);
  EXPECT_TRUE(ratio >= 1.0 && ratio <= 1.2) << name << ": " << ratio;
}

using CountsByKernel = std::map<std::string, KernelCounts>;

CountsByKernel& operator+=(CountsByKernel& sum, const CountsByKernel& more) {
  for (const auto& [name, counts] : more) sum[name].add(counts);
  return sum;
}

// What the instructions of each kernel ask of memory, and how long its slowest threads wait.
std::map<std::string, Costs> costs_of(const CountsByKernel& kernels) {
  std::map<std::string, Costs> costs;
  for (const auto& [name, counts] : kernels) {
    const LineCounts total = counts.total();
    costs[name] = {
        {"memory_instructions", total.instructions}, {"shared_wavefronts", total.wavefronts},
        {"worst_wavefronts", total.most_wavefronts}, {"global_sectors", total.sectors},
        {"load_chain", counts.load_chain},           {"bytes_in_flight", counts.bytes_in_flight()}};
  }
  return costs;
}

// By kernel and line, those with most wavefronts first: where a figure comes from.
void write_lines(const std::string& section, const CountsByKernel& kernels) {
  std::ofstream file(program_path("../" + section + ".txt"));
  for (const auto& [name, counts] : kernels) {
    file << fmt::format("{}: {} launches\n", name, counts.launches);
    std::vector<std::pair<std::string, LineCounts>> lines(counts.lines.begin(), counts.lines.end());
    std::ranges::stable_sort(lines, std::ranges::greater(), [](const auto& line) {
      return std::pair(line.second.wavefronts, line.second.sectors);
    });
    for (const auto& [place, line] : lines) {
      file << fmt::format("  {:9} instructions {:9} wavefronts (at most {:2}) {:9} sectors  {}\n",
                          line.instructions, line.wavefronts, line.most_wavefronts, line.sectors,
                          place);
    }
  }
}

void hold_kernels(const std::string& section, const CountsByKernel& kernels) {
  write_lines(section, kernels);
  Budgets().hold(section, costs_of(kernels));
}

// One more launch a layer, or a weight that is read twice, costs speed on every device. So does a
// kernel whose lanes want the same bank, or whose threads wait for one load after the other.
TEST(DecodeBudget, ATokenIsOneGraphThatReadsEachWeightOnce) {
  if (!has_emulated_kernels()) GTEST_SKIP() << "emulation: built without it";
  for (const Variant& variant : kVariants) {
    std::map<std::string, Costs> models;
    CountsByKernel counted;
    for (const std::string name : kModels) {
      const Model model = load(name, variant);
      const auto kernels = make_emulated_kernels(0, variant.math, true);
      Session session(model, *kernels, {.capacity = 16, .kv_type = KvType::kF16});
      const std::vector<int32_t> tokens = {1, 5, 9, 13, 17, 21, 25, 29, 33};
      session.eval({tokens.data(), 8});
      session.set_choosable(std::vector<bool>(static_cast<size_t>(model.config().n_vocab), true));
      const int32_t next = session.eval_greedy(tokens.back());  // and begins with that one
      const EmulatedCounts before = emulated_counts(*kernels);
      take_instruction_counts(*kernels);
      session.eval_greedy(next);  // and begins with another
      const EmulatedCounts after = emulated_counts(*kernels);
      counted += take_instruction_counts(*kernels);
      expect_each_weight_once(name, after.copied_bytes - before.copied_bytes, matrix_bytes(model));
      EXPECT_EQ(after.replays - before.replays, 1U) << name << " is not decoded as one graph";
      models[name] = {{"graph_nodes", after.launches - before.launches},
                      {"weight_bytes", after.copied_bytes - before.copied_bytes},
                      {"other_bytes", after.read_bytes - before.read_bytes}};
    }
    Budgets().hold("decode_" + variant.name, models);
    hold_kernels("decode_" + variant.name + "_kernels", counted);
  }
}

// So do the 32 tokens of a prompt that a tile takes, in either math, of which only the last has
// logits.
TEST(PromptBudget, ATileOfTokensReadsEachWeightOnce) {
  if (!has_emulated_kernels()) GTEST_SKIP() << "emulation: built without it";
  std::vector<int32_t> tokens(32);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(4 * i + 1);
  for (const Variant& variant : kVariants) {
    std::map<std::string, Costs> models;
    CountsByKernel counted;
    for (const std::string name : kModels) {
      const Model model = load(name, variant);
      const auto kernels = make_emulated_kernels(0, variant.math, true);
      Session session(model, *kernels, {.capacity = 40, .kv_type = KvType::kF16});
      const EmulatedCounts before = emulated_counts(*kernels);
      session.eval(tokens);
      const EmulatedCounts after = emulated_counts(*kernels);
      counted += take_instruction_counts(*kernels);
      expect_each_weight_once(name, after.copied_bytes - before.copied_bytes, matrix_bytes(model));
      models[name] = {{"launches", after.launches - before.launches},
                      {"weight_bytes", after.copied_bytes - before.copied_bytes},
                      {"other_bytes", after.read_bytes - before.read_bytes}};
    }
    Budgets().hold("prompt_" + variant.name, models);
    hold_kernels("prompt_" + variant.name + "_kernels", counted);
  }
}

// Memory of a device, filled with `count` ones.
template <class T>
Buffer<T> ones(Memory& memory, size_t count, T one) {
  Buffer<T> buffer(memory, count);
  memory.upload(std::vector<T>(count, one).data(), count * sizeof(T), buffer.data());
  return buffer;
}

// What a token's attention waits for grows with the keys: a thread that walks over them one by one
// hides in a short context.
TEST(DecodeBudget, AttentionOverManyKeys) {
  if (!has_emulated_kernels()) GTEST_SKIP() << "emulation: built without it";
  CountsByKernel counted;
  for (const int64_t n_keys : {544, 1500}) {
    const auto kernels = make_emulated_kernels(0, Math::kExact, true);
    Memory& memory = kernels->memory();
    FusedKernels& fused = *kernels->fused();
    const AttentionShape shape = {.n_heads = 2, .n_kv_heads = 1, .head_dim = 64, .scale = 0.125F};
    const auto keys = ones<uint16_t>(memory, static_cast<size_t>(n_keys * 64), 0x3C00);
    const auto q = ones(memory, 2 * 64, 1.0F);
    const auto position = ones(memory, 1, static_cast<int32_t>(n_keys - 1));
    Buffer<float> out(memory, 2 * 64);
    Buffer<std::byte> scratch(memory, fused.attention_scratch(shape, n_keys));
    fused.attention({.q = q.data(),
                     .kv = {KvType::kF16, keys.data(), keys.data()},
                     .shape = shape,
                     .token = {.position = position.data()},
                     .most_keys = n_keys,
                     .scratch = scratch.data(),
                     .out = out.data()});
    float first = 0.0F;
    memory.download(out.data(), sizeof(first), &first);
    EXPECT_EQ(first, 1.0F);
    for (const auto& [name, counts] : take_instruction_counts(*kernels)) {
      counted[std::to_string(n_keys) + " keys: " + name] = counts;
    }
  }
  hold_kernels("decode_attention", counted);
}

class BudgetsTest : public testing::Test {
 protected:
  BudgetsTest() {
    std::ofstream(path_) << R"({"nvcc":"13.0","kernels":{"k":{"registers":40,"spill_bytes":0}}})";
  }
  Budgets budgets() const { return Budgets(path_, false); }

  std::string path_ = testing::TempDir() + "budgets_test.json";
};

// A guard that cannot fail guards nothing.
TEST_F(BudgetsTest, GrowthIsToldWithBothFigures) {
  budgets().hold("kernels", {{"k", {{"registers", 40}, {"spill_bytes", 0}}}});
  budgets().hold("kernels", {{"k", {{"registers", 32}, {"spill_bytes", 0}}}});
  EXPECT_NONFATAL_FAILURE(
      budgets().hold("kernels", {{"k", {{"registers", 41}, {"spill_bytes", 0}}}}),
      "kernels 'k': registers grew from 40 to 41");
  EXPECT_NONFATAL_FAILURE(
      budgets().hold("kernels", {{"k", {{"registers", 40}, {"spill_bytes", 8}}}}),
      "ASSAY_RECORD_BUDGETS=1");
}

// The more a kernel has asked for when it waits, the fewer times it does.
TEST_F(BudgetsTest, BytesInFlightMustNotFall) {
  std::ofstream(path_) << R"({"nvcc":"13.0","kernels":{"k":{"bytes_in_flight":512}}})";
  budgets().hold("kernels", {{"k", {{"bytes_in_flight", 512}}}});
  budgets().hold("kernels", {{"k", {{"bytes_in_flight", 4096}}}});
  EXPECT_NONFATAL_FAILURE(budgets().hold("kernels", {{"k", {{"bytes_in_flight", 511}}}}),
                          "kernels 'k': bytes_in_flight fell from 512 to 511");
}

// Else a new kernel would be guarded by nobody, and a renamed one twice.
TEST_F(BudgetsTest, WhatIsNewOrGoneIsTold) {
  const Costs within = {{"registers", 40}, {"spill_bytes", 0}};
  EXPECT_NONFATAL_FAILURE(budgets().hold("kernels", {{"k", within}, {"l", within}}),
                          "'l' has no budget");
  EXPECT_NONFATAL_FAILURE(budgets().hold("kernels", {}), "'k' has a budget and is gone");
}

}  // namespace
}  // namespace assay
