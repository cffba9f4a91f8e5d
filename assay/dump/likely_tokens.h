#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace assay {

struct LikelyToken {
  int64_t id = 0;
  double logprob = 0;
  int64_t rank = 0;  // from 1; 0 where it is not said
};

// A token of a server's response and the likeliest in its place.
struct Position {
  std::optional<int64_t> token = {};
  std::optional<double> logprob = {};  // of the token itself, where it is said beside the list
  std::vector<LikelyToken> likely = {};
};

// Throws Error, which names the file `path` and the token of index `token_idx`, if what is said of
// the place cannot be: a log-probability that is NaN, two of one token, or tokens of probability 0
// where the others do not add up to 1.
void check_position(const Position& position, int64_t token_idx, const std::string& path);

// Leaves of the list the likeliest tokens without a gap: the token itself may follow them, however
// unlikely it is, and then bounds nothing.
void leave_likeliest(Position& position);

// Whether the token is the likeliest one, or may be.
bool is_likeliest(const Position& position);

}  // namespace assay
