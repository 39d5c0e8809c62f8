#include "gemm/gradient_products.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "gemm/chunk.h"
#include "ops/elementwise.h"

namespace heed {
namespace {

/// A sink that writes C = factor A B or adds it to C.
struct Rows {
  float* out;
  Index stride;
  Index columns;
  v128_t factors;
  v128_t accumulate_mask;  // mask on C: all ones to add to it, zeros to overwrite it

  Rows(float* first, Index row_stride, Index count, float factor, bool adds)
      : out(first),
        stride(row_stride),
        columns(count),
        factors(simd::splat(factor)),
        accumulate_mask(wasm_i32x4_splat(adds ? -1 : 0)) {}

  template <int R, int P>
  void write(Index panel, const v128_t (&sums)[R][2 * P]) const {
    storeTile<R, P>(out, stride, columns, panel, true, [&](int r, int i, float* four) {
      const v128_t before = wasm_v128_and(simd::load(four), accumulate_mask);
      simd::store(four, wasm_f32x4_add(before, wasm_f32x4_mul(sums[r][i], factors)));
    });
  }
};

PanelSpan spanOf(const Panels& panels) {
  return {reinterpret_cast<const std::byte*>(panels.data), panels.depth * FloatStep::kBytes};
}

/// Packs a few rows of A into `count` row blocks of A^T with R rows each: A(k, r) of a block becomes its word k R + r.
template <int R>
void packColumns(ConstMatrixView rows, Index count, Index depth, uint32_t* words) {
  for (Index i = 0; i < count; ++i, words += R * depth) {
    const float* from = rows.data() + i * R;
    for (Index k = 0; k < rows.rows(); ++k, from += rows.outerStride())
      std::memcpy(words + k * R, from, R * sizeof(float));
  }
}

/// Packs columns [begin, begin + blocks.rows) of A into row blocks of A^T. It takes a few rows of A at a time, which
/// stay in the first-level cache and fill whole cache lines of each row block.
void packColumns(ConstMatrixView a, Index begin, const RowBlocks& blocks, uint32_t* words) {
  using Pack = void (*)(ConstMatrixView, Index, Index, uint32_t*);
  static constexpr auto kHeights = []<int... kRow>(std::integer_sequence<int, kRow...>) {
    return std::array{Pack{packColumns<kRow + 1>}...};
  }(std::make_integer_sequence<int, kBlockRows>());
  constexpr Index kRows = 8;
  const Index depth = a.rows();
  // Row blocks have at most two heights; blocks of the same height are adjacent.
  for (Index i = 0, next; i < blocks.count; i = next) {
    const Index height = blocks.height(i), first = blocks.begin(i);
    for (next = i + 1; next < blocks.count && blocks.height(next) == height;) ++next;
    const Pack pack = kHeights[static_cast<size_t>(height - 1)];
    for (Index k = 0; k < depth; k += kRows) {
      const float* from = a.data() + k * a.outerStride() + begin + first;
      pack(view(from, std::min(kRows, depth - k), (next - i) * height, a.outerStride()), next - i, depth,
           words + first * depth + k * height);
    }
  }
}

/// The left operand A (N, K): a matrix or its transpose.
struct LeftOperand {
  ConstMatrixView matrix;
  bool transposed;

