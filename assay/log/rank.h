#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace assay {

// The process that computed a part of a tensor, among those that share the model.
struct Rank {
  int64_t tp = 0;  // tensor parallel
  int64_t pp = 0;  // pipeline parallel
  int64_t ep = 0;  // expert parallel
  int64_t sp = 0;  // sequence parallel
  auto operator<=>(const Rank&) const = default;
};

// The kinds of ranks: what a model is divided by.
enum class RankAxis : uint8_t { kTp, kPp, kEp, kSp };
inline constexpr RankAxis kRankAxes[] = {RankAxis::kTp, RankAxis::kPp, RankAxis::kEp,
                                         RankAxis::kSp};

constexpr std::string_view rank_axis_name(RankAxis axis) {
  constexpr std::string_view kNames[] = {"tp", "pp", "ep", "sp"};
  return kNames[static_cast<size_t>(axis)];
}

constexpr int64_t& along(Rank& rank, RankAxis axis) {
  constexpr int64_t Rank::*kNumbers[] = {&Rank::tp, &Rank::pp, &Rank::ep, &Rank::sp};
  return rank.*kNumbers[static_cast<size_t>(axis)];
}

constexpr int64_t along(const Rank& rank, RankAxis axis) {
  constexpr int64_t Rank::*kNumbers[] = {&Rank::tp, &Rank::pp, &Rank::ep, &Rank::sp};
  return rank.*kNumbers[static_cast<size_t>(axis)];
}

}  // namespace assay
