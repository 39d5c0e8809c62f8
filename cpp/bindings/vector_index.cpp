#include "heed/vector_index.h"

#include <emscripten/bind.h>

#include "convert.h"
#include "core/check.h"

namespace heed::bindings {
namespace {

val writeWords(const void* data, Index count) {
  return val(emscripten::typed_memory_view(static_cast<size_t>(count), static_cast<const uint32_t*>(data)))
      .call<val>("slice");
}

VectorForm formNamed(const std::string& name) {
  if (name == "float32") return VectorForm::kFloat32;
  return name == "int8" ? VectorForm::kInt8 : VectorForm::kBits;
}

class BoundVectorIndex {
 public:
  explicit BoundVectorIndex(VectorForm form, Index width) : index_(form, width) {}

  int count() const { return static_cast<int>(index_.count()); }

  void append(const val& bytes, const val& factors) {
    guarded([&] {
      const auto rows = readArray<uint8_t>(bytes);
      const auto own = readArray<float>(factors);
      requireCount("rows", rows.size(), Shape{static_cast<Index>(own.size()), index_.rowBytes()}.size());
      index_.append(reinterpret_cast<const std::byte*>(rows.data()), own);
    });
  }

  void keep(const val& rows) {
    guarded([&] {
      const auto kept = readArray<uint32_t>(rows);
      for (size_t i = 0; i < kept.size(); ++i)
        requireRange("rows", static_cast<Index>(kept[i]), i == 0 ? 0 : static_cast<Index>(kept[i - 1]) + 1,
                     index_.count() - 1);
      index_.keep(kept);
    });
  }

  val rows(int first, int count) {
    return guarded([&] {
      requireRange("first", first, 0, index_.count());
      requireRange("count", count, 0, index_.count() - first);
      const Index size = Shape{count, index_.rowBytes()}.size();
      auto* bytes = arena().take<uint8_t>(size);
      index_.copyRows(first, count, reinterpret_cast<std::byte*>(bytes));
      return val(emscripten::typed_memory_view(static_cast<size_t>(size), bytes)).call<val>("slice");
    });
  }

  val search(const val& queries, const val& options) {
    return guarded([&] {
      const auto thresholds = readArray<float>(options["thresholds"]), given = readArray<float>(queries);
      const VectorSearch search{.top_k = readIndex(options, "topK"),
                                .thresholds = thresholds.data(),
                                .candidates = readIndex(options, "candidates"),
                                .allowed = readArray<uint32_t>(options["allowed"])};
      static_assert(sizeof(VectorHit) == 2 * sizeof(uint32_t) && sizeof(Index) == sizeof(uint32_t));
      const auto count = static_cast<Index>(thresholds.size());
      requireCount("queries", given.size(), Shape{count, index_.width()}.size());
      requireAtLeast("topK", search.top_k, 0);
      requireAtLeast("candidates", search.candidates, 0);
      auto* counts = arena().take<Index>(count);
      auto* hits = arena().take<VectorHit>(Shape{count, search.top_k}.size());
      index_.search(given.data(), count, search, context(), hits, counts);
      val found = val::object();
      found.set("counts", writeWords(counts, count));
      found.set("hits", writeWords(hits, 2 * count * search.top_k));
      return found;
    });
  }

 private:
  VectorIndex index_;
};

BoundVectorIndex* makeVectorIndex(const std::string& form, int width) {
  return guarded([&] { return new BoundVectorIndex(formNamed(form), width); });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_vector_index) {
  emscripten::class_<BoundVectorIndex>("VectorIndex")
      .constructor(&makeVectorIndex, emscripten::allow_raw_pointers())
      .function("count", &BoundVectorIndex::count)
      .function("append", &BoundVectorIndex::append)
      .function("keep", &BoundVectorIndex::keep)
      .function("rows", &BoundVectorIndex::rows)
      .function("search", &BoundVectorIndex::search);
}

}  // namespace heed::bindings
