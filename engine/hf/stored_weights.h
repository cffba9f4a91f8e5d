#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "engine/hf/safetensors.h"

namespace assay {

// The tensors of a folder, by their names in transformers; remembers which were taken.
class StoredWeights {
 public:
  // Opens the files and appends them to `files`. Throws Error that names what is missing.
  StoredWeights(const std::string& folder, std::vector<MappedFile>& files);

  // Leaves the tensors of the text alone, under the names that they have without the other
  // networks. `others` is what names of those begin with, after "model." if they have it.
  void keep_text(const std::vector<std::string>& others);

  // Gives tensors whose names begin otherwise than those of modules the modules' names, which begin
  // with "model.".
  void rename(std::string_view stored);

  // Names are looked up without their first part where the files lack it, as those of a model
  // without its head do: "wte.weight" for "transformer.wte.weight".
  void drop_prefix(std::string_view module);

  // Null if the folder has none of this name.
  const StoredTensor* find(const std::string& name);

  [[noreturn]] void fail(const std::string& name, const std::string& what,
                         const std::string& hint = {}) const;

  // Those of `ignored` modules may be left over.
  void reject_leftovers(std::string_view model_type, const std::vector<std::string>& ignored) const;

 private:
  struct Entry {
    StoredTensor tensor;
    std::string file;
  };

  void add(const MappedFile& file);
  void read_shards(const std::string& folder, std::vector<MappedFile>& files);
  // `name_of` gives each tensor's name, or an empty one where it is left out.
  void rename_all(const auto& name_of);

  std::map<std::string, Entry, std::less<>> tensors_;
  std::set<std::string, std::less<>> taken_;
  std::string dropped_;
};

}  // namespace assay
