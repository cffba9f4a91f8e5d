// Logs the tensors of an unpatched llama.cpp through its eval callback and assay_tap.h.
//
//   ORCH_LOG_FILE=llama.jsonl ASSAY_LOG_CHECKPOINTS=layers llamacpp_tap MODEL.gguf PROMPT [N]
//
// generates N tokens greedily (default 8) and prints their ids.
// clang-format off: the header comes first
#define ASSAY_TAP_IMPLEMENTATION
#include "assay_tap.h"
// clang-format on

#include <ggml-backend.h>
#include <ggml.h>
#include <llama.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

// llama.cpp's name of a tensor, which for one of a layer ends in the layer's number, the operation
// that makes it where several tensors share the name, and our name.
struct Name {
  const char* theirs;
  ggml_op op;  // GGML_OP_NONE: any
  const char* ours;
};
constexpr Name kNames[] = {
    {"embd", GGML_OP_NONE, "embedding"},
    {"inp_embd", GGML_OP_NONE, "embedding"},
    {"attn_norm", GGML_OP_NONE, "attn_norm"},
    {"Qcur", GGML_OP_MUL_MAT, "q"},
    {"Kcur", GGML_OP_MUL_MAT, "k"},
    {"Vcur", GGML_OP_MUL_MAT, "v"},
    {"Qcur", GGML_OP_ROPE, "q_rope"},
    {"Kcur", GGML_OP_ROPE, "k_rope"},
    {"kqv_out", GGML_OP_NONE, "attn"},
    {"attn_out", GGML_OP_NONE, "attn_out"},
    {"ffn_inp", GGML_OP_NONE, "attn_residual"},
    {"ffn_norm", GGML_OP_NONE, "ffn_norm"},
    {"ffn_gate", GGML_OP_NONE, "ffn_gate"},
    {"ffn_up", GGML_OP_NONE, "ffn_up"},
    {"ffn_swiglu", GGML_OP_NONE, "ffn_act"},
    {"ffn_out", GGML_OP_NONE, "ffn_out"},
    {"l_out", GGML_OP_NONE, "output"},
    {"result_norm", GGML_OP_NONE, "final_norm"},
    {"result_output", GGML_OP_NONE, "logits"},
};

// Ours, empty where a tensor has none.
std::string checkpoint_of(const ggml_tensor* tensor) {
  const std::string theirs = tensor->name;
  const size_t dash = theirs.find('-');
  const std::string layer = dash == std::string::npos ? "" : theirs.substr(dash + 1);
  if (layer.find_first_not_of("0123456789") != std::string::npos) return {};  // "Qcur-0 (view)"
  for (const Name& name : kNames) {
    if (theirs.substr(0, dash) != name.theirs) continue;
    if (name.op != GGML_OP_NONE && name.op != tensor->op) continue;
    return layer.empty() ? name.ours : "layer_" + layer + "_" + name.ours;
  }
  return {};
}

struct Tap {
  int first_position = 0;  // of the batch that is computed
  std::vector<float> values;
  bool failed = false;
};

// Called before a tensor is computed, to ask whether it is wanted, and after. The last dimension
// is the token; a rotated tensor has its heads in a dimension of their own.
bool on_tensor(ggml_tensor* tensor, bool ask, void* data) {
  const std::string checkpoint = checkpoint_of(tensor);
  const bool wanted = !checkpoint.empty() && tensor->type == GGML_TYPE_F32 &&
                      ggml_is_contiguous(tensor) && assay_tap_wants(checkpoint.c_str()) != 0;
  if (ask) return wanted;
  if (!wanted) return true;
  Tap& tap = *static_cast<Tap*>(data);
  const bool heads = tensor->op == GGML_OP_ROPE;
  const int64_t width = heads ? tensor->ne[0] * tensor->ne[1] : tensor->ne[0];
  const int64_t n_tokens = ggml_nelements(tensor) / width;
  const size_t bytes = static_cast<size_t>(width) * sizeof(float);
  tap.values.resize(static_cast<size_t>(width));
  for (int64_t row = 0; row < n_tokens; ++row) {
    ggml_backend_tensor_get(tensor, tap.values.data(), static_cast<size_t>(row) * bytes, bytes);
    const int logged = assay_tap_log(checkpoint.c_str(), tap.first_position + row,
                                     tap.values.data(), tap.values.size());
    if (logged < 0) tap.failed = true;
  }
  return true;
}

