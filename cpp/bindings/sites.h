#pragma once

#include <memory>

#include "convert.h"
#include "heed/sites.h"

namespace heed::bindings {

/// RawSites: what a call reads and edits.
class BoundSites final : public Sites {
 public:
  BoundSites(const val& given, const Sequences& queries, const Sequences& keys);

 private:
  void read(Index layer, Site site, ConstMatrixView values) override;
  void map(size_t edit, std::vector<float>& selection) override;

  val given_;
};

/// The sites of a call; null if it has none. `queries` and `keys` must outlive them.
std::unique_ptr<BoundSites> readSites(const val& given, const Sequences& queries, const Sequences& keys);

}  // namespace heed::bindings
