#include "base/error.h"
#include "kernels/cuda/ops.h"
#include "kernels/emulated/device.h"
#include "kernels/half.h"

// In the place of cuBLAS: a plain loop, which sums in the order of the columns.
namespace assay::emulated {
namespace {

float element(TensorType type, const void* data, int64_t index) {
  if (type == TensorType::kF32) return static_cast<const float*>(data)[index];
  const uint16_t bits = static_cast<const uint16_t*>(data)[index];
  return type == TensorType::kF16 ? float_from_f16(bits) : float_from_bf16(bits);
}

class PlainLibrary final : public Library {
 public:
  explicit PlainLibrary(Device& device) : device_(device) {}

  void multiply(const LibraryProduct& product) override {
    device_.reject_while_recording("a product by the library");
    const size_t bytes = row_bytes(product.type, product.columns);
    device_.check_access("a matrix", product.w, static_cast<size_t>(product.rows) * bytes);
    device_.check_access("a matrix", product.x, static_cast<size_t>(product.n_tokens) * bytes);
    device_.mark_written(product.out,
                         static_cast<size_t>(product.n_tokens * product.rows) * sizeof(float));
    for (int64_t t = 0; t < product.n_tokens; ++t) {
      for (int64_t r = 0; r < product.rows; ++r) {
        float sum = 0.0F;
        for (int64_t c = 0; c < product.columns; ++c) {
          sum += element(product.type, product.w, r * product.columns + c) *
                 element(product.type, product.x, t * product.columns + c);
        }
        float& out = product.out[t * product.rows + r];
        out = product.adds ? sum + out : sum;
      }
    }
  }

 private:
  Device& device_;
};

}  // namespace

std::unique_ptr<Library> make_library(Device& device) {
  return std::make_unique<PlainLibrary>(device);
}

}  // namespace assay::emulated
