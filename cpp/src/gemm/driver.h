#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "gemm/range.h"
#include "gemm/tile.h"

/// The driver of every matrix product: one row block times ranges of columns, over ranges of k. See tile.h for the
/// terms.
namespace heed {

/// Consecutive column panels of a right operand; `bytes` is the size of one panel.
struct PanelSpan {
  const std::byte* data;
  Index bytes;
};

/// Calls store(r, i, address) for each vector of a register tile's sums, with the address of its four elements in the
/// rows `out` of `columns` columns. Panels that extend beyond the last column go through a buffer, with the elements of
/// `out` if `reads`. SpiderMonkey spills the sums if the stores themselves depend on a branch; here only their address
/// does.
template <int R, int P, class Store>
void storeTile(float* out, Index stride, Index columns, Index panel, bool reads, const Store& store) {
  float buffer[R * 8 * P];
  out += 8 * panel;
  const Index width = std::min<Index>(8 * P, columns - 8 * panel);
  const bool whole = width == 8 * P;
  float* const to = whole ? out : buffer;
  const Index step = whole ? stride : 8 * P;
  if (!whole && reads) {
    std::fill(buffer, buffer + R * 8 * P, 0.0f);
    for (int r = 0; r < R; ++r) std::copy_n(out + r * stride, width, buffer + 8 * P * r);
  }
  HEED_UNROLL
  for (int r = 0; r < R; ++r) {
    HEED_UNROLL
    for (int i = 0; i < 2 * P; ++i) store(r, i, to + r * step + 4 * i);
  }
  for (int r = 0; r < R && !whole; ++r) std::copy_n(buffer + 8 * P * r, width, out + r * stride);
}

/// Computes one register tile over the ranges `k` of k-steps; the row block contains the words of these steps only.
/// `sink.write(i, sums)` receives the sums of panels [i, i + P), numbered among the panels that are multiplied.
///
/// Called through a pointer, because older versions of V8 spill the sums if it is inlined into the loop over panels
/// (fp32 takes 1.4 times as long in Node 20). With a single range (N = 1) there is no loop over ranges, which would
/// cost the short tiles of int8 some 5 %.
template <class Step, int R, int P, size_t N, class Sink>
void multiplyTile(const uint32_t* left, const std::byte* right, Index panel_bytes, std::span<const Range, N> k, Index i,
                  const Sink& sink) {
  v128_t sums[R][2 * P] = {};
  for (const Range& range : k) {
    accumulate<R, P>(Step(), left, right + range.begin * Step::kBytes, panel_bytes, range.count(), sums);
    left += R * Step::kWords * range.count();
  }
  sink.template write<R, P>(i, sums);
}

/// Multiplies a row block of `rows` rows by the panels that hold `columns`. Each range of columns begins at a multiple
/// of 8.
template <class Step, size_t N, class Sink>
void multiplyRowBlock(Index rows, const uint32_t* left, const PanelSpan& right, std::span<const Range, N> k,
                      std::span<const Range> columns, const Sink& sink) {
  struct Height {
    decltype(&multiplyTile<Step, 1, 1, N, Sink>) several, one;
    int panels;  // number of panels that `several` takes
  };
  // Short row blocks take several panels at once: the few sums of one panel would leave the multipliers idle.
  static constexpr auto kHeights = []<int... kRow>(std::integer_sequence<int, kRow...>) {
    constexpr auto kPanels = [](int r) { return r == 1 ? 4 : r == 2 ? 2 : 1; };
    return std::array{Height{multiplyTile<Step, kRow + 1, kPanels(kRow + 1), N, Sink>,
                             multiplyTile<Step, kRow + 1, 1, N, Sink>, kPanels(kRow + 1)}...};
  }(std::make_integer_sequence<int, kBlockRows>());

  const Height height = kHeights[static_cast<size_t>(rows - 1)];
  Index i = 0;
  for (const Range& range : columns) {
    const std::byte* panel = right.data + range.begin / 8 * right.bytes;
    const Index end = i + (range.count() + 7) / 8;
    for (; i + height.panels <= end; i += height.panels, panel += height.panels * right.bytes)
      height.several(left, panel, right.bytes, k, i, sink);
    for (; i < end; ++i, panel += right.bytes) height.one(left, panel, right.bytes, k, i, sink);
  }
}

}  // namespace heed
