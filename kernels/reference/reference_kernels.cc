#include "kernels/reference/reference.h"

namespace assay {
namespace {

class ReferenceKernels final : public Kernels {
 public:
  std::string_view name() const override { return "reference"; }

  void get_rows(const WeightMatrix& table, const int32_t* ids, int64_t n_ids, float* out) override {
    reference::get_rows(table, ids, n_ids, out);
  }

  void matmul(const WeightMatrix& w, const float* bias, const float* x, int64_t n_tokens,
              float* out) override {
    reference::matmul(w, bias, x, n_tokens, out);
  }

  void rms_norm(const float* x, const float* weight, float eps, int64_t n_tokens, int64_t width,
                float* out) override {
    reference::rms_norm(x, weight, eps, n_tokens, width, out);
  }

  void layer_norm(const float* x, const float* weight, const float* bias, float eps,
                  int64_t n_tokens, int64_t width, float* out) override {
    reference::layer_norm(x, weight, bias, eps, n_tokens, width, out);
  }

  void rope(const float* x, const float* cos_sin, RopePairing pairing, int64_t n_tokens,
            int64_t n_heads, int64_t head_dim, int64_t rotary_dim, float* out) override {
    reference::rope(x, cos_sin, pairing, n_tokens, n_heads, head_dim, rotary_dim, out);
  }

  void store_kv(const float* x, KvType type, int64_t count, void* destination) override {
    reference::store_kv(x, type, count, destination);
  }

  void attention(const float* q, const KvView& kv, const AttentionShape& shape,
                 int64_t first_position, int64_t n_tokens, float* out) override {
    reference::attention(q, kv, shape, first_position, n_tokens, out);
  }

  void silu_mul(const float* gate, const float* up, int64_t count, float* out) override {
    reference::silu_mul(gate, up, count, out);
  }

  void gelu_tanh(const float* x, int64_t count, float* out) override {
    reference::gelu_tanh(x, count, out);
  }

  void add(const float* a, const float* b, int64_t count, float* out) override {
    reference::add(a, b, count, out);
  }
};

}  // namespace

std::unique_ptr<Kernels> make_reference_kernels() {
  return std::make_unique<ReferenceKernels>();
}

}  // namespace assay
