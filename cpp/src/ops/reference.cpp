// Formulas and sources are in the header. Compiled only for the native tests.
#include "ops/reference.h"

#include <Eigen/Geometry>

namespace heed::reference {

Matrix softmax(const Matrix& x) {
  Matrix a = Matrix::Zero(x.rows(), x.cols());
  for (Eigen::Index i = 0; i < x.rows() && x.cols() > 0; ++i) {
    if (x.row(i).maxCoeff() == kForbidden) continue;
    a.row(i) = (x.row(i).array() - x.row(i).maxCoeff()).exp();
    a.row(i) /= a.row(i).sum();
  }
  return a;
}

Attention attention(const Matrix& Q, const Matrix& K, const Matrix& V, double scale, const Matrix& M) {
  const Matrix A = softmax(scale * Q * K.transpose() + M);
  return {A, A * V};
}

Matrix causalAndWindow(Eigen::Index L, Eigen::Index S, bool causal, Eigen::Index window, Eigen::Index offset) {
  return Matrix::NullaryExpr(L, S, [=](Eigen::Index row, Eigen::Index j) {
    const Eigen::Index i = row + offset, distance = i > j ? i - j : j - i;
    return (causal && j > i) || (window >= 0 && distance > window) ? kForbidden : 0.0;
  });
}

Matrix alibi(Eigen::Index L, Eigen::Index S, double slope) {
  return Matrix::NullaryExpr(L, S, [=](Eigen::Index i, Eigen::Index j) { return -slope * std::abs(double(i - j)); });
}

Matrix linear(const Matrix& X, const Matrix& W, const RowVector& b) { return (X * W.transpose()).rowwise() + b; }

Matrix layerNorm(const Matrix& X, const RowVector& gamma, const RowVector& beta, double eps) {
  const Matrix centred = X.colwise() - X.rowwise().mean();
  const Eigen::VectorXd deviation = (centred.rowwise().squaredNorm() / double(X.cols())).array() + eps;
  const Matrix normed = centred.array().colwise() / deviation.array().sqrt();
  return (normed * gamma.asDiagonal()).rowwise() + beta;
}

Matrix rmsNorm(const Matrix& X, const RowVector& gamma, double eps) {
  const Eigen::VectorXd root = ((X.rowwise().squaredNorm() / double(X.cols())).array() + eps).sqrt();
  return (X.array().colwise() / root.array()).matrix() * gamma.asDiagonal();
}

Matrix dropout(const Matrix& X, const Matrix& Z, double p) { return X.cwiseProduct(Z) / (1 - p); }

Matrix positionalEncoding(Eigen::Index length, Eigen::Index E, double base) {
  return Matrix::NullaryExpr(length, E, [=](Eigen::Index i, Eigen::Index column) {
    const Eigen::Index pair = column / 2;
    const double angle = double(i) * std::pow(base, -2.0 * double(pair) / double(E));
    return column % 2 == 0 ? std::sin(angle) : std::cos(angle);
  });
}

Matrix rotary(const Matrix& X, Eigen::Index first_position, double base) {
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

Matrix convolution(const Matrix& X, const std::vector<Matrix>& W, const RowVector& b) {
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

RowVector pool(const Matrix& X, const Eigen::VectorXd& w) { return (w.transpose() * X) / w.sum(); }

}  // namespace heed::reference
