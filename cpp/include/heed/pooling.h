#pragma once

#include <span>
#include <string_view>

#include "heed/tensor.h"

/// Notation: N sequences, L rows per sequence, E columns.
namespace heed {

/// How the rows x_1 .. x_L of a sequence are combined into one vector (the modes of Reimers, Gurevych 2019,
/// arXiv:1908.10084, and Muennighoff 2022, arXiv:2202.08904).
enum class Pooling {
  kMean,            ///< sum x_i / L
  kCls,             ///< x_1
  kLast,            ///< x_L
  kMax,             ///< maximum of each column
  kMeanSqrtLength,  ///< sum x_i / sqrt(L)
  kWeightedMean,    ///< sum i x_i / sum i
};
/// The mode with the name "mean", "cls", "last", "max", "mean_sqrt_len" or "weighted_mean". Throws kInvalidArgument for
/// other names; the message lists the valid ones.
Pooling poolingNamed(std::string_view name);
/// Pools each sequence to one vector: output (N, E), zeros for empty sequences. `skipped` (N), or empty, is the number
/// of rows at the beginning of each sequence (those of a prompt) that the means and the maximum leave out. L is then
/// the number of remaining rows; i still counts from the first row of the sequence. Throws kShapeMismatch.
///
/// Sums are added in blocks of 512 rows, so that sum w_i x_i is off by at most (min(L, 512) + L / 512) 2^-24
/// sum |w_i x_i|.
void pool(ConstMatrixView hidden, const Sequences& sequences, std::span<const Index> skipped, Pooling pooling,
          MatrixView output);

}  // namespace heed
