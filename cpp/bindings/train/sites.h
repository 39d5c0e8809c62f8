#pragma once

#include "../sites.h"
#include "graph.h"
#include "heed/train/sites.h"

namespace heed::bindings {

/// The sites that a recorded call reads and edits, from RawRecordedSites.
class BoundRecordedSites final : public train::RecordedSites {
 public:
  BoundRecordedSites(const val& given, const Sequences& queries, const Sequences& keys);

 private:
  void map(size_t edit, std::vector<float>& selection) override { callMap(given_, edit, selection); }
  Variable readVariable(train::Graph& graph, Index layer, Site site, const Variable& x,
                        const SiteValues& values) override;
  Variable operand(size_t edit) const override { return operands_[edit]; }

  val given_;
  std::vector<Variable> operands_;
};

}  // namespace heed::bindings
