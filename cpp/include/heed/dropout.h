#pragma once

#include "heed/module.h"
#include "heed/random.h"
#include "heed/tensor.h"
#include "heed/value.h"

/// Dropout (Srivastava et al. 2014; as regularization: Wager, Wang, Liang 2013, arXiv:1307.1493).
/// Notation: T rows, E columns, p rate.
namespace heed {

class Evaluator;

enum class DropoutScaling {
  kInverted,  ///< divides the kept entries by 1 - p, as frameworks do, to preserve the expectation
  kNone,      ///< leaves the kept entries unchanged
};

/// Identifies the draws of one call: the seed of a dropout layer and the number of its earlier calls. The draw for an
/// entry depends only on this key and on the entry's position. It is therefore the same in every build, with any number
/// of threads and whatever other entries are drawn, and a backward pass can repeat it.
struct DropoutKey {
  uint64_t seed = 0;
  uint64_t step = 0;
};

/// The factor on entries that are not dropped.
inline float keepFactor(float p, DropoutScaling scaling) {
  return scaling == DropoutScaling::kInverted ? 1 / (1 - p) : 1;
}

struct DropoutOptions {
  float p = 0.5f;
  DropoutScaling scaling = DropoutScaling::kInverted;
};

/// output = Z * x, where each entry of Z is 0 with probability p in [0, 1] and keepFactor() otherwise. x and output (T,
/// E) may be the same. Row t and column c use the draws of row `first_row` + t and column `first_column` + c. Throws
/// kInvalidArgument for p outside [0, 1].
void dropout(ConstMatrixView x, const DropoutOptions& options, const DropoutKey& key, MatrixView output,
             Index first_row = 0, Index first_column = 0);

/// torch.nn.Dropout: new draws on every call in training mode, the identity otherwise. No parameters.
class Dropout : public Module {
 public:
  explicit Dropout(const DropoutOptions& options);
  /// See Evaluator::dropout(). Consumes x.
  Value forward(Evaluator& e, const Value& x, Index first_column = 0);
  /// Whether forward() drops entries.
  bool active() const { return training() && options_.p > 0; }
  /// Returns the key for the draws of one call, and counts the call.
  DropoutKey nextKey() { return {key_.seed, key_.step++}; }
  /// The key for the draws of the next call, which is not counted; for checkpoints.
  const DropoutKey& key() const { return key_; }
  void setKey(const DropoutKey& key) { key_ = key; }
  const DropoutOptions& options() const { return options_; }
  std::vector<Dropout*> dropouts() override { return {this}; }

 private:
  void seedOwn(uint64_t seed) override { key_ = {seed, 0}; }

  DropoutOptions options_;
  DropoutKey key_;
};

/// The state of some dropouts, so that the same values can be drawn again.
class DrawState {
 public:
  explicit DrawState(std::vector<Dropout*> dropouts) : dropouts_(std::move(dropouts)) {
    for (const Dropout* dropout : dropouts_) keys_.push_back(dropout->key());
  }
  void restore() const {
    for (size_t i = 0; i < dropouts_.size(); ++i) dropouts_[i]->setKey(keys_[i]);
  }

 private:
  std::vector<Dropout*> dropouts_;
  std::vector<DropoutKey> keys_;
};

/// Returns call(), a call of `module`. If it throws, the next call uses the draws of the failed one.
template <class Call>
auto drawing(Module& module, const Call& call) {
  if (!module.training()) return call();
  const DrawState before(module.dropouts());
  try {
    return call();
  } catch (...) {
    before.restore();
    throw;
  }
}

}  // namespace heed
