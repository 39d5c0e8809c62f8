#pragma once

#include <vector>

#include "heed/module.h"
#include "heed/tensor.h"

/// How an encoder learns about order, which attention itself does not depend on.
/// Notation: T rows of all sequences, L positions, E width of the encoding, D width of x, H heads, Dh width of one
/// head.
namespace heed {

/// output(i, 2k) = sin(i base^(-2k/E)), output(i, 2k + 1) = cos of the same (Vaswani et al. 2017, arXiv:1706.03762,
/// section 3.5). output (L, E), E may be odd. Row i is position `first_position + i`. Throws kInvalidArgument for a
/// base that is not a finite number > 0.
void positionalEncoding(double base, MatrixView output, Index first_position = 0);

struct PositionalEncodingOptions {
  enum class Mode {
    kAdd,     ///< output = x + row, which needs D = E
    kConcat,  ///< output = [x, row]
  };
  Index embed_dim;
  Index max_length;
  double base = 10000;
  Mode mode = Mode::kAdd;
  bool learned = false;  ///< a table of parameters (torch.nn.Embedding) in place of the sinusoids
};

/// Adds or appends the i-th of `max_length` rows to the i-th row of every sequence. Parameter `weight` (max_length, E)
/// where learned, else none.
class PositionalEncoding : public Module {
 public:
  explicit PositionalEncoding(const PositionalEncodingOptions& options);
  /// x (T, D) -> output (T, outputWidth(D)); where rows are added, both may be the same. Throws kShapeMismatch for a
  /// sequence longer than max_length.
  void forward(ConstMatrixView x, const Sequences& sequences, MatrixView output) const;
  /// D, or D + E where rows are appended. Throws kShapeMismatch for a D that does not fit.
  Index outputWidth(Index width) const;
  const PositionalEncodingOptions& options() const { return options_; }

 private:
  std::vector<Parameter> ownParameters() override;

  PositionalEncodingOptions options_;
  std::vector<float> rows_;  // (max_length, E)
};

/// Rotary position embedding (Su et al. 2021, arXiv:2104.09864): the pair k of a head's features turns by i
/// base^(-2k/D) at position i, so that the product of a query and a key depends on their distance alone. D: the
/// features of a head that turn.
class Rotary {
 public:
  enum class Pairing {
    kHalfSplit,    ///< features (k, k + D/2): GPT-NeoX, ModernBERT, NomicBERT
    kInterleaved,  ///< features (2k, 2k + 1): the paper, GPT-J
  };
  /// Tables for positions 0 .. max_length - 1 of `dim` = D features, an even number > 0.
  Rotary(Index dim, Index max_length, double base, Pairing pairing);

  Index maxLength() const { return max_length_; }
  /// Turns the first D features of every head of x (rows, H Dh) in place; row r stands at position first_position + r.
  /// Throws kShapeMismatch where Dh < D, kInvalidArgument for positions from max_length on.
  void rotate(MatrixView x, Index num_heads, Index first_position = 0) const;

 private:
  Index dim_, max_length_;
  Pairing pairing_;
  std::vector<float> cos_, sin_;  // (max_length, D / 2)
};

}  // namespace heed
