#include "heed/recurrent.h"

#include "core/check.h"

namespace heed {
namespace {

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
  const Value kept = e.multiply(gate(1, Activation::kSigmoid), cell);
  cell = e.add(kept, e.multiply(gate(0, Activation::kSigmoid), gate(2, Activation::kTanh)));
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
  Value input = x;
  for (size_t layer = 0; layer < all_.size(); layer += static_cast<size_t>(width)) {
    std::vector<Value> states(static_cast<size_t>(width * length));
    for (Index d = 0; d < width; ++d)
      run(e, all_[layer + static_cast<size_t>(d)], d == 1, input, count, length,
          &states[static_cast<size_t>(d * length)]);
    // Reorders the rows (direction, position, sequence) to (sequence, position, direction).
    std::vector<Index> order(static_cast<size_t>(rows * width));
    Index* next = order.data();
    for (Index n = 0; n < count; ++n) {
      for (Index t = 0; t < length; ++t) {
        for (Index d = 0; d < width; ++d) *next++ = (d * length + t) * count + n;
      }
    }
    input = e.reshape(e.gatherRows(e.concatenateRows(states), std::move(order)), rows, outputWidth());
  }
  return input;
}

void Recurrent::run(Evaluator& e, const Direction& direction, bool reverse, const Value& x, Index count, Index length,
                    Value* states) const {
  const Index width = options_.hidden_size;
  const Value projected = direction.input.forward(e, x);
  MatrixView zeros = e.context().arena.matrix(count, width);
  zeros.setZero();
  Value h = e.copy(Value::constant(readOnly(zeros))), cell = h;
  for (Index step = 0; step < length; ++step) {
    const Index t = reverse ? length - 1 - step : step;
    std::vector<Index> rows(static_cast<size_t>(count));
    for (Index n = 0; n < count; ++n) rows[static_cast<size_t>(n)] = n * length + t;
    const Value a = e.gatherRows(projected, std::move(rows));
    h = options_.cell == RecurrentOptions::Cell::kLstm ? lstmStep(e, direction.recurrent.forward(e, h, &a), width, cell)
                                                       : gruStep(e, a, direction.recurrent.forward(e, h), width, h);
    states[t] = h;
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
