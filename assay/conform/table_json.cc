#include "assay/conform/table_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "assay/golden/json_node.h"
#include "assay/report/json_object.h"
#include "base/error.h"
#include "base/json_file.h"
#include "base/shell.h"

namespace assay {
namespace {

constexpr int64_t kMaxTableBytes = int64_t{256} << 20;
constexpr char kTableHint[] = "give what assay conform or invariance wrote, with --format json";
constexpr size_t kMaxReadText = 10000;
constexpr int64_t kMostPositions = int64_t{1} << 31;
constexpr int64_t kMostValues = int64_t{1} << 53;

const char* command_of(EngineTable::Kind kind) {
  return kind == EngineTable::Kind::kConformance ? "conform" : "invariance";
}

std::string row_words(EngineTable::Kind kind) {
  return fmt::format("{}s", row_word(kind));
}

// What a baseline is held to.
void append_verdict(JsonObject& object, const TableCell& cell) {
  object.member("verdict", finding_name(cell.finding));
  object.member("cause", cell.cause);
  object.member("checkpoint", cell.checkpoint);
  const bool finite = cell.error && std::isfinite(cell.error->rel_l2);
  object.member("rel_l2", finite ? std::optional(cell.error->rel_l2) : std::nullopt);
  object.member("positions", cell.error ? cell.error->positions : 0);
  object.member("positions_whole", cell.error ? cell.error->whole : 0);
  object.member("positions_total", cell.error ? cell.error->total : 0);
  if (cell.error && cell.error->values >= 0) object.member("values", cell.error->values);
}

void append_cell(JsonObject& object, const EngineTable& table, const TableRow& row,
                 const TableCell& cell) {
  object.member(row_word(table.kind), row.name);
  object.member("group", row.group);
  object.member("title", row.title);
  object.array("states", row.states);
  if (!row.digest.empty()) object.member("case", row.digest);
  append_verdict(object, cell);
  if (cell.change) {
    object.member("change", change_name(*cell.change));
    object.member("before", cell.before);
  }
  object.member("text", cell.text);
  object.member("from_explained", cell.from_explained);
  object.member("from_nearest_mistake", cell.from_nearest_mistake);
  object.member("first_divergence", cell.first_divergence);
  object.member("log", cell.log);
  object.member("compare", cell.compare);
  object.member("command", cell.command);
  object.member("seconds", cell.seconds);
}

void append_runs(JsonObject& object, const EngineTable& table, const ReportContext& context) {
  std::vector<TableRun> runs = table.runs;
  if (runs.empty()) runs.push_back({context.version, context.time, context.command});
  object.array("runs", runs, [](JsonObject& one, const TableRun& run) {
    one.member("assay", run.version);
    one.member("time", run.time);
    one.member("command", run.command);
  });
}

// What a terminal must not see is escaped: reports write these texts as they are.
std::string read_text(const JsonNode& node) {
  return printable(node.text(), kMaxReadText);
}

Finding read_finding(const JsonNode& node, EngineTable::Kind kind) {
  const std::string name = node.text();
  EngineTable table;
  table.kind = kind;
  for (const Finding each : table.findings()) {
    if (finding_name(each) == name) return each;
  }
  node.fail(
      fmt::format("is '{}', which is no verdict of {}", printable(name, 40), command_of(kind)),
      kTableHint);
}

// Of a run that was held to a baseline; it counts for the sums of its file alone.
std::optional<Change> read_change(const JsonNode& node) {
  const auto found = node.find("change");
  if (!found) return std::nullopt;
  for (const Change each : {Change::kSame, Change::kBetter, Change::kWorse, Change::kNew}) {
    if (found->text() == change_name(each)) return each;
  }
  found->fail("is no change of a verdict", kTableHint);
}

std::optional<double> read_distance(const JsonNode& node, const char* key) {
  const auto found = node.find(key);
  return found ? std::optional(found->number_at_least(0.0)) : std::nullopt;
}

TableCell read_verdict(const JsonNode& node, EngineTable::Kind kind) {
  TableCell cell;
  cell.finding = read_finding(node.at("verdict"), kind);
  cell.change = read_change(node);
  cell.cause = read_text(node.at("cause"));
  cell.checkpoint = read_text(node.at("checkpoint"));
  const int64_t total = node.at("positions_total").integer(0, kMostPositions);
  const std::optional<double> rel_l2 = read_distance(node, "rel_l2");
  // Baselines of invariance of earlier versions count nothing.
  const bool is_counted = total > 0 || kind == EngineTable::Kind::kConformance;
  if (is_counted ? total > 0 : rel_l2.has_value()) {
    OutputError error;
    error.rel_l2 = rel_l2.value_or(std::numeric_limits<double>::quiet_NaN());
    error.positions = node.at("positions").integer(0, total);
    const auto whole = node.find("positions_whole");
    error.whole = whole ? whole->integer(0, error.positions) : 0;
    error.total = total;
    const auto values = node.find("values");
    error.values = values ? values->integer(0, kMostValues) : -1;
    cell.error = error;
  }
  const bool shown =
      cell.error && std::isfinite(cell.error->rel_l2) && (cell.error->positions > 0 || !is_counted);
  if (is_right(cell.finding) && !shown) {
    node.fail(
        fmt::format("is '{}' without a finite rel_l2 at any position", finding_name(cell.finding)),
        kTableHint);
  }
  return cell;
}

TableCell read_cell(const JsonNode& node, EngineTable::Kind kind) {
  TableCell cell = read_verdict(node, kind);
  cell.text = read_text(node.at("text"));
  cell.from_explained = read_distance(node, "from_explained");
  cell.from_nearest_mistake = read_distance(node, "from_nearest_mistake");
  cell.first_divergence = read_text(node.at("first_divergence"));
  cell.log = read_text(node.at("log"));
  cell.compare = read_text(node.at("compare"));
  cell.command = read_text(node.at("command"));
  cell.seconds = node.at("seconds").number_at_least(0.0);
  return cell;
}

std::vector<JsonNode> filled_list(const JsonNode& node, const char* key) {
  std::vector<JsonNode> items = node.at(key).items();
  if (items.empty()) node.at(key).fail("is empty: nothing was run", kTableHint);
  return items;
}

TablePart::Column read_column(const JsonNode& node, TableDetail detail, EngineTable::Kind kind) {
  TablePart::Column column;
  column.engine.name = read_text(node.at("name"));
  column.engine.version = read_text(node.at("version"));
  column.engine.precision = read_text(node.at("precision"));
  if (const auto adapter = node.find("adapter")) column.engine.digest = adapter->sha256();
  for (const JsonNode& each : filled_list(node, row_words(kind).c_str())) {
    column.rows.push_back({.name = each.at(row_word(kind)).nonempty_text(),
                           .group = {},
                           .title = {},
                           .states = {},
                           .digest = each.at("case").sha256()});
    column.cells.push_back(detail == TableDetail::kAll ? read_cell(each, kind)
                                                       : read_verdict(each, kind));
  }
  return column;
}

// A file whose sums are those of other cells has lost some, or was changed by hand.
void check_sums(const JsonNode& root, const TablePart& part, EngineTable::Kind kind) {
  EngineTable table;
  table.kind = kind;
  const std::vector<JsonNode> engines = root.at("engines").items();
  for (size_t i = 0; i < engines.size(); ++i) {
    table.columns.push_back({part.columns[i].engine, part.columns[i].cells});
    const JsonNode counts = engines[i].at("counts");
    for (const Finding one : table.findings()) {
      const int64_t found = table.columns.back().count(one);
      const std::string name(finding_name(one));
      if (counts.at(name.c_str()).integer(0, kMostPositions) == found) continue;
      counts.at(name.c_str())
          .fail(fmt::format("is not the count of its {}, {}", row_words(kind), found), kTableHint);
    }
  }
  const JsonNode pass = root.at("pass");
  if (!pass.json().IsBool() || pass.json().GetBool() != table.pass()) {
    pass.fail("is not what the verdicts give", kTableHint);
  }
}

constexpr std::string_view kStart = "assay conform ";
constexpr std::string_view kCommand = "--command ";
constexpr size_t kMaxCommand = 1000;  // bytes of one in a message

// Where the first word of a command ends, whose words are quoted as shell_quoted() does it.
size_t end_of_word(std::string_view command) {
  enum class Quotes : uint8_t { kNone, kPlain, kEscaped } quotes = Quotes::kNone;
  size_t end = 0;
  for (; end < command.size() && (quotes != Quotes::kNone || command[end] != ' '); ++end) {
    if (command[end] == '\\' && quotes != Quotes::kPlain) {
      ++end;  // the next one stands for itself
    } else if (command[end] == '\'' && quotes != Quotes::kNone) {
      quotes = Quotes::kNone;
    } else if (command[end] == '\'') {
      quotes = end > 0 && command[end - 1] == '$' ? Quotes::kEscaped : Quotes::kPlain;
    }
  }
  return std::min(end, command.size());
}

// The engines that a run was asked for, as flags are typed: "assay conform NAME... [--command LINE]
// [FLAGS]".
std::set<std::string> engines_of_run(const JsonNode& node, EngineTable::Kind kind) {
  const std::string command = node.text();
  const std::string start = fmt::format("assay {} ", command_of(kind));
  if (!command.starts_with(start)) node.fail(fmt::format("is no command of {}", start), kTableHint);
  std::set<std::string> engines;
  std::string_view rest = std::string_view(command).substr(start.size());
  while (!rest.empty() && !rest.starts_with("--")) {
    const size_t end = end_of_word(rest);
    engines.emplace(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (rest.starts_with(kCommand)) engines.insert(engine_of_command("").name);
  return engines;
}

// A file holds the engines that its runs were asked for, each under its own name: another one's
// adapter would not be checked.
void check_engines_of_runs(const JsonNode& root, const TablePart& part, EngineTable::Kind kind) {
  std::set<std::string> asked;
  for (const JsonNode& run : root.at("runs").items())
    asked.merge(engines_of_run(run.at("command"), kind));
  std::set<std::string> missing = asked;
  for (const TablePart::Column& column : part.columns) {
    const std::string name = shell_quoted(column.engine.name);
    missing.erase(name);
    if (asked.contains(name)) continue;
    root.at("engines").fail(fmt::format("has '{}', which no run of it was asked for",
                                        printable(column.engine.name, 60)),
                            kTableHint);
  }
  if (missing.empty()) return;
  root.at("engines").fail(
      fmt::format("lacks {}, which its runs were asked for", printable(*missing.begin(), 60)),
      kTableHint);
}

std::string titled(const EngineDeclaration& engine) {
  return engine.version.empty() ? engine.name : engine.name + " " + engine.version;
}

// What was found of one engine, by feature.
struct Found {
  std::string path;
  std::string digest;
  TableCell cell;
};

// Those of a part's column, beside those of parts before.
void add_cells(const TablePart& part, const TablePart::Column& column,
               std::map<std::string, Found>& found) {
  for (size_t i = 0; i < column.rows.size(); ++i) {
    const TableRow& row = column.rows[i];
    const auto [place, added] =
        found.try_emplace(row.name, Found{part.path, row.digest, column.cells[i]});
    if (added) continue;
    throw Error(fmt::format("'{}' of {} is in {}, too", printable(row.name, 60),
                            printable(titled(column.engine), 60), printable(place->second.path)),
                part.path, "give only one of the two results");
  }
}

// " --features GLOB" of all runs, as far as these were asked for some features only.
std::string features_of_runs(const std::vector<TableRun>& runs) {
  std::set<std::string> features;
  for (const TableRun& run : runs) {
    std::string_view rest = run.command;
    bool is_feature = false;
    while (!rest.empty()) {
      const size_t end = end_of_word(rest);
      if (is_feature) features.emplace(rest.substr(0, end));
      is_feature = rest.substr(0, end) == "--features";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  std::string flags;
  for (const std::string& each : features) flags += " --features " + each;
  return flags;
}

// How the command of an earlier cell names its engine: "llama.cpp", or "--command LINE".
std::string typed_engine(const EngineDeclaration& engine, std::string_view command) {
  if (!command.starts_with(kStart)) return engine.name;
  command.remove_prefix(kStart.size());
  const size_t flag = command.starts_with(kCommand) ? kCommand.size() : 0;
  return std::string(command.substr(0, flag + end_of_word(command.substr(flag))));
}

TableColumn column_of(const EngineDeclaration& engine, std::map<std::string, Found>& found,
                      const std::vector<TableRow>& rows, const std::vector<TableRun>& runs) {
  const std::string typed =
      typed_engine(engine, found.empty() ? "" : found.begin()->second.cell.command);
  const std::string ran = features_of_runs(runs);
  TableColumn column{.engine = engine, .cells = {}};
  for (const TableRow& row : rows) {
    const auto place = found.find(row.name);
    const bool is_there = place != found.end();
    if (!is_there || place->second.digest != row.digest) {
      const std::string again =
          fmt::format("run assay conform {} --features {} --format json -o FILE",
                      printable(typed, kMaxCommand), row.name);
      throw Error(fmt::format("'{}' of {} {}", row.name, printable(titled(engine), 60),
                              is_there ? "was run with another version of the case" : "is missing"),
                  is_there ? place->second.path : std::string("--from"),
                  is_there || ran.empty() ? again + ", or choose rows with --features"
                                          : fmt::format("choose the rows of the file with{}, or {}",
                                                        printable(ran, kMaxCommand), again));
    }
    column.cells.push_back(std::move(place->second.cell));
  }
  return column;
}

}  // namespace

namespace {

void append_engine(JsonObject& object, const EngineTable& table, const TableColumn& column) {
  object.member("name", column.engine.name);
  object.member("version", column.engine.version);
  object.member("precision", column.engine.precision);
  if (!column.engine.digest.empty()) object.member("adapter", column.engine.digest);
  object.object("counts", [&](JsonObject& counts) {
    for (const Finding one : table.findings()) {
      counts.member(finding_name(one), column.count(one));
    }
  });
}

}  // namespace

const char* row_word(EngineTable::Kind kind) {
  return kind == EngineTable::Kind::kConformance ? "feature" : "surface";
}

std::string engine_table_json(const EngineTable& table, const ReportContext& context) {
  return json_of([&](JsonObject& object) {
    object.member("pass", table.pass());
    if (!table.baseline.empty()) object.member("baseline", table.baseline);
    append_runs(object, table, context);
    object.array("engines", table.columns, [&](JsonObject& element, const TableColumn& each) {
      append_engine(element, table, each);
      size_t i = 0;
      element.array(row_words(table.kind), each.cells, [&](JsonObject& one, const TableCell& cell) {
        append_cell(one, table, table.rows[i++], cell);
      });
    });
  });
}

void write_engine_table_baseline(const EngineTable& table, const ReportContext& context,
                                 const TextSink& sink) {
  EngineTable held_to_nothing = table;
  for (TableColumn& column : held_to_nothing.columns) {
    for (TableCell& cell : column.cells) cell.change.reset();
  }
  write_json_line(sink, [&](JsonObject& object) {
    object.member("pass", held_to_nothing.pass());
    append_runs(object, table, context);
    object.array("engines", table.columns, [&](JsonObject& element, const TableColumn& each) {
      append_engine(element, table, each);
      size_t i = 0;
      element.lines(row_words(table.kind), each.cells, sink,
                    [&](JsonObject& one, const TableCell& cell) {
                      const TableRow& row = table.rows[i++];
                      one.member(row_word(table.kind), row.name);
                      if (!row.digest.empty()) one.member("case", row.digest);
                      append_verdict(one, cell);
                    });
    });
  });
}

TablePart read_table_part(const std::string& path, TableDetail detail, EngineTable::Kind kind) {
  const rapidjson::Document document = read_json_file(path, kMaxTableBytes, kTableHint);
  const JsonNode root(document, path);
  TablePart part;
  part.path = path;
  for (const JsonNode& run : filled_list(root, "runs")) {
    part.runs.push_back({run.at("assay").text(), run.at("time").text(), run.at("command").text()});
  }
  for (const JsonNode& engine : filled_list(root, "engines")) {
    part.columns.push_back(read_column(engine, detail, kind));
  }
  check_sums(root, part, kind);
  check_engines_of_runs(root, part, kind);
  for (TablePart::Column& column : part.columns) {
    for (TableCell& cell : column.cells) cell.change.reset();
  }
  return part;
}

EngineTable combined(const std::vector<TablePart>& parts, const std::vector<TableRow>& rows) {
  EngineTable table;
  table.rows = rows;
  std::vector<std::pair<EngineDeclaration, std::map<std::string, Found>>> engines;
  for (const TablePart& part : parts) {
    table.runs.insert(table.runs.end(), part.runs.begin(), part.runs.end());
    for (const TablePart::Column& column : part.columns) {
      auto place = std::ranges::find_if(
          engines, [&](const auto& each) { return titled(each.first) == titled(column.engine); });
      if (place == engines.end()) {
        engines.emplace_back(column.engine, std::map<std::string, Found>());
        place = std::prev(engines.end());
      }
      if (place->first.digest != column.engine.digest ||
          place->first.precision != column.engine.precision) {
        throw Error(fmt::format("{} was run with another adapter, or precision, than in a file "
                                "before",
                                printable(titled(column.engine), 60)),
                    part.path, "run it again");
      }
      add_cells(part, column, place->second);
    }
  }
  for (auto& [engine, found] : engines)
    table.columns.push_back(column_of(engine, found, rows, table.runs));
  return table;
}

}  // namespace assay
