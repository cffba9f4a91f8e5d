#pragma once

#include <rapidjson/document.h>

#include "engine/hf/json_object.h"
#include "model/hf_names.h"

namespace assay {

// A copy of the object; of HfModel::nested_config with the keys of its attn_config and ffn_config
// beside its own (DBRX). Throws Error that names the key where the two contradict each other.
rapidjson::Document with_nested_keys(const ConfigObject& object, const HfModel& model);

}  // namespace assay
