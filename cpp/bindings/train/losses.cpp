#include "heed/train/losses.h"

#include <emscripten/bind.h>

#include "core/check.h"
#include "graph.h"

/// Losses: variables without axes.
namespace heed::bindings {
namespace {

namespace losses = train::losses;

template <class Loss>
BoundVariable* scalar(Loss loss) {
  return guarded([&] { return made(Shape{}, loss()); });
}

/// The axes of logits or vectors but the last, which labels have.
Shape leading(const char* argument, const Shape& shape, const char* expected) {
  if (shape.rank() < 1) refuseShape(argument, expected, shape);
  return Shape(std::vector<Index>(shape.extents().begin(), shape.extents().end() - 1));
}

/// Labels { data: Int32Array, shape } of this shape.
std::vector<int32_t> readLabels(const char* argument, const val& labels, const Shape& shape) {
  requireSame(argument, readShape(labels["shape"]), shape);
  return readIntegers(labels["data"]);
}

/// A vector of factors; empty if it is null.
std::vector<float> readFactors(const char* argument, const val& factors) {
  const auto read = readOptionalTensor(factors);
  if (!read) return {};
  if (read->shape.rank() != 1) refuseShape(argument, "[C]", read->shape);
  return {read->data, read->data + read->shape.size()};
}

BoundVariable* crossEntropyOf(BoundGraph& graph, const BoundVariable& logits, const val& labels, const val& options) {
  return scalar([&] {
    const Shape shape = leading("logits", logits.shape(), "[..., C]");
    return losses::crossEntropy(graph.graph(), logits.variable(), readLabels("labels", labels, shape),
                                {.ignore_index = readIndex(options, "ignoreIndex"),
                                 .label_smoothing = readFloat(options, "labelSmoothing"),
                                 .weight = readFactors("weight", options["weight"])});
  });
}

BoundVariable* mseOf(BoundGraph& graph, const BoundVariable& input, const BoundVariable& target) {
  return scalar([&] {
    requireSame("target", target.shape(), input.shape());
    return losses::mse(graph.graph(), input.variable(), target.variable());
  });
}

BoundVariable* bceOf(BoundGraph& graph, const BoundVariable& logits, const BoundVariable& target, const val& options) {
  return scalar([&] {
    requireSame("target", target.shape(), logits.shape());
    return losses::bceWithLogits(graph.graph(), logits.variable(), target.variable(),
                                 {.weight = readFactors("weight", options["weight"]),
                                  .pos_weight = readFactors("posWeight", options["posWeight"])});
  });
}

BoundVariable* poissonOf(BoundGraph& graph, const BoundVariable& input, const BoundVariable& target,
                         const val& options) {
  return scalar([&] {
    requireSame("target", target.shape(), input.shape());
    return losses::poisson(graph.graph(), input.variable(), target.variable(),
                           {.log_input = readBool(options, "logInput"),
                            .full = readBool(options, "full"),
                            .eps = readFloat(options, "eps")});
  });
}

BoundVariable* cosineEmbeddingOf(BoundGraph& graph, const BoundVariable& a, const BoundVariable& b, const val& labels,
                                 float margin) {
  return scalar([&] {
    requireSame("b", b.shape(), a.shape());
    const Input read = readTensor(labels);
    requireSame("labels", read.shape, leading("a", a.shape(), "[..., E]"));
    return losses::cosineEmbedding(graph.graph(), a.variable(), b.variable(),
                                   {read.data, read.data + read.shape.size()}, margin);
  });
}

BoundVariable* tripletOf(BoundGraph& graph, const BoundVariable& anchor, const BoundVariable& positive,
                         const BoundVariable& negative, float margin) {
  return scalar([&] {
    requireSame("positive", positive.shape(), anchor.shape());
    requireSame("negative", negative.shape(), anchor.shape());
    return losses::triplet(graph.graph(), anchor.variable(), positive.variable(), negative.variable(), margin);
  });
}

BoundVariable* infoNCEOf(BoundGraph& graph, const BoundVariable& a, const BoundVariable& b, float scale,
                         const val& groups) {
  return scalar([&] {
    for (const auto& [argument, x] : {std::pair{"a", &a}, {"b", &b}}) {
      if (x->shape().rank() != 2) refuseShape(argument, "[N, E]", x->shape());
    }
    return losses::infoNCE(graph.graph(), a.variable(), b.variable(), scale,
                           groups.isNull() ? std::vector<int32_t>() : readIntegers(groups["data"]));
  });
}

BoundVariable* supervisedContrastiveOf(BoundGraph& graph, const BoundVariable& x, const val& labels, float scale) {
  return scalar([&] {
    const Shape shape = leading("x", x.shape(), "[..., E]");
    return losses::supervisedContrastive(graph.graph(), x.variable(), readLabels("labels", labels, shape), scale);
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_losses) {
  using emscripten::allow_raw_pointers;
  using emscripten::function;
  function("recordCrossEntropy", &crossEntropyOf, allow_raw_pointers());
  function("recordMse", &mseOf, allow_raw_pointers());
  function("recordBceWithLogits", &bceOf, allow_raw_pointers());
  function("recordPoisson", &poissonOf, allow_raw_pointers());
  function("recordCosineEmbedding", &cosineEmbeddingOf, allow_raw_pointers());
  function("recordTriplet", &tripletOf, allow_raw_pointers());
  function("recordInfoNCE", &infoNCEOf, allow_raw_pointers());
  function("recordSupervisedContrastive", &supervisedContrastiveOf, allow_raw_pointers());
}

}  // namespace heed::bindings