  Index rows() const { return transposed ? matrix.cols() : matrix.rows(); }
  Index depth() const { return transposed ? matrix.rows() : matrix.cols(); }
  /// Packs blocks.rows rows starting at `begin`.
  void pack(Index begin, const RowBlocks& blocks, uint32_t* words) const {
    if (transposed) return packColumns(matrix, begin, blocks, words);
    packRows(view(matrix.data() + begin * matrix.outerStride(), blocks.rows, matrix.cols(), matrix.outerStride()),
             blocks, words);
  }
};

/// out = A B or, if `adds`, out += A B, where B is rows [first, first + K) of `b`. Each task takes a chunk of A.
void multiplyChunks(const LeftOperand& a, const Panels& b, Index first, MatrixView out, bool adds, Context& context) {
  const Index depth = a.depth(), chunks = (a.rows() + kChunkRows - 1) / kChunkRows;
  const Index columns_at_once = 8 * std::max<Index>(kMaxPanelBytes / std::max<Index>(depth * FloatStep::kBytes, 1), 4);
  context.executor.run(chunks, context, [&](Index c, Context& task) {
    const Arena::Scope scope(task.arena);
    const Index begin = evenPart(a.rows(), chunks, c);
    const RowBlocks blocks(evenPart(a.rows(), chunks, c + 1) - begin);
    auto* words = task.arena.take<uint32_t>(depth * blocks.rows);
    a.pack(begin, blocks, words);
    for (Index column = 0; column < b.columns; column += columns_at_once) {
      const Range columns{column, std::min(column + columns_at_once, b.columns)};
      // Runs once even if K is 0, to write zeros.
      for (Index t = 0; t == 0 || t < depth; t += kSumBlock) {
        const Range k[] = {{first + t, first + std::min(t + kSumBlock, depth)}};
        for (Index i = 0; i < blocks.count; ++i) {
          float* rows = out.data() + (begin + blocks.begin(i)) * out.outerStride() + column;
          multiplyRowBlock<FloatStep>(blocks.height(i), words + blocks.begin(i) * depth + t * blocks.height(i),
                                      spanOf(b), std::span(k), std::span(&columns, 1),
                                      Rows(rows, out.outerStride(), columns.count(), 1, adds || t > 0));
        }
      }
    }
  });
}

}  // namespace

Panels packPanels(ConstMatrixView b, Arena& arena) {
  const Index depth = b.rows(), width = b.cols(), whole = width / 8;
  float* panels = arena.take(8 * depth * ((width + 7) / 8));
  // A few rows at a time, which stay in the first-level cache while they are copied to the panels.
  constexpr Index kRows = 8;
  for (Index first = 0; first < depth; first += kRows) {
    const Index end = std::min(first + kRows, depth);
    for (Index p = 0; p < whole; ++p) {
      for (Index k = first; k < end; ++k) {
        const float* from = b.data() + k * b.outerStride() + 8 * p;
        float* to = panels + 8 * (p * depth + k);
        simd::store(to, simd::load(from));
        simd::store(to + 4, simd::load(from + 4));
      }
    }
    for (Index k = first; k < end && 8 * whole < width; ++k) {
      float* to = panels + 8 * (whole * depth + k);
      std::fill(std::copy_n(b.data() + k * b.outerStride() + 8 * whole, width - 8 * whole, to), to + 8, 0.0f);
    }
  }
  return {.data = panels, .depth = depth, .columns = width, .finite = false};
}

Panels packPanels(const Float32Weight& b, Arena& arena) {
  const Index depth = b.out(), width = b.in();
  float* panels = arena.take(8 * depth * ((width + 7) / 8));
  // In blocks of 8 by 8, which are stored transposed in the weight.
  for (Index k = 0; k < depth; k += 8) {
    const auto* from = reinterpret_cast<const float*>(b.panel(k / 8));
    for (Index column = 0; column < width; column += 8, from += 64) {
      float* to = panels + column * depth + 8 * k;
      if (k + 8 > depth || column + 8 > width) {
        for (Index i = 0; i < std::min<Index>(8, depth - k); ++i) {
          for (Index j = 0; j < 8; ++j) to[8 * i + j] = column + j < width ? from[8 * j + i] : 0;
        }
        continue;
      }
      for (Index i = 0; i < 8; i += 4) {
        for (Index j = 0; j < 8; j += 4) {
          v128_t four[4];
          HEED_UNROLL
          for (int n = 0; n < 4; ++n) four[n] = simd::load(from + 8 * (j + n) + i);
          simd::transpose4x4(four);
          HEED_UNROLL
          for (int n = 0; n < 4; ++n) simd::store(to + 8 * (i + n) + j, four[n]);
        }
      }
    }
  }
  return {.data = panels, .depth = depth, .columns = width, .finite = false};
}

void multiplyColumns(ConstMatrixView a, const Panels& b, std::span<const Range> columns, float factor, MatrixView out,
                     uint32_t* words) {
  if (a.rows() == 0) return;
  packRows(a, RowBlocks(a.rows()), words);
  const Range k[] = {{0, b.depth}};
  multiplyRowBlock<FloatStep>(a.rows(), words, spanOf(b), std::span(k), columns,
                              Rows(out.data(), out.outerStride(), out.cols(), factor, false));
}

void multiplyPanels(ConstMatrixView a, const Panels& b, MatrixView out, bool adds, Context& context) {
  multiplyChunks({a, false}, b, 0, out, adds, context);
}

void addTransposedProduct(ConstMatrixView a, const Panels& b, Index first, MatrixView out, Context& context) {
  multiplyChunks({a, true}, b, first, out, true, context);
}

void inputGradient(ConstMatrixView gradient, const PackedWeight& weight, MatrixView out,
                   const ConstMatrixView* residual, Context& context) {
  const Arena::Scope scope(context.arena);
  const Panels panels = packPanels(static_cast<const Float32Weight&>(weight), context.arena);
  multiplyPanels(gradient, panels, out, residual != nullptr, context);
}

void inputGradient(ConstMatrixView gradient, ConstMatrixView weight, MatrixView out, const ConstMatrixView* residual,
                   Context& context) {
  const Arena::Scope scope(context.arena);
  multiplyPanels(gradient, packPanels(weight, context.arena), out, residual != nullptr, context);
}

void addWeightGradient(ConstMatrixView gradient, ConstMatrixView x, MatrixView out, Context& context) {
  // One chain of rows at a time: scratch memory does not grow with the rows, and the bits are those of one product. The
  // sums of many chains lose digits when they are added one after the other, so groups of chains are summed first.
  constexpr Index kGroup = kSumBlock * kSumBlock;
  for (Index begin = 0; begin < x.rows(); begin += kGroup) {
    const Index end = std::min(begin + kGroup, x.rows());
    const Arena::Scope group(context.arena);
    const bool is_only = x.rows() <= kGroup;
    MatrixView sum = is_only ? out : context.arena.matrix(out.rows(), out.cols());
    if (!is_only) sum.setZero();
    for (Index first = begin; first < end; first += kSumBlock) {
      const Arena::Scope scope(context.arena);
      const Index rows = std::min(kSumBlock, end - first);
      const auto part = [&](const ConstMatrixView& m) {
        return view(m.row(first).data(), rows, m.cols(), m.outerStride());
      };
      addTransposedProduct(part(gradient), packPanels(part(x), context.arena), 0, sum, context);
    }
    if (!is_only) out += sum;
  }
}

}  // namespace heed
