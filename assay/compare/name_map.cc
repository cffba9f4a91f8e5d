#include "assay/compare/name_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json_file.h"
#include "model/architecture.h"

namespace assay {
namespace {

constexpr int64_t kMaxMapBytes = 1 << 20;
constexpr size_t kMaxArchitectures = 200;  // of a rule, by its groups
constexpr const char* kMapHint =
    "a map is {\"rules\": [{\"name\": \"l_out-{N}\", \"to\": \"layer_{N}_output\"}]}";

using Value = rapidjson::Value;

const std::string& checked_string(const Value& value, const std::string& name,
                                  const std::string& where, std::string& text) {
  if (!value.IsString() || value.GetStringLength() == 0) {
    throw Error(fmt::format("{} is not a text", name), where, kMapHint);
  }
  if (value.GetStringLength() > NamePattern::kMaxPattern) {
    throw Error(fmt::format("{} has {} bytes, more than {}", name, value.GetStringLength(),
                            NamePattern::kMaxPattern),
                where, "give a shorter text");
  }
  return text = json_text_of(value);
}

constexpr std::pair<std::string_view, int> kLayerForms[] = {
    {"{N}", 0}, {"{N-1}", -1}, {"{N+1}", 1}};

// A brace that stands for no layer would be a part of the checkpoint's name, which no log has.
void check_layer(const std::string& to, const std::string& named, const std::string& where) {
  for (size_t at = 0; (at = to.find('{', at)) != std::string::npos; ++at) {
    const bool known = std::ranges::any_of(kLayerForms, [&](const auto& form) {
      return to.compare(at, form.first.size(), form.first) == 0;
    });
    if (known) continue;
    throw Error(fmt::format("{} is '{}'", named, printable(to, 60)), where,
                "the layer is {N}, {N-1} or {N+1}");
  }
}

// `to` with the layer in the places of {N}, {N-1} and {N+1}; nothing if there is no such layer.
std::optional<std::string> with_layer(const std::string& to, std::optional<int> layer) {
  std::string out = to;
  for (const auto& [form, add] : kLayerForms) {
    for (size_t at = 0; (at = out.find(form, at)) != std::string::npos;) {
      if (!layer || static_cast<int64_t>(*layer) + add < 0) return std::nullopt;
      out.replace(at, form.size(), std::to_string(static_cast<int64_t>(*layer) + add));
    }
  }
  return out;
}

// Whether `part` is "which/count", such as 2/3.
bool is_fraction(std::string_view part, int64_t& which, int64_t& count) {
  const char* end = part.data() + part.size();
  const auto [slash, error] = std::from_chars(part.data(), end, which);
  if (error != std::errc() || slash == end || *slash != '/') return false;
  const auto [stop, second] = std::from_chars(slash + 1, end, count);
  return second == std::errc() && stop == end && count >= 1 && count <= 64 && which >= 1 &&
         which <= count;
}

void check_part(const std::string& part, const std::string& named, const std::string& where) {
  int64_t which = 0;
  int64_t count = 0;
  if (part == "q" || part == "k" || part == "v" || is_fraction(part, which, count)) return;
  throw Error(fmt::format("{} is '{}'", named, printable(part, 40)), where,
              "give q, k, v, or a part such as 1/2");
}

// The name of a map, and its parameters: what follows the last colon, if it has a '='.
std::pair<std::string, std::string> split_parameters(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || text.find('=', colon) == std::string::npos) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

std::vector<ReadyMap>::const_iterator find_ready(const std::string& name) {
  const auto& maps = ready_maps();
  return std::find_if(maps.begin(), maps.end(),
                      [&](const ReadyMap& map) { return map.name == name; });
}

}  // namespace

std::string NameMap::file_of(const std::string& text) {
  const std::string name = split_parameters(text).first;
  return find_ready(name) == ready_maps().end() ? name : "";
}

NameMap NameMap::load(const std::string& text) {
  auto [name, parameters] = split_parameters(text);
  const auto found = find_ready(name);
  std::error_code unknown;
  if (found == ready_maps().end() && !std::filesystem::exists(name, unknown)) {
    throw Error(fmt::format("'{}' is neither a ready map nor a file", printable(name, 60)), "--map",
                fmt::format("give {}, or the path of a file", fmt::join(ready_names(), ", ")));
  }
  NameMap map = found != ready_maps().end()
                    ? parse(parse_json_text(std::string(found->json), name, kMapHint), name)
                    : parse(read_json_file(name, kMaxMapBytes, kMapHint), name);
  if (found != ready_maps().end() && found->by_architecture) map.by_architecture_ = name;
  while (!parameters.empty()) {
    const size_t comma = std::min(parameters.find(','), parameters.size());
    const std::string item = parameters.substr(0, comma);
    parameters.erase(0, std::min(comma + 1, parameters.size()));
    const size_t equals = std::min(item.find('='), item.size());
    map.set_parameter(item.substr(0, equals),
                      equals < item.size() ? item.substr(equals + 1) : std::string(), name);
  }
  map.check_arch(name);
  return map;
}

std::vector<std::string> NameMap::ready_names() {
  std::vector<std::string> names;
  for (const ReadyMap& map : ready_maps()) names.emplace_back(map.name);
  return names;
}

std::string NameMap::suggest(const std::vector<std::string>& names) {
  std::string best;
  int64_t most = 1;
  for (const ReadyMap& ready : ready_maps()) {
    MatchBudget budget;
    const NameMap map =
        parse(parse_json_text(std::string(ready.json), std::string(ready.name), kMapHint),
              std::string(ready.name));
    const int64_t count = std::count_if(names.begin(), names.end(), [&](const std::string& name) {
      return map.renames(name, budget);
    });
    // Of two that know as many the later one: llama.cpp calls an embedding of lfm2 as transformers
    // calls that of most models.
    if (count < most) continue;
    most = count;
    best = ready.name;
  }
  return best;
}

bool NameMap::is_known_name(const std::string& name) {
  static const std::vector<NameMap> maps = [] {
    std::vector<NameMap> all;
    for (const ReadyMap& ready : ready_maps()) all.push_back(load(std::string(ready.name)));
    return all;
  }();
  MatchBudget budget;
  return std::ranges::any_of(maps, [&](const NameMap& map) {
    const std::string own = map.prefixes_.without(name);
    return std::ranges::any_of(map.rules_, [&](const Rule& rule) {
      const auto match = match_of(rule, name, own, budget);
      if (!match) return false;
      // What rules leave out that name no layer is in a log by chance alone.
      return rule.to ? *rule.to != rule.shown : match->layer.has_value();
    });
  });
}

std::optional<NamePattern::Match> NameMap::match_of(const Rule& rule, const std::string& name,
                                                    const std::string& own, MatchBudget& budget) {
  auto match = rule.pattern.match(name, budget);
  return match || own == name ? match : rule.pattern.match(own, budget);
}

bool NameMap::renames(const std::string& name, MatchBudget& budget) const {
  const std::string own = prefixes_.without(name);
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    if (!rule.to) return false;
    const auto match = match_of(rule, name, own, budget);
    return match && with_layer(*rule.to, match->layer) != name;
  });
}

