#include "assay/mutate/omission_lane.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "assay/compare/compare_logs.h"
#include "assay/golden/floors.h"
#include "assay/log/log_reader.h"
#include "assay/log/record_text.h"
#include "assay/mutate/mutant.h"
#include "assay/record/log_header.h"
#include "assay/record/log_probe.h"
#include "base/error.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// A log, read.
struct WholeLog {
  LogHeader header;
  std::vector<Record> records;
};

struct Omission {
  const char* name;
  const char* what;
  // Whether it leaves out what only whole evidence asks for.
  bool whole_only;
  std::function<void(WholeLog& log)> apply;
  bool torn = false;  // the last line is cut in its middle
};

int64_t last_token(const WholeLog& log) {
  int64_t last = 0;
  for (const Record& record : log.records) last = std::max(last, record.token_idx);
  return last;
}

template <typename Gone>
void leave_out(WholeLog& log, const Gone& gone) {
  std::erase_if(log.records, gone);
}

template <typename Change>
void change_all(WholeLog& log, const Change& change) {
  for (Record& record : log.records) change(record);
}

// At the logits' record of the last token but one, which stands in the middle of the decoding.
bool is_middle_logits_record(const WholeLog& log, const Record& record) {
  return record.checkpoint == "logits" && record.token_idx == last_token(log) - 1;
}

const std::vector<Omission>& omissions() {
  static const std::vector<Omission> all = {
      {"checkpoint", "no record of one op", false,
       [](WholeLog& log) {
         leave_out(log, [](const Record& r) { return r.checkpoint == "layer_1_output"; });
       }},
      {"embedding", "no record of the embedding", false,
       [](WholeLog& log) {
         leave_out(log, [](const Record& r) { return r.checkpoint == "embedding"; });
       }},
      {"layer", "no record of one layer", false,
       [](WholeLog& log) {
         leave_out(log, [](const Record& r) { return r.checkpoint.starts_with("layer_1_"); });
       }},
      {"layers", "nothing but the logits", false,
       [](WholeLog& log) {
         leave_out(log, [](const Record& r) { return r.checkpoint != "logits"; });
       }},
      {"logits", "no record of the logits", false,
       [](WholeLog& log) {
         leave_out(log, [](const Record& r) { return r.checkpoint == "logits"; });
       }},
      {"first-token", "no record of the first token", false,
       [](WholeLog& log) { leave_out(log, [](const Record& r) { return r.token_idx == 0; }); }},
      {"token", "no record of one token", false,
       [](WholeLog& log) { leave_out(log, [](const Record& r) { return r.token_idx == 3; }); }},
      {"last-token", "no record of the last token", false,
       [](WholeLog& log) {
         leave_out(log, [last = last_token(log)](const Record& r) { return r.token_idx == last; });
       }},
      {"tokens", "no record of the second half of the tokens", false,
       [](WholeLog& log) {
         leave_out(log,
                   [last = last_token(log)](const Record& r) { return 2 * r.token_idx > last; });
       }},
      {"decode", "no record after the prompt", false,
       [](WholeLog& log) {
         const auto n = static_cast<int64_t>(log.header.tokens.size());
         leave_out(log, [n](const Record& r) { return r.token_idx >= n; });
       }},
      {"record", "no logits at one token", false,
       [](WholeLog& log) {
         const WholeLog whole = log;
         leave_out(log, [&](const Record& r) { return is_middle_logits_record(whole, r); });
       }},
      {"torn", "the last line is cut off, as by a kill", false, [](WholeLog&) {}, true},
      {"killed", "nothing after the middle of the log", false,
       [](WholeLog& log) { log.records.resize(log.records.size() / 2); }},
      {"empty-record", "no value, summary or sketch of the logits at one token", false,
       [](WholeLog& log) {
         const int64_t at = last_token(log) - 1;
         change_all(log, [at](Record& r) {
           if (r.checkpoint != "logits" || r.token_idx != at) return;
           r.values.clear();
           r.summary.reset();
           r.sketch.reset();
         });
       }},
      {"empty-records", "no value, summary or sketch of anything", false,
       [](WholeLog& log) {
         change_all(log, [](Record& r) {
           r.values.clear();
           r.summary.reset();
           r.sketch.reset();
         });
       }},
      {"tail-of-values", "the first half of the logits' values, and nothing of the rest", true,
       [](WholeLog& log) {
         change_all(log, [](Record& r) {
           if (r.checkpoint != "logits") return;
           r.values.resize(r.values.size() / 2);
           r.summary.reset();
           r.sketch.reset();
         });
       }},
      {"tail-of-one", "one value of one op, and nothing of the rest", true,
       [](WholeLog& log) {
         change_all(log, [](Record& r) {
           if (r.checkpoint != "layer_1_output" || r.token_idx != 3) return;
           r.values.resize(1);
           r.summary.reset();
           r.sketch.reset();
         });
       }},
      {"sketch", "a head and a summary", true,
       [](WholeLog& log) {
         change_all(log, [](Record& r) {
           r.values.resize(std::min<size_t>(r.values.size(), 10));
           r.sketch.reset();
         });
       }},
      {"values-and-sketch", "a summary alone", true,
       [](WholeLog& log) {
         change_all(log, [](Record& r) {
           r.values.clear();
           r.sketch.reset();
         });
       }},
      {"argmax", "logits with a head and a sketch, and no summary that tells the argmax", true,
       [](WholeLog& log) {
         change_all(log, [](Record& r) {
           r.values.resize(std::min<size_t>(r.values.size(), 10));
           if (r.checkpoint == "logits") r.summary.reset();
         });
       }}};
  return all;
}

