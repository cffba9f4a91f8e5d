// Session::save and Session::restore.
//
// The file, little-endian: FileHead; the divisors of the rotary frequencies, float [n_factors]; of
// each layer the keys and then the values of positions 0 to n_positions - 1, and then its state,
// unless n_positions is 0; the SHA-256 of all that as 64 hexadecimal digits.

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/replace_file.h"
#include "base/sha256.h"
#include "engine/session.h"

namespace assay {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 8> kMagic = {'A', 'S', 'S', 'A', 'Y', 'K', 'V', '4'};
constexpr size_t kHashDigits = 64;

struct FileHead {
  std::array<char, 8> magic = kMagic;
  std::array<char, kHashDigits> model_sha256{};
  uint64_t kv_type = 0;
  uint64_t n_layers = 0;
  uint64_t position_bytes = 0;  // of the keys and values of one position in all layers
  uint64_t state_bytes = 0;     // of all layers
  uint64_t n_positions = 0;
  uint64_t n_factors = 0;
};
static_assert(std::has_unique_object_representations_v<FileHead>);

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The size of a file with this head; the largest number there is where it overflows.
size_t file_bytes(const FileHead& head) {
  size_t state = 0;
  size_t factors = 0;
  size_t total = 0;
  const bool overflow =
      __builtin_mul_overflow(head.position_bytes, head.n_positions, &state) ||
      __builtin_mul_overflow(head.n_factors, sizeof(float), &factors) ||
      __builtin_add_overflow(state, factors, &total) ||
      __builtin_add_overflow(total, head.n_positions > 0 ? head.state_bytes : 0, &total) ||
      __builtin_add_overflow(total, sizeof(head) + kHashDigits, &total);
  return overflow ? SIZE_MAX : total;
}

FileHead head_of(const Model& model, const KvCache& kv, size_t n_factors, int64_t n_positions) {
  FileHead head;
  const std::string sha256 = model.gguf().sha256();
  std::memcpy(head.model_sha256.data(), sha256.data(), kHashDigits);
  head.kv_type = static_cast<uint64_t>(kv.type());
  head.n_layers = static_cast<uint64_t>(model.config().n_layers);
  head.position_bytes = kv.position_bytes();
  head.state_bytes = kv.state_bytes();
  head.n_positions = static_cast<uint64_t>(n_positions);
  head.n_factors = n_factors;
  return head;
}

}  // namespace

// The keys and values of the first positions and the state behind them, layer by layer.
std::vector<Session::Vectors> Session::stored_vectors(int64_t n_positions) {
  std::vector<Vectors> stored;
  for (int64_t layer = 0; n_positions > 0 && layer < config_.n_layers; ++layer) {
    stored.push_back({kv_.k_slot(layer, 0), kv_.k_bytes(layer, n_positions)});
    stored.push_back({kv_.v_slot(layer, 0), kv_.v_bytes(layer, n_positions)});
    stored.push_back({kv_.beside_slot(layer, 0), kv_.beside_bytes(layer, n_positions)});
    stored.push_back({kv_.state(layer), kv_.state_bytes(layer)});
  }
  return stored;
}

void Session::save(const std::string& path) {
  const FileHead head = head_of(model_, kv_, rope_factors_.size(), n_positions_);
  std::string file(file_bytes(head), '\0');
  char* to = file.data();
  std::memcpy(to, &head, sizeof(head));
  to += sizeof(head);
  if (!rope_factors_.empty()) {
    std::memcpy(to, rope_factors_.data(), rope_factors_.size() * sizeof(float));
  }
  to += rope_factors_.size() * sizeof(float);
  for (const Vectors& vectors : stored_vectors(n_positions_)) {
    memory_.download(vectors.data, vectors.bytes, to);
    to += vectors.bytes;
  }
  const std::string_view content(file.data(), file.size() - kHashDigits);
  const std::string sha256 = sha256_hex(bytes_of(content));
  std::memcpy(to, sha256.data(), kHashDigits);
  replace_file(file, path);
}

void Session::restore(const std::string& path) {
  const MappedFile mapped(path);
  const std::string_view file = text_of(mapped.bytes());
  FileHead head;
  if (file.size() < sizeof(head) + kHashDigits ||
      !file.starts_with(text_of(std::as_bytes(std::span(kMagic))))) {
    throw Error("is not a saved session", path, "give a file that a session was saved to");
  }
  std::memcpy(&head, file.data(), sizeof(head));
  const std::string_view content = file.substr(0, file.size() - kHashDigits);
  if (file_bytes(head) != file.size() ||
      sha256_hex(bytes_of(content)) != file.substr(content.size())) {
    throw Error("the saved session is cut off or damaged", path, "save it again");
  }
  const FileHead own = head_of(model_, kv_, rope_factors_.size(), n_positions_);
  if (head.model_sha256 != own.model_sha256) {
    throw Error("the session is of another model file than " + model_.gguf().path(), path,
                "restore it with the model that it was saved with");
  }
  if (head.kv_type != own.kv_type) {
    throw Error("the session has keys and values of another type", path,
                "restore it into a session of the same kv_type");
  }
  if (head.n_layers != own.n_layers || head.position_bytes != own.position_bytes ||
      head.state_bytes != own.state_bytes) {
    throw Error("the session has other shapes than its model", path, "save it again");
  }
  const char* from = file.data() + sizeof(head);
  const size_t factor_bytes = rope_factors_.size() * sizeof(float);
  if (head.n_factors != own.n_factors ||
      (factor_bytes > 0 && std::memcmp(from, rope_factors_.data(), factor_bytes) != 0)) {
    throw Error("the session's rotary factors are those of another capacity", path,
                "make room for as many positions as it was saved with");
  }
  if (head.n_positions > static_cast<uint64_t>(kv_.capacity())) {
    throw Error(fmt::format("the session has {} positions, there is room for {}", head.n_positions,
                            kv_.capacity()),
                path, "make room for more");
  }
  from += factor_bytes;
  n_positions_ = static_cast<int64_t>(head.n_positions);
  if (decoder_ != nullptr) decoder_->forget_next();
  for (const Vectors& vectors : stored_vectors(n_positions_)) {
    memory_.upload(from, vectors.bytes, vectors.data);
    from += vectors.bytes;
  }
}

}  // namespace assay
