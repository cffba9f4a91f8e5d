#include "assay/record/log_header.h"

#include "engine/file_type.h"

namespace assay {

LogHeader log_header_of(const Model& model, std::span<const int32_t> tokens) {
  LogHeader header;
  header.model.name = model.config().name;
  header.model.sha256 = model.gguf().sha256();
  header.model.arch = model.config().architecture->name;
  header.model.type = file_type_name(model.gguf());
  header.tokens.assign(tokens.begin(), tokens.end());
  header.engine = "assay";
  return header;
}

}  // namespace assay