int fail(const std::string& what) {
  std::fprintf(stderr, "llamacpp_tap: %s\n", what.c_str());
  return 2;
}

// Computes all of `tokens` and gives the likeliest token after them; -1 where llama.cpp fails.
llama_token decode(llama_context* context, const std::vector<llama_token>& tokens, Tap& tap,
                   int n_vocab) {
  llama_batch batch = llama_batch_init(static_cast<int32_t>(tokens.size()), 0, 1);
  batch.n_tokens = static_cast<int32_t>(tokens.size());
  for (int i = 0; i < batch.n_tokens; ++i) {
    batch.token[i] = tokens[static_cast<size_t>(i)];
    batch.pos[i] = tap.first_position + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;  // for each token: else the last layer is computed for the last one only
  }
  const int code = llama_decode(context, batch);
  const float* logits = code == 0 ? llama_get_logits_ith(context, batch.n_tokens - 1) : nullptr;
  llama_batch_free(batch);
  if (logits == nullptr) return -1;
  tap.first_position += static_cast<int>(tokens.size());
  int best = 0;
  for (int i = 1; i < n_vocab; ++i) best = logits[i] > logits[best] ? i : best;
  return best;
}

int run(const std::string& path, const std::string& prompt, int n_predict) {
  llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  llama_model* model = llama_model_load_from_file(path.c_str(), model_params);
  if (model == nullptr) return fail(path + ": cannot load the model");
  const llama_vocab* vocab = llama_model_get_vocab(model);
  std::vector<llama_token> tokens(prompt.size() + 8);
  const int n_tokens =
      llama_tokenize(vocab, prompt.c_str(), static_cast<int32_t>(prompt.size()), tokens.data(),
                     static_cast<int32_t>(tokens.size()), true, true);
  if (n_tokens <= 0) return fail("the prompt has no tokens");
  tokens.resize(static_cast<size_t>(n_tokens));

  Tap tap;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(n_tokens + n_predict + 8);
  params.n_batch = params.n_ctx;
  params.n_ubatch = params.n_ctx;  // one graph for the whole prompt
  params.cb_eval = assay_tap_on() != 0 ? on_tensor : nullptr;
  params.cb_eval_user_data = &tap;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) return fail("cannot make a context");
  assay_tap_header header = {};
  header.model_name = path.c_str();
  header.tokens = tokens.data();
  header.n_tokens = tokens.size();
  header.prompt = prompt.c_str();
  header.engine = "llama.cpp";
  header.backend = "cpu";
  if (assay_tap_log_header(&header) < 0) tap.failed = true;

  const int n_vocab = llama_vocab_n_tokens(vocab);
  std::vector<llama_token> batch = tokens;
  for (int i = 0; i < n_predict; ++i) {
    const llama_token next = decode(context, batch, tap, n_vocab);
    if (next < 0) return fail("cannot compute");
    std::printf("%s%d", i == 0 ? "" : ",", next);
    batch = {next};
  }
  std::printf("\n");
  llama_free(context);
  llama_model_free(model);
  return tap.failed ? 2 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) return fail("usage: llamacpp_tap MODEL.gguf PROMPT [N]");
  const int n_predict = argc == 4 ? std::atoi(argv[3]) : 8;
  if (n_predict < 1) return fail("N is a number of 1 or more");
  llama_backend_init();
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  return run(argv[1], argv[2], n_predict);
}
