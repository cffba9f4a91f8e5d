#include "assay/cli/flags.h"

#include <iterator>

#include "base/shell.h"

namespace assay {

std::string alternatives(const std::vector<std::string>& names) {
  return fmt::format("{} or {}", fmt::join(names.begin(), std::prev(names.end()), ", "),
                     names.back());
}

CLI::Option* Flags::add_value(const std::string& name, const std::string& help, Set set,
                              const FlagTraits& traits) {
  const auto keep_text = [](const std::string&) {};  // as results() of the option
  return keep(command_.add_option_function<std::string>(name, keep_text, help), traits,
              std::move(set));
}

CLI::Option* Flags::add_values(const std::string& name, const std::string& help, Set set,
                               const FlagTraits& traits) {
  const auto keep_texts = [](const std::vector<std::string>&) {};
  auto* option = command_.add_option_function<std::vector<std::string>>(name, keep_texts, help);
  return keep(option->allow_extra_args(false), traits, std::move(set));
}

CLI::Option* Flags::keep(CLI::Option* option, const FlagTraits& traits, Set set) {
  declared_.push_back({option, traits, [option, set = std::move(set)] {
                         for (const std::string& value : option->results()) set(value);
                       }});
  return option;
}

void Flags::apply() const {
  for (const Declared& each : declared_) each.apply();
}

std::vector<Input> Flags::inputs() const {
  std::vector<Input> inputs;
  for (const auto& [option, traits, apply] : declared_) {
    if (!traits.is_input && !traits.reads_all) continue;
    for (const std::string& value : option->results()) inputs.emplace_back(value, traits.reads_all);
  }
  return inputs;
}

std::string Flags::typed() const {
  std::string text;
  for (const FlagPart part : {FlagPart::kComparison, FlagPart::kModel, FlagPart::kSelection}) {
    for (const Declared& each : declared_) {
      if (each.traits.part != part) continue;
      const std::string name = each.option->get_name();
      const bool is_switch = each.option->get_items_expected_max() == 0;
      if (is_switch && each.option->count() > 0 && each.option->as<bool>()) text += ' ' + name;
      if (is_switch) continue;
      for (const std::string& value : each.option->results()) {
        if (value == each.traits.default_value) continue;
        if (name.starts_with('-')) text += ' ' + name;
        text += (name.starts_with('-') ? each.traits.separator : ' ') + shell_quoted(value);
      }
    }
  }
  return text;
}

}  // namespace assay
