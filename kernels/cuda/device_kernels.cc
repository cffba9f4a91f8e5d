#include <utility>

#include "kernels/cuda/ops.h"

namespace assay::ASSAY_DEVICE {
namespace {

// Bytes of attention's scores that stand in device memory at once; more tokens than fit go one part
// after the other, which changes no result.
constexpr int64_t kMaxScoreBytes = 128 * 1024 * 1024;
constexpr int64_t kMaxTokens = 32768;  // a grid has no more in its second and third dimension

size_t elements_of(const WeightMatrix& w) {
  return static_cast<size_t>(w.rows * w.columns);
}

class DeviceFused final : public FusedKernels {
 public:
  DeviceFused(Device& device, Math math) : device_(device), math_(math) {}

  bool takes(int64_t width, bool is_normed, std::span<const TensorType> types) const override {
    return fused_takes(math_, width, is_normed, types);
  }
  size_t attention_scratch(const AttentionShape& shape, int64_t most_keys) const override {
    return fused_attention_scratch(math_, shape, most_keys);
  }
  size_t choice_scratch(int64_t count) const override { return fused_choice_scratch(count); }

  void embed(const FusedEmbedding& step) override { fused_embed(device_, step); }
  void qkv(const FusedQkv& step) override { fused_qkv(device_, math_, step); }
  void attention(const FusedAttention& step) override { fused_attention(device_, math_, step); }
  void residual(const FusedResidual& step) override { fused_residual(device_, math_, step); }
  void activation(const FusedActivation& step) override { fused_activation(device_, math_, step); }
  void logits(const FusedLogits& step) override { fused_logits(device_, math_, step); }
  void choose(const FusedChoice& step) override { fused_choose(device_, step); }

  int32_t* host_choices() override { return device_.host_words(); }
  void mark(int32_t slot) override { device_.mark(slot); }
  void await(int32_t slot) override { device_.await(slot); }

  std::unique_ptr<Recording> record(const std::function<void()>& steps) override {
    return device_.record(steps);
  }

 private:
  Device& device_;
  Math math_;
};

class DeviceKernels final : public Kernels {
 public:
  DeviceKernels(std::string_view name, std::unique_ptr<Device> device, Math math)
      : name_(name), device_(std::move(device)), math_(math), fused_(*device_, math) {
    if (math == Math::kLibrary) library_ = make_library(*device_);
  }

  std::string_view name() const override { return name_; }
  Memory& memory() override { return *device_; }
  FusedKernels* fused() override { return &fused_; }
  Library* library() override { return library_.get(); }

  void run(const GetRowsCall& call) override {
    if (call.n_ids > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(std::span<const MatmulCall> calls) override;
  void run(const NormCall& call) override {
    if (call.n_tokens > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const RopeCall& call) override {
    if (call.n_tokens > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const HeadsCall& call) override {
    if (call.n_tokens > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const StoreKvCall& call) override {
    if (call.count > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const AttentionCall& call) override;
  void run(const ConvCall& call) override {
    if (call.n_tokens > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const SsmCall& call) override {
    if (call.n_tokens > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const DeltaCall& call) override {
    if (call.n_tokens > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const ActivateCall& call) override {
    if (call.count > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const AddCall& call) override {
    if (call.count > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const CutoffCall& call) override {
    if (call.n_tokens > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const StreamsCall& call) override {
    if (call.n_tokens > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const SpreadCall& call) override {
    if (call.n_tokens > 0) ASSAY_DEVICE::run(*device_, call);
  }
  void run(const MixCall& call) override {
    if (call.n_tokens > 0) ASSAY_DEVICE::run(*device_, call);
  }
  using Kernels::run;

 private:
  void run_in_library(std::span<const MatmulCall> calls);

  // `count` elements, in a buffer that grows.
  template <class T>
  T* room(Buffer<T>& buffer, size_t count) {
    if (buffer.size() < count) {
      buffer = {};  // before the larger one is asked for
      buffer = Buffer<T>(*device_, count);
    }
    return buffer.data();
  }

  std::string_view name_;
  std::unique_ptr<Device> device_;
  Math math_;
  DeviceFused fused_;
  // After device_: freed before it.
  Buffer<std::byte> scores_;   // of attention
  Buffer<std::byte> vectors_;  // of products
  Buffer<std::byte> packed_;   // weights, for them
  std::unique_ptr<Library> library_;
  Buffer<uint16_t> half_vectors_, half_weights_;  // for it
};

// The vectors are converted to their form once for all products that read it.
void DeviceKernels::run(std::span<const MatmulCall> calls) {
  if (calls.empty() || calls.front().n_tokens == 0) return;
  if (library_ != nullptr && calls.front().n_tokens >= kLibraryTokens) {
    return run_in_library(calls);
  }
  for (const Rounding rounding : {Rounding::kNone, Rounding::kInt8, Rounding::kInt16}) {
    Vectors vectors = {nullptr, 0, rounding};
    for (const MatmulCall& call : calls) {
      if (rounding_in(math_, call.w.type) != rounding) continue;
      if (vectors.data == nullptr) {
        const int64_t columns = call.w.columns;
        std::byte* scratch = room(vectors_, vectors_bytes(columns, call.n_tokens, rounding));
        vectors = vectors_of(*device_, call.x, columns, call.n_tokens, rounding, scratch);
      }
      std::byte* scratch = room(packed_, matmul_scratch(*device_, call.w, vectors));
      ASSAY_DEVICE::matmul(*device_, math_, call, vectors, scratch);
    }
  }
}

// The vectors are rounded once for all products that read them as the same type.
void DeviceKernels::run_in_library(std::span<const MatmulCall> calls) {
  for (const TensorType half : {TensorType::kF16, TensorType::kBF16}) {
    const void* x = nullptr;
    for (const MatmulCall& call : calls) {
      const WeightMatrix& w = call.w;
      if ((w.type == TensorType::kBF16) != (half == TensorType::kBF16)) continue;
      if (x == nullptr) {
        const WeightMatrix vectors = {TensorType::kF32, call.n_tokens, w.columns, call.x};
        x = halves_of(*device_, vectors, half, room(half_vectors_, elements_of(vectors)));
      }
      if (call.bias != nullptr) fill_with_bias(*device_, call);
      const size_t rounded = w.type == half ? 0 : elements_of(w);
      const void* weights = halves_of(*device_, w, half, room(half_weights_, rounded));
      library_->multiply(
          {half, weights, x, w.rows, w.columns, call.n_tokens, call.bias != nullptr, call.out});
    }
  }
}

void DeviceKernels::run(const AttentionCall& call) {
  if (call.indexed != nullptr) return run_indexed(*this, call);
  const AttentionShape& shape = call.shape;
  const int64_t keys = attention_keys(shape, call.first_position, call.n_tokens);
  int64_t at_once =
      kMaxScoreBytes / (shape.n_heads * keys * static_cast<int64_t>(score_bytes(math_)));
  at_once = at_once < 1 ? 1 : at_once > kMaxTokens ? kMaxTokens : at_once;
  for (int64_t done = 0; done < call.n_tokens;) {
    const AttentionCall part = call.part(done, at_once);
    const size_t bytes = attention_scratch(math_, shape, part.first_position, part.n_tokens);
    ASSAY_DEVICE::attention(*device_, math_, part, room(scores_, bytes));
    done += part.n_tokens;
  }
}

}  // namespace

std::unique_ptr<Kernels> make_kernels(std::string_view name, std::unique_ptr<Device> device,
                                      Math math) {
  return std::make_unique<DeviceKernels>(name, std::move(device), math);
}

}  // namespace assay::ASSAY_DEVICE
