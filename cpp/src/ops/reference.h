#pragma once

#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <vector>

/// The formulas that heed computes, in double precision and a few lines of Eigen each (reference.cpp), for reading and
/// for testing. The library does not call them; the native tests compare every operation with its formula.
///
/// Notation: L queries, S keys, Dk and Dv width of keys and values, T rows, E features; x_u is row u of X. Rows are
/// positions, as in the papers.
namespace heed::reference {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowVector = Eigen::RowVectorXd;

/// The score of a forbidden key.
inline constexpr double kForbidden = -std::numeric_limits<double>::infinity();

/// softmax(x)_j = exp(x_j - max x) / sum_k exp(x_k - max x) for each row; zeros if every entry is -infinity.
Matrix softmax(const Matrix& x);

/// Attention(Q, K, V) = softmax(scale Q K^T + M) V (Vaswani et al. 2017, eq. 1). Q (L, Dk), K (S, Dk), V (S, Dv),
/// M (L, S) the sum of biases and masks, -infinity for forbidden keys.
struct Attention {
  Matrix weights, output;  // (L, S), (L, Dv)
};
Attention attention(const Matrix& Q, const Matrix& K, const Matrix& V, double scale, const Matrix& M);

/// M of a causal mask and a window, where the first query has position `offset`: 0 if |i - j| <= window and, if
/// `causal`, j <= i; otherwise -infinity. A negative window means no limit.
Matrix causalAndWindow(Eigen::Index L, Eigen::Index S, bool causal, Eigen::Index window, Eigen::Index offset);

/// ALiBi's M for one head: -slope |i - j| (Press et al. 2021).
Matrix alibi(Eigen::Index L, Eigen::Index S, double slope);

/// The linear layer, applied at every position: X W^T + b, W (out, in), b (out).
Matrix linear(const Matrix& X, const Matrix& W, const RowVector& b);

/// LN(x) = gamma (x - mean) / sqrt(variance + eps) + beta for each row; the variance divides by E (Ba, Kiros, Hinton
/// 2016).
Matrix layerNorm(const Matrix& X, const RowVector& gamma, const RowVector& beta, double eps);

/// RMSNorm: gamma x / sqrt(mean of x^2 + eps) for each row (Zhang, Sennrich 2019).
Matrix rmsNorm(const Matrix& X, const RowVector& gamma, double eps);

/// The activations phi.
inline double identity(double x) { return x; }
inline double relu(double x) { return x > 0 ? x : 0; }
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double tanh(double x) { return std::tanh(x); }
inline double silu(double x) { return x * sigmoid(x); }
inline double quickGelu(double x) { return x * sigmoid(1.702 * x); }
/// x Phi(x), where Phi is the normal distribution function (Hendrycks, Gimpel 2016).
inline double gelu(double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }
inline double gelu10(double x) { return std::min(gelu(x), 10.0); }
inline double relu6(double x) { return std::min(relu(x), 6.0); }
inline double relu2(double x) { return relu(x) * relu(x); }
inline double leakyRelu(double x) { return x > 0 ? x : 0.01 * x; }
inline double hardswish(double x) { return x * relu6(x + 3) / 6; }
inline double mish(double x) { return x * std::tanh(std::log1p(std::exp(x))); }
inline double laplace(double x) { return 0.5 * std::erfc(-(x - 0.707107) / (0.282095 * std::sqrt(2.0))); }
inline double geluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / EIGEN_PI) * (x + 0.044715 * x * x * x)));
}

/// Inverted dropout: Z * X / (1 - p), where Z is 1 for entries that are kept, otherwise 0 (Srivastava et al. 2014).
Matrix dropout(const Matrix& X, const Matrix& Z, double p);

/// phi(i) = [sin(w_0 i), cos(w_0 i), sin(w_1 i), ...], w_k = base^(-2k / E) (Vaswani et al. 2017, section 3.5).
Matrix positionalEncoding(Eigen::Index length, Eigen::Index E, double base);

/// Rotary positions (Su et al. 2021): at position i the pair (x_k, x_{k + D/2}) of a row of D features is rotated by
/// the angle i base^(-2k / D).
Matrix rotary(const Matrix& X, Eigen::Index first_position, double base);

/// The convolution of a sequence with K matrices W_k (out, E) and zero padding:
/// y_t = b + sum_k W_k x_{t + k - (K - 1) / 2}.
Matrix convolution(const Matrix& X, const std::vector<Matrix>& W, const RowVector& b);

/// sum_i w_i x_i / sum_i w_i over the rows of X: mean pooling for w = 1, weighted mean for w_i = i from 1.
RowVector pool(const Matrix& X, const Eigen::VectorXd& w);

}  // namespace heed::reference
