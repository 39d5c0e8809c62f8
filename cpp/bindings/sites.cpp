#include "sites.h"

namespace heed::bindings {
namespace {

/// The number of a site of a layer in RawSites.
constexpr Index kSitesPerLayer = 16;

template <size_t N>
std::array<Index, N> readIndices(const val& array) {
  const std::span<Index> all = readArray<Index>(array);
  std::array<Index, N> indices;
  std::copy_n(all.begin(), N, indices.begin());
  return indices;
}

}  // namespace

BoundSites::BoundSites(const val& given, const Sequences& queries, const Sequences& keys)
    : Sites(queries, keys, readVector<Index>(given["columns"])), given_(given) {
  for (const Index code : readVector<Index>(given["reads"]))
    addRead(code / kSitesPerLayer, static_cast<Site>(code % kSitesPerLayer));
  const val edits = given["edits"];
  const auto count = edits["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    const val one = edits[i];
    const Index code = readIndex(one, "code");
    SiteEdit edit{code / kSitesPerLayer, static_cast<Site>(code % kSitesPerLayer),
                  static_cast<SiteEdit::Verb>(readIndex(one, "verb"))};
    for (unsigned axis = 0; axis < 4; ++axis) edit.selected[axis] = readVector<Index>(one["selected"][axis]);
    edit.extents = readIndices<4>(one["extents"]);
    edit.strides = readIndices<4>(one["strides"]);
    edit.operand = readVector<float>(one["operand"]);
    addEdit(std::move(edit));
  }
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

void BoundSites::map(size_t edit, std::vector<float>& selection) {
  const val changed = given_.call<val>("map", static_cast<double>(edit),
                                       writeFloats(selection.data(), static_cast<Index>(selection.size())));
  val(emscripten::typed_memory_view(selection.size(), selection.data())).call<void>("set", changed);
}

std::unique_ptr<BoundSites> readSites(const val& given, const Sequences& queries, const Sequences& keys) {
  if (given.isNull() || given.isUndefined()) return nullptr;
  return std::make_unique<BoundSites>(given, queries, keys);
}

}  // namespace heed::bindings
