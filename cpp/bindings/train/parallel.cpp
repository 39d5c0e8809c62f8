#include <emscripten/bind.h>

#include "graph.h"

/// Parts of a batch in several instances of the module: gradients that travel between them, and the position of a part
/// in its batch.
namespace heed::bindings {
namespace {

/// RawGradient: null before any backward pass has reached the parameter; otherwise { rows, values }, where `rows` is an
/// Int32Array of the rows of a table that were looked up, or null for all.
val takeGradient(BoundGradients& bound, unsigned parameter) {
  return guarded([&] {
    train::ParameterGradients& gradients = bound.gradients();
    if (!gradients.hasGradient(parameter)) return val::null();
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
    const Index width = gradients.parameters()[parameter].rowSize();
    if (part["rows"].isNull())
      return gradients.add(parameter, 0, static_cast<Index>(values.size()) / std::max<Index>(width, 1), values.data());
    const float* next = values.data();
    for (const Index row : readArray<Index>(part["rows"])) {
      view(gradients.row({parameter, 0, 0}, row), 1, width) += view(next, 1, width);
      next += width;
    }
  });
}

/// The position in its batch of the first sequence and row of the next call, which dropout draws for.
void setPosition(double sequence, double row) {
  context().random = {static_cast<Index>(sequence), static_cast<Index>(row)};
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_parallel) {
  emscripten::function("takeGradient", &takeGradient);
  emscripten::function("addGradient", &addGradient);
  emscripten::function("setPosition", &setPosition);
}

}  // namespace heed::bindings
