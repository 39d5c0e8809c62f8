#include <emscripten/bind.h>

#include "core/check.h"
#include "heed/initialize.h"
#include "heed/linear.h"
#include "heed/norm.h"
#include "layers.h"

/// Layers that map one tensor to one tensor.
namespace heed::bindings {
namespace {

/// A layer that turns [..., in] into [..., out].
class BoundTensorLayer : public BoundModule {
 public:
  virtual val forward(const val& x) = 0;

 protected:
  /// Reads x, checks its width, calls run(input, output) and returns the output.
  template <class Run>
  val mapped(const val& tensor, Index in, Index out, Run run) {
    return guarded([&] {
      const Input x = readTensor(tensor);
      if (x.shape.rank() < 1 || x.shape[-1] != in) {
        refuseShape("x", "[..., " + std::to_string(in) + "]", x.shape);
      }
      std::vector<Index> extents = x.shape.extents();
      extents.back() = out;
      MatrixView output = arena().matrix(x.shape.rows(), out);
      run(x, output);
      return writeTensor(Shape(std::move(extents)), output.data());
    });
  }
};

class BoundLinear : public BoundTensorLayer {
 public:
  explicit BoundLinear(const val& o)
      : linear_({.in_features = readIndex(o, "inFeatures"),
                 .out_features = readIndex(o, "outFeatures"),
                 .bias = readBool(o, "bias"),
                 .activation = readActivation(o)}) {}
  Module& module() override { return linear_; }
  val forward(const val& x) override {
    const LinearOptions& o = linear_.options();
    return mapped(x, o.in_features, o.out_features,
                  [&](const Input& in, MatrixView out) { linear_.forward(in.matrix(), out, context()); });
  }

 private:
  Linear linear_;
};

class BoundLayerNorm : public BoundTensorLayer {
 public:
  explicit BoundLayerNorm(const val& o)
      : norm_({.normalized_shape = readIndex(o, "normalizedShape"), .eps = readFloat(o, "eps")}) {}
  Module& module() override { return norm_; }
  val forward(const val& x) override {
    const Index width = norm_.options().normalized_shape;
    return mapped(x, width, width, [&](const Input& in, MatrixView out) { norm_.forward(in.matrix(), out); });
  }

 private:
  LayerNorm norm_;
};

class BoundBatchNorm : public BoundTensorLayer {
 public:
  explicit BoundBatchNorm(const val& o)
      : norm_({.num_features = readIndex(o, "numFeatures"), .eps = readFloat(o, "eps")}) {}
  Module& module() override { return norm_; }
  val forward(const val& x) override {
    const Index width = norm_.options().num_features;
    return mapped(x, width, width, [&](const Input& in, MatrixView out) { norm_.forward(in.matrix(), out); });
  }

 private:
  BatchNorm norm_;
};

class BoundDropout : public BoundTensorLayer {
 public:
  explicit BoundDropout(const val& o) : dropout_({.p = readFloat(o, "p"), .scaling = readScaling(o)}) {}
  Module& module() override { return dropout_; }
  val forward(const val& tensor) override {
    return guarded([&] {
      const Input x = readTensor(tensor);
      MatrixView all = view(x.data, 1, x.shape.size());
      dropout_.forward(readOnly(all), all, context());
      return writeTensor(x.shape, x.data);
    });
  }

 private:
  Dropout dropout_;
};

class BoundPositionalEncoding : public BoundTensorLayer {
 public:
  explicit BoundPositionalEncoding(const val& o)
      : positions_({.embed_dim = readIndex(o, "embedDim"),
                    .max_length = readIndex(o, "maxLength"),
                    .base = o["base"].as<double>(),
                    .mode = readString(o, "mode") == "concat" ? PositionalEncodingOptions::Mode::kConcat
                                                              : PositionalEncodingOptions::Mode::kAdd,
                    .learned = readBool(o, "learned")}) {}
  Module& module() override { return positions_; }
  val forward(const val& tensor) override {
    return guarded([&] {
      const Input x = readTensor(tensor);
      if (x.shape.rank() < 2) {
        refuseShape("x", "[..., L, D]", x.shape);
      }
      const Index length = x.shape[-2], rows = x.shape.rows();
      std::vector<Index> extents = x.shape.extents();
      extents.back() = positions_.outputWidth(x.shape[-1]);
      MatrixView output = arena().matrix(rows, extents.back());
      positions_.forward(x.matrix(), Sequences::uniform(length == 0 ? 0 : rows / length, length), output);
      return writeTensor(Shape(std::move(extents)), output.data());
    });
  }

 private:
  PositionalEncoding positions_;
};

class BoundFeedForward : public BoundTensorLayer {
 public:
  explicit BoundFeedForward(const val& o)
      : feed_forward_({.embed_dim = readIndex(o, "embedDim"),
                       .feed_forward_dim = readIndex(o, "feedForwardDim"),
                       .activation = readActivation(o),
                       .dropout = readFloat(o, "dropout"),
                       .bias = readBool(o, "bias"),
                       .gated = readBool(o, "gated")}) {}
  Module& module() override { return feed_forward_; }
  val forward(const val& x) override {
    const Index width = feed_forward_.options().embed_dim;
    return mapped(x, width, width,
                  [&](const Input& in, MatrixView out) { feed_forward_.forward(in.matrix(), out, context()); });
  }

 private:
  FeedForward feed_forward_;
};

}  // namespace

EMSCRIPTEN_BINDINGS(heed_tensor_layers) {
  using emscripten::allow_raw_pointers;
  using emscripten::base;
  using emscripten::class_;
  class_<BoundTensorLayer, base<BoundModule>>("TensorLayer").function("forward", &BoundTensorLayer::forward);
  class_<BoundLinear, base<BoundTensorLayer>>("Linear").constructor(&make<BoundLinear>, allow_raw_pointers());
  class_<BoundLayerNorm, base<BoundTensorLayer>>("LayerNorm").constructor(&make<BoundLayerNorm>, allow_raw_pointers());
  class_<BoundBatchNorm, base<BoundTensorLayer>>("BatchNorm").constructor(&make<BoundBatchNorm>, allow_raw_pointers());
  class_<BoundDropout, base<BoundTensorLayer>>("Dropout").constructor(&make<BoundDropout>, allow_raw_pointers());
  class_<BoundPositionalEncoding, base<BoundTensorLayer>>("PositionalEncoding")
      .constructor(&make<BoundPositionalEncoding>, allow_raw_pointers());
  class_<BoundFeedForward, base<BoundTensorLayer>>("FeedForward")
      .constructor(&make<BoundFeedForward>, allow_raw_pointers());
}

}  // namespace heed::bindings
