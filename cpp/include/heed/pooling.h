#pragma once

#include <span>
#include <string_view>

#include "heed/tensor.h"

/// Notation: N sequences, L rows of one sequence, E columns.
namespace heed {

/// How a sequence's rows x_1 .. x_L become one vector (the modes of Reimers, Gurevych 2019, arXiv:1908.10084, and of
/// Muennighoff 2022, arXiv:2202.08904).
enum class Pooling {
  kMean,            ///< sum x_i / L
  kCls,             ///< x_1
  kLast,            ///< x_L
  kMax,             ///< column by column
  kMeanSqrtLength,  ///< sum x_i / sqrt(L)
  kWeightedMean,    ///< sum i x_i / sum i
};
/// By the names "mean", "cls", "last", "max", "mean_sqrt_len", "weighted_mean"; throws Error(kInvalidArgument), which
/// lists them, for any other.
Pooling poolingNamed(std::string_view name);
/// One vector per sequence: output (N, E), zeros for a sequence of no rows. `skipped` (N), or empty, says how many rows
/// at each sequence's beginning (those of a prompt) the means and the maximum leave out; L is then what remains, i
/// still counts from the sequence's first row.
void pool(ConstMatrixView hidden, const Sequences& sequences, std::span<const Index> skipped, Pooling pooling,
          MatrixView output);

}  // namespace heed
