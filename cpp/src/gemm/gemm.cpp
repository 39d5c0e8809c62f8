#include "gemm/gemm.h"

#include <algorithm>

#include "gemm/chunk.h"

namespace heed {
namespace {

/// Minimum rows per chunk when rows are divided among threads: every chunk reads the whole weight.
constexpr Index kLeastChunkRows = 32;
/// Weights are divided at multiples of this many panels, which fill whole register tiles and cache lines.
constexpr Index kPanelGroup = 4;
/// Minimum number of multiplications per task: waking a thread for fewer does not pay off.
constexpr double kLeastTask = 1 << 18;

/// How a product is divided into tasks: the rows into chunks, and the panels of the weight into parts.
struct Partition {
  Index chunks, parts;
};

Partition partitionFor(Index rows, Index depth, std::span<const Product> products, Index threads) {
  Partition partition{rows / kChunkRows + (rows % kChunkRows != 0), 1};
  if (threads == 1 || rows == 0) return partition;
  double columns = 0;
  for (const Product& product : products) columns += static_cast<double>(product.weight->out());
  const double tasks = static_cast<double>(rows) * static_cast<double>(depth) * columns / kLeastTask;
  const Index useful = tasks < static_cast<double>(threads) ? static_cast<Index>(tasks) : threads;
  if (useful <= 1) return partition;
  // An equal number of chunks per thread if possible; otherwise parts, so that there are tasks for all threads.
  const Index even = (partition.chunks + useful - 1) / useful * useful;
  partition.chunks = std::max(partition.chunks, std::min(even, rows / kLeastChunkRows));
  partition.parts = (useful + partition.chunks - 1) / partition.chunks;
  return partition;
}

/// Part i of the panels of a weight.
Range partOf(const PackedWeight& weight, Index parts, Index i) {
  const Index panels = weight.panels(), groups = (panels + kPanelGroup - 1) / kPanelGroup;
  return {kPanelGroup * evenPart(groups, parts, i), std::min(panels, kPanelGroup * evenPart(groups, parts, i + 1))};
}

/// The products of one left operand.
class Multiplication {
 public:
  Multiplication(ConstMatrixView a, std::span<const Product> products, Partition partition)
      : a_(a), products_(products), partition_(partition) {}

  /// Allocates memory for the packed chunk c: the words of product j begin at result[j].
  uint32_t** takePacked(Index c, Arena& arena) const {
    auto** packed = arena.take<uint32_t*>(static_cast<Index>(products_.size()));
    for (size_t j = 0; j < products_.size(); ++j) {
      const Index words = products_[j].weight->leftForm().words(blocks(c).rows, a_.cols());
      packed[j] = sameForm(j) == j ? arena.take<uint32_t>(words) : packed[sameForm(j)];
    }
    return packed;
  }

  /// Packs chunk c once for each LeftForm of the weights.
  void pack(Index c, uint32_t* const* packed) const {
    const RowBlocks rows = blocks(c);
    const ConstMatrixView chunk = view(a_.data() + first(c) * a_.outerStride(), rows.rows, a_.cols(), a_.outerStride());
    for (size_t j = 0; j < products_.size(); ++j)
      if (sameForm(j) == j) products_[j].weight->leftForm().pack(chunk, rows, packed[j]);
  }

  /// Computes part `part` of the columns of chunk c.
  void multiply(Index c, Index part, uint32_t* const* packed, Arena& arena) const {
    const Arena::Scope scope(arena);
    float* sums = arena.take(kMaxSums);
    for (size_t j = 0; j < products_.size(); ++j) {
      const PackedWeight& weight = *products_[j].weight;
      weight.multiply({first(c), blocks(c), packed[j]}, products_[j], partOf(weight, partition_.parts, part), sums);
    }
  }

 private:
  Index first(Index c) const { return evenPart(a_.rows(), partition_.chunks, c); }
  RowBlocks blocks(Index c) const { return RowBlocks(first(c + 1) - first(c)); }

  /// The first product whose weight has the same LeftForm as that of product j.
  size_t sameForm(size_t j) const {
    size_t i = 0;
    while (&products_[i].weight->leftForm() != &products_[j].weight->leftForm()) ++i;
    return i;
  }

  ConstMatrixView a_;
  std::span<const Product> products_;
  Partition partition_;
};

}  // namespace

void matmul(ConstMatrixView a, std::span<const Product> products, Context& context) {
  const Partition partition = partitionFor(a.rows(), a.cols(), products, context.executor.threads());
  const Multiplication product(a, products, partition);
  const Executor& executor = context.executor;
  if (partition.parts == 1) {
    executor.run(partition.chunks, context, [&](Index c, Context& task) {
      const Arena::Scope scope(task.arena);
      uint32_t** packed = product.takePacked(c, task.arena);
      product.pack(c, packed);
      product.multiply(c, 0, packed, task.arena);
    });
    return;
  }
  // Several threads read each chunk, so all chunks are packed before the multiplications start.
  const Arena::Scope scope(context.arena);
  auto** packed = context.arena.take<uint32_t**>(partition.chunks);
  for (Index c = 0; c < partition.chunks; ++c) packed[c] = product.takePacked(c, context.arena);
  executor.run(partition.chunks, context, [&](Index c, Context&) { product.pack(c, packed[c]); });
  executor.run(partition.chunks * partition.parts, context, [&](Index i, Context& task) {
    product.multiply(i / partition.parts, i % partition.parts, packed[i / partition.parts], task.arena);
  });
}

}  // namespace heed
