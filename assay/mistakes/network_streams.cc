#include "assay/mistakes/kernel_hooks.h"
#include "assay/mistakes/network.h"
#include "kernels/kernels.h"

// What Network computes of several residual streams, and of an activation's cutoff.
namespace assay::mistakes {

Matrix Network::of_streams(const OpContext& context, const KernelHooks& hooks) const {
  const std::vector<const Matrix*>& x = context.inputs.rows;
  const Op op = context.op();
  const ModelConfig& config = model->config();
  const OpSpec& spec = *find_spec(layer(op.layer), op.checkpoint);
  Matrix out(x[0]->rows, width(op));
  if (spec.kind == OpKind::kCutoff) {
    run_hooked(hooks.cutoff, context,
               CutoffCall{x[0]->values.data(), config.layer(op.layer).cutoff, out.rows, out.columns,
                          out.values.data()},
               *reference_);
    return out;
  }
  if (spec.kind == OpKind::kStreams) {
    const auto input = [&](size_t i) { return x.size() > i ? x[i]->values.data() : nullptr; };
    const bool predicts = spec.step == StreamStep::kPredict;
    const Extra& extra = model->layers[static_cast<size_t>(op.layer)].extra;
    run_hooked(
        hooks.streams, context,
        StreamsCall{spec.step, input(0), predicts ? nullptr : input(1), input(predicts ? 1 : 2),
                    spec.tensor.empty() ? nullptr : extra.first_stream, out.rows, config.n_streams,
                    config.embedding_length, out.values.data()},
        *reference_);
    return out;
  }
  const Linear& products = *linear(op);
  const int64_t count = config.n_streams - 1;
  const int64_t width = config.embedding_length;
  for (int64_t t = 0; t < out.rows; ++t) {
    for (int64_t i = 0; i < count; ++i) {
      run_hooked(hooks.matmul, context,
                 MatmulCall{products.expert(i, count), nullptr, x[0]->row(t) + (i + 1) * width, 1,
                            out.row(t) + i * width},
                 *reference_);
    }
  }
  return out;
}

}  // namespace assay::mistakes
