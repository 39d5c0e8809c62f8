#pragma once

#include <span>
#include <vector>

#include "heed/evaluator.h"
#include "heed/linear.h"
#include "heed/module.h"

namespace heed {

struct RecurrentOptions {
  enum class Cell {
    kLstm,  ///< long short-term memory (Hochreiter, Schmidhuber 1997)
    kGru,   ///< gated recurrent unit (Cho et al. 2014, arXiv:1406.1078)
  };
  Cell cell;
  Index input_size;      ///< I
  Index hidden_size;     ///< H
  Index num_layers = 1;  ///< stacked; each reads the outputs of the one below
  bool bias = true;
  bool bidirectional = false;  ///< a second direction reads each sequence from its end

  /// The number of gates: 4 in an LSTM, 3 in a GRU.
  Index gates() const { return cell == Cell::kLstm ? 4 : 3; }
};

/// Recurrent layers, torch.nn.LSTM and torch.nn.GRU with batch_first, starting from zeros. With a = W_ih x_t + b_ih and
/// b = W_hh h + b_hh, whose rows are those of the gates, and the logistic function s:
///
///   LSTM  i, f, o = s(a + b), g = tanh(a + b); c <- f c + i g; h <- o tanh(c); gates in the order i, f, g, o
///   GRU   r, z = s(a + b), n = tanh(a + r b); h <- (1 - z) n + z h; gates in the order r, z, n
///
/// Notation: T rows of all sequences, G gates, D directions. Parameters of layer l: weight_ih_l{l} (G H, I; above the
/// first layer D H), weight_hh_l{l} (G H, H), bias_ih_l{l}, bias_hh_l{l} (G H), and those of the second direction with
/// the suffix _reverse.
class Recurrent : public Module {
 public:
  explicit Recurrent(const RecurrentOptions& options);
  /// x (T, I), the result (T, D H): the hidden state of the forward direction at each row, then that of the other.
  /// All sequences must have the same length. Throws kShapeMismatch.
  Value forward(Evaluator& e, const Value& x, const Sequences& sequences) const;
  const RecurrentOptions& options() const { return options_; }
  /// D H.
  Index outputWidth() const { return directions() * options_.hidden_size; }

 private:
  struct Batch;
  struct Direction {
    Linear input;      // W_ih, b_ih
    Linear recurrent;  // W_hh, b_hh
  };

  Index directions() const { return options_.bidirectional ? 2 : 1; }
  /// Overwrites hidden states and gates from step to step. Writes the first layer's output to `first_output` (T, D H).
  Value infer(Evaluator& e, const Value& x, const Batch& batch, const Value& first_output) const;
  /// Writes the hidden states of all_[index], one direction of one layer, to its columns of `output`.
  void inferDirection(Evaluator& e, Index index, const Value& x, const Batch& batch, const Value& output) const;
  /// Keeps the results of all steps, because they are recorded.
  Value record(Evaluator& e, const Value& x, const Batch& batch) const;
  /// Sets states[t] to the hidden states of all_[index] at position t of all sequences (N, H).
  void recordDirection(Evaluator& e, Index index, const Value& x, const Batch& batch, std::span<Value> states) const;
  /// One step of all sequences from a (N, G H). Returns the next h; replaces the cell of an LSTM, without writing to
  /// it.
  Value step(Evaluator& e, const Direction& direction, const Value& a, const Value& h, Value& cell) const;
  /// The states of all directions as (T, D H).
  Value ordered(Evaluator& e, std::span<const Value> states, const Batch& batch) const;
  std::vector<Parameter> ownParameters() override;

  RecurrentOptions options_;
  std::vector<Direction> all_;  // layer by layer
};

}  // namespace heed
