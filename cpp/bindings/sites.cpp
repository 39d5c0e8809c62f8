#include "sites.h"

#include "core/check.h"

namespace heed::bindings {
namespace {

/// Four indices, one per axis of a SiteEdit.
std::array<Index, 4> readAxes(const val& array) {
  const std::span<Index> all = readArray<Index>(array);
  std::array<Index, 4> axes;
  requireCount("edit", all.size(), axes.size());
  std::copy_n(all.begin(), axes.size(), axes.begin());
  return axes;
}

}  // namespace

std::vector<Index> readColumns(const val& given) { return readVector<Index>(given["columns"]); }

void addSites(Sites& sites, const val& given) {
  for (const Index code : readVector<Index>(given["reads"]))
    sites.addRead(code / kSitesPerLayer, static_cast<Site>(code % kSitesPerLayer));
  const val edits = given["edits"];
  const auto count = edits["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    const val one = edits[i];
    const Index code = readIndex(one, "code");
    SiteEdit edit{code / kSitesPerLayer, static_cast<Site>(code % kSitesPerLayer),
                  static_cast<SiteEdit::Verb>(readIndex(one, "verb"))};
    for (unsigned axis = 0; axis < 4; ++axis) edit.selected[axis] = readVector<Index>(one["selected"][axis]);
    edit.extents = readAxes(one["extents"]);
    edit.strides = readAxes(one["strides"]);
    if (const val operand = one["operand"]; !operand.isNull()) edit.operand = readVector<float>(operand["data"]);
    sites.addEdit(std::move(edit));
  }
}

void callMap(const val& given, size_t edit, std::vector<float>& selection) {
  const val changed = given.call<val>("map", static_cast<double>(edit),
                                      writeFloats(selection.data(), static_cast<Index>(selection.size())));
  requireCount("map", changed["length"].as<double>(), static_cast<Index>(selection.size()));
  val(emscripten::typed_memory_view(selection.size(), selection.data())).call<void>("set", changed);
}

BoundSites::BoundSites(const val& given, const Sequences& queries, const Sequences& keys)
    : Sites(queries, keys, readColumns(given)), given_(given) {
  addSites(*this, given);
}

void BoundSites::read(Index layer, Site site, ConstMatrixView values) {
  const Arena::Scope scope(arena());
  const float* data = values.data();
  if (values.outerStride() != values.cols()) {
    MatrixView copy = arena().matrix(values.rows(), values.cols());
    copy = values;
    data = copy.data();
  }
  given_.call<void>("read", static_cast<double>(layer * kSitesPerLayer + static_cast<Index>(site)),
                    writeFloats(data, values.rows() * values.cols()));
}

}  // namespace heed::bindings