void NameMap::set_arch(const std::string& arch) {
  if (!parameters_.arch.empty() || arch.empty()) return;
  parameters_.arch = arch;
  if (!by_architecture_.empty()) check_arch(by_architecture_);
}

void NameMap::add(const NameMap& other) {
  rules_.insert(rules_.end(), other.rules_.begin(), other.rules_.end());
  prefixes_.add(other.prefixes_);
  const MapParameters& given = other.parameters_;
  if (!given.arch.empty()) parameters_.arch = given.arch;
  if (given.head_dim > 0) parameters_.head_dim = given.head_dim;
  if (given.heads > 0) parameters_.heads = given.heads;
  if (given.kv_heads > 0) parameters_.kv_heads = given.kv_heads;
  if (by_architecture_.empty()) by_architecture_ = other.by_architecture_;
}

std::set<std::string> NameMap::known_architectures() const {
  std::set<std::string> known;
  for (const Rule& rule : rules_) {
    for (const std::string& name : rule.arch) known.insert(name.substr(name.starts_with('!')));
  }
  if (by_architecture_.empty()) {
    for (const Architecture& architecture : architectures()) known.emplace(architecture.name);
  }
  return known;
}

// A map that is not by architecture holds for any that Assay runs, and others that its rules name.
void NameMap::check_arch(const std::string& where) const {
  const std::string& arch = parameters_.arch;
  if (arch.empty()) return;
  const std::set<std::string> known = known_architectures();
  if (known.contains(arch)) return;
  throw Error(
      fmt::format("the map knows no architecture '{}'", printable(arch, 40)), where,
      fmt::format("give --map {}:arch=A, where A is one of {}", where, fmt::join(known, ", ")));
}

