#pragma once

#include <Eigen/Core>
#include <Eigen/Geometry>
#include <cmath>
#include <limits>
#include <vector>

/// The formulas that heed computes, in double precision and a few lines of Eigen each, to be read and to be compared
/// with. Nothing in the library calls them; the native tests hold every operation against its formula here.
///
/// Notation: L queries, S keys, Dk / Dv key / value width, T rows, E features; x_u is row u of X. A matrix product is
/// written as in the papers: rows are positions.
namespace heed::reference {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowVector = Eigen::RowVectorXd;

/// A score that forbids its key.
inline constexpr double kForbidden = -std::numeric_limits<double>::infinity();

/// softmax(x)_j = exp(x_j - max x) / sum_k exp(x_k - max x) for each row; zeros if every entry is -infinity.
inline Matrix softmax(const Matrix& x) {
  Matrix a = Matrix::Zero(x.rows(), x.cols());
  for (Eigen::Index i = 0; i < x.rows() && x.cols() > 0; ++i) {
    if (x.row(i).maxCoeff() == kForbidden) continue;
    a.row(i) = (x.row(i).array() - x.row(i).maxCoeff()).exp();
    a.row(i) /= a.row(i).sum();
  }
  return a;
}

/// Attention(Q, K, V) = softmax(scale Q K^T + M) V (Vaswani et al. 2017, eq. 1). Q (L, Dk), K (S, Dk), V (S, Dv),
/// M (L, S) the sum of biases and masks, -infinity for forbidden keys.
struct Attention {
  Matrix weights, output;  // (L, S), (L, Dv)
};
inline Attention attention(const Matrix& Q, const Matrix& K, const Matrix& V, double scale, const Matrix& M) {
  const Matrix A = softmax(scale * Q * K.transpose() + M);
  return {A, A * V};
}

/// M of a causal mask and a window, the first query being at `offset`: 0 if |i - j| <= window and, if causal,
/// j <= i; otherwise -infinity. A negative window is not limited.
inline Matrix causalAndWindow(Eigen::Index L, Eigen::Index S, bool causal, Eigen::Index window, Eigen::Index offset) {
  return Matrix::NullaryExpr(L, S, [=](Eigen::Index row, Eigen::Index j) {
    const Eigen::Index i = row + offset, distance = i > j ? i - j : j - i;
    return (causal && j > i) || (window >= 0 && distance > window) ? kForbidden : 0.0;
  });
}

/// ALiBi's M for one head: -slope |i - j| (Press et al. 2021).
inline Matrix alibi(Eigen::Index L, Eigen::Index S, double slope) {
  return Matrix::NullaryExpr(L, S, [=](Eigen::Index i, Eigen::Index j) { return -slope * std::abs(double(i - j)); });
}

/// The time-distributed layer: X W^T + b, W (out, in), b (out).
inline Matrix linear(const Matrix& X, const Matrix& W, const RowVector& b) { return (X * W.transpose()).rowwise() + b; }

/// LN(x) = gamma (x - mean) / sqrt(variance + eps) + beta for each row, variance with 1/E (Ba, Kiros, Hinton 2016).
inline Matrix layerNorm(const Matrix& X, const RowVector& gamma, const RowVector& beta, double eps) {
  const Matrix centred = X.colwise() - X.rowwise().mean();
  const Eigen::VectorXd deviation = (centred.rowwise().squaredNorm() / double(X.cols())).array() + eps;
  const Matrix normed = centred.array().colwise() / deviation.array().sqrt();
  return (normed * gamma.asDiagonal()).rowwise() + beta;
}

/// RMSNorm: gamma x / sqrt(mean of x^2 + eps) for each row (Zhang, Sennrich 2019).
inline Matrix rmsNorm(const Matrix& X, const RowVector& gamma, double eps) {
  const Eigen::VectorXd root = ((X.rowwise().squaredNorm() / double(X.cols())).array() + eps).sqrt();
  return (X.array().colwise() / root.array()).matrix() * gamma.asDiagonal();
}

/// The activations phi of a time-distributed layer.
inline double identity(double x) { return x; }
inline double relu(double x) { return x > 0 ? x : 0; }
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double tanh(double x) { return std::tanh(x); }
inline double silu(double x) { return x * sigmoid(x); }
/// x Phi(x), Phi the normal distribution function (Hendrycks, Gimpel 2016).
inline double gelu(double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }
inline double geluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / EIGEN_PI) * (x + 0.044715 * x * x * x)));
}

/// Z * X / (1 - p), Z the kept entries (1 or 0): inverted dropout (Srivastava et al. 2014).
inline Matrix dropout(const Matrix& X, const Matrix& Z, double p) { return X.cwiseProduct(Z) / (1 - p); }

/// phi(i) = [sin(w_0 i), cos(w_0 i), sin(w_1 i), ...], w_k = base^(-2k / E) (Vaswani et al. 2017, section 3.5).
inline Matrix positionalEncoding(Eigen::Index length, Eigen::Index E, double base) {
  return Matrix::NullaryExpr(length, E, [=](Eigen::Index i, Eigen::Index column) {
    const double angle = double(i) * std::pow(base, -2.0 * double(column / 2) / double(E));
    return column % 2 == 0 ? std::sin(angle) : std::cos(angle);
  });
}

/// Rotary positions (Su et al. 2021): at position i the pair (x_k, x_{k + D/2}) of a row of D features turns by the
/// angle i base^(-2k / D).
inline Matrix rotary(const Matrix& X, Eigen::Index first_position, double base) {
  const Eigen::Index half = X.cols() / 2;
  Matrix turned = X;
  for (Eigen::Index i = 0; i < X.rows(); ++i) {
    for (Eigen::Index k = 0; k < half; ++k) {
      const double angle = double(first_position + i) * std::pow(base, -double(k) / double(half));
      const Eigen::Rotation2Dd rotation(angle);
      const Eigen::Vector2d pair = rotation * Eigen::Vector2d(X(i, k), X(i, k + half));
      turned(i, k) = pair[0];
      turned(i, k + half) = pair[1];
    }
  }
  return turned;
}

/// The convolution of a sequence with W_k (out, E) and zero padding: y_t = b + sum_k W_k x_{t + k - (K - 1) / 2}.
inline Matrix convolution(const Matrix& X, const std::vector<Matrix>& W, const RowVector& b) {
  const auto reach = (Eigen::Index(W.size()) - 1) / 2;
  Matrix Y = b.replicate(X.rows(), 1);
  for (Eigen::Index t = 0; t < X.rows(); ++t) {
    for (Eigen::Index k = 0; k < Eigen::Index(W.size()); ++k) {
      const Eigen::Index from = t + k - reach;
      if (from >= 0 && from < X.rows()) Y.row(t) += X.row(from) * W[size_t(k)].transpose();
    }
  }
  return Y;
}

/// sum_i w_i x_i / sum_i w_i over the rows of X: mean pooling for w = 1, weighted mean for w_i = i from 1.
inline RowVector pool(const Matrix& X, const Eigen::VectorXd& w) { return (w.transpose() * X) / w.sum(); }

}  // namespace heed::reference
