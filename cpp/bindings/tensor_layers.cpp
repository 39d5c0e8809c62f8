#include "core/check.h"
#include "heed/inference_evaluator.h"
#include "heed/initialize.h"
#include "heed/linear.h"
#include "heed/norm.h"
#include "layers.h"

/// Layers that map one tensor to one tensor. For each: a function that reads its options, the shape of its output,
/// outputShape(), and its evaluation, run().
namespace heed::bindings {
namespace {

LinearOptions readLinearOptions(const val& o) {
  return {.in_features = readIndex(o, "inFeatures"),
          .out_features = readIndex(o, "outFeatures"),
          .bias = readBool(o, "bias"),
          .activation = readActivation(o)};
}
LayerNormOptions readLayerNormOptions(const val& o) {
  return {.normalized_shape = readIndex(o, "normalizedShape"), .eps = readFloat(o, "eps")};
}
BatchNormOptions readBatchNormOptions(const val& o) {
  return {.num_features = readIndex(o, "numFeatures"), .eps = readFloat(o, "eps")};
}
DropoutOptions readDropoutOptions(const val& o) { return {.p = readFloat(o, "p"), .scaling = readScaling(o)}; }
PositionalEncodingOptions readPositionalEncodingOptions(const val& o) {
  using Mode = PositionalEncodingOptions::Mode;
  return {.embed_dim = readIndex(o, "embedDim"),
          .max_length = readIndex(o, "maxLength"),
          .base = o["base"].as<double>(),
          .mode = readString(o, "mode") == "concat" ? Mode::kConcat : Mode::kAdd,
          .learned = readBool(o, "learned")};
}
FeedForwardOptions readFeedForwardOptions(const val& o) {
  return {.embed_dim = readIndex(o, "embedDim"),
          .feed_forward_dim = readIndex(o, "feedForwardDim"),
          .activation = readActivation(o),
          .dropout = readFloat(o, "dropout"),
          .bias = readBool(o, "bias"),
          .gated = readBool(o, "gated")};
}

/// `shape` with `width` columns.
Shape withWidth(const Shape& shape, Index width) {
  std::vector<Index> extents = shape.extents();
  extents.back() = width;
  return Shape(std::move(extents));
}
/// [..., in] -> [..., out]
Shape mapped(const Shape& x, Index in, Index out) {
  if (x.rank() < 1 || x[-1] != in) refuseShape("x", "[..., " + std::to_string(in) + "]", x);
  return withWidth(x, out);
}
Shape outputShape(const Linear& layer, const Shape& x) {
  return mapped(x, layer.options().in_features, layer.options().out_features);
}
Shape outputShape(const LayerNorm& layer, const Shape& x) {
  return mapped(x, layer.options().normalized_shape, layer.options().normalized_shape);
}
Shape outputShape(const BatchNorm& layer, const Shape& x) {
  return mapped(x, layer.options().num_features, layer.options().num_features);
}
Shape outputShape(const FeedForward& layer, const Shape& x) {
  return mapped(x, layer.options().embed_dim, layer.options().embed_dim);
}
Shape outputShape(const Dropout&, const Shape& x) { return x; }
Shape outputShape(const PositionalEncoding& layer, const Shape& x) {
  if (x.rank() < 2) refuseShape("x", "[..., L, D]", x);
  return withWidth(x, layer.outputWidth(x[-1]));
}

Value run(Evaluator& e, const Linear& layer, const Input& x) { return e.linear(layer, x.matrix()); }
Value run(Evaluator& e, const LayerNorm& layer, const Input& x) { return e.normalize(layer, x.matrix(), true); }
Value run(Evaluator& e, BatchNorm& layer, const Input& x) { return e.batchNormalize(layer, x.matrix()); }
Value run(Evaluator& e, FeedForward& layer, const Input& x) { return layer.forward(e, x.matrix()); }
Value run(Evaluator& e, Dropout& layer, const Input& x) { return e.dropout(layer, view(x.data, 1, x.shape.size())); }
Value run(Evaluator& e, const PositionalEncoding& layer, const Input& x) {
  const Index length = x.shape[-2], count = length == 0 ? 0 : x.shape.rows() / length;
  return e.encodePositions(layer, x.matrix(), Sequences::uniform(count, length));
}

class BoundTensorLayer : public BoundModule {
 public:
  virtual val forward(const val& x) = 0;
};

template <class Layer, auto kReadOptions>
class Bound final : public BoundTensorLayer {
 public:
  explicit Bound(const val& options) : layer_(kReadOptions(options)) {}
  Module& module() override { return layer_; }
  val forward(const val& tensor) override {
    return guarded([&] {
      const Input x = readTensor(tensor);
      const Shape shape = outputShape(layer_, x.shape);
      InferenceEvaluator e(context());
      return writeTensor(shape, run(e, layer_, x).data());
    });
  }

 private:
  Layer layer_;
};

}  // namespace

EMSCRIPTEN_BINDINGS(heed_tensor_layers) {
  emscripten::class_<BoundTensorLayer, emscripten::base<BoundModule>>("TensorLayer")
      .function("forward", &BoundTensorLayer::forward);
  registerLayer<Bound<Linear, readLinearOptions>, BoundTensorLayer>("Linear");
  registerLayer<Bound<LayerNorm, readLayerNormOptions>, BoundTensorLayer>("LayerNorm");
  registerLayer<Bound<BatchNorm, readBatchNormOptions>, BoundTensorLayer>("BatchNorm");
  registerLayer<Bound<Dropout, readDropoutOptions>, BoundTensorLayer>("Dropout");
  registerLayer<Bound<PositionalEncoding, readPositionalEncodingOptions>, BoundTensorLayer>("PositionalEncoding");
  registerLayer<Bound<FeedForward, readFeedForwardOptions>, BoundTensorLayer>("FeedForward");
}

}  // namespace heed::bindings