void NameMap::set_parameter(const std::string& key, const std::string& value,
                            const std::string& where) {
  if (key == "arch") {
    parameters_.arch = value;
    return;
  }
  int64_t* number = key == "head_dim"   ? &parameters_.head_dim
                    : key == "heads"    ? &parameters_.heads
                    : key == "kv_heads" ? &parameters_.kv_heads
                                        : nullptr;
  if (number == nullptr) {
    throw Error(fmt::format("the map has no parameter '{}'", printable(key, 40)), where,
                "the parameters are arch, head_dim, heads and kv_heads");
  }
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, *number);
  if (error != std::errc() || stop != end || *number < 1 || *number > (int64_t{1} << 30) ||
      (key == "head_dim" && *number % 2 != 0)) {
    throw Error(fmt::format("'{}' is '{}'", key, printable(value, 40)), where,
                key == "head_dim" ? "give an even number" : "give a number of 1 or more");
  }
}

NameMap::Groups NameMap::parse_groups(const rapidjson::Value& object, const std::string& where) {
  refuse_repeated_keys(object, "'groups'", where, kMapHint);
  Groups groups;
  for (const auto& entry : object.GetObject()) {
    const std::string group = json_text_of(entry.name);
    const std::string named = fmt::format("'{}' of 'groups'", printable(group, 40));
    if (!entry.value.IsArray()) throw Error(named + " is not an array", where, kMapHint);
    for (const Value& arch : entry.value.GetArray()) {
      checked_string(arch, named, where, groups[group].emplace_back());
    }
  }
  return groups;
}

// What "arch" of a rule says: a group stands for its architectures, with "!" for none of them.
std::vector<std::string> NameMap::parse_arch(const rapidjson::Value& list, const Groups& groups,
                                             const std::string& named, const std::string& where) {
  std::vector<std::string> all;
  for (const Value& item : list.GetArray()) {
    std::string name;
    checked_string(item, named, where, name);
    const std::string sign = name.starts_with('!') ? "!" : "";
    const auto group = groups.find(name.substr(sign.size()));
    if (group == groups.end()) {
      all.push_back(std::move(name));
      continue;
    }
    for (const std::string& arch : group->second) all.push_back(sign + arch);
    if (all.size() <= kMaxArchitectures) continue;
    throw Error(fmt::format("{} has more than {} architectures", named, kMaxArchitectures), where,
                "leave out those for which the rule changes nothing");
  }
  return all;
}

