#pragma once

#include "assay/compare/matrix.h"
#include "assay/report/report.h"

namespace assay {

// table: models and types down, engines across: the verdict and the worst rel_l2 of each. Where
// that is wider than the style has room for, a line for each run: no engine is left out.
// json: {"pass", "engines", "rows": [{"model", "type", "prompt", "reference", "cells": [{"engine",
// "log", "reference", "verdict", "pass", ..., "problem"}]}], "left_out"}
Reports<RunMatrix> matrix_reports();

}  // namespace assay
