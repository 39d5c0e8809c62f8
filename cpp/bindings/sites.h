#pragma once

#include <memory>

#include "convert.h"
#include "heed/sites.h"

namespace heed::bindings {

/// In RawSites, site s of layer i has number i kSitesPerLayer + s.
constexpr Index kSitesPerLayer = 16;

/// The columns of RawSites, see Sites.
std::vector<Index> readColumns(const val& given);
/// Adds the reads and edits of RawSites.
void addSites(Sites& sites, const val& given);
/// Calls RawSites.map().
void callMap(const val& given, size_t edit, std::vector<float>& selection);

/// The sites that a call reads and edits, from RawSites.
class BoundSites final : public Sites {
 public:
  BoundSites(const val& given, const Sequences& queries, const Sequences& keys);

 private:
  void read(Index layer, Site site, ConstMatrixView values) override;
  void map(size_t edit, std::vector<float>& selection) override { callMap(given_, edit, selection); }

  val given_;
};

/// The sites of a call; null if it has none.
template <class Bound>
std::unique_ptr<Bound> readSites(const val& given, const Sequences& queries, const Sequences& keys) {
  if (given.isNull() || given.isUndefined()) return nullptr;
  return std::make_unique<Bound>(given, queries, keys);
}

}  // namespace heed::bindings
