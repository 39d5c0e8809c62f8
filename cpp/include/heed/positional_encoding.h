#pragma once

#include <vector>

#include "heed/tensor.h"

namespace heed {

/// output(i, 2k) = sin(i base^(-2k/E)), output(i, 2k + 1) = cos of the same (Vaswani et al. 2017, section 3.5). output (L, E), E may be odd.
/// Row i is position `first_position + i`.
void positionalEncoding(double base, MatrixView output, Index first_position = 0);

/// Rotary position embedding (Su et al. 2021, arXiv:2104.09864): the pair k of a head's features turns by i base^(-2k/D) at position i.
class Rotary {
 public:
  enum class Pairing {
    kHalfSplit,    ///< features (k, k + D/2): GPT-NeoX, ModernBERT, NomicBERT
    kInterleaved,  ///< features (2k, 2k + 1): the paper, GPT-J
  };
  /// `dim` = D, the rotated features of each head (even, at most the head's width; the rest pass through), positions 0 .. max_length - 1.
  Rotary(Index dim, Index max_length, double base, Pairing pairing);

  Index maxLength() const { return max_length_; }
  /// Turns every head of x (rows, H Dh) in place; row r stands at position first_position + r.
  void rotate(MatrixView x, Index num_heads, Index first_position = 0) const;

 private:
  Index dim_, max_length_;
  Pairing pairing_;
  std::vector<float> cos_, sin_;  // (max_length, D / 2)
};

}  // namespace heed
