#include "assay/cli/selection_flags.h"

namespace assay {

void add_selection_flags(Flags& flags, Selection& selection, const std::string& tokens_help) {
  const FlagTraits traits{.part = FlagPart::kSelection};
  flags.add_value(
      "--tokens", tokens_help,
      [&](const std::string& text) { selection.set_tokens(text, "--tokens"); }, traits);
  flags.add_value(
      "--checkpoints", "Only these: logits, layers, ops, or globs with commas",
      [&](const std::string& text) { selection.set_checkpoints(text, "--checkpoints"); }, traits);
}

Flags::Set load_into(std::vector<NameMap*> maps) {
  return [maps = std::move(maps)](const std::string& name) {
    for (NameMap* map : maps) map->add(NameMap::load(name));
  };
}

}  // namespace assay
