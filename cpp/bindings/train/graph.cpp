#include "graph.h"

#include <emscripten/bind.h>

#include "core/check.h"
#include "heed/train/ops.h"
#include "ops/broadcast.h"

namespace heed::bindings {

val BoundVariable::value() const {
  return guarded([&] { return writeTensor(shape_, variable_.value().data()); });
}

val BoundVariable::gradient() const {
  return guarded([&] {
    const train::Matrix& gradient = variable_.node()->gradient;
    if (gradient.data()) return writeTensor(shape_, gradient.data());
    float* zeros = arena().take<float>(shape_.size());
    std::fill_n(zeros, shape_.size(), 0.0f);
    return writeTensor(shape_, zeros);
  });
}

val BoundGradients::read(unsigned parameter) const {
  return guarded([&] {
    if (!gradients_.hasGradient(parameter)) return val::null();
    const Parameter& whole = gradients_.parameters()[parameter];
    float* values = arena().take<float>(whole.shape.size());
    gradients_.read(parameter, 0, whole.rows(), values);
    return writeFloats(values, whole.shape.size());
  });
}

BoundVariable* made(const Shape& shape, const Variable& variable) { return new BoundVariable(shape, variable); }
BoundVariable* made(const Variable& variable) { return made({variable.rows(), variable.cols()}, variable); }

void requireSame(const char* argument, const Shape& got, const Shape& expected) {
  requireShape(argument, got, expected);
}

BoundVariable* readHandle(const val& value) {
  if (value.isNull() || value.isUndefined()) return nullptr;
  return value.as<BoundVariable*>(emscripten::allow_raw_pointers());
}

Variable readVariable(const val& value) {
  const BoundVariable* handle = readHandle(value);
  return handle ? handle->variable() : Variable();
}

Variable asRow(train::Graph& graph, const BoundVariable& variable) {
  const Variable& v = variable.variable();
  return v.rows() == 1 ? v : train::reshape(graph, v, 1, variable.shape().size());
}

Shape axes(const Shape& shape, Index first, Index last) {
  const std::vector<Index>& extents = shape.extents();
  return Shape(std::vector<Index>(extents.begin() + first, extents.begin() + last));
}

Variable broadcast(train::Graph& graph, const BoundVariable& x, const Shape& target) {
  const Shape& shape = x.shape();
  if (shape == target) return x.variable();
  // Repeat whole rows if the last axis is not repeated.
  if (shape.rank() > 0 && shape[-1] == target[-1]) {
    return train::gatherRows(graph, x.variable(),
                             broadcastSources(axes(shape, 0, shape.rank() - 1), axes(target, 0, target.rank() - 1)));
  }
  const Variable elements = train::reshape(graph, x.variable(), shape.size(), 1);
  const Variable repeated = train::gatherRows(graph, elements, broadcastSources(shape, target));
  return train::reshape(graph, repeated, target.rows(), target.columns());
}

namespace {

train::Matrix readMatrix(const val& tensor, Shape& shape) {
  const Input input = readTensor(tensor);
  shape = input.shape;
  return train::Matrix(view(static_cast<const float*>(input.data), shape.rows(), shape.columns()));
}

BoundVariable* leafOf(BoundGraph& graph, const val& tensor, bool needs_gradient) {
  return guarded([&] {
    Shape shape;
    train::Matrix value = readMatrix(tensor, shape);
    return made(shape, graph.graph().leaf(std::move(value), needs_gradient));
  });
}

/// Records a result that JavaScript computed from `inputs`, an array of handles. BoundPass::proceed() returns
/// `external` when the backward pass reaches the result.
BoundVariable* externalOf(BoundGraph& graph, const val& tensor, const val& inputs, const val& external) {
  return guarded([&] {
    Shape shape;
    train::Matrix value = readMatrix(tensor, shape);
    std::vector<Variable> variables;
    const auto count = inputs["length"].as<unsigned>();
    for (unsigned i = 0; i < count; ++i) variables.push_back(readVariable(inputs[i]));
    return made(shape, graph.graph().recordExternal(std::move(value), variables, std::make_shared<val>(external)));
  });
}

/// Implements RawPass: a backward pass that stops at nodes whose gradients JavaScript computes.
class BoundPass {
 public:
  BoundPass(train::Graph& graph, const Variable& output, train::Matrix&& seed)
      : pass_(graph, output, std::move(seed)) {}

  /// Runs to the next stop. Returns null at the end, otherwise { external, gradient: Float32Array }.
  val proceed() {
    return guarded([&] {
      train::Matrix gradient;
      node_ = nullptr;
      node_ = pass_.proceed(gradient);
      if (!node_) return val::null();
      val stop = val::object();
      stop.set("external", *static_cast<const val*>(node_->external.get()));
      stop.set("gradient", writeFloats(gradient.data(), gradient.rows() * gradient.cols()));
      return stop;
    });
  }

  /// Whether input `i` of the node at which the pass stopped needs a gradient.
  bool wants(unsigned i) const { return i < node_->inputs.size() && node_->inputs[i] != nullptr; }

