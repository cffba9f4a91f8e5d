#include <utility>

#include "kernels/cuda/ops.h"

namespace assay::ASSAY_DEVICE {
namespace {

// Scores of attention that stand in device memory at once; more tokens than fit go one part after
// the other, which changes no result.
constexpr int64_t kMaxScores = 32 * 1024 * 1024;
constexpr int64_t kMaxTokens = 32768;  // a grid has no more in its second and third dimension

class DeviceFused final : public FusedKernels {
 public:
  DeviceFused(Device& device, Math math) : device_(device), math_(math) {}

  bool takes(int64_t width, bool is_normed, std::span<const TensorType> types) const override {
    return fused_takes(math_, width, is_normed, types);
  }
  size_t attention_scratch(const AttentionShape& shape, int64_t most_keys) const override {
    return fused_attention_scratch(shape, most_keys);
  }
  size_t choice_scratch(int64_t count) const override { return fused_choice_scratch(count); }

  void embed(const FusedEmbedding& step) override { fused_embed(device_, step); }
  void qkv(const FusedQkv& step) override { fused_qkv(device_, math_, step); }
  void attention(const FusedAttention& step) override { fused_attention(device_, step); }
  void residual(const FusedResidual& step) override { fused_residual(device_, math_, step); }
  void activation(const FusedActivation& step) override { fused_activation(device_, math_, step); }
  void logits(const FusedLogits& step) override { fused_logits(device_, math_, step); }
  void choose(const FusedChoice& step) override { fused_choose(device_, step); }

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
      : name_(name), device_(std::move(device)), math_(math), fused_(*device_, math) {}

  std::string_view name() const override { return name_; }
  Memory& memory() override { return *device_; }
  FusedKernels* fused() override { return &fused_; }

  void get_rows(const WeightMatrix& table, const int32_t* ids, int64_t n_ids, float* out) override {
    if (n_ids > 0) ASSAY_DEVICE::get_rows(*device_, table, ids, n_ids, out);
  }

  void matmul(const WeightMatrix& w, const float* bias, const float* x, int64_t n_tokens,
              float* out) override {
    const Product product = {w, bias, out};
    matmuls({&product, 1}, x, n_tokens);
  }

  void matmuls(std::span<const Product> products, const float* x, int64_t n_tokens) override;

  void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t width,
                float* out) override {
    if (n_tokens > 0) ASSAY_DEVICE::rms_norm(*device_, x, weight, eps, n_tokens, width, out);
  }

  void layer_norm(const float* x, const float* weight, const float* bias, float eps,
                  int64_t n_tokens, int64_t width, float* out) override {
    if (n_tokens == 0) return;
    ASSAY_DEVICE::layer_norm(*device_, x, weight, bias, eps, n_tokens, width, out);
  }

  void rope(const float* x, const float* cos_sin, RopePairing pairing, int64_t n_tokens,
            int64_t n_heads, int64_t head_dim, int64_t rotary_dim, float* out) override {
    if (n_tokens == 0) return;
    ASSAY_DEVICE::rope(*device_, x, cos_sin, pairing, n_tokens, n_heads, head_dim, rotary_dim, out);
  }

  void store_kv(const float* x, KvType type, int64_t count, void* destination) override {
    if (count > 0) ASSAY_DEVICE::store_kv(*device_, x, type, count, destination);
  }

  void attention(const float* q, const KvView& kv, const AttentionShape& shape,
                 int64_t first_position, int64_t n_tokens, float* out) override;

  void silu_mul(const float* gate, const float* up, int64_t count, float* out) override {
    if (count > 0) ASSAY_DEVICE::silu_mul(*device_, gate, up, count, out);
  }

  void gelu_tanh(const float* x, int64_t count, float* out) override {
    if (count > 0) ASSAY_DEVICE::gelu_tanh(*device_, x, count, out);
  }

  void add(const float* a, const float* b, int64_t count, float* out) override {
    if (count > 0) ASSAY_DEVICE::add(*device_, a, b, count, out);
  }

 private:
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
  Buffer<float> scores_;
  Buffer<std::byte> vectors_;  // of products
};

// The vectors are brought into their form once for all products that read it.
void DeviceKernels::matmuls(std::span<const Product> products, const float* x, int64_t n_tokens) {
  if (n_tokens == 0) return;
  for (const bool int8 : {false, true}) {
    Vectors vectors = {nullptr, 0, int8};
    for (const Product& product : products) {
      if (is_int8(math_, product.w.type) != int8) continue;
      if (vectors.data == nullptr) {
        const int64_t columns = product.w.columns;
        std::byte* scratch = room(vectors_, vectors_bytes(columns, n_tokens, int8));
        vectors = vectors_of(*device_, x, columns, n_tokens, int8, scratch);
      }
      ASSAY_DEVICE::matmul(*device_, product, vectors);
    }
  }
}

void DeviceKernels::attention(const float* q, const KvView& kv, const AttentionShape& shape,
                              int64_t first_position, int64_t n_tokens, float* out) {
  const int64_t width = shape.n_heads * shape.head_dim;
  const int64_t keys = attention_keys(shape, first_position, n_tokens);
  int64_t at_once = kMaxScores / (shape.n_heads * keys);
  at_once = at_once < 1 ? 1 : at_once > kMaxTokens ? kMaxTokens : at_once;
  for (int64_t done = 0; done < n_tokens; done += at_once) {
    const int64_t count = n_tokens - done < at_once ? n_tokens - done : at_once;
    const auto scores = static_cast<size_t>(attention_scratch(shape, first_position + done, count));
    ASSAY_DEVICE::attention(*device_, q + done * width, kv, shape, first_position + done, count,
                            room(scores_, scores), out + done * width);
  }
}

}  // namespace

std::unique_ptr<Kernels> make_kernels(std::string_view name, std::unique_ptr<Device> device,
                                      Math math) {
  return std::make_unique<DeviceKernels>(name, std::move(device), math);
}

}  // namespace assay::ASSAY_DEVICE
