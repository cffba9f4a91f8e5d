// What two logs show of two tensors, worked out from the tensors and the logs' forms alone: the
// comparison's own code has no part in it.
#pragma once

#include "tests/compare/proof/form.h"
#include "tests/compare/proof/model_run.h"

namespace assay::proof {

struct Sight {
  bool common = false;    // both state something that the other can be held to
  bool wrong = false;     // what they state differs by far more than any tolerance
  bool whole = false;     // both state the whole tensor, and so does the difference
  double head_error = 0;  // rel_l2 of the values that both log
};

// `ref` and `got` are of the same record. A difference that is neither far below the tolerance of
// 1e-2 nor above a tenth is not `wrong`, nor is one that the forms do not show.
Sight compare_sight(const Network& network, const Tensor& ref, const RecordForm& ref_form,
                    const Tensor& got, const RecordForm& got_form);

// Whether the log says that an element is NaN or an infinity that is no padding.
bool shows_nonfinite(const Network& network, const Tensor& tensor, const RecordForm& form);

}  // namespace assay::proof
