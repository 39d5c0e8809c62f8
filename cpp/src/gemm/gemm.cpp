#include "gemm/gemm.h"

#include <algorithm>

#include "gemm/chunk.h"

namespace heed {

void matmul(ConstMatrixView a, std::span<const Product> products, Arena& arena) {
  const Arena::Scope scope(arena);
  const Index rows = a.rows(), chunks = rows / kChunkRows + (rows % kChunkRows != 0);
  // The first product whose weight reads the left operand in the same form as that of product j.
  const auto same_form = [&](size_t j) {
    size_t i = 0;
    while (&products[i].weight->leftForm() != &products[j].weight->leftForm()) ++i;
    return i;
  };
  auto** packed = arena.take<uint32_t*>(static_cast<Index>(products.size()));
  for (size_t j = 0; j < products.size(); ++j) {
    const Index words = products[j].weight->leftForm().words(std::min(rows, kChunkRows), a.cols());
    packed[j] = same_form(j) == j ? arena.take<uint32_t>(words) : packed[same_form(j)];
  }
  float* sums = arena.take(kMaxSums);

  for (Index c = 0; c < chunks; ++c) {
    const Index first = evenPart(rows, chunks, c);
    const RowBlocks blocks(evenPart(rows, chunks, c + 1) - first);
    const ConstMatrixView chunk = view(a.data() + first * a.outerStride(), blocks.rows, a.cols(), a.outerStride());
    for (size_t j = 0; j < products.size(); ++j)
      if (same_form(j) == j) products[j].weight->leftForm().pack(chunk, blocks, packed[j]);
    for (size_t j = 0; j < products.size(); ++j)
      products[j].weight->multiply({first, blocks, packed[j]}, products[j], sums);
  }
}

}  // namespace heed
