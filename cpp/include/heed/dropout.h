#pragma once

#include "heed/context.h"
#include "heed/module.h"
#include "heed/random.h"

/// Dropout (Srivastava et al. 2014; its reading as regularization: Wager, Wang, Liang 2013, arXiv:1307.1493).
namespace heed {

enum class DropoutScaling {
  kInverted,  ///< what is kept is divided by 1 - p, as frameworks do, so that expectations stay
  kNone,      ///< Z * x, Z Bernoulli(1 - p), and no more
};

/// Identifies the draws of one call: the seed of a dropout site and the number of calls that the site has answered. The
/// draw for an entry is a function of this key and of the entry's place alone, hence the same in every build, on any
/// number of threads, and whichever other entries are drawn; a backward pass repeats it.
struct DropoutKey {
  uint64_t seed = 0;
  uint64_t step = 0;
};

/// The draws along one row. `sequence` and `head` are 0 where x is a plain matrix.
class DropoutRow {
 public:
  DropoutRow(const DropoutKey& key, Index sequence, Index head, Index row);
  /// Whether the entry in `column` is dropped at rate p. Fastest for ascending columns.
  bool drops(Index column, float p);

 private:
  uint64_t key_;
  std::array<uint32_t, 4> counter_;  // (block of 4 columns, row, head, sequence)
  std::array<uint32_t, 4> words_;    // the draws of that block
};

/// output = Z * x, each entry dropped with probability p in [0, 1]. x and output (T, E) may be the same; row t draws as
/// row `first_row` + t.
void dropout(ConstMatrixView x, float p, DropoutScaling scaling, const DropoutKey& key, MatrixView output,
             Index first_row = 0);

/// What multiplies the entries that are kept.
inline float keptScale(float p, DropoutScaling scaling) {
  return scaling == DropoutScaling::kInverted ? 1 / (1 - p) : 1;
}

struct DropoutOptions {
  float p = 0.5f;
  DropoutScaling scaling = DropoutScaling::kInverted;
};

/// torch.nn.Dropout: draws anew on every call in training, the identity otherwise. No parameters.
class Dropout : public Module {
 public:
  explicit Dropout(const DropoutOptions& options);
  /// x, output of one shape, which may be the same.
  void forward(ConstMatrixView x, MatrixView output, const Context& context);
  /// Whether the next forward would draw.
  bool active() const { return training() && options_.p > 0; }
  /// The key of one call's draws.
  DropoutKey nextKey() { return {key_.seed, key_.step++}; }
  const DropoutOptions& options() const { return options_; }

 private:
  void seedOwn(uint64_t seed) override { key_ = {seed, 0}; }

  DropoutOptions options_;
  DropoutKey key_;
};

}  // namespace heed