class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "assay-omit-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) {
      throw Error("no folder can be made there", path_, "set TMPDIR to one with room");
    }
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_sound_log(const GoldenCase& golden, Kernels& kernels, bool all_values,
                     const std::string& path) {
  const auto n_positions = static_cast<int64_t>(golden.tokens.size() + golden.greedy.size());
  Mutant mutant(golden.gguf, kernels, {.n_positions = n_positions});
  LogOptions options;
  options.sketch = true;
  if (all_values) options.head_values = kAllValues;
  const CheckpointSet ops("ops");
  LogProbe probe({path, options, ops}, mutant.model().config());
  probe.write_header(log_header_of(mutant.model(), golden.tokens));
  mutant.eval(golden.tokens, &probe);
  for (size_t i = 0; i + 1 < golden.greedy.size(); ++i) mutant.eval({&golden.greedy[i], 1}, &probe);
  probe.writer().close();
}

WholeLog read_log(const std::string& path) {
  WholeLog log;
  LogReader reader(path);
  while (const Record* record = reader.next()) log.records.push_back(*record);
  log.header = reader.header().value();
  return log;
}

void write_log(const WholeLog& log, bool torn, const std::string& path) {
  std::string text = header_line(log.header);
  for (const Record& record : log.records) append_record_line(text, record);
  if (torn) text.resize(text.size() - 40);
  std::ofstream(path, std::ios::binary) << text;
}

// What cannot be compared is not passed.
bool passes(const std::string& ref, const std::string& got, const Policy& policy, bool whole) {
  CompareOptions options;
  options.policy = policy;
  options.whole_required = whole;
  try {
    return compare_logs(ref, got, options).pass;
  } catch (const Error&) {
    return false;
  }
}

Policy manifest_policy(const GoldenCase& golden) {
  const GoldenManifest manifest = read_golden_manifest(golden.manifest_path);
  for (const GoldenFile& file : manifest.files) {
    if (file.type == golden.type) return floor_policy(manifest, file);
  }
  throw Error("has no " + golden.type, golden.manifest_path);
}

class OmissionLane {
 public:
  OmissionLane() {
    for (const Omission& omission : omissions()) {
      powers_.push_back({omission.name, omission.what, 0, 0, {}});
    }
  }

  void run(const GoldenCase& golden, Kernels& kernels) {
    const Policy whole = manifest_policy(golden);
    for (const bool all_values : {true, false}) {
      const std::string form = all_values ? "all values" : "heads, summaries and sketches";
      const std::string ref = folder_.path("ref.jsonl");
      write_sound_log(golden, kernels, all_values, ref);
      const WholeLog log = read_log(ref);
      const std::string got = folder_.path("got.jsonl");
      write_log(log, false, got);
      for (const bool all : {false, true}) {
        if (passes(ref, got, all ? whole : Policy(), all)) continue;
        throw Error("the whole log does not pass against itself", golden.name(),
                    "nothing is shown of what is left out");
      }
      for (size_t i = 0; i < powers_.size(); ++i) {
        const Omission& omission = omissions()[i];
        WholeLog rest = log;
        omission.apply(rest);
        write_log(rest, omission.torn, got);
        const std::string name = golden.name() + ", " + form;
        if (!omission.whole_only) add(powers_[i], name, passes(ref, got, Policy(), false));
        add(powers_[i], name + ", the manifest's policy", passes(ref, got, whole, true));
      }
    }
  }

  std::vector<OmissionPower> take() { return std::move(powers_); }

 private:
  static void add(OmissionPower& power, const std::string& name, bool passed) {
    ++power.tried;
    power.caught += passed ? 0 : 1;
    if (passed) power.passed.push_back(name);
  }

  Folder folder_;
  std::vector<OmissionPower> powers_;
};

}  // namespace

std::vector<OmissionPower> run_omission_lane(const std::vector<const GoldenCase*>& cases,
                                             Kernels& kernels) {
  OmissionLane lane;
  for (const GoldenCase* golden : cases) lane.run(*golden, kernels);
  return lane.take();
}

}  // namespace assay
