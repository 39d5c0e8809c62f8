#include "heed/recurrent.h"

#include <algorithm>

#include "core/check.h"

namespace heed {
namespace {

/// Rows whose products with W_ih are computed at once.
constexpr Index kPieceRows = 1024;

RecurrentOptions checked(const RecurrentOptions& o) {
  requireAtLeast("inputSize", o.input_size, 1);
  requireAtLeast("hiddenSize", o.hidden_size, 1);
  requireAtLeast("numLayers", o.num_layers, 1);
  requireRoom("weight_ih_l0", {o.gates(), o.hidden_size, o.input_size});
  requireRoom("weight_hh_l0", {o.gates(), o.hidden_size, 2 * o.hidden_size});
  return o;
}

/// Column groups of `width` columns of a matrix of gates.
class Gates {
 public:
  Gates(Evaluator& e, const Value& all, Index width) : e_(e), all_(all), width_(width) {}
  /// The argument of gate i.
  Value argument(Index i) const { return e_.columns(all_, i * width_, width_); }
  Value operator()(Index i, Activation activation) const { return e_.activate(argument(i), activation); }

 private:
  Evaluator& e_;
  const Value& all_;
  Index width_;
};

/// One step of an LSTM from the sum a + b. Updates the cell, which it consumes, and returns h.
Value lstmStep(Evaluator& e, const Value& sum, Index width, Value& cell) {
  const Gates gate(e, sum, width);
  const Value remembered = e.multiply(gate(1, Activation::kSigmoid), cell);
  cell = e.add(remembered, e.multiply(gate(0, Activation::kSigmoid), gate(2, Activation::kTanh)));
  return e.multiply(gate(3, Activation::kSigmoid), e.activate(e.copy(cell), Activation::kTanh));
}

/// One step of a GRU from a and b. Returns the next h.
Value gruStep(Evaluator& e, const Value& a, const Value& b, Index width, const Value& h) {
  const Gates from_input(e, a, width), from_state(e, b, width);
  const auto gate = [&](Index i) {
    return e.activate(e.add(from_input.argument(i), from_state.argument(i)), Activation::kSigmoid);
  };
  const Value n =
      e.activate(e.add(from_input.argument(2), e.multiply(gate(0), from_state.argument(2))), Activation::kTanh);
  const Value z = gate(1);
  // (1 - z) n + z h = n + z h - z n
  const Value forgotten = e.scale(e.multiply(e.copy(z), n), -1);
  return e.add(e.add(n, e.multiply(z, h)), forgotten);
}

Value zeros(Evaluator& e, Index rows, Index columns) {
  MatrixView matrix = e.context().arena.matrix(rows, columns);
  matrix.setZero();
  return e.copy(Value::constant(readOnly(matrix)));
}

}  // namespace

/// N sequences of L positions, one sequence after the other.
struct Recurrent::Batch {
  Index count, length;

