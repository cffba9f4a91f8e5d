#pragma once

#include "kernels/kernels.h"

// The ops of kernels.h as plain loops that accumulate in double and round once at the end.
namespace assay::reference {

void run(const GetRowsCall& call);
void run(const MatmulCall& call);
void run(const NormCall& call);
void run(const RopeCall& call);
void run(const StoreKvCall& call);
void run(const AttentionCall& call);
void run(const ActivateCall& call);
void run(const AddCall& call);

}  // namespace assay::reference
