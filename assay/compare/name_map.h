#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "assay/compare/name_pattern.h"
#include "assay/compare/name_prefixes.h"
#include "assay/compare/record_transform.h"

namespace assay {

// What a map may have to know of a model; 0 is not given.
struct MapParameters {
  std::string arch;  // as in general.architecture
  int64_t head_dim = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
};

// From the names that an engine gives its tensors to those of the checkpoints.
//
// A file is {"rules": [RULE...], "parameters": {...}, "groups": {"moe": ["qwen2moe"...]...},
// "prefixes": {...} as in NamePrefixes} with RULE
//   {"name": "l_out-{N}", "to": "layer_{N}_output"}      {N}: the layer; * and ? as in the shell
//   {"regex": "h\\.(\\d+)\\.ln_1", "to": "layer_{N}_attn_norm"}   group 1 is the layer
// and further, as needed: "to": null (known, and left out; {N-1} and {N+1} count layers otherwise);
// "take": 0, 1, -1... (which of the records at one token whose names are of this checkpoint, from
// the front or the back); "optional": true (too few to take it from is no loss); "part": "q", "k",
// "v" or "2/3" (of a fused projection); "rows": "halves" (see RecordTransform); "arch": ["phi3"]
// (only for these; "!phi3": not for it; a group stands for its architectures). All rules that match
// a name hold, one record may give several checkpoints; but "to": null holds only where no other
// rule does. Parameters: arch, head_dim, heads, kv_heads. At most kMaxRules rules.
class NameMap {
 public:
  static constexpr size_t kMaxRules = 1000;

  struct Target {
    std::string checkpoint;
    std::optional<int64_t> take;
    bool optional = false;
    RecordTransform transform;
  };
  struct Found {
    bool known = false;  // a rule matches, and be it one that leaves the tensor out
    std::vector<Target> targets;
  };

  // `text` is the name of a ready map or the path of a file, then, if need be, a colon and
  // parameters: "transformers:arch=llama,head_dim=64". Throws Error.
  static NameMap load(const std::string& text);
  // The file that load() reads of such a text; empty for a ready map.
  static std::string file_of(const std::string& text);
  static std::vector<std::string> ready_names();
  // The ready map that knows most of `names`; empty if none knows any.
  static std::string suggest(const std::vector<std::string>& names);
  // Whether a ready map has a rule for it that leaves it out, or gives it another name.
  static bool is_known_name(const std::string& name);

  bool empty() const { return rules_.empty(); }
  // The architecture in a log's header, used where the user has not named one. Throws Error if the
  // map has the rules of others alone.
  void set_arch(const std::string& arch);
  // Rules of `other` after these.
  void add(const NameMap& other);

  // Throws Error if a rule needs a parameter that is not given, or the architecture to know the
  // order of rows, or the budget is spent.
  Found find(const std::string& name, MatchBudget& budget) const;
  Found find(const std::string& name) const {
    MatchBudget budget;
    return find(name, budget);
  }

 private:
  struct Rule {
    std::string shown;  // its pattern
    NamePattern pattern;
    std::optional<std::string> to;
    std::optional<int64_t> take;
    bool optional = false;
    std::string part;
    bool halves = false;
    std::vector<std::string> arch;
    std::string where;  // the map's name or path
  };

  static NameMap parse(const rapidjson::Document& document, const std::string& where);
  using Groups = std::map<std::string, std::vector<std::string>>;  // of architectures, by name

  static Groups parse_groups(const rapidjson::Value& object, const std::string& where);
  static std::vector<std::string> parse_arch(const rapidjson::Value& list, const Groups& groups,
                                             const std::string& named, const std::string& where);
  static Rule parse_rule(const rapidjson::Value& element, const Groups& groups,
                         const std::string& rule_name, const std::string& where);
  void parse_parameters(const rapidjson::Value& object, const std::string& where);
  void check_arch(const std::string& where) const;
  std::set<std::string> known_architectures() const;
  void set_parameter(const std::string& key, const std::string& value, const std::string& where);
  RecordTransform transform_of(const Rule& rule) const;
  bool holds(const Rule& rule) const;
  bool may_hold(const Rule& rule) const;
  // Whether a rule gives the tensor another name.
  bool renames(const std::string& name, MatchBudget& budget) const;
  bool needs_arch(const std::vector<const Rule*>& matching) const;

  // Of the name, or of what the map's prefixes make of it.
  static std::optional<NamePattern::Match> match_of(const Rule& rule, const std::string& name,
                                                    const std::string& own, MatchBudget& budget);

  std::vector<Rule> rules_;
  NamePrefixes prefixes_;
  MapParameters parameters_;
  std::string by_architecture_;  // the ready map that is; empty where none is
};

// The ready maps as JSON: name, text.
struct ReadyMap {
  std::string_view name;
  std::string_view json;
  bool by_architecture = false;  // it has the rules of each architecture, and of no other
};
const std::vector<ReadyMap>& ready_maps();
// The text of that of transformers' modules, and of llama.cpp's tensors.
std::string transformers_map();
std::string_view llama_cpp_map();

}  // namespace assay
