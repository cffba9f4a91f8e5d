#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace assay {

// What a record may differ by. Every limit that is set must hold; each is a number of 0 or more,
// and less than the bounds below.
struct Tolerance {
  std::optional<double> rel_l2;
  std::optional<double> max_abs;
  std::optional<double> kl;  // in nats; holds only for logits with all values on both sides
  // The rel_l2 between honest computations of the same thing, where it was measured. Nothing is
  // held to it: errors are reported as multiples of it.
  std::optional<double> floor;
};

// The criterion of the published logs: the same sign and order of magnitude, under 1 % off.
inline constexpr double kDefaultRelL2 = 1e-2;

// From here on a limit lets anything pass, so that it is refused. A tensor of nothing but zeros is
// off by a rel_l2 of 1. Activations of real models rarely exceed a few thousand. A KL of 1 nat is
// far from any rounding: a uniform guess is ln(vocabulary) nats off a certain choice.
inline constexpr double kRelL2Bound = 1;
inline constexpr double kMaxAbsBound = 1000;
inline constexpr double kKlBound = 1;

// No floor is lower: rounding to a 32-bit float, as values are logged, changes a value by up to
// this fraction of it.
inline constexpr double kLeastFloor = 0x1p-24;

// The error of a checkpoint may be k times its floor. Less than 1 fails what the floor was measured
// on; more than the other is no multiple of noise.
inline constexpr double kLeastK = 1;
inline constexpr double kMostK = 10;

// No tolerance is wider: the error of engines that quantise activations may be half of a tensor,
// and three times that would let zeros pass, whose error is 1.
inline constexpr double kWidestTolerance = 0.99 * kRelL2Bound;
// An error above this share of the reference's norm is large beside the values, whatever allows it.
inline constexpr double kLargeRelL2 = 0.5;

// rel_l2 <= k times the floor, which is kLeastFloor at least; kWidestTolerance at most.
Tolerance floor_tolerance(double k, double floor);

// Whether a glob matches no name but itself.
bool is_plain_name(const std::string& glob);

// Which tolerance each checkpoint has.
//
// As a file: {"default": {"rel_l2": 1e-2}, "checkpoints": {"layer_*_output": {"rel_l2": 2e-6},
// "logits": {"rel_l2": 5e-6, "max_abs": 1e-3}}}. Keys of "checkpoints" are shell globs; the first
// in the file that matches a name holds for it, alone; where none does, "default". A file without
// "default" has the built-in one. Each tolerance names at least one of rel_l2, max_abs, kl.
//
// A measured file, which `assay floors` writes, has "k" besides, and tolerances with "floor" in
// place of rel_l2. Without "default" it has none: a checkpoint that no glob matches is an error.
class Policy {
 public:
  // The built-in one: rel_l2 <= kDefaultRelL2 for everything.
  Policy();

  // What `rule` gives for a checkpoint's name; it may throw Error where it has none.
  explicit Policy(std::function<Tolerance(const std::string&)> rule) : rule_(std::move(rule)) {}

  // Throws Error if the file cannot be read, holds anything but the above, since a key that is
  // mistyped must not loosen a test, or has a limit at or beyond its bound.
  static Policy from_file(const std::string& path);

  // Log-probabilities have that of logits where no glob names them. Throws Error if a measured file
  // has none for it.
  Tolerance tolerance(const std::string& checkpoint) const;

  // Whether it is the one that holds where none is given.
  bool is_built_in() const { return built_in_; }
  // Whether its tolerances are multiples of floors, which were measured on whole tensors.
  bool is_measured() const { return measured_; }
  // The SHA-256 of each model file that they were measured on, where the logs named them.
  const std::set<std::string>& model_hashes() const { return model_hashes_; }

  // Those of the file that match none of `names`.
  std::vector<std::string> unused_globs(const std::vector<std::string>& names) const;
  // Whether `assay floors` wrote the file, whose names are then those of the logs measured.
  bool is_written_by_floors() const { return written_by_floors_; }
  const std::string& path() const { return path_; }

 private:
  void add(const std::string& glob);  // without a limit yet
  // What the first glob that matches it has; null without one.
  const Tolerance* find(const std::string& checkpoint) const;
  // Whether the glob, of logits, stands for log-probabilities too.
  bool holds_log_probabilities(const std::string& glob) const;

  std::function<Tolerance(const std::string&)> rule_;  // if there is one, it alone holds
  std::optional<Tolerance> default_;
  std::vector<std::pair<std::string, Tolerance>> globs_;  // names among them
  std::vector<size_t> patterns_;                          // those of them that are no plain name
  std::unordered_map<std::string, size_t> names_;         // those that are
  std::string path_;
  bool built_in_ = false;
  bool measured_ = false;
  bool written_by_floors_ = false;
  std::set<std::string> model_hashes_;
};

}  // namespace assay
