#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/cli/checks.h"
#include "assay/cli/failed_report.h"
#include "base/error.h"

namespace assay {

// "table, json or html".
std::string alternatives(const std::vector<std::string>& names);

// Flags::typed() has what is of the comparison first, then the other parts.
enum class FlagPart { kComparison, kModel, kSelection };

struct FlagTraits {
  bool is_input = false;                // names what is read, which no report may overwrite
  bool reads_all = false;               // the same, and all files of a folder: see kFolderType
  std::string_view default_value = {};  // given or not, it is the same
  char separator = ' ';                 // '=' where a value may begin with a dash
  FlagPart part = FlagPart::kComparison;
};

// The arguments of a command, each declared once: its name, its help, its check, its target, and
// what the command does with it besides.
class Flags {
 public:
  using Set = std::function<void(const std::string& value)>;

  explicit Flags(CLI::App& command) : command_(command) {}

  // `target` has what was given when the command runs; `check` is called by apply().
  template <class T>
  CLI::Option* add(const std::string& name, T& target, const std::string& help,
                   const FlagTraits& traits = {}, std::function<void(const T&)> check = {}) {
    std::function<void()> apply = [] {};
    if (check) apply = [&target, check = std::move(check)] { check(target); };
    CLI::Option* option = nullptr;
    if constexpr (std::same_as<T, bool>) {
      option = command_.add_flag(name, target, help);
    } else {
      option = command_.add_option(name, target, help);
    }
    if (traits.reads_all) option->type_name(kFolderType);
    declared_.push_back({option, traits, std::move(apply)});
    return option;
  }

  // apply() gives `set` what was given.
  CLI::Option* add_value(const std::string& name, const std::string& help, Set set,
                         const FlagTraits& traits = {});
  // The same of one that may be given several times.
  CLI::Option* add_values(const std::string& name, const std::string& help, Set set,
                          const FlagTraits& traits = {});

  bool is_given(const std::string& name) const { return command_.count(name) > 0; }

  // Checks what was given, and puts it where it belongs, as declared. Throws Error.
  void apply() const;

  // Whatever names an input.
  std::vector<Input> inputs() const;

  // The arguments as a shell takes them, each after a space; without the defaults.
  std::string typed() const;

 private:
  struct Declared {
    CLI::Option* option;
    FlagTraits traits;
    std::function<void()> apply;
  };
  CLI::Option* keep(CLI::Option* option, const FlagTraits& traits, Set set);

  CLI::App& command_;
  std::vector<Declared> declared_;
};

// Takes one of `choices`, by its name. `target` must outlive what is returned.
template <class T>
Flags::Set choice(std::string flag, std::vector<std::pair<std::string, T>> choices, T& target) {
  return [flag = std::move(flag), choices = std::move(choices), &target](const std::string& value) {
    std::vector<std::string> names;
    for (const auto& [name, meaning] : choices) {
      if (name == value) target = meaning;
      names.push_back(name);
    }
    if (std::ranges::find(names, value) == names.end()) {
      throw Error(fmt::format("'{}' is not known", value), flag, "give " + alternatives(names));
    }
  };
}

}  // namespace assay
