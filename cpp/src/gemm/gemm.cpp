#include "gemm/gemm.h"

#include <algorithm>

#include "gemm/chunk.h"

namespace heed {

void matmul(ConstMatrixView a, std::span<const Product> products, Context& context) {
  const Index rows = a.rows(), chunks = rows / kChunkRows + (rows % kChunkRows != 0);
  // The first product whose weight reads the left operand in the same form as that of product j.
  const auto same_form = [&](size_t j) {
    size_t i = 0;
    while (&products[i].weight->leftForm() != &products[j].weight->leftForm()) ++i;
    return i;
  };
  context.executor.run(chunks, context, [&](Index c, Context& task) {
    const Arena::Scope scope(task.arena);
    const Index first = evenPart(rows, chunks, c);
    const RowBlocks blocks(evenPart(rows, chunks, c + 1) - first);
    const ConstMatrixView chunk = view(a.data() + first * a.outerStride(), blocks.rows, a.cols(), a.outerStride());
    auto** packed = task.arena.take<uint32_t*>(static_cast<Index>(products.size()));
    for (size_t j = 0; j < products.size(); ++j) {
      if (same_form(j) != j) {
        packed[j] = packed[same_form(j)];
        continue;
      }
      const LeftForm& form = products[j].weight->leftForm();
      packed[j] = task.arena.take<uint32_t>(form.words(blocks.rows, a.cols()));
      form.pack(chunk, blocks, packed[j]);
    }
    float* sums = task.arena.take(kMaxSums);
    for (size_t j = 0; j < products.size(); ++j)
      products[j].weight->multiply({first, blocks, packed[j]}, products[j], sums);
  });
}

}  // namespace heed