  /// Adds the gradient of input `i` of that node, a RawTensor of the input's shape.
  void give(unsigned i, const val& tensor) {
    guarded([&] {
      Shape shape;
      train::Matrix gradient = readMatrix(tensor, shape);
      const std::shared_ptr<train::Node>& input = node_->inputs.at(i);
      if (input) requireShape("gradient", gradient.values(), input->rows, input->columns);
      pass_.give(input, std::move(gradient));
    });
  }

 private:
  train::Backward pass_;
  std::shared_ptr<train::Node> node_;
};

/// Begins the backward pass from `output`. `cotangent`: a RawTensor of its shape; null: ones.
BoundPass* backwardOf(BoundGraph& graph, const BoundVariable& output, const val& cotangent) {
  return guarded([&] {
    const Variable& variable = output.variable();
    if (cotangent.isNull()) {
      train::Matrix ones(variable.rows(), variable.cols());
      ones.view().setOnes();
      return new BoundPass(graph.graph(), variable, std::move(ones));
    }
    Shape shape;
    train::Matrix seed = readMatrix(cotangent, shape);
    requireSame("cotangent", shape, output.shape());
    return new BoundPass(graph.graph(), variable, std::move(seed));
  });
}

void addGradients(BoundGraph& graph, BoundGradients& gradients) { graph.graph().add(gradients.gradients()); }
void forgetGradients(BoundGraph& graph, BoundGradients& gradients) { graph.graph().forget(gradients.gradients()); }
void invalidate(BoundGraph& graph) { graph.graph().invalidate(); }

/// For data-parallel training, in which instances of the module compute parts of a batch and exchange gradients.
/// Returns a RawGradient: null if no backward pass has reached the parameter, otherwise { rows, values }. `rows` is an
/// Int32Array of the rows of a table that were looked up, or null for all rows.
val takeGradient(BoundGradients& bound, unsigned parameter) {
  return guarded([&] {
    train::ParameterGradients& gradients = bound.gradients();
    if (!gradients.hasGradient(parameter)) return val::null();
    gradients.requireWhole(parameter);
    const train::ParameterGradients::Entry& entry = gradients.entry(parameter);
    val part = val::object();
    if (entry.dense.data()) {
      part.set("rows", val::null());
      part.set("values", writeFloats(entry.dense.data(), entry.dense.rows() * entry.dense.cols()));
      return part;
    }
    const std::vector<int32_t> rows(entry.rows.order.begin(), entry.rows.order.end());
    part.set("rows", val(emscripten::typed_memory_view(rows.size(), rows.data())).call<val>("slice"));
    part.set("values", writeFloats(entry.rows.values.data(), static_cast<Index>(entry.rows.values.size())));
    return part;
  });
}

/// Adds a RawGradient of the same parameter.
void addGradient(BoundGradients& bound, unsigned parameter, const val& part) {
  guarded([&] {
    train::ParameterGradients& gradients = bound.gradients();
    const std::span<float> values = readArray<float>(part["values"]);
    const Parameter& whole = gradients.parameters()[parameter];
    const Index width = whole.rowSize();
    if (part["rows"].isNull()) {
      requireCount("gradient", values.size(), whole.shape.size());
      return gradients.add(parameter, 0, whole.rows(), values.data());
    }
    const auto rows = readArray<Index>(part["rows"]);
    requireCount("gradient", values.size(), Shape{static_cast<Index>(rows.size()), width}.size());
    const float* next = values.data();
    for (const Index row : rows) {
      requireRange("gradient", row, 0, whole.rows() - 1);
      gradients.row({parameter, 0, 0}, row);  // allocates all rows before it adds to any
    }
    for (const Index row : rows) {
      view(gradients.row({parameter, 0, 0}, row), 1, width) += view(next, 1, width);
      next += width;
    }
  });
}

BoundGradients* makeGradients(BoundModule& module) {
  return guarded([&] { return new BoundGradients(module); });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_graph) {
  using emscripten::allow_raw_pointers;
  using emscripten::class_;
  class_<BoundVariable>("Variable")
      .constructor<>()
      .function("value", &BoundVariable::value)
      .function("gradient", &BoundVariable::gradient)
      .function("needsGradient", &BoundVariable::needsGradient);
  class_<BoundGradients>("Gradients")
      .constructor(&makeGradients, allow_raw_pointers())
      .function("isBuffer", &BoundGradients::isBuffer)
      .function("requiresGradient", &BoundGradients::requiresGradient)
      .function("setRequiresGradient", &BoundGradients::setRequiresGradient)
      .function("read", &BoundGradients::read)
      .function("sumOfSquares", &BoundGradients::sumOfSquares)
      .function("scale", &BoundGradients::scale)
      .function("zero", &BoundGradients::zero);
  class_<BoundPass>("Pass")
      .function("proceed", &BoundPass::proceed)
      .function("wants", &BoundPass::wants)
      .function("give", &BoundPass::give);
  class_<BoundGraph>("Graph")
      .constructor<>()
      .function("leaf", &leafOf, allow_raw_pointers())
      .function("external", &externalOf, allow_raw_pointers())
      .function("add", &addGradients)
      .function("forget", &forgetGradients)
      .function("invalidate", &invalidate)
      .function("backward", &backwardOf, allow_raw_pointers());
  emscripten::function("takeGradient", &takeGradient);
  emscripten::function("addGradient", &addGradient);
}

}  // namespace heed::bindings
