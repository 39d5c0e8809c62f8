#pragma once

#include <algorithm>

#include "gemm/driver.h"
#include "gemm/gemm.h"

/// The product of a chunk of rows with one weight, as templates on the weight's format.
/// Notation: T rows of the chunk; see tile.h for the terms.
///
/// A Format has
///   weight                                   its PackedWeight
///   multiplyPanels(left, panels, sums)       writes the sums (panels, T, 8) of a range of panels
///   Columns<P>(format, panel)                data of the columns of P panels that the epilogue needs, in registers
///     .value(sum, left, row, i)              the product from the sums of row `row` for the i-th group of four columns
namespace heed {

/// Maximum rows of a chunk: the packed left operand stays in the L2 cache. The sums of one panel stay in L1; those of a
/// batch (64 KB) in L2.
inline constexpr Index kChunkRows = 128;
/// Limits for a batch of panels: number of sums, and bytes of weights, which every row block rereads.
inline constexpr Index kMaxSums = 8 * 16 * kChunkRows;
inline constexpr Index kMaxPanelBytes = 256 * 1024;

/// Up to kChunkRows rows of the left operand, packed in a LeftForm.
struct LeftChunk {
  Index first_row;
  RowBlocks blocks;
  const uint32_t* packed;
};

/// Panels per batch. An epilogue follows each batch; larger batches restart loops less often. The result is a multiple
/// of 4, the number of panels of the widest register tile; two panels fill a cache line of C.
inline Index panelsPerBatch(Index rows, const PackedWeight& weight) {
  const Index bytes = std::max<Index>(weight.panelBytes(), 1);  // panelBytes() is 0 if K is 0
  return std::max<Index>(std::min(kMaxSums / (8 * rows), kMaxPanelBytes / bytes) / 4, 2) * 4;
}

/// A sink that stores the sums for the epilogue: 8 sums for each row of the block. The first panel's sums begin at
/// `sums`; those of the next panel begin `stride` floats later.
struct SumsBuffer {
  float* sums;
  Index stride;

  template <int R, int P>
  void write(Index panel, const v128_t (&tile)[R][2 * P]) const {
    float* to = sums + panel * stride;
    HEED_UNROLL
    for (int r = 0; r < R; ++r) {
      HEED_UNROLL
      for (int i = 0; i < 2 * P; ++i) simd::store(to + i / 2 * stride + 8 * r + 4 * (i % 2), tile[r][i]);
    }
  }
};

/// Multiplies all row blocks, whose words are at `words`, by a range of panels: sums (panels, T, 8).
template <class Step>
void multiplyRowBlocks(const LeftChunk& left, const uint32_t* words, const PackedWeight& weight, Range panels,
                       float* sums) {
  const Range k[] = {{0, weight.steps()}}, columns[] = {{8 * panels.begin, 8 * panels.end}};
  for (Index i = 0; i < left.blocks.count; ++i) {
    const Index begin = left.blocks.begin(i);
    multiplyRowBlock<Step>(left.blocks.height(i), words + begin * weight.steps() * Step::kWords,
                           {weight.panel(0), weight.panelBytes()}, std::span(k), columns,
                           SumsBuffer{sums + 8 * begin, 8 * left.blocks.rows});
  }
}

/// Computes the columns of C for P panels from sums (P, T, 8).
template <class Format, int P>
class PanelEpilogue {
 public:
  PanelEpilogue(const Format& format, const Product& product, Index panel)
      : columns_(format, panel),
        epilogue_(product.epilogue),
        out_(product.out),
        column_(8 * panel),
        width_(std::min<Index>(8 * P, format.weight.out() - column_)) {
    float bias[8 * P] = {};
    if (epilogue_.bias) std::copy_n(epilogue_.bias + column_, width_, bias);
    HEED_UNROLL
    for (int i = 0; i < kVectors; ++i) bias_[i] = simd::load(bias + 4 * i);
  }

  void run(const LeftChunk& left, float* sums) {
    const Index rows = left.blocks.rows;
    const bool is_identity = epilogue_.activation == Activation::kIdentity;
    for (Index r = 0; r < rows; ++r) {
      v128_t values[kVectors];
      HEED_UNROLL
      for (int i = 0; i < kVectors; ++i) {
        float* from = sumsAt(sums, rows, r, i);
        values[i] = wasm_f32x4_add(columns_.value(simd::load(from), left, r, i), bias_[i]);
        if (!is_identity) simd::store(from, values[i]);
      }
      if (is_identity) write(left.first_row + r, values);
    }
    if (is_identity) return;
    activate(sums, 8 * P * rows, epilogue_.activation);
    for (Index r = 0; r < rows; ++r) {
      v128_t values[kVectors];
      HEED_UNROLL
      for (int i = 0; i < kVectors; ++i) values[i] = simd::load(sumsAt(sums, rows, r, i));
      write(left.first_row + r, values);
    }
  }

 private:
  static constexpr int kVectors = 2 * P;
  static float* sumsAt(float* sums, Index rows, Index r, int i) { return sums + 8 * (i / 2 * rows + r) + 4 * (i % 2); }

  void write(Index row, const v128_t values[kVectors]) {
    float* to = out_.data() + row * out_.outerStride() + column_;
    const float* residual = epilogue_.residual;
    if (residual) residual += row * epilogue_.residual_stride + column_;
    if (width_ < 8 * P) {
      float floats[8 * P];
      HEED_UNROLL
      for (int i = 0; i < kVectors; ++i) simd::store(floats + 4 * i, values[i]);
      for (Index j = 0; j < width_; ++j) to[j] = residual ? residual[j] + floats[j] : floats[j];
      return;
    }
    HEED_UNROLL
    for (int i = 0; i < kVectors; ++i)
      simd::store(to + 4 * i, residual ? wasm_f32x4_add(simd::load(residual + 4 * i), values[i]) : values[i]);
  }

  const typename Format::template Columns<P> columns_;
  const Epilogue& epilogue_;
  MatrixView out_;
  const Index column_, width_;
  v128_t bias_[kVectors];
};

/// Implements PackedWeight::multiply() for a format.
template <class Format>
void multiplyChunk(const Format& format, const LeftChunk& left, const Product& product, Range panels, float* sums) {
  const Index rows = left.blocks.rows;
  for (Index p = panels.begin, count; p < panels.end; p += count) {
    count = std::min(panelsPerBatch(rows, format.weight), panels.end - p);
    format.multiplyPanels(left, {p, p + count}, sums);
    Index i = 0;
    for (; i + 2 <= count; i += 2) PanelEpilogue<Format, 2>(format, product, p + i).run(left, sums + 8 * rows * i);
    if (i < count) PanelEpilogue<Format, 1>(format, product, p + i).run(left, sums + 8 * rows * i);
  }
}

}  // namespace heed
