/// Edits of a site, Y = e(X, A) with the operand A, where S is the selection of the edit:
///
///   Y = A * X   dX = A * dY in S, dA = sum of dY * X over the values of S that an entry of A belongs to
///   Y = X + A   dX = dY, dA = sum of dY
///   Y = A       dX = 0 in S, dA = sum of dY
///
/// Means, and values that a map changes, are constants. dX = dY where a map does not change a value.
#include "heed/train/sites.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "heed/train/graph.h"

namespace heed::train {

bool RecordedSites::touchesLayer(Index layer) const {
  const auto is_own = [layer](const auto& each) { return each.layer == layer; };
  return std::ranges::any_of(edits(), is_own) || std::ranges::any_of(reads(), is_own);
}

Variable RecordedSites::visit(Graph& graph, Site site, const Variable& x, Index heads) {
  const MatrixView rows = Value::constant(x.value()).view();
  return visit(graph, site, x, valuesOf(site, rows, heads));
}

Variable RecordedSites::visitMatrices(Graph& graph, Site site, const Variable& x, Index heads) {
  return visit(graph, site, x, matricesOf(nullptr, heads));
}

Variable RecordedSites::visit(Graph& graph, Site site, Variable x, const SiteValues& values) {
  for (size_t i = 0; i < edits().size(); ++i) {
    if (edits()[i].layer == layer() && edits()[i].site == site) x = edit(graph, i, x, values);
  }
  return reads(site) ? readVariable(graph, layer(), site, x, values) : x;
}

Variable RecordedSites::edit(Graph& graph, size_t number, const Variable& x, const SiteValues& values) {
  using Verb = SiteEdit::Verb;
  const Variable a = operand(number);
  Matrix y(x.value());
  apply(number, values.in(y.data()));
  const Verb verb = edits()[number].verb;
  std::vector<bool> changed;  // kMap
  if (verb == Verb::kMap) {
    changed.resize(static_cast<size_t>(y.rows() * y.cols()));
    const float* before = x.shared()->data();
    // Compares bits, so that NaN equals itself.
    const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
    for (size_t i = 0; i < changed.size(); ++i) changed[i] = bits(before[i]) != bits(y.data()[i]);
  }
  const auto saved = verb == Verb::kScale && a.needsGradient() ? x.shared() : nullptr;
  return graph.record(std::move(y), {x, a}, false,
                      [values, edit = edits()[number], verb, changed = std::move(changed), saved, node = x.node(),
                       operand = a.node()](Matrix& dy, Backward& pass) mutable {
                        const SiteValues gradient = values.in(dy.data());
                        if (float* out = pass.gradient(operand).data()) {
                          Matrix terms(dy.values());
                          if (saved) terms.view().array() *= saved->values().array();
                          values.in(terms.data()).change(edit, Verb::kCollect, out, edit.strides);
                        }
                        float zero = 0;
                        if (verb == Verb::kScale) gradient.change(edit, verb, edit.operand.data(), edit.strides);
                        if (verb == Verb::kSet || verb == Verb::kMean) gradient.change(edit, Verb::kSet, &zero, {});
                        for (size_t i = 0; i < changed.size(); ++i) {
                          if (changed[i]) dy.data()[i] = 0;
                        }
                        pass.give(node, std::move(dy));
                      });
}

}  // namespace heed::train