NameMap::Rule NameMap::parse_rule(const rapidjson::Value& element, const Groups& groups,
                                  const std::string& rule_name, const std::string& where) {
  if (!element.IsObject()) throw Error(rule_name + " is not an object", where, kMapHint);
  refuse_repeated_keys(element, rule_name, where, kMapHint);
  std::optional<NamePattern> pattern;
  Rule rule{{}, NamePattern::from_glob(""), {}, {}, false, {}, false, {}, where};
  bool found_to = false;
  for (const auto& entry : element.GetObject()) {
    const std::string field = json_text_of(entry.name);
    const Value& value = entry.value;
    const std::string named = fmt::format("'{}' of {}", printable(field, 40), rule_name);
    if (field == "name" || field == "regex") {
      checked_string(value, named, where, rule.shown);
      try {
        pattern = field == "name" ? NamePattern::from_glob(rule.shown)
                                  : NamePattern::from_regex(rule.shown);
      } catch (const std::invalid_argument& problem) {
        throw Error(fmt::format("{}: {}", named, problem.what()), where, kMapHint);
      }
    } else if (field == "to") {
      found_to = true;
      if (!value.IsNull())
        check_layer(checked_string(value, named, where, rule.to.emplace()), named, where);
    } else if (field == "take" && value.IsInt()) {
      rule.take = value.GetInt();
    } else if (field == "optional" && value.IsBool()) {
      rule.optional = value.GetBool();
    } else if (field == "part") {
      checked_string(value, named, where, rule.part);
      check_part(rule.part, named, where);
    } else if (field == "rows" && value.IsString() && json_text_of(value) == "halves") {
      rule.halves = true;
    } else if (field == "arch" && value.IsArray()) {
      rule.arch = parse_arch(value, groups, named, where);
    } else {
      throw Error(fmt::format("{} is not known, or of the wrong kind", named), where,
                  "a rule has name or regex, to, take, optional, part, rows (\"halves\") and arch");
    }
  }
  if (!pattern || !found_to) {
    throw Error(fmt::format("{} has no {}", rule_name, pattern ? "'to'" : "'name' or 'regex'"),
                where, kMapHint);
  }
  rule.pattern = *pattern;
  return rule;
}

void NameMap::parse_parameters(const rapidjson::Value& object, const std::string& where) {
  for (const auto& parameter : object.GetObject()) {
    const Value& value = parameter.value;
    set_parameter(json_text_of(parameter.name),
                  value.IsString()  ? json_text_of(value)
                  : value.IsInt64() ? std::to_string(value.GetInt64())
                                    : std::string("not a number"),
                  where);
  }
}

NameMap NameMap::parse(const rapidjson::Document& document, const std::string& where) {
  if (!document.IsObject()) throw Error("the map is not an object", where, kMapHint);
  refuse_repeated_keys(document, "the map", where, kMapHint);
  NameMap map;
  Groups groups;
  const auto of_groups = document.FindMember("groups");
  if (of_groups != document.MemberEnd() && of_groups->value.IsObject()) {
    groups = parse_groups(of_groups->value, where);
  }
  for (const auto& member : document.GetObject()) {
    const std::string key = json_text_of(member.name);
    const bool is_rules = key == "rules";
    if (key == "parameters" && member.value.IsObject()) {
      map.parse_parameters(member.value, where);
    } else if (is_rules && member.value.IsArray()) {
      if (member.value.Size() > kMaxRules) {
        throw Error(
            fmt::format("the map has {} rules, more than {}", member.value.Size(), kMaxRules),
            where, "give one rule for all layers, as in layer_{N}_output");
      }
      for (const Value& element : member.value.GetArray()) {
        const std::string rule_name = fmt::format("rule {}", map.rules_.size() + 1);
        map.rules_.push_back(parse_rule(element, groups, rule_name, where));
      }
    } else if (key == "prefixes") {
      map.prefixes_ = NamePrefixes::parse(member.value, where);
    } else if (key == "groups" && member.value.IsObject()) {
      continue;  // read before
    } else if (is_rules || key == "parameters" || key == "groups") {
      throw Error(fmt::format("'{}' is not {}", key, is_rules ? "an array" : "an object"), where,
                  kMapHint);
    } else {
      throw Error(fmt::format("the map has the unknown key '{}'", printable(key, 40)), where,
                  kMapHint);
    }
  }
  if (map.rules_.empty()) throw Error("the map has no rules", where, kMapHint);
  return map;
}

// A list of names, or of names with ! before them that are not meant.
bool NameMap::holds(const Rule& rule) const {
  if (rule.arch.empty()) return true;
  bool excluding = false;
  for (const std::string& arch : rule.arch) {
    if (arch.starts_with('!')) {
      if (arch.substr(1) == parameters_.arch) return false;
      excluding = true;
    } else if (arch == parameters_.arch) {
      return true;
    }
  }
  return excluding;
}

