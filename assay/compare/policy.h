#pragma once

#include <functional>
#include <optional>
#include <string>
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

// Which tolerance each checkpoint has.
//
// As a file: {"default": {"rel_l2": 1e-2}, "checkpoints": {"layer_*_output": {"rel_l2": 2e-6},
// "logits": {"rel_l2": 5e-6, "max_abs": 1e-3}}}. Keys of "checkpoints" are shell globs; the first
// in the file that matches a name holds for it, alone; where none does, "default". A file without
// "default" has the built-in one. Each tolerance names at least one of rel_l2, max_abs, kl.
class Policy {
 public:
  // The built-in one: rel_l2 <= kDefaultRelL2 for everything.
  Policy();

  // What `rule` gives for a checkpoint's name; it may throw Error where it has none.
  explicit Policy(std::function<Tolerance(const std::string&)> rule) : rule_(std::move(rule)) {}

  // Throws Error if the file cannot be read, holds anything but the above, since a key that is
  // mistyped must not loosen a test, or has a limit at or beyond its bound.
  static Policy from_file(const std::string& path);

  Tolerance tolerance(const std::string& checkpoint) const;

  // Those of the file that match none of `names`.
  std::vector<std::string> unused_globs(const std::vector<std::string>& names) const;

 private:
  std::function<Tolerance(const std::string&)> rule_;  // if there is one, it alone holds
  Tolerance default_;
  std::vector<std::pair<std::string, Tolerance>> globs_;
};

}  // namespace assay
