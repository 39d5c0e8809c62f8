#include "sites.h"

#include "heed/train/ops.h"

namespace heed::bindings {

BoundRecordedSites::BoundRecordedSites(const val& given, const Sequences& queries, const Sequences& keys)
    : RecordedSites(queries, keys, readColumns(given)), given_(given) {
  addSites(*this, given);
  for (unsigned i = 0; i < edits().size(); ++i)
    operands_.push_back(bindings::readVariable(given["edits"][i]["variable"]));
}

Variable BoundRecordedSites::readVariable(train::Graph& graph, Index layer, Site site, const Variable& x,
                                          const SiteValues& values) {
  const auto code = static_cast<double>(layer * kSitesPerLayer + static_cast<Index>(site));
  // Capture only this function: the rest of the call must not live as long as the graph.
  const val retain = given_["retain"];
  // Recorded even if no input needs a gradient, because the gradient of the read itself is requested.
  const Variable read = graph.record(train::Matrix(x.value()), {x}, true,
                                     [retain, code, node = x.node()](train::Matrix& dy, train::Backward& pass) {
                                       retain(code, writeFloats(dy.data(), dy.rows() * dy.cols()));
                                       pass.give(node, std::move(dy));
                                     });
  const Index size = x.rows() * x.cols(), width = values.isMatrix() ? 1 : x.cols() / values.heads();
  const Index rows = width == 0 ? 0 : size / width;
  given_.call<void>("read", code, val(BoundVariable({rows, width}, train::reshape(graph, read, rows, width))));
  return read;
}

}  // namespace heed::bindings
