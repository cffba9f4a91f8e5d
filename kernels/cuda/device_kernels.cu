#include <utility>

#include "kernels/cuda/ops.h"

namespace assay::ASSAY_DEVICE {
namespace {

// Scores of attention that stand in device memory at once; more tokens than fit go one part after
// the other, which changes no result.
constexpr int64_t kMaxScores = 32 * 1024 * 1024;
constexpr int64_t kMaxTokens = 32768;  // a grid has no more in its second and third dimension

class DeviceKernels final : public Kernels {
 public:
  DeviceKernels(std::string_view name, std::unique_ptr<Device> device)
      : name_(name), device_(std::move(device)) {}

  std::string_view name() const override { return name_; }
  Memory& memory() override { return *device_; }

  void get_rows(const WeightMatrix& table, const int32_t* ids, int64_t n_ids, float* out) override {
    if (n_ids > 0) ASSAY_DEVICE::get_rows(*device_, table, ids, n_ids, out);
  }

  void matmul(const WeightMatrix& w, const float* bias, const float* x, int64_t n_tokens,
              float* out) override {
    if (n_tokens > 0) ASSAY_DEVICE::matmul(*device_, w, bias, x, n_tokens, out);
  }

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
  std::string_view name_;
  std::unique_ptr<Device> device_;
  Buffer<float> scores_;  // after device_: freed before it
};

void DeviceKernels::attention(const float* q, const KvView& kv, const AttentionShape& shape,
                              int64_t first_position, int64_t n_tokens, float* out) {
  const int64_t width = shape.n_heads * shape.head_dim;
  const int64_t keys = attention_keys(shape, first_position, n_tokens);
  int64_t at_once = kMaxScores / (shape.n_heads * keys);
  at_once = at_once < 1 ? 1 : at_once > kMaxTokens ? kMaxTokens : at_once;
  for (int64_t done = 0; done < n_tokens; done += at_once) {
    const int64_t count = n_tokens - done < at_once ? n_tokens - done : at_once;
    const auto scores = static_cast<size_t>(count * shape.n_heads *
                                            attention_keys(shape, first_position + done, count));
    if (scores_.size() < scores) {
      scores_ = {};  // before the larger one is asked for
      scores_ = Buffer<float>(*device_, scores);
    }
    ASSAY_DEVICE::attention(*device_, q + done * width, kv, shape, first_position + done, count,
                            scores_.data(), out + done * width);
  }
}

}  // namespace

std::unique_ptr<Kernels> make_kernels(std::string_view name, std::unique_ptr<Device> device) {
  return std::make_unique<DeviceKernels>(name, std::move(device));
}

}  // namespace assay::ASSAY_DEVICE
