#pragma once

#include <span>

#include "heed/train/graph.h"

/// Losses. Each returns a scalar (1, 1), the mean over examples (PyTorch's default reduction) unless stated otherwise.
/// All throw kShapeMismatch and kInvalidArgument, naming the argument. Sums are computed in double precision, so that
/// they stay accurate for many examples.
/// Notation: T examples, C classes, E features.
namespace heed::train::losses {

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
  virtual float number(const char* name) const = 0;
  virtual Index index(const char* name) const = 0;
  virtual bool flag(const char* name) const = 0;
};

struct CrossEntropyOptions {
  Index ignore_index = -100;  ///< examples with this label are ignored
  float label_smoothing = 0;  ///< in [0, 1]
  std::vector<float> weight;  ///< (C) factors on the classes, or empty
};
/// torch.nn.CrossEntropyLoss: logits (T, C), labels (T) in [0, C). NaN if every label is ignored, as in PyTorch.
Variable crossEntropy(Graph& graph, const Variable& logits, std::vector<int32_t> labels,
                      const CrossEntropyOptions& options);
/// torch.nn.MSELoss of two tensors of the same shape.
Variable mse(Graph& graph, const Variable& input, const Variable& target);
struct BceOptions {
  std::vector<float> weight, pos_weight;  ///< as in PyTorch: (C), broadcast over rows, or empty
};
/// torch.nn.BCEWithLogitsLoss.
Variable bceWithLogits(Graph& graph, const Variable& logits, const Variable& target, const BceOptions& options = {});
struct PoissonOptions {
  bool log_input = true;
  bool full = false;
  float eps = 1e-8f;
};
/// torch.nn.PoissonNLLLoss: exp(x) - y x, or x - y log(x + eps) without log_input.
Variable poisson(Graph& graph, const Variable& input, const Variable& target, const PoissonOptions& options = {});
/// torch.nn.CosineEmbeddingLoss: a, b (T, E), labels (T) of 1 or -1.
Variable cosineEmbedding(Graph& graph, const Variable& a, const Variable& b, std::vector<float> labels, float margin);
/// torch.nn.TripletMarginLoss with p = 2 (not squared): mean max(0, d(a, p) - d(a, n) + margin).
Variable triplet(Graph& graph, const Variable& anchor, const Variable& positive, const Variable& negative,
                 float margin);
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
    {"bceWithLogits", bceWithLogitsOf},
    {"poisson", poissonOf},
    {"cosineEmbedding", cosineEmbeddingOf},
    {"triplet", tripletOf},
    {"infoNCE", infoNCEOf},
    {"supervisedContrastive", supervisedContrastiveOf},
    {"coSENT", coSENTOf},
};

}  // namespace heed::train::losses
