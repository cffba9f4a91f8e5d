// What an engine of somebody else's does with the installed libraries: load, evaluate, log.
#include <cstdio>
#include <memory>
#include <vector>

#include "assay/log/sketch.h"
#include "base/thread_pool.h"
#include "engine/session.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const assay::Model model(std::make_shared<assay::Gguf>(argv[1]));
  assay::ThreadPool pool(1);
  const auto kernels = assay::make_cpu_kernels(pool);
  assay::Session session(model, *kernels, {.capacity = 2});
  const auto logits = session.eval(std::vector<int32_t>{1, 2});
  std::printf("%zu logits\n", logits.size());
  return logits.size() == static_cast<size_t>(model.config().n_vocab) ? 0 : 1;
}
