// What is computed anew where an op of a chain goes wrong.
#include "assay/causes/chain.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/causes/logits_logs.h"

namespace assay {
namespace {

using causes::Chain;
using mistakes::Inputs;
using mistakes::Matrix;
using mistakes::Network;
using mistakes::Op;

// From the tokens to the logits.
class ChainOfLogits : public LogitsLogs {
 protected:
  struct Run {
    Matrix logits;
    double work = 0;
  };

  // With all rows of an op from a position on multiplied by 1.5.
  Run run(const Chain& chain, Op op, int64_t position) {
    Run result;
    const auto wrong = [&](Op at, const Inputs& inputs, size_t) {
      return times(network_.compute(at, inputs), position, inputs.positions);
    };
    result.logits = chain.run({op}, wrong, 1, 0, result.work).front();
    return result;
  }

  // The same, every op at every position.
  Matrix run_whole(const Chain& chain, Op wrong, int64_t position) {
    std::map<Op, std::shared_ptr<const Matrix>> all;
    for (const Op op : chain.ops()) {
      Inputs inputs = chain.inputs(op);
      for (size_t i = 0; i < inputs.rows.size(); ++i) {
        const Matrix& known = *all.at(network_.inputs(op)[i]);
        EXPECT_GE(known.rows, inputs.rows[i]->rows);
        inputs.rows[i] = &known;
      }
      Matrix values = network_.compute(op, inputs);
      if (op == wrong) values = times(std::move(values), position, inputs.positions);
      all[op] = std::make_shared<const Matrix>(std::move(values));
    }
    return *all.at(chain.ops().back());
  }

  static Matrix times(Matrix values, int64_t position, const std::vector<int64_t>& positions) {
    for (int64_t row = 0; row < values.rows; ++row) {
      if (positions[static_cast<size_t>(row)] < position) continue;
      for (int64_t i = 0; i < values.columns; ++i) values.row(row)[i] *= 1.5F;
    }
    return values;
  }

  Comparison comparison() {
    Negated negated(Checkpoint::kV);
    return compare(nullptr, log(logits_of(*model_, *make_reference_kernels()), "ref", form_),
                   log(logits_of(*model_, negated), "got", form_));
  }

  static constexpr LogitsForm form_ = LogitsForm::kAll;
  const std::shared_ptr<Model> model_ = load("tinyllama");
  const Network network_ = Network::of_model(*model_, std::ssize(tokens_));
  const std::vector<int64_t> all_ = [] {
    std::vector<int64_t> all(tokens_.size());
    std::iota(all.begin(), all.end(), int64_t{0});
    return all;
  }();
};

bool same_bits(const Matrix& a, const Matrix& b) {
  return a.values.size() == b.values.size() && !a.empty() &&
         std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}

// Breaks if a row that a wrong one reaches were taken as it should be.
TEST_F(ChainOfLogits, ComputesTheRowsThatCanDiffer) {
  const Comparison compared = comparison();
  causes::TensorStore store(compared);
  const Chain chain(network_, store, {Checkpoint::kLogits, -1}, all_);
  ASSERT_TRUE(chain.complete()) << chain.missing();
  chain.base();
  for (const Op op : {Op{Checkpoint::kEmbedding, -1}, Op{Checkpoint::kV, 0},
                      Op{Checkpoint::kAttn, 0}, Op{Checkpoint::kFfnGate, 0}, Op{Checkpoint::kK, 1},
                      Op{Checkpoint::kOutput, 1}, Op{Checkpoint::kLogits, -1}}) {
    for (const int64_t position : {0, 1, 13, 21}) {
      EXPECT_TRUE(same_bits(run(chain, op, position).logits, run_whole(chain, op, position)))
          << op.name() << " from " << position;
      EXPECT_FALSE(same_bits(run(chain, op, position).logits, chain.base()))
          << op.name() << " from " << position;
    }
  }
}

// Work that grows with the rows before those that can differ is what makes a search over a long
// prompt take minutes.
TEST_F(ChainOfLogits, ComputesNoRowThatCannot) {
  const Comparison compared = comparison();
  causes::TensorStore store(compared);
  const Chain chain(network_, store, {Checkpoint::kLogits, -1}, all_);
  const Op op{Checkpoint::kV, 0};
  const double all = run(chain, op, 0).work;
  const double alone = run(chain, op, std::ssize(tokens_)).work;  // nothing changes
  const auto rows = static_cast<double>(tokens_.size());
  EXPECT_NEAR(run(chain, op, std::ssize(tokens_) - 1).work - alone, (all - alone) / rows,
              1e-9 * all);
  EXPECT_LT(alone, 0.1 * all);
}

}  // namespace
}  // namespace assay
