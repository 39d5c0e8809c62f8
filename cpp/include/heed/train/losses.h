#pragma once

#include <span>

#include "heed/train/graph.h"

/// Losses. Each returns a scalar (1, 1), the mean over examples (PyTorch's default reduction) unless stated otherwise.
/// All throw kShapeMismatch and kInvalidArgument, naming the argument. Sums are computed in double precision, so that
/// they stay accurate for many examples.
/// Notation: T examples, C classes, E features.
namespace heed::train::losses {

/// One factor per entry of a loss, in the order of the entries, or none, which means ones.
struct Factors {
  std::vector<float> values = {};

  double at(Index i) const { return values.empty() ? 1 : static_cast<double>(values[static_cast<size_t>(i)]); }
};

/// The arguments of a loss by name, which a binding reads. Getters throw kShapeMismatch for other shapes.
class Arguments {
 public:
  virtual ~Arguments() = default;

  virtual const Shape& shape(const char* name) const = 0;
  /// A variable as a matrix: the rows of its last axis.
  virtual Variable variable(const char* name) const = 0;
  /// A variable that must have the shape of the variable `other`.
  virtual Variable variableLike(const char* name, const char* other) const = 0;
  /// The axes of a variable without the last one. `expected`: the required shape, for errors.
  virtual Shape leading(const char* name, const char* expected) const = 0;
  /// Indices, which must have this shape.
  virtual std::vector<int32_t> indices(const char* name, const Shape& expected) const = 0;
  /// Indices of any shape; empty if they are null.
  virtual std::vector<int32_t> indices(const char* name) const = 0;
  /// The values of a tensor, which must have this shape.
  virtual std::vector<float> numbers(const char* name, const Shape& expected) const = 0;
  /// The values of a vector [C]; empty if it is null.
  virtual std::vector<float> factors(const char* name) const = 0;
  /// Factors on the entries of a tensor of the shape `whole`: none if they are null. Otherwise their axes are the first
  /// axes of `whole`, and extents of 1 are repeated.
  virtual Factors entryFactors(const char* name, const Shape& whole) const = 0;
  virtual float number(const char* name) const = 0;
  virtual Index index(const char* name) const = 0;
  virtual bool flag(const char* name) const = 0;
};

struct CrossEntropyOptions {
  Index ignore_index = -100;  ///< examples with this label are ignored
  float label_smoothing = 0;  ///< in [0, 1]
  std::vector<float> weight;  ///< (C) factors on the classes, or empty
  Factors weights = {};       ///< (T) factors on the examples
};
/// torch.nn.CrossEntropyLoss: logits (T, C), labels (T) in [0, C). NaN if every label is ignored, as in PyTorch.
Variable crossEntropy(Graph& graph, const Variable& logits, std::vector<int32_t> labels,
                      const CrossEntropyOptions& options);
/// torch.nn.MSELoss of two tensors of the same shape. `weights` here and below: factors on the entries; the loss is
/// then the weighted mean, divided by the sum of the weights, or 0 if all weights are 0.
Variable mse(Graph& graph, const Variable& input, const Variable& target, Factors weights = {});
/// torch.nn.L1Loss.
Variable mae(Graph& graph, const Variable& input, const Variable& target, Factors weights = {});
/// torch.nn.HuberLoss.
Variable huber(Graph& graph, const Variable& input, const Variable& target, float delta, Factors weights = {});
/// The pinball loss (Koenker, Bassett 1978; sklearn.metrics.mean_pinball_loss): max(q (y - x), (q - 1) (y - x)).
Variable quantile(Graph& graph, const Variable& input, const Variable& target, float quantile, Factors weights = {});
struct GaussianOptions {
  bool full = false;
  float eps = 1e-6f;
  Factors weights = {};
};
/// torch.nn.GaussianNLLLoss. Throws kInvalidArgument for negative variances.
Variable gaussian(Graph& graph, const Variable& mean, const Variable& target, const Variable& variance,
                  const GaussianOptions& options);
struct GammaOptions {
  bool log_input = true;
  Factors weights = {}, exposure = {};
};
/// The deviance of Gamma distributions, up to constants and a factor 2 (scikit-learn's HalfGammaLoss): x + y e^-x, or
/// log(x) + y / x without log_input. The modelled mean is multiplied by `exposure`.
Variable gamma(Graph& graph, const Variable& input, const Variable& target, const GammaOptions& options);
struct BceOptions {
  std::vector<float> weight, pos_weight;  ///< as in PyTorch: (C), broadcast over rows, or empty
  Factors weights = {};
};
/// torch.nn.BCEWithLogitsLoss.
Variable bceWithLogits(Graph& graph, const Variable& logits, const Variable& target, const BceOptions& options = {});
struct PoissonOptions {
  bool log_input = true;
  bool full = false;
  float eps = 1e-8f;
  Factors weights = {}, exposure = {};
};
/// torch.nn.PoissonNLLLoss: exp(x) - y x, or x - y log(x + eps) without log_input. The modelled mean is multiplied by
/// `exposure`.
Variable poisson(Graph& graph, const Variable& input, const Variable& target, const PoissonOptions& options = {});
/// torch.nn.CosineEmbeddingLoss: a, b (T, E), labels (T) of 1 or -1.
Variable cosineEmbedding(Graph& graph, const Variable& a, const Variable& b, std::vector<float> labels, float margin,
                         Factors weights = {});
/// torch.nn.TripletMarginLoss with p = 2 (not squared): mean max(0, d(a, p) - d(a, n) + margin).
Variable triplet(Graph& graph, const Variable& anchor, const Variable& positive, const Variable& negative, float margin,
                 Factors weights = {});
/// In-batch negatives (sentence-transformers' MultipleNegativesRankingLoss; van den Oord et al. 2018,
/// arXiv:1807.03748): the cross entropy of scale cos(a_i, b_j) over j with label i. Pair j is not a negative of i if
/// both of its rows equal those of i bit for bit, or if both are in the same group. `groups` has one entry per row of a
/// or of b, or is empty. b has at least T rows; those after the first T are negatives of every a_i of another group.
Variable infoNCE(Graph& graph, const Variable& a, const Variable& b, float scale, std::vector<int32_t> groups);
/// Rows with the same label attract each other, all others repel (Khosla et al. 2020, arXiv:2004.11362, their L_out):
/// the mean over i of the mean over p of -log(e^{scale cos(x_i, x_p)} / sum over j != i of e^{scale cos(x_i, x_j)}),
/// where p are the other rows with the label of i. x (T, E), labels (T). Rows without another row of the same label are
/// skipped; the loss is 0 if all are.
Variable supervisedContrastive(Graph& graph, const Variable& x, const std::vector<int32_t>& labels, float scale);
/// Orders pairs by their labels (Huang et al. 2024, doi:10.1109/TASLP.2024.3402087; sentence-transformers' CoSENTLoss):
/// log(1 + sum of e^{scale (cos(a_i, b_i) - cos(a_j, b_j))} over all i and j with labels_i < labels_j). This is not a
/// mean over examples. a, b (T, E), labels (T), finite.
Variable coSENT(Graph& graph, const Variable& a, const Variable& b, const std::vector<float>& labels, float scale);

// The same losses, with their arguments by name.
Variable crossEntropyOf(Graph& graph, const Arguments& given);
Variable mseOf(Graph& graph, const Arguments& given);
Variable maeOf(Graph& graph, const Arguments& given);
Variable huberOf(Graph& graph, const Arguments& given);
Variable quantileOf(Graph& graph, const Arguments& given);
Variable gaussianOf(Graph& graph, const Arguments& given);
Variable gammaOf(Graph& graph, const Arguments& given);
Variable bceWithLogitsOf(Graph& graph, const Arguments& given);
Variable poissonOf(Graph& graph, const Arguments& given);
Variable cosineEmbeddingOf(Graph& graph, const Arguments& given);
Variable tripletOf(Graph& graph, const Arguments& given);
Variable infoNCEOf(Graph& graph, const Arguments& given);
Variable supervisedContrastiveOf(Graph& graph, const Arguments& given);
Variable coSENTOf(Graph& graph, const Arguments& given);

struct NamedLoss {
  const char* name;
  Variable (*record)(Graph& graph, const Arguments& given);
};
/// The losses by name.
inline constexpr NamedLoss kLosses[] = {
    {"crossEntropy", crossEntropyOf},
    {"mse", mseOf},
    {"mae", maeOf},
    {"huber", huberOf},
    {"quantile", quantileOf},
    {"gaussian", gaussianOf},
    {"gamma", gammaOf},
    {"bceWithLogits", bceWithLogitsOf},
    {"poisson", poissonOf},
    {"cosineEmbedding", cosineEmbeddingOf},
    {"triplet", tripletOf},
    {"infoNCE", infoNCEOf},
    {"supervisedContrastive", supervisedContrastiveOf},
    {"coSENT", coSENTOf},
};

}  // namespace heed::train::losses
