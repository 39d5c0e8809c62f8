#pragma once

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "heed/module.h"
#include "heed/tensor.h"

/// Positional encodings add information about order, which attention by itself ignores.
/// Notation: T rows of all sequences, L positions, E width of the encoding, D width of x, H heads, Dh width of one
/// head.
namespace heed {

/// Sinusoidal encodings: output(i, 2k) = sin(p base^(-2k/E)), output(i, 2k + 1) = cos(p base^(-2k/E)) for the position
/// p = first_position + i (Vaswani et al. 2017, arXiv:1706.03762, section 3.5). output is (L, E); E may be odd. Throws
/// kInvalidArgument if the base is not finite or not positive. `first_k`: the first k in base^(-2k/E), 0 in the paper.
void positionalEncoding(double base, MatrixView output, Index first_position = 0, Index first_k = 0);

/// w_k = base^(-2k/width) for each pair k of features, with k from `first_k`. Angles p w_k must be computed in double:
/// in fp32, the error at position 10^4 is 10^-3.
std::vector<double> sinusoidFrequencies(Index width, double base, Index first_k = 0);

struct PositionalEncodingOptions {
  enum class Mode {
    kAdd,     ///< output = x + encoding; requires D = E
    kConcat,  ///< output = [x, encoding]
  };
  Index embed_dim;
  Index max_length;
  double base = 10000;
  Index start = 0;  ///< the first k in base^(-2k/E)
  Mode mode = Mode::kAdd;
  bool learned = false;  ///< a table of parameters (torch.nn.Embedding) instead of sinusoids
};

/// Adds or appends the encoding of position i to row i of every sequence. Parameter: weight (max_length, E) if learned,
/// otherwise none.
class PositionalEncoding : public Module {
 public:
  explicit PositionalEncoding(const PositionalEncodingOptions& options);
  /// x (T, D), output (T, outputWidth(D)); they may be the same in mode kAdd. Throws kShapeMismatch for sequences
  /// longer than max_length.
  void forward(ConstMatrixView x, const Sequences& sequences, MatrixView output) const;
  /// The width of the output: D, or D + E in mode kConcat. Throws kShapeMismatch if D differs from E in mode kAdd.
  Index outputWidth(Index width) const;
  const PositionalEncodingOptions& options() const { return options_; }
  /// (max_length, E); a parameter if learned.
  const float* table() const { return rows_.data(); }

 private:
  std::vector<Parameter> ownParameters() override;

  PositionalEncodingOptions options_;
  std::vector<float> rows_;  // (max_length, E)
};

/// The angles of rotary positions: pair k of a head's features has the angle i frequencies[k] at position i.
struct RotaryAngles {
  std::vector<double> frequencies;  ///< (D / 2)
  double factor = 1;                ///< on the cosines and sines (`attention_factor` of YaRN, arXiv:2309.00071)

  /// The frequencies scale base^(-2k/D) for `dim` = D features. Throws kInvalidArgument if D is not even and positive.
  static RotaryAngles of(Index dim, double base, double scale = 1);
};

/// Rotary position embedding (Su et al. 2021, arXiv:2104.09864): at position i, pair k of a head's features is rotated
/// by the angle i base^(-2k/D), so that the dot product of a query and a key depends only on their distance. D is the
/// number of rotated features per head.
class Rotary {
 public:
  enum class Pairing {
    kHalfSplit,    ///< features (k, k + D/2): GPT-NeoX, ModernBERT, NomicBERT
    kInterleaved,  ///< features (2k, 2k + 1): the paper, GPT-J
  };
  /// Computes tables for positions first .. first + length - 1 and `dim` = D features. All angles are multiplied by
  /// `scale`. Throws kInvalidArgument if D is not even and positive, or for positions beyond the range of Index.
  Rotary(Index dim, Index length, double base, Pairing pairing, double scale = 1, Index first = 0)
      : Rotary(RotaryAngles::of(dim, base, scale), length, pairing, first) {}
  Rotary(const RotaryAngles& angles, Index length, Pairing pairing, Index first = 0);
  /// Uses the given angles (length, D / 2), for example of positions in two dimensions. The pairs are (k, k + D/2).
  explicit Rotary(ConstMatrixView angles);

  Index length() const { return length_; }
  /// Rotates the first D features of every head of x (rows, H Dh) in place; row r has the position first_position + r.
  /// `back`: rotates by the negated angles. Throws kShapeMismatch if Dh < D, kInvalidArgument for positions without a
  /// table.
  void rotate(MatrixView x, Index num_heads, Index first_position = 0, bool back = false) const;

 private:
  Index dim_, length_, first_ = 0;
  Pairing pairing_;
  std::vector<float> cos_, sin_;  // (length, D / 2)
};

/// Rotary tables for positions from 0 that grow with the sequences.
class GrowingRotary {
 public:
  /// `most`: the number of positions that the tables never exceed.
  GrowingRotary(Index dim, double base, Rotary::Pairing pairing, double scale = 1,
                Index most = std::numeric_limits<Index>::max())
      : GrowingRotary(RotaryAngles::of(dim, base, scale), pairing, most) {}
  GrowingRotary(RotaryAngles angles, Rotary::Pairing pairing, Index most = std::numeric_limits<Index>::max())
      : angles_(std::move(angles)), most_(most), pairing_(pairing) {}
  /// Tables for at least `length` positions, at most `most`. A longer sequence replaces the tables, so callers must
  /// pass them to Evaluator::share().
  const std::shared_ptr<const Rotary>& tables(Index length);

 private:
  RotaryAngles angles_;
  Index most_;
  Rotary::Pairing pairing_;
  std::shared_ptr<const Rotary> tables_;
};

}  // namespace heed
