#pragma once

#include <cstdint>

#include "heed/module.h"

namespace heed {

/// How matrices start.
enum class Initialization {
  kByLayer,  ///< as each PyTorch layer's constructor does
  kXavier,   ///< every matrix Xavier-uniform, as torch.nn.Transformer does
};

/// Gives every parameter of `module` the value that PyTorch's module of the same name starts with, drawn from `seed`:
///
///   Linear                weight and bias uniform in +-1 / sqrt(in)
///   MultiHeadAttention    projections Xavier-uniform, in_proj_weight as one matrix; biases 0; out_proj.weight as
///                         Linear's
///   LayerNorm, BatchNorm  weight 1, bias 0, running mean 0 and variance 1
///   learned positions     normal with deviation 1, as torch.nn.Embedding
void initialize(Module& module, uint64_t seed, Initialization initialization = Initialization::kByLayer);

}  // namespace heed
