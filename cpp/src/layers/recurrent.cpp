#include "heed/recurrent.h"

#include <algorithm>
#include <optional>

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

}  // namespace

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
  const Index count = sequences.count(), length = sequences.maxLength(), rows = count * length, width = directions();
  if (rows != sequences.totalRows())
    throwInvalid(ErrorCode::kShapeMismatch, "x", "sequences of equal length", "sequences of different lengths");
  if (rows == 0) return e.reshape(e.gatherRows(x, {}), 0, outputWidth());
  // A layer's output is written over the input of the layer below it.
  Value outputs[2];
  for (Index i = 0; i < std::min<Index>(2, options_.num_layers); ++i) outputs[i] = e.unwritten(rows, outputWidth());
  Value input = x;
  for (Index layer = 0; layer < options_.num_layers; ++layer) {
    const Value& output = outputs[layer % 2];
    std::vector<Value> states(output ? 0 : static_cast<size_t>(width * length));
    for (Index d = 0; d < width; ++d) {
      const std::span<Value> of_direction = output ? std::span<Value>{} : std::span(states).subspan(d * length, length);
      run(e, layer * width + d, input, count, length, output, of_direction);
    }
    input = output ? output : ordered(e, states, count, length);
  }
  return input;
}

Value Recurrent::ordered(Evaluator& e, std::span<const Value> states, Index count, Index length) const {
  // Reorders the rows (direction, position, sequence) to (sequence, position, direction).
  const Index width = directions(), rows = count * length;
  std::vector<Index> order(static_cast<size_t>(rows * width));
  Index* next = order.data();
  for (Index n = 0; n < count; ++n) {
    for (Index t = 0; t < length; ++t) {
      for (Index d = 0; d < width; ++d) *next++ = (d * length + t) * count + n;
    }
  }
  return e.reshape(e.gatherRows(e.concatenateRows(states), std::move(order)), rows, outputWidth());
}

void Recurrent::run(Evaluator& e, Index index, const Value& x, Index count, Index length, const Value& output,
                    std::span<Value> states) const {
  const Direction& direction = all_[static_cast<size_t>(index)];
  const Index width = options_.hidden_size, d = index % directions();
  Arena& arena = e.context().arena;
  std::optional<Arena::Scope> of_run;
  if (output) of_run.emplace(arena);
  // The rows of positions [first, first + size) of each sequence.
  const auto rows_of = [&](Index first, Index size, Index of_length) {
    std::vector<Index> rows;
    for (Index n = 0; n < count; ++n) {
      for (Index t = first; t < first + size; ++t) rows.push_back(n * of_length + t);
    }
    return rows;
  };
  const auto zeros = [&] {
    MatrixView matrix = arena.matrix(count, width);
    matrix.setZero();
    return e.copy(Value::constant(readOnly(matrix)));
  };
  Value h = zeros(), cell = zeros();
  // The gates' arguments from x take several times the memory of the output, so they are computed for some positions at
  // a time, unless operations are recorded.
  const Index piece = output ? std::clamp<Index>(kPieceRows / count, 1, length) : length;
  for (Index done = 0; done < length; done += piece) {
    const Index size = std::min(piece, length - done), first = d == 1 ? length - done - size : done;
    std::optional<Arena::Scope> of_piece;
    if (output) of_piece.emplace(arena);
    const Value projected =
        direction.input.forward(e, size == length ? x : e.gatherRows(x, rows_of(first, size, length)));
    for (Index step = 0; step < size; ++step) {
      const Index t = d == 1 ? size - 1 - step : step;
      std::optional<Arena::Scope> of_step;
      if (output) of_step.emplace(arena);
      const Value a = e.gatherRows(projected, rows_of(t, 1, size));
      Value next_cell = cell;
      const Value next = options_.cell == RecurrentOptions::Cell::kLstm
                             ? lstmStep(e, direction.recurrent.forward(e, h, &a), width, next_cell)
                             : gruStep(e, a, direction.recurrent.forward(e, h), width, h);
      if (!output) {
        states[static_cast<size_t>(first + t)] = h = next;
        cell = next_cell;
        continue;
      }
      h.view() = next.values();
      cell.view() = next_cell.values();
      for (Index n = 0; n < count; ++n)
        output.view().row(n * length + first + t).segment(d * width, width) = h.values().row(n);
    }
  }
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
