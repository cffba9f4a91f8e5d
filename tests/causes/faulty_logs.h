#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "assay/causes/find_causes.h"
#include "assay/compare/compare_logs.h"
#include "assay/record/log_probe.h"
#include "engine/session.h"
#include "tests/compare/log_files.h"
#include "tests/support/paths.h"

namespace assay {

inline RopePairing other(RopePairing pairing) {
  return pairing == RopePairing::kHalves ? RopePairing::kAdjacent : RopePairing::kHalves;
}

// The naive kernels with single ops replaced.
class WrongKernels : public Kernels {
 public:
  std::string_view name() const override { return "faulty"; }
  void run(const GetRowsCall& call) override { get_rows(call); }
  void run(std::span<const MatmulCall> calls) override {
    for (const MatmulCall& call : calls) matmul(call);
  }
  void run(const NormCall& call) override { norm(call); }
  void run(const RopeCall& call) override { rope(call); }
  void run(const HeadsCall& call) override { right_->run(call); }
  void run(const ConvCall& call) override { right_->run(call); }
  void run(const DeltaCall& call) override { right_->run(call); }
  void run(const SsmCall& call) override { right_->run(call); }
  void run(const StoreKvCall& call) override { right_->run(call); }
  void run(const AttentionCall& call) override { attention(call); }
  void run(const ActivateCall& call) override { activate(call); }
  void run(const AddCall& call) override { add(call); }
  void run(const CutoffCall& call) override { right_->run(call); }
  void run(const StreamsCall& call) override { right_->run(call); }
  void run(const SpreadCall& call) override { right_->run(call); }
  void run(const MixCall& call) override { right_->run(call); }

 protected:
  virtual void get_rows(GetRowsCall call) { right_->run(call); }
  virtual void matmul(const MatmulCall& call) { right_->run(call); }
  virtual void norm(NormCall call) { right_->run(call); }
  virtual void rope(RopeCall call) { right_->run(call); }
  virtual void attention(AttentionCall call) { right_->run(call); }
  virtual void activate(ActivateCall call) { right_->run(call); }
  virtual void add(AddCall call) { right_->run(call); }

  std::unique_ptr<Kernels> right_ = make_reference_kernels();
};

// A product with the opposite sign, of one layer or of all.
class Negated : public WrongKernels {
 public:
  explicit Negated(Checkpoint checkpoint, std::optional<int> layer = std::nullopt)
      : checkpoint_(checkpoint), layer_(layer) {}

 protected:
  void matmul(const MatmulCall& call) override {
    right_->run(call);
    if (call.site.checkpoint != checkpoint_ || call.site.layer != layer_.value_or(call.site.layer))
      return;
    for (int64_t i = 0; i < call.n_tokens * call.w.rows; ++i) call.out[i] = -call.out[i];
  }

 private:
  Checkpoint checkpoint_;
  std::optional<int> layer_;
};

// Not a mistake that anybody knows: a tenth of noise on each product.
class Noise : public WrongKernels {
 protected:
  void matmul(const MatmulCall& call) override {
    right_->run(call);
    for (int64_t i = 0; i < call.n_tokens * call.w.rows; ++i) {
      call.out[i] *= 1 + normal_(random_);
    }
  }

 private:
  std::mt19937 random_{1};
  std::normal_distribution<float> normal_{0, 0.1F};
};

// Logs of a small model as right and as faulty kernels run it, and what is found in them.
class FaultyLogs : public LogFiles {
 protected:
  static std::shared_ptr<Model> load(const std::string& name, const std::string& type = "f32") {
    const std::string path = source_path("golden/") + name + "/" + name + "-" + type + ".gguf";
    return std::make_shared<Model>(std::make_shared<Gguf>(path));
  }

  // Tokens from `n_together` on are evaluated one by one, after `before_decode`.
  std::string log(const Model& model, Kernels& kernels, const std::string& name,
                  const std::string& checkpoints, int64_t values = kAllValues,
                  KvType kv = KvType::kF32, size_t n_together = 12,
                  const std::function<void()>& before_decode = {}) {
    LogRequest request{folder_ + "/" + name, LogOptions(), CheckpointSet(checkpoints)};
    request.options.team = name;
    request.options.head_values = values;
    request.options.sketch = values != kAllValues;
    LogProbe probe(request, model.config());
    LogHeader header;
    header.tokens.assign(prompt_.begin(), prompt_.begin() + static_cast<ptrdiff_t>(
                                                                n_named_.value_or(prompt_.size())));
    probe.write_header(header);
    Session session(model, kernels, {.capacity = 64, .batch = 64, .kv_type = kv});
    const std::span<const int32_t> all = prompt_;
    session.eval(all.first(std::min(n_together, all.size())), &probe);
    if (before_decode) before_decode();
    for (size_t i = n_together; i < all.size(); ++i) session.eval(all.subspan(i, 1), &probe);
    probe.writer().close();
    return request.path;
  }

  // Compares with and without the model at hand.
  Comparison compare(const Model* model, const std::string& ref, const std::string& got,
                     double tolerance = 1e-4) {
    CompareOptions options;
    options.align = AlignMode::kFixed;
    options.policy = Policy::from_file(
        put("policy.json", "{\"default\":{\"rel_l2\":" + std::to_string(tolerance) + "}}"));
    Comparison comparison = compare_logs(ref, got, options);
    find_causes(model, comparison);
    return comparison;
  }

  Comparison compare(const std::string& name, Kernels& faulty, const std::string& checkpoints,
                     bool with_model, int64_t values = kAllValues) {
    const auto model = load(name);
    const auto right = make_reference_kernels();
    const std::string ref = log(*model, *right, "ref", checkpoints, values);
    const std::string got = log(*model, faulty, "got", checkpoints, values);
    return compare(with_model ? model.get() : nullptr, ref, got);
  }

  std::vector<int32_t> prompt_ = {1, 45, 120, 7, 201, 33, 90, 250, 16, 77, 150, 64};  // what is run
  std::optional<size_t> n_named_;  // tokens that headers name; all if not given
};

}  // namespace assay
