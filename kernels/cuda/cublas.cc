#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "base/error.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ops.h"

#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#endif

// cuBLAS, loaded when it is first asked for: Assay starts where it is not installed, and in a tenth
// of a second less where it is. With ASSAY_LINK_CUBLAS it is linked.
namespace assay::cuda {
namespace {

[[maybe_unused]] Error no_cublas(const std::string& why) {
  return Error("cuBLAS is missing: " + why, "--math",
               "install cuBLAS of the CUDA toolkit, or name its folder in LD_LIBRARY_PATH, or use "
               "--math fast");
}

}  // namespace

#if !__has_include(<cublas_v2.h>)

void load_cublas() {
  throw no_cublas("this build was made without cublas_v2.h");
}

std::unique_ptr<Library> make_library(Device& /*device*/) {
  load_cublas();
  return nullptr;
}

#else

namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what cuBLAS recommends for sm_90

#define ASSAY_TEXT_OF(name) #name
#define ASSAY_NAME_OF(name) ASSAY_TEXT_OF(name)  // of what cublas_v2.h defines `name` as

[[maybe_unused]] constexpr const char* kFile = "libcublas.so." ASSAY_NAME_OF(CUBLAS_VER_MAJOR);

// The functions of the shared library. It stays loaded.
class Functions {
 public:
#if defined(ASSAY_LINK_CUBLAS)
#define ASSAY_CUBLAS(name, function) function = name
  Functions() {
#else
#define ASSAY_CUBLAS(name, function) find(ASSAY_NAME_OF(name), function)
  Functions() : handle_(dlopen(kFile, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw no_cublas(dlerror());
#endif
    ASSAY_CUBLAS(cublasCreate, create);
    ASSAY_CUBLAS(cublasDestroy, destroy);
    ASSAY_CUBLAS(cublasSetStream, set_stream);
    ASSAY_CUBLAS(cublasSetWorkspace, set_workspace);
    ASSAY_CUBLAS(cublasSetMathMode, set_math_mode);
    ASSAY_CUBLAS(cublasGemmEx, gemm);
    ASSAY_CUBLAS(cublasGetStatusString, status_string);
  }

  cublasStatus_t (*create)(cublasHandle_t*) = nullptr;
  cublasStatus_t (*destroy)(cublasHandle_t) = nullptr;
  cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t) = nullptr;
  cublasStatus_t (*set_workspace)(cublasHandle_t, void*, size_t) = nullptr;
  cublasStatus_t (*set_math_mode)(cublasHandle_t, cublasMath_t) = nullptr;
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                         const void* alpha, const void* a, cudaDataType, int lda, const void* b,
                         cudaDataType, int ldb, const void* beta, void* c, cudaDataType, int ldc,
                         cublasComputeType_t, cublasGemmAlgo_t) = nullptr;
  const char* (*status_string)(cublasStatus_t) = nullptr;

 private:
#if !defined(ASSAY_LINK_CUBLAS)
  template <class Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr) throw no_cublas(std::string(kFile) + " has no " + name);
  }

  void* handle_;
#endif
};

cudaDataType data_type(TensorType type) {
  return type == TensorType::kF16    ? CUDA_R_16F
         : type == TensorType::kBF16 ? CUDA_R_16BF
                                     : CUDA_R_32F;
}

class Cublas final : public Library {
 public:
  explicit Cublas(Device& device) : device_(device), workspace_(device, kWorkspaceBytes) {
    check(functions_.create(&handle_), "cublasCreate");
    try {
      check(functions_.set_stream(handle_, device.stream()), "cublasSetStream");
      check(functions_.set_workspace(handle_, workspace_.data(), kWorkspaceBytes),
            "cublasSetWorkspace");
      // Partial sums stay of 32 bits where a product is split.
      constexpr int kMode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
      check(functions_.set_math_mode(handle_, static_cast<cublasMath_t>(kMode)),
            "cublasSetMathMode");
    } catch (...) {
      functions_.destroy(handle_);
      throw;
    }
  }
  ~Cublas() override { functions_.destroy(handle_); }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // cuBLAS counts along columns: a row of ours is a column of its, and out the transpose of what it
  // is for us.
  void multiply(const LibraryProduct& product) override {
    device_.reject_while_recording("a product by cuBLAS");
    const float one = 1.0F;
    const float kept = product.adds ? 1.0F : 0.0F;
    const cudaDataType type = data_type(product.type);
    const int rows = static_cast<int>(product.rows);
    const int columns = static_cast<int>(product.columns);
    check(functions_.gemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, rows,
                          static_cast<int>(product.n_tokens), columns, &one, product.w, type,
                          columns, product.x, type, columns, &kept, product.out, CUDA_R_32F, rows,
                          type == CUDA_R_32F ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F,
                          CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
  }

 private:
  void check(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw Error(std::string(call) + " failed: " + functions_.status_string(status), "--math",
                "if it lasts, use --math fast and report it");
  }

  Device& device_;
  Functions functions_;
  Buffer<std::byte> workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace

void load_cublas() {
  const Functions functions;
}

std::unique_ptr<Library> make_library(Device& device) {
  return std::make_unique<Cublas>(device);
}

#endif

}  // namespace assay::cuda

namespace assay {

std::string missing_cublas() {
  try {
    cuda::load_cublas();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace assay
