#pragma once

#include <rapidjson/document.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "assay/dump/dump_log.h"

namespace assay {

// The file, if it is a JSON response of a server of a language model, or a list of such: of
// llama-server, vLLM, SGLang or TGI. Nothing if it is anything else, or over 256 MiB.
std::optional<rapidjson::Document> read_server_response(const std::string& path);

// Passes the log-probabilities of a response to `sink` as a log: a record `logprobs` for each token
// whose likeliest successors are listed, of the prompt where the server gives them, and of the
// answer. Each choice and each response of a list is a sequence. Throws Error if the response names
// tokens by their texts alone, lists no likeliest tokens, or does not say how many tokens the
// prompt has, or if `options.vocabulary` is 0: how many tokens there are is in no response.
ImportedDump server_response_to_log(const rapidjson::Document& response, const std::string& path,
                                    const DumpOptions& options,
                                    const std::function<void(std::string_view)>& sink);

}  // namespace assay
