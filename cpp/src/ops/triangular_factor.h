#pragma once

#include "heed/tensor.h"

namespace heed {

/// Replaces the upper triangle of the symmetric matrix H (K, K), in row-major order, by the upper triangular R with
/// H = R R^T (a Cholesky factorization that begins with the last column); the lower triangle is then unspecified.
/// Returns false if H is not positive definite.
bool triangularFactor(double* h, Index width);

}  // namespace heed
