#pragma once

#include <cstdint>

#include "heed/module.h"

namespace heed {

/// How matrices are initialized.
enum class Initialization {
  kByLayer,  ///< as in the constructors of PyTorch's layers
  kXavier,   ///< all matrices Xavier-uniform, as in torch.nn.Transformer
};

/// Initializes every parameter of `module` like PyTorch's module of the same name, with draws seeded by `seed`:
///
///   Linear                weight and bias uniform in +-1 / sqrt(in)
///   MultiHeadAttention    projections Xavier-uniform, in_proj_weight as one matrix; biases 0; out_proj.weight as
///                         in Linear
///   LayerNorm, BatchNorm  weight 1, bias 0, running mean 0 and variance 1
///   learned positions     normal with standard deviation 1, as in torch.nn.Embedding
void initialize(Module& module, uint64_t seed, Initialization initialization = Initialization::kByLayer);

}  // namespace heed