// Whether the rules for a name differ between architectures, and which one it is is not known: to
// guess would make a right engine diverge, or a wrong one pass.
bool NameMap::needs_arch(const std::vector<const Rule*>& matching) const {
  if (!parameters_.arch.empty()) return false;
  std::set<std::string> all;
  for (const Rule* rule : matching) all.insert(rule->arch.begin(), rule->arch.end());
  return std::ranges::any_of(matching, [&](const Rule* rule) {
    if (rule->arch.empty()) return false;
    return by_architecture_.empty() ? rule->halves : rule->arch.size() < all.size();
  });
}

RecordTransform NameMap::transform_of(const Rule& rule) const {
  RecordTransform transform;
  if (rule.halves) {
    if (parameters_.head_dim == 0) {
      throw Error(fmt::format("'{}' needs the size of a head", rule.shown), rule.where,
                  fmt::format("give it, as in --map {}:head_dim=64", rule.where));
    }
    transform.halves_to_adjacent = parameters_.head_dim;
  }
  if (rule.part.empty()) return transform;
  int64_t which = 0;
  if (is_fraction(rule.part, which, transform.part_count)) {
    transform.part_begin = which - 1;
    transform.part_end = which;
    return transform;
  }
  if ((parameters_.heads == 0) != (parameters_.kv_heads == 0)) {
    throw Error(fmt::format("'{}' needs both heads and kv_heads", rule.shown), rule.where,
                fmt::format("give both, as in --map {}:heads=32,kv_heads=8", rule.where));
  }
  // Where neither is given there are as many of the one as of the other. In lowest terms, so that a
  // tensor need not be a multiple of the heads.
  const int64_t divisor =
      std::gcd(std::max<int64_t>(parameters_.heads, 1), std::max<int64_t>(parameters_.kv_heads, 1));
  const int64_t heads = std::max<int64_t>(parameters_.heads, 1) / divisor;
  const int64_t kv_heads = std::max<int64_t>(parameters_.kv_heads, 1) / divisor;
  transform.part_count = heads + 2 * kv_heads;
  transform.part_begin = rule.part == "q" ? 0 : rule.part == "k" ? heads : heads + kv_heads;
  transform.part_end = transform.part_begin + (rule.part == "q" ? heads : kv_heads);
  return transform;
}

// Whether the rule may be for what is looked for, as far as the architecture is known.
bool NameMap::may_hold(const Rule& rule) const {
  const bool is_open = parameters_.arch.empty() && (rule.halves || !by_architecture_.empty());
  return is_open || holds(rule);
}

NameMap::Found NameMap::find(const std::string& name, MatchBudget& budget) const {
  std::vector<const Rule*> matching;
  std::vector<std::optional<int>> layers;
  const std::string own = prefixes_.without(name);
  for (const Rule& rule : rules_) {
    if (!may_hold(rule)) continue;
    const auto match = match_of(rule, name, own, budget);
    if (budget.is_spent()) {
      throw Error(fmt::format("matching the log's names takes too long at the rule '{}'",
                              printable(rule.shown, 60)),
                  rule.where, "give fewer rules, or patterns with fewer * and +");
    }
    if (!match) continue;
    matching.push_back(&rule);
    layers.push_back(match->layer);
  }
  if (needs_arch(matching)) {
    const std::string& where = matching.front()->where;
    throw Error(
        fmt::format("what '{}' is depends on the architecture, which neither log's header names",
                    printable(name, 60)),
        where,
        fmt::format("give --map {}:arch=A, with ,head_dim=64 or the like after it where a file has "
                    "rows of Q and K in another order; A is one of {}",
                    where, fmt::join(known_architectures(), ", ")));
  }
  Found found;
  found.known = !matching.empty();
  for (size_t i = 0; i < matching.size(); ++i) {
    const Rule& rule = *matching[i];
    if (!rule.to) continue;
    const auto checkpoint = with_layer(*rule.to, layers[i]);
    if (!checkpoint) continue;
    const bool again =
        std::any_of(found.targets.begin(), found.targets.end(),
                    [&](const Target& target) { return target.checkpoint == *checkpoint; });
    if (again) continue;
    found.targets.push_back({*checkpoint, rule.take, rule.optional, transform_of(rule)});
  }
  return found;
}

}  // namespace assay
