#include <emscripten/bind.h>

#include "core/check.h"
#include "graph.h"

/// Data-parallel training: instances of the module compute parts of a batch and exchange gradients.
namespace heed::bindings {
namespace {

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

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_parallel) {
  emscripten::function("takeGradient", &takeGradient);
  emscripten::function("addGradient", &addGradient);
}

}  // namespace heed::bindings
