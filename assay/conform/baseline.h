#pragma once

#include "assay/conform/engine_table.h"
#include "assay/conform/table_json.h"

namespace assay {

// Holds each cell to what `baseline` has of the engine of the same name, whatever its version, and
// of the same case: what is as bad as it was there does not fail the table. Throws Error that names
// the file if an engine of the table is missing there, or is there twice.
void hold_to(const TablePart& baseline, EngineTable& table);

}  // namespace assay
