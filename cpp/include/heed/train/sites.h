#pragma once

#include <vector>

#include "heed/sites.h"
#include "heed/train/graph.h"

namespace heed::train {

/// The sites of a recorded pass. Gradients flow through kScale, kAdd and values that an edit does not change. kSet and
/// kMean stop them, and so does kMap where it changes a value.
class RecordedSites : public Sites {
 public:
  using Sites::Sites;

  /// The values of a site (see Sites::at()) after its edits. Each edit and each read is an operation of the graph.
  Variable visit(Graph& graph, Site site, const Variable& x, Index heads);
  /// The values of kScores or kWeights (1, size) after their edits.
  Variable visitMatrices(Graph& graph, Site site, const Variable& x, Index heads);
  /// Whether any site of a layer is read or edited.
  bool touchesLayer(Index layer) const;

 protected:
  /// Records the read of a site, and returns the variable with which the pass continues.
  virtual Variable readVariable(Graph& graph, Index layer, Site site, const Variable& x, const SiteValues& values) = 0;
  /// The operand of an edit; empty if it needs no gradient.
  virtual Variable operand(size_t edit) const = 0;

 private:
  void read(Index, Site, ConstMatrixView) final {}
  Variable visit(Graph& graph, Site site, Variable x, const SiteValues& values);
  Variable edit(Graph& graph, size_t number, const Variable& x, const SiteValues& values);
};

}  // namespace heed::train
