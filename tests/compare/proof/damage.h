#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "tests/compare/proof/chance.h"
#include "tests/compare/proof/scene.h"

namespace assay::proof {

// What a comparison of two logs must come to.
enum class Outcome {
  kPass,
  kNotPass,  // exit code 1 or 2
  kDiverge,  // exit code 1: what both state of a whole tensor cannot be true of one
};

// A scene that is being damaged.
struct Patient {
  Scene& scene;
  Chance& chance;
  // Of records shifted by tokens: that they are wrong is sure only where both headers say so.
  bool shifts = false;
  // Where the damage itself knows, and the tensors do not.
  std::optional<Outcome> outcome = std::nullopt;
  // What is done to the logs that the forms make.
  std::function<void(Log& ref, Log& got)> edit_logs = nullptr;
};

struct Damage {
  std::string_view name;
  // Changes the scene, or says how to change its logs. False where it cannot be done to this one.
  bool (*apply)(Patient& patient);
};

std::span<const Damage> all_damages();

// What the two logs of a scene must come to by what they show of their tensors.
Outcome outcome_of(const Scene& scene);

}  // namespace assay::proof
