#pragma once

#include <string>
#include <vector>

#include "assay/conform/engine_table.h"
#include "assay/report/report_context.h"
#include "assay/report/text_sink.h"

namespace assay {

// What a row is, in the words of the two tables: "feature" or "surface".
const char* row_word(EngineTable::Kind kind);

// {"pass","runs":[{"assay","time","command"}],"engines":[{"name","version","precision","adapter",
// "counts":{...},"features":[{"feature","group","title","states","case","verdict","cause","text",
// "checkpoint","rel_l2","from_explained","from_nearest_mistake","positions","positions_whole","positions_total","values","first_divergence","log",
// "compare","command","seconds"}]}]}; of invariance "surfaces" and "surface" in place of "features"
// and "feature". "adapter" and "case" are SHA-256 of what was run. Held to a baseline, the table
// has "baseline", the file, and each feature "change" and "before".
std::string engine_table_json(const EngineTable& table, const ReportContext& context);

// The same with what a baseline needs alone, a line each feature: no text, and nothing of the
// machine.
void write_engine_table_baseline(const EngineTable& table, const ReportContext& context,
                                 const TextSink& sink);

// The cells of one such file.
struct TablePart {
  std::string path;
  std::vector<TableRun> runs;
  struct Column {
    EngineDeclaration engine;  // name, version, precision and digest
    std::vector<TableRow> rows;
    std::vector<TableCell> cells;  // of each row
  };
  std::vector<Column> columns;
};

enum class TableDetail : uint8_t {
  kAll,       // what engine_table_json() writes
  kVerdicts,  // what a baseline needs, which both have
};

// Throws Error that names the file and the key.
TablePart read_table_part(const std::string& path, TableDetail detail, EngineTable::Kind kind);

// One table of several runs, with these rows. Throws Error, which says what to run again, where a
// cell is missing, twice there, or of another case than the row has.
EngineTable combined(const std::vector<TablePart>& parts, const std::vector<TableRow>& rows);

}  // namespace assay
