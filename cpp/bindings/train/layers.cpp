#include "../layers.h"

#include <emscripten/bind.h>

#include "core/check.h"
#include "graph.h"
#include "heed/feed_forward.h"
#include "heed/inference_evaluator.h"
#include "heed/train/embedding.h"
#include "heed/train/ops.h"
#include "heed/train/recording_evaluator.h"

/// Layers that map one tensor to one tensor, and the lookup table.
namespace heed::bindings {
namespace {

using train::Graph;
using train::RecordingEvaluator;

/// x [..., in], whose last axis a layer turns into `out` features.
template <class Forward>
BoundVariable* mapped(const BoundVariable& x, Index in, Index out, Forward forward) {
  if (x.shape().rank() < 1 || x.shape()[-1] != in) refuseShape("x", "[..., " + std::to_string(in) + "]", x.shape());
  return made(withWidth(x.shape(), out), forward(x.variable()));
}

BoundVariable* linearLayer(BoundGraph& graph, BoundModule& module, const BoundVariable& x) {
  return guarded([&] {
    const auto& layer = static_cast<Linear&>(module.module());
    const LinearOptions& o = layer.options();
    return mapped(x, o.in_features, o.out_features,
                  [&](const Variable& v) { return train::linear(graph.graph(), layer, v); });
  });
}

BoundVariable* layerNormLayer(BoundGraph& graph, BoundModule& module, const BoundVariable& x) {
  return guarded([&] {
    const auto& layer = static_cast<LayerNorm&>(module.module());
    const Index width = layer.options().normalized_shape;
    return mapped(x, width, width, [&](const Variable& v) { return train::layerNorm(graph.graph(), layer, v); });
  });
}

BoundVariable* batchNormLayer(BoundGraph& graph, BoundModule& module, const BoundVariable& x) {
  return guarded([&] {
    auto& layer = static_cast<BatchNorm&>(module.module());
    const Index width = layer.options().num_features;
    return mapped(x, width, width, [&](const Variable& v) { return train::batchNorm(graph.graph(), layer, v); });
  });
}

BoundVariable* dropoutLayer(BoundGraph& graph, BoundModule& module, const BoundVariable& x) {
  return guarded([&] {
    Graph& g = graph.graph();
    // One row, as in inference: the draws depend on the position in the whole tensor.
    const Index first_column = g.context().random.first_row * columnsOf(x.shape());
    RandomScope scope(g.context());
    g.context().random = {};
    RecordingEvaluator e(g);
    const Value row = e.dropout(static_cast<Dropout&>(module.module()), e.value(asRow(graph, x)), first_column);
    return made(x.shape(), train::reshape(g, e.variable(row), rowsOf(x.shape()), columnsOf(x.shape())));
  });
}

BoundVariable* positionalEncodingLayer(BoundGraph& graph, BoundModule& module, const BoundVariable& x) {
  return guarded([&] {
    const Shape& shape = x.shape();
    if (shape.rank() < 2) refuseShape("x", "[..., L, D]", shape);
    auto& layer = static_cast<PositionalEncoding&>(module.module());
    const Index length = shape[-2], count = length == 0 ? 0 : shape.rows() / length;
    return made(withWidth(shape, layer.outputWidth(shape[-1])),
                train::positionalEncoding(graph.graph(), layer, x.variable(), Sequences::uniform(count, length)));
  });
}

BoundVariable* feedForwardLayer(BoundGraph& graph, BoundModule& module, const BoundVariable& x) {
  return guarded([&] {
    auto& layer = static_cast<FeedForward&>(module.module());
    const Index width = layer.options().embed_dim;
    return mapped(x, width, width, [&](const Variable& v) {
      RecordingEvaluator e(graph.graph());
      return e.variable(layer.forward(e, e.value(v)));
    });
  });
}

/// The shape of the rows that are looked up for ids of `shape`.
Shape embedded(const Shape& shape, Index width) {
  std::vector<Index> extents = shape.extents();
  extents.push_back(width);
  return Shape(std::move(extents));
}

class BoundEmbedding : public BoundModule {
 public:
  explicit BoundEmbedding(const val& o) : table_(readIndex(o, "numEmbeddings"), readIndex(o, "embedDim")) {}
  Module& module() override { return table_; }

  /// ids { data: Int32Array, shape }.
  val forward(const val& ids) const {
    return guarded([&] {
      const Shape shape = embedded(readShape(ids["shape"]), table_.embedDim());
      InferenceEvaluator e(context());
      return writeTensor(shape, table_.forward(e, readIntegers(ids["data"])).data());
    });
  }
  const train::Embedding& table() const { return table_; }

 private:
  train::Embedding table_;
};

BoundVariable* embeddingLayer(BoundGraph& graph, const BoundEmbedding& embedding, const val& ids) {
  return guarded([&] {
    const train::Embedding& table = embedding.table();
    RecordingEvaluator e(graph.graph());
    return made(embedded(readShape(ids["shape"]), table.embedDim()),
                e.variable(table.forward(e, readIntegers(ids["data"]))));
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_layers) {
  using emscripten::allow_raw_pointers;
  using emscripten::function;
  emscripten::class_<BoundEmbedding, emscripten::base<BoundModule>>("Embedding")
      .constructor(&make<BoundEmbedding>, allow_raw_pointers())
      .function("forward", &BoundEmbedding::forward);
  function("recordEmbeddingLayer", &embeddingLayer, allow_raw_pointers());
  function("recordLinearLayer", &linearLayer, allow_raw_pointers());
  function("recordLayerNormLayer", &layerNormLayer, allow_raw_pointers());
  function("recordBatchNormLayer", &batchNormLayer, allow_raw_pointers());
  function("recordDropoutLayer", &dropoutLayer, allow_raw_pointers());
  function("recordPositionalEncodingLayer", &positionalEncodingLayer, allow_raw_pointers());
  function("recordFeedForwardLayer", &feedForwardLayer, allow_raw_pointers());
}

}  // namespace heed::bindings