  Index rows() const { return count * length; }
  /// The rows of positions [first, first + size) of each sequence.
  std::vector<Index> rowsAt(Index first, Index size) const {
    std::vector<Index> rows;
    for (Index n = 0; n < count; ++n) {
      for (Index t = first; t < first + size; ++t) rows.push_back(n * length + t);
    }
    return rows;
  }
};

Recurrent::Recurrent(const RecurrentOptions& options) : options_(checked(options)) {
  const Index rows = options.gates() * options.hidden_size;
  for (Index layer = 0; layer < options.num_layers; ++layer) {
    const Index width = layer == 0 ? options.input_size : outputWidth();
    for (Index d = 0; d < directions(); ++d) {
      all_.push_back({Linear({.in_features = width, .out_features = rows, .bias = options.bias}),
                      Linear({.in_features = options.hidden_size, .out_features = rows, .bias = options.bias})});
    }
  }
}

Value Recurrent::forward(Evaluator& e, const Value& x, const Sequences& sequences) const {
  requireShape("x", x.values(), sequences.totalRows(), options_.input_size);
  const Batch batch{sequences.count(), sequences.maxLength()};
  if (batch.rows() != sequences.totalRows())
    throwInvalid(ErrorCode::kShapeMismatch, "x", "sequences of equal length", "sequences of different lengths");
  if (batch.rows() == 0) return e.reshape(e.gatherRows(x, {}), 0, outputWidth());
  const Value output = e.unwritten(batch.rows(), outputWidth());
  return output ? infer(e, x, batch, output) : record(e, x, batch);
}

Value Recurrent::infer(Evaluator& e, const Value& x, const Batch& batch, const Value& first_output) const {
  // A layer's output is written over the input of the layer below it.
  Value outputs[2] = {first_output, {}};
  if (options_.num_layers > 1) outputs[1] = e.unwritten(batch.rows(), outputWidth());
  Value input = x;
  for (Index layer = 0; layer < options_.num_layers; ++layer) {
    const Value& output = outputs[layer % 2];
    for (Index d = 0; d < directions(); ++d) inferDirection(e, layer * directions() + d, input, batch, output);
    input = output;
  }
  return input;
}

void Recurrent::inferDirection(Evaluator& e, Index index, const Value& x, const Batch& batch,
                               const Value& output) const {
  const Direction& direction = all_[static_cast<size_t>(index)];
  const Index width = options_.hidden_size, d = index % directions();
  Arena& arena = e.context().arena;
  const Arena::Scope of_direction(arena);
  const Value h = zeros(e, batch.count, width), cell = zeros(e, batch.count, width);
  // The gates' arguments from x take several times the memory of the output, so they are computed for some positions at
  // a time.
  const Index piece = std::clamp<Index>(kPieceRows / batch.count, 1, batch.length);
  for (Index done = 0; done < batch.length; done += piece) {
    const Index size = std::min(piece, batch.length - done), first = d == 1 ? batch.length - done - size : done;
    const Arena::Scope of_piece(arena);
    const Value projected =
        direction.input.forward(e, size == batch.length ? x : e.gatherRows(x, batch.rowsAt(first, size)));
    for (Index i = 0; i < size; ++i) {
      const Index t = d == 1 ? size - 1 - i : i;
      const Arena::Scope of_step(arena);
      Value next_cell = cell;
      const Value a = e.gatherRows(projected, Batch{batch.count, size}.rowsAt(t, 1));
      const Value next = step(e, direction, a, h, next_cell);
      h.view() = next.values();
      cell.view() = next_cell.values();
      for (Index n = 0; n < batch.count; ++n)
        output.view().row(n * batch.length + first + t).segment(d * width, width) = h.values().row(n);
    }
  }
}

Value Recurrent::record(Evaluator& e, const Value& x, const Batch& batch) const {
  const Index length = batch.length;
  Value input = x;
  for (Index layer = 0; layer < options_.num_layers; ++layer) {
    std::vector<Value> states(static_cast<size_t>(directions() * length));
    for (Index d = 0; d < directions(); ++d)
      recordDirection(e, layer * directions() + d, input, batch, std::span(states).subspan(d * length, length));
    input = ordered(e, states, batch);
  }
  return input;
}

void Recurrent::recordDirection(Evaluator& e, Index index, const Value& x, const Batch& batch,
                                std::span<Value> states) const {
  const Direction& direction = all_[static_cast<size_t>(index)];
  Value h = zeros(e, batch.count, options_.hidden_size), cell = zeros(e, batch.count, options_.hidden_size);
  const Value projected = direction.input.forward(e, x);
  for (Index i = 0; i < batch.length; ++i) {
    const Index t = index % directions() == 1 ? batch.length - 1 - i : i;
    states[static_cast<size_t>(t)] = h = step(e, direction, e.gatherRows(projected, batch.rowsAt(t, 1)), h, cell);
  }
}

Value Recurrent::step(Evaluator& e, const Direction& direction, const Value& a, const Value& h, Value& cell) const {
  if (options_.cell == RecurrentOptions::Cell::kLstm)
    return lstmStep(e, direction.recurrent.forward(e, h, &a), options_.hidden_size, cell);
  return gruStep(e, a, direction.recurrent.forward(e, h), options_.hidden_size, h);
}

Value Recurrent::ordered(Evaluator& e, std::span<const Value> states, const Batch& batch) const {
  // Reorders the rows (direction, position, sequence) to (sequence, position, direction).
  const Index width = directions(), rows = batch.rows();
  std::vector<Index> order(static_cast<size_t>(rows * width));
  Index* next = order.data();
  for (Index n = 0; n < batch.count; ++n) {
    for (Index t = 0; t < batch.length; ++t) {
      for (Index d = 0; d < width; ++d) *next++ = (d * batch.length + t) * batch.count + n;
    }
  }
  return e.reshape(e.gatherRows(e.concatenateRows(states), std::move(order)), rows, outputWidth());
}

std::vector<Parameter> Recurrent::ownParameters() {
  const InitialValue initial = InitialValue::linear(options_.hidden_size);
  std::vector<Parameter> own;
  for (size_t i = 0; i < all_.size(); ++i) {
    const auto number = static_cast<Index>(i);
    const std::string suffix = "_l" + std::to_string(number / directions()) + (number % directions() ? "_reverse" : "");
    std::vector<Parameter> input = all_[i].input.ownParameters(), recurrent = all_[i].recurrent.ownParameters();
    for (size_t k = 0; k < input.size(); ++k) {
      for (auto& [part, name] : {std::pair{&input[k], "_ih"}, {&recurrent[k], "_hh"}}) {
        part->name += name + suffix;
        part->initial = initial;
        own.push_back(std::move(*part));
      }
    }
  }
  return own;
}

}  // namespace heed
