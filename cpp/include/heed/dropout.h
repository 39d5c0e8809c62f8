#pragma once

#include "heed/module.h"
#include "heed/random.h"

/// Dropout (Srivastava et al. 2014; its reading as regularization: Wager, Wang, Liang 2013, arXiv:1307.1493).
namespace heed {

enum class DropoutScaling {
  kInverted,  ///< what is kept is divided by 1 - p, as frameworks do, so that expectations stay
  kNone,      ///< Z * x, Z Bernoulli(1 - p), and no more
};

/// output = Z * x, each entry dropped with probability p in [0, 1). x and output may be the same. Entries are drawn row
/// by row.
void dropout(ConstMatrixView x, float p, DropoutScaling scaling, Generator& generator, MatrixView output);

struct DropoutOptions {
  float p = 0.5f;
  DropoutScaling scaling = DropoutScaling::kInverted;
};

/// torch.nn.Dropout: draws anew on every call in training, the identity otherwise. No parameters.
class Dropout : public Module {
 public:
  explicit Dropout(const DropoutOptions& options);
  /// x, output of one shape, which may be the same.
  void forward(ConstMatrixView x, MatrixView output);
  /// Whether the next forward would draw.
  bool active() const { return training() && options_.p > 0; }
  const DropoutOptions& options() const { return options_; }
  void collect(const std::string&, std::vector<Parameter>&) override {}
  void seed(uint64_t seed) override { generator_ = Generator(seed); }

 private:
  DropoutOptions options_;
  Generator generator_;
};

}  // namespace heed
