#pragma once

#include <span>

#include "heed/train/graph.h"

/// Losses. Each reads its arguments by name and returns a scalar (1, 1), the mean over examples (PyTorch's default
/// reduction) unless stated otherwise. All throw kShapeMismatch and kInvalidArgument, naming the argument. Sums are
/// computed in double precision, so that they stay accurate for many examples.
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

/// torch.nn.CrossEntropyLoss: logits (T, C), labels (T) in [0, C), classWeights (C), exampleWeights (T), ignoreIndex,
/// labelSmoothing in [0, 1]. NaN if every label is ignored, as in PyTorch.
Variable crossEntropy(Graph& graph, const Arguments& given);
/// torch.nn.MSELoss: input and target, of the same shape. `exampleWeights` here and below: factors on the entries; the
/// loss is then the weighted mean, divided by the sum of the weights, or 0 if all weights are 0.
Variable mse(Graph& graph, const Arguments& given);
/// torch.nn.L1Loss: input, target, exampleWeights.
Variable mae(Graph& graph, const Arguments& given);
/// torch.nn.HuberLoss: input, target, exampleWeights, delta.
Variable huber(Graph& graph, const Arguments& given);
/// The pinball loss (Koenker, Bassett 1978; sklearn.metrics.mean_pinball_loss), max(q (y - x), (q - 1) (y - x)): input,
/// target, exampleWeights, quantile.
Variable quantile(Graph& graph, const Arguments& given);
/// torch.nn.GaussianNLLLoss: mean, target, variance >= 0, exampleWeights, full, eps.
Variable gaussian(Graph& graph, const Arguments& given);
/// The deviance of Gamma distributions, up to constants and a factor 2 (scikit-learn's HalfGammaLoss): x + y e^-x, or
/// log(x) + y / x without logInput. input, target, exampleWeights, exposure (factors on the modelled mean),
/// logInput.
Variable gamma(Graph& graph, const Arguments& given);
/// torch.nn.BCEWithLogitsLoss: logits and target, of the same shape; classWeights and posWeight (C); exampleWeights.
Variable bceWithLogits(Graph& graph, const Arguments& given);
/// torch.nn.PoissonNLLLoss, exp(x) - y x, or x - y log(x + eps) without logInput: input, target, exampleWeights,
/// exposure as in gamma(), logInput, full, eps.
Variable poisson(Graph& graph, const Arguments& given);
/// torch.nn.CosineEmbeddingLoss: a, b (T, E), labels (T) of 1 or -1, exampleWeights (T), margin.
Variable cosineEmbedding(Graph& graph, const Arguments& given);
/// torch.nn.TripletMarginLoss with p = 2 (not squared), mean max(0, d(a, p) - d(a, n) + margin): anchor, positive,
/// negative (T, E), exampleWeights (T), margin.
Variable triplet(Graph& graph, const Arguments& given);
/// In-batch negatives (sentence-transformers' MultipleNegativesRankingLoss; van den Oord et al. 2018,
/// arXiv:1807.03748): the cross entropy of scale cos(a_i, b_j) over j with label i. Pair j is not a negative of i if
/// both of its rows equal those of i bit for bit, or if both are in the same group. a (T, E), b (at least T, E), scale.
/// `groups` has one entry per row of a or of b, or is null. Rows of b after the first T are negatives of every a_i of
/// another group.
Variable infoNCE(Graph& graph, const Arguments& given);
/// Rows with the same label attract each other, all others repel (Khosla et al. 2020, arXiv:2004.11362, their L_out):
/// the mean over i of the mean over p of -log(e^{scale cos(x_i, x_p)} / sum over j != i of e^{scale cos(x_i, x_j)}),
/// where p are the other rows with the label of i. x (T, E), labels (T), scale. Rows without another row of the same
/// label are skipped; the loss is 0 if all are.
Variable supervisedContrastive(Graph& graph, const Arguments& given);
/// Orders pairs by their labels (Huang et al. 2024, doi:10.1109/TASLP.2024.3402087; sentence-transformers' CoSENTLoss):
/// log(1 + sum of e^{scale (cos(a_i, b_i) - cos(a_j, b_j))} over all i and j with labels_i < labels_j). This is not a
/// mean over examples. a, b (T, E), labels (T), finite, scale.
Variable coSENT(Graph& graph, const Arguments& given);

struct NamedLoss {
  const char* name;
  Variable (*record)(Graph& graph, const Arguments& given);
};
/// The losses by name.
inline constexpr NamedLoss kLosses[] = {
    {"crossEntropy", crossEntropy},
    {"mse", mse},
    {"mae", mae},
    {"huber", huber},
    {"quantile", quantile},
    {"gaussian", gaussian},
    {"gamma", gamma},
    {"bceWithLogits", bceWithLogits},
    {"poisson", poisson},
    {"cosineEmbedding", cosineEmbedding},
    {"triplet", triplet},
    {"infoNCE", infoNCE},
    {"supervisedContrastive", supervisedContrastive},
    {"coSENT", coSENT},
};

}  // namespace heed::train::losses
