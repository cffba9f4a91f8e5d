#pragma once

#include <cstdint>
#include <optional>

#include "assay/compare/record_view.h"
#include "assay/log/record.h"

namespace assay {

// What both logs say of a tensor, or one lets us compute, and so was held together.
struct SharedFacts {
  bool all_values = false;
  bool head = false;     // values of both, not all of them zero
  bool sketch = false;   // and it tells of more than the padding of logits
  bool summary = false;  // norm, mean or an extreme
  bool top = false;      // one of the largest elements, by its index
  bool zeros = false;    // a norm of 0 on both sides: of all elements

  bool any() const { return all_values || head || sketch || summary || top || zeros; }
};

// How far a tensor is from its reference. All sums are in double; where NaN or unequal infinities
// were met every distance is NaN, which passes no test.
struct Metrics {
  int64_t n = 0;         // elements of the whole tensor
  int64_t compared = 0;  // of them, those whose values were compared
  int64_t listed = 0;    // further ones that both hold, at least one of them in a list
  double max_abs = 0;
  double mean_abs = 0;
  double rms = 0;      // of the differences
  double ref_rms = 0;  // of the reference: the whole tensor's, or where that is not known, of the
                       // values that were compared
  double rel_l2 = 0;   // ||a - b|| / ||a|| with a the reference; of the whole tensor, see below
  double cosine = 1;
  double nmse = 0;      // rel_l2 squared
  int64_t max_ulp = 0;  // 32-bit floats between the two values, at most
  int64_t sign_flips = 0;
  int64_t nonfinite = 0;  // elements where a NaN or unequal infinities were met
  bool unclear_nonfinite =
      false;  // some may be infinite on one side and NaN or finite on the other
  SharedFacts facts;
  bool cut = false;        // the two have not as many elements: of the longer the first count
  bool all_zero = false;   // nothing but zeros on both sides, as far as is known
  bool identical = false;  // everything that is known of both is equal
  bool is_logits = false;  // argmax_ref and the like were asked for
  bool in_nats = false;    // logits, of which one side holds log-probabilities
  std::optional<double> listed_nats;  // root mean square of a list of log-probabilities
  // In nats, and the constant between the two is not known: they are compared but for a constant.
  bool fitted_constant = false;
  bool called_log_probabilities = false;  // one of the two is called logprobs
  double unclear_rel_l2 = 0;  // which an error may have, or the rounding of padding beside it
  bool padded = false;        // sums tell nothing: the norm is that of padding, or of garbage
  std::optional<int64_t> argmax_ref;
  std::optional<int64_t> argmax_got;
  std::optional<double> regret;        // ref[argmax_ref] - ref[argmax_got]
  std::optional<double> min_regret;    // where that element of the reference is not logged
  bool level = false;                  // got[argmax_ref] is got[argmax_got]: rounding made them one
  std::optional<double> kl;            // D(ref || got) in nats over the softmax
  std::optional<double> topk_overlap;  // share of the five largest that both have
  double observed_error = 0;           // the largest difference known, in the units of the values
  // What the largest difference of the whole tensors is at least: observed_error, and where values
  // are missing the root mean square that rel_l2 stands for.
  double max_abs_lower_bound = 0;
};

// Compares two records of the same tensor.
//
// Where either lacks values, those that both hold are compared and rel_l2 is the worst of what is
// known of the whole: the head's, taken against the norm that a head of its length has in this
// tensor, and the bounds of difference_bounds.h. `is_logits` asks for the metrics that only logits
// have: argmax, regret, kl, topk_overlap; the norm of logits is taken without what their padding
// has of it.
//
// Of records of unequal size the first elements are compared, but the argmax of logits is that of
// all elements: argmax_ref or argmax_got may be n or more. A NaN or +Infinity among the further
// ones counts.
Metrics compare_records(const Record& ref, const Record& got, bool is_logits,
                        const SetAside& set_aside = {});

// Logits from which values were excluded choose from all others: sets argmax_ref, argmax_got and
// regret to what each record that has all values says when only `ref_out` and `got_out`, its own
// garbage, is left out of it. What one chooses is not known where its garbage hides the element
// that the other chooses.
void choose_from_all(const Record& ref, const Record& got, std::span<const int64_t> ref_out,
                     std::span<const int64_t> got_out, Metrics& metrics);

}  // namespace assay
