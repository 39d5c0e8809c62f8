#include "core/check.h"
#include "heed/embedding.h"
#include "heed/feed_forward.h"
#include "heed/linear.h"
#include "heed/norm.h"
#include "layers.h"

/// Layers that map one tensor to one tensor. Each has a function that reads its options, and overloads of outputShape()
/// and run().
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
  return {
      .num_features = readIndex(o, "numFeatures"), .eps = readFloat(o, "eps"), .momentum = readFloat(o, "momentum")};
}
PositionalEncodingOptions readPositionalEncodingOptions(const val& o) {
  using Mode = PositionalEncodingOptions::Mode;
  return {.embed_dim = readIndex(o, "embedDim"),
          .max_length = readIndex(o, "maxLength"),
          .base = o["base"].as<double>(),
          .start = readIndex(o, "start"),
          .mode = readString(o, "mode") == "concat" ? Mode::kConcat : Mode::kAdd,
          .learned = readBool(o, "learned")};
}
FeedForwardOptions readFeedForwardOptions(const val& o) {
  FeedForwardOptions options{
      .embed_dim = readIndex(o, "embedDim"), .dropout = readFloat(o, "dropout"), .bias = readBool(o, "bias")};
  readFeedForward(o, options);
  return options;
}

/// [..., in] -> [..., out]
Shape mapped(const Shape& x, Index in, Index out) {
  if (x.rank() < 1 || x[-1] != in) throwShapeMismatch("x", "[..., " + std::to_string(in) + "]", x);
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
  if (x.rank() < 2) throwShapeMismatch("x", "[..., L, D]", x);
  return withWidth(x, layer.outputWidth(x[-1]));
}

Value run(Call& call, const Linear& layer, const TensorArgument& x) { return call.evaluator().linear(layer, x.value); }
Value run(Call& call, const LayerNorm& layer, const TensorArgument& x) {
  return call.evaluator().normalize(layer, x.value, true);
}
Value run(Call& call, BatchNorm& layer, const TensorArgument& x) {
  return call.evaluator().batchNormalize(layer, x.value);
}
Value run(Call& call, FeedForward& layer, const TensorArgument& x) { return layer.forward(call.evaluator(), x.value); }
Value run(Call& call, Dropout& layer, const TensorArgument& x) {
  // Reshaped to one row, because draws depend on the position in the whole tensor.
  Evaluator& e = call.evaluator();
  Context& context = e.context();
  const Index first_column = context.random.first_row * x.shape.columns();
  const RandomScope scope(context);
  context.random = {};
  return layer.forward(e, e.reshape(x.value, 1, x.shape.size()), first_column);
}
Value run(Call& call, const PositionalEncoding& layer, const TensorArgument& x) {
  const Index length = x.shape[-2], count = length == 0 ? 0 : x.shape.rows() / length;
  return call.evaluator().encodePositions(layer, x.value, Sequences::uniform(count, length));
}

template <class Layer, auto kReadOptions>
class Bound final : public BoundLayer {
 public:
  explicit Bound(const val& options) : layer_(kReadOptions(options)) {}
  Module& module() override { return layer_; }
  val run(Call& call) override {
    const TensorArgument x = *call.tensor("x");
    const Shape shape = outputShape(layer_, x.shape);
    return call.result(shape, bindings::run(call, layer_, x));
  }

 private:
  Layer layer_;
};

/// Not a Bound, because its input consists of integers.
class BoundEmbedding : public BoundLayer {
 public:
  explicit BoundEmbedding(const val& o) : table_(readIndex(o, "numEmbeddings"), readIndex(o, "embedDim")) {}
  Module& module() override { return table_; }

  /// ids { data: Int32Array, shape } [...] -> [..., E].
  val run(Call& call) override {
    const val ids = call.arguments()["ids"];
    std::vector<Index> extents = readShape(ids["shape"]).extents();
    extents.push_back(table_.embedDim());
    const Shape shape(std::move(extents));
    return call.result(shape, table_.forward(call.evaluator(), readIndices("ids", ids)));
  }

 private:
  Embedding table_;
};

}  // namespace

EMSCRIPTEN_BINDINGS(heed_tensor_layers) {
  registerLayer<Bound<Linear, readLinearOptions>>("Linear");
  registerLayer<Bound<LayerNorm, readLayerNormOptions>>("LayerNorm");
  registerLayer<Bound<BatchNorm, readBatchNormOptions>>("BatchNorm");
  registerLayer<Bound<Dropout, readDropoutOptions>>("Dropout");
  registerLayer<Bound<PositionalEncoding, readPositionalEncodingOptions>>("PositionalEncoding");
  registerLayer<Bound<FeedForward, readFeedForwardOptions>>("FeedForward");
  registerLayer<BoundEmbedding>("Embedding");
}

}  // namespace heed::bindings
