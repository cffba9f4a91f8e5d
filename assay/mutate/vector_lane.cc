#include "assay/mutate/vector_lane.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <vector>

#include "assay/golden/json_node.h"
#include "base/error.h"
#include "base/json_file.h"
#include "base/mapped_file.h"

namespace assay {
namespace {

constexpr double kInfiniteRatio = std::numeric_limits<double>::infinity();

LaneResult wrong_at(std::string place) {
  return {.caught = true,
          .place = std::move(place),
          .ratio = kInfiniteRatio,
          .worst_ratio = kInfiniteRatio};
}

bool reads_blocks_correctly(const std::string& folder, TensorType type,
                            const std::function<void(std::span<std::byte>)>& misread,
                            Kernels& kernels) {
  const TensorTypeInfo& info = tensor_type_info(type);
  const std::string stem = folder + "/dequant/" + std::string(info.name);
  const MappedFile blocks(stem + ".bin");
  const MappedFile want(stem + ".f32");
  const size_t n_blocks = blocks.bytes().size() / info.block_bytes;
  const auto n = static_cast<int64_t>(n_blocks) * info.block_elements;
  if (n == 0 || want.bytes().size() != static_cast<size_t>(n) * sizeof(float)) {
    throw Error("it does not hold a float for each element of the blocks", want.path(),
                "make it again: golden/generate/dequant_vectors.py");
  }
  std::vector<std::byte> bytes(blocks.bytes().begin(), blocks.bytes().end());
  if (misread) misread(bytes);
  std::vector<float> got(static_cast<size_t>(n));
  const int32_t row = 0;
  kernels.run(GetRowsCall{{type, 1, n, bytes.data()}, &row, 1, got.data()});
  return std::memcmp(got.data(), want.bytes().data(), want.bytes().size()) == 0;
}

// What the sampler makes of the logits is what was recorded.
bool draw_is_right(const JsonNode& draw, const std::vector<float>& logits,
                   const std::vector<bool>& choosable, const Injection& injection) {
  SamplerOptions options{.temperature = draw.at("temperature").number_at_least(0.0),
                         .top_k = draw.at("top_k").integer(0, 1 << 30),
                         .top_p = draw.at("top_p").number_at_least(0.0),
                         .seed = static_cast<uint64_t>(
                             draw.at("seed").integer(0, std::numeric_limits<int64_t>::max()))};
  if (injection.sampler_options) injection.sampler_options(options);
  Sampler sampler(options);
  bool right = true;
  for (const int32_t token : draw.at("tokens").token_ids()) {
    const int32_t got = injection.sample ? injection.sample(sampler, logits, choosable)
                                         : sampler.sample(logits, choosable);
    right = right && got == token;
  }
  return right;
}

bool samples_correctly(const std::string& folder, const Injection& injection) {
  const std::string path = folder + "/sampling/vectors.json";
  const rapidjson::Document document =
      read_json_file(path, 1 << 20, "make it again: golden/generate/sampling_vectors.py");
  const JsonNode root(document, path);
  std::vector<float> logits;
  for (const JsonNode& each : root.at("logits").items()) {
    logits.push_back(static_cast<float>(each.number_at_least(-1e30)));
  }
  std::vector<bool> choosable(logits.size(), true);
  for (const JsonNode& id : root.at("padding").items()) {
    choosable[static_cast<size_t>(id.integer(0, static_cast<int64_t>(logits.size()) - 1))] = false;
  }
  bool right = true;
  for (const JsonNode& draw : root.at("draws").items()) {
    right = draw_is_right(draw, logits, choosable, injection) && right;
  }
  return right;
}

}  // namespace

bool has_vectors(const Fault& fault) {
  return fault.type.has_value() || fault.group == FaultGroup::kSampling;
}

LaneResult run_vector_lane(const std::string& folder, const Fault* fault, Kernels& kernels) {
  for (const TensorType type : kAllTensorTypes) {
    if (fault != nullptr && fault->type != type) continue;
    const auto misread = fault == nullptr ? nullptr : fault->misread;
    if (!reads_blocks_correctly(folder, type, misread, kernels)) {
      return wrong_at(fmt::format("blocks of {}", tensor_type_info(type).name));
    }
  }
  if (fault != nullptr && fault->group != FaultGroup::kSampling) return {};
  const Injection injection = fault == nullptr ? Injection{} : fault->sampling();
  return samples_correctly(folder, injection)
             ? LaneResult{}
             : wrong_at(FaultPlace{.kind = FaultPlace::Kind::kGeneratedTokens}.name());
}

}  // namespace assay
