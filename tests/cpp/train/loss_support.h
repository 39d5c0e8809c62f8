#pragma once

#include <map>
#include <string>

#include "core/check.h"
#include "gradients.h"
#include "heed/train/losses.h"

/// Losses in tests: their arguments by name, and functions that pass them.
namespace heed::test {

using train::losses::Factors;

inline DoubleMatrix scalar(double x) { return DoubleMatrix::Constant(1, 1, x); }

/// The value of a loss of constants.
template <class Loss>
inline float valueOf(const Loss& loss) {
  Context context;
  train::Graph graph(context);
  return loss(graph).value()(0, 0);
}

inline train::Variable constant(train::Graph& graph, const RowMajorMatrix& m) {
  return graph.leaf(train::Matrix(window(m)));
}

/// The arguments of a loss of matrices. Those that are not given are null, 0 or false.
struct GivenArguments final : train::losses::Arguments {
  std::map<std::string, train::Variable> variables;
  std::map<std::string, std::vector<int32_t>> integers;
  std::map<std::string, std::vector<float>> vectors;
  std::map<std::string, double> scalars;
  mutable std::map<std::string, Shape> shapes = {};

  GivenArguments(std::map<std::string, train::Variable> given_variables, std::map<std::string, double> given_scalars)
      : variables(std::move(given_variables)), scalars(std::move(given_scalars)) {}

  const Shape& shape(const char* name) const override {
    const train::Variable& v = variables.at(name);
    return shapes[name] = Shape{v.rows(), v.cols()};
  }
  train::Variable variable(const char* name) const override { return variables.at(name); }
  train::Variable variableLike(const char* name, const char* other) const override {
    requireShape(name, shape(name), shape(other));
    return variable(name);
  }
  Shape leading(const char* name, const char*) const override { return {shape(name)[0]}; }
  std::vector<int32_t> indices(const char* name, const Shape& expected) const override {
    return checked(name, indices(name), expected);
  }
  std::vector<int32_t> indices(const char* name) const override { return found(integers, name); }
  std::vector<float> numbers(const char* name, const Shape& expected) const override {
    return checked(name, found(vectors, name), expected);
  }
  std::vector<float> factors(const char* name) const override { return found(vectors, name); }
  Factors entryFactors(const char* name, const Shape&) const override { return {found(vectors, name)}; }
  float number(const char* name) const override { return static_cast<float>(found(scalars, name)); }
  Index index(const char* name) const override { return static_cast<Index>(found(scalars, name)); }
  bool flag(const char* name) const override { return found(scalars, name) != 0; }

 private:
  template <class T>
  static T found(const std::map<std::string, T>& all, const char* name) {
    const auto at = all.find(name);
    return at == all.end() ? T() : at->second;
  }
  template <class T>
  static std::vector<T> checked(const char* name, std::vector<T> values, const Shape& expected) {
    requireShape(name, Shape{static_cast<Index>(values.size())}, expected);
    return values;
  }
};

struct CrossEntropyOptions {
  Index ignore_index = -100;
  float label_smoothing = 0;
  std::vector<float> weight = {};
};
inline train::Variable crossEntropy(train::Graph& graph, const train::Variable& logits,
                                    const std::vector<int32_t>& labels, const CrossEntropyOptions& options) {
  GivenArguments given({{"logits", logits}},
                       {{"ignoreIndex", options.ignore_index}, {"labelSmoothing", options.label_smoothing}});
  given.integers["labels"] = labels;
  given.vectors["classWeights"] = options.weight;
  return train::losses::crossEntropy(graph, given);
}

inline train::Variable mse(train::Graph& graph, const train::Variable& input, const train::Variable& target) {
  return train::losses::mse(graph, GivenArguments({{"input", input}, {"target", target}}, {}));
}

struct BceOptions {
  std::vector<float> weight = {}, pos_weight = {};
};
inline train::Variable bceWithLogits(train::Graph& graph, const train::Variable& logits, const train::Variable& target,
                                     const BceOptions& options = {}) {
  GivenArguments given({{"logits", logits}, {"target", target}}, {});
  given.vectors = {{"classWeights", options.weight}, {"posWeight", options.pos_weight}};
  return train::losses::bceWithLogits(graph, given);
}

struct PoissonOptions {
  bool log_input = true, full = false;
  float eps = 1e-8f;
};
inline train::Variable poisson(train::Graph& graph, const train::Variable& input, const train::Variable& target,
                               const PoissonOptions& options = {}) {
  return train::losses::poisson(
      graph, GivenArguments({{"input", input}, {"target", target}},
                            {{"logInput", options.log_input}, {"full", options.full}, {"eps", options.eps}}));
}

inline train::Variable cosineEmbedding(train::Graph& graph, const train::Variable& a, const train::Variable& b,
                                       const std::vector<float>& labels, float margin) {
  GivenArguments given({{"a", a}, {"b", b}}, {{"margin", margin}});
  given.vectors["labels"] = labels;
  return train::losses::cosineEmbedding(graph, given);
}

inline train::Variable triplet(train::Graph& graph, const train::Variable& anchor, const train::Variable& positive,
                               const train::Variable& negative, float margin) {
  return train::losses::triplet(
      graph,
      GivenArguments({{"anchor", anchor}, {"positive", positive}, {"negative", negative}}, {{"margin", margin}}));
}

inline train::Variable infoNCE(train::Graph& graph, const train::Variable& a, const train::Variable& b, float scale,
                               const std::vector<int32_t>& groups) {
  GivenArguments given({{"a", a}, {"b", b}}, {{"scale", scale}});
  given.integers["groups"] = groups;
  return train::losses::infoNCE(graph, given);
}

inline train::Variable supervisedContrastive(train::Graph& graph, const train::Variable& x,
                                             const std::vector<int32_t>& labels, float scale) {
  GivenArguments given({{"x", x}}, {{"scale", scale}});
  given.integers["labels"] = labels;
  return train::losses::supervisedContrastive(graph, given);
}

inline train::Variable coSENT(train::Graph& graph, const train::Variable& a, const train::Variable& b,
                              const std::vector<float>& labels, float scale) {
  GivenArguments given({{"a", a}, {"b", b}}, {{"scale", scale}});
  given.vectors["labels"] = labels;
  return train::losses::coSENT(graph, given);
}

}  // namespace heed::test
