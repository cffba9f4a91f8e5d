#pragma once

#include "assay/compare/matrix.h"
#include "assay/report/text_sink.h"
#include "assay/report/text_table.h"

namespace assay {

// Models and types down, engines across: the verdict and the worst rel_l2 of each. Where that is
// wider than `style` has room for, a line for each run: no engine is left out.
void write_table(const RunMatrix& matrix, const TextStyle& style, const TextSink& sink);

// {"pass", "engines", "rows": [{"model", "type", "prompt", "reference", "cells": [{"engine", "log",
// "reference", "verdict", "pass", ..., "problem"}]}], "left_out"}
void write_json(const RunMatrix& matrix, const TextSink& sink);

}  // namespace assay
