#include <emscripten/bind.h>

#include <algorithm>

#include "heed/initialize.h"
#include "heed/linear.h"
#include "heed/norm.h"
#include "heed/transformer.h"
#include "module.h"

/// The layers as classes of JavaScript. Each reads its options, runs the core's layer and writes what came of it; no
/// arithmetic of its own.
namespace heed::bindings {
namespace {

/// A layer that turns [..., in] into [..., out].
class BoundTensorLayer : public BoundModule {
 public:
  virtual val forward(const val& x) = 0;

 protected:
  /// Reads x, checks its width, and writes what `run` puts into the output rows.
  template <class Run>
  val mapped(const val& tensor, Index in, Index out, Run run) {
    return guarded([&] {
      const Input x = readTensor(tensor);
      if (x.shape.rank() < 1 || x.shape[-1] != in) {
        throw Error(ErrorCode::kShapeMismatch,
                    "x: got shape " + x.shape.toString() + "; expected [..., " + std::to_string(in) + "]");
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
                  [&](const Input& in, MatrixView out) { linear_.forward(in.matrix(), out, arena()); });
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

/// Owns no parameters, but a generator and the mode.
class DropoutModule : public Module {
 public:
  DropoutModule(float p, DropoutScaling scaling) : p_(p), scaling_(scaling), generator_(0) {}
  void seed(uint64_t seed) override { generator_ = Generator(seed); }
  void collect(const std::string&, std::vector<Parameter>&) override {}
  void forward(ConstMatrixView x, MatrixView output) {
    if (training()) {
      dropout(x, p_, scaling_, generator_, output);
    } else {
      output = x;
    }
  }

 private:
  float p_;
  DropoutScaling scaling_;
  Generator generator_;
};

class BoundDropout : public BoundTensorLayer {
 public:
  explicit BoundDropout(const val& o) : dropout_(readFloat(o, "p"), readScaling(o)) {}
  Module& module() override { return dropout_; }
  val forward(const val& tensor) override {
    return guarded([&] {
      const Input x = readTensor(tensor);
      MatrixView all = view(x.data, 1, x.shape.size());
      dropout_.forward(readOnly(all), all);
      return writeTensor(x.shape, x.data);
    });
  }

 private:
  DropoutModule dropout_;
};

/// The positions' rows: the sinusoids, or a learned table (parameter `weight`).
class PositionModule : public Module {
 public:
  PositionModule(Index length, Index width, double base, bool learned)
      : learned_(learned), width_(width), rows_(static_cast<size_t>(Shape{length, width}.size())) {
    if (!learned) positionalEncoding(base, view(rows_.data(), length, width));
  }
  ConstMatrixView rows(Index count) const { return view(rows_.data(), count, width_); }
  Index maxLength() const { return width_ == 0 ? 0 : static_cast<Index>(rows_.size()) / width_; }
  void collect(const std::string& prefix, std::vector<Parameter>& out) override {
    if (learned_) out.push_back(plainParameter(prefix + "weight", {maxLength(), width_}, rows_.data()));
  }

 private:
  bool learned_;
  Index width_;
  std::vector<float> rows_;
};

class BoundPositionalEncoding : public BoundTensorLayer {
 public:
  explicit BoundPositionalEncoding(const val& o)
      : width_(readIndex(o, "embedDim")),
        concat_(readString(o, "mode") == "concat"),
        positions_(readIndex(o, "maxLength"), width_, o["base"].as<double>(), readBool(o, "learned")) {}
  Module& module() override { return positions_; }
  Initialization initialization() const override { return Initialization::kEmbedding; }
  val forward(const val& tensor) override {
    return guarded([&] {
      const Input x = readTensor(tensor);
      const Index rank = x.shape.rank();
      if (rank < 2 || (!concat_ && x.shape[-1] != width_)) {
        throw Error(ErrorCode::kShapeMismatch, "x: got shape " + x.shape.toString() + "; expected [..., L, " +
                                                   (concat_ ? std::string("D") : std::to_string(width_)) + "]");
      }
      const Index length = x.shape[-2], in = x.shape[-1], out = concat_ ? in + width_ : in;
      if (length > positions_.maxLength()) {
        throw Error(ErrorCode::kShapeMismatch, "x: got " + std::to_string(length) +
                                                   " positions; expected at most maxLength, " +
                                                   std::to_string(positions_.maxLength()));
      }
      std::vector<Index> extents = x.shape.extents();
      extents.back() = out;
      MatrixView output = arena().matrix(x.shape.rows(), out);
      output.leftCols(in) = x.matrix();
      const ConstMatrixView rows = positions_.rows(length);
      for (Index t = 0; t + length <= output.rows() && length > 0; t += length) {
        if (concat_) {
          output.block(t, in, length, width_) = rows;
        } else {
          output.middleRows(t, length) += rows;
        }
      }
      return writeTensor(Shape(std::move(extents)), output.data());
    });
  }

 private:
  Index width_;
  bool concat_;
  PositionModule positions_;
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
                  [&](const Input& in, MatrixView out) { feed_forward_.forward(in.matrix(), out, arena()); });
  }

 private:
  FeedForward feed_forward_;
};

val attended(val output, val weights) {
  val result = val::object();
  result.set("output", output);
  result.set("weights", weights);
  return result;
}

/// The mean over heads of (N, H, L, S) weights, in place at the front.
void averageHeads(float* weights, Index sequences, Index heads, Index scores) {
  for (Index n = 0; n < sequences; ++n) {
    const ConstMatrixView per_head = view(static_cast<const float*>(weights) + n * heads * scores, heads, scores);
    const Eigen::RowVectorXf mean = per_head.colwise().mean();
    std::copy_n(mean.data(), scores, weights + n * scores);
  }
}

class BoundMultiHeadAttention : public BoundModule {
 public:
  explicit BoundMultiHeadAttention(const val& o)
      : attention_(readAttentionLayerOptions(o)), rotary_(o["rotary"], attention_.options().key_dim) {}
  Module& module() override { return attention_; }

  val forward(const val& query, const val& key, const val& value, const val& options) {
    return guarded([&] {
      const MultiHeadAttentionOptions& o = attention_.options();
      const Batch q = readBatch("query", query, o.embed_dim);
      const bool self = key.isNull() && value.isNull();
      if (self && (o.key_input_dim != o.embed_dim || o.value_input_dim != o.embed_dim)) {
        throw Error(ErrorCode::kShapeMismatch, "key: got none; expected one of width " +
                                                   std::to_string(o.key_input_dim) + " and a value of width " +
                                                   std::to_string(o.value_input_dim) +
                                                   ", since they differ from query's");
      }
      const Batch k = key.isNull() ? q : readBatch("key", key, o.key_input_dim);
      const Batch v = value.isNull() ? k : readBatch("value", value, o.value_input_dim);
      if (k.rows.cols() != o.key_input_dim || v.rows.cols() != o.value_input_dim) {
        throw Error(ErrorCode::kShapeMismatch, "value: got a width of " + std::to_string(v.rows.cols()) +
                                                   "; expected " + std::to_string(o.value_input_dim));
      }
      sameCount("key", k, q);
      sameCount("value", v, q);
      if (v.length != k.length) {
        throw Error(ErrorCode::kShapeMismatch, "value: got " + std::to_string(v.length) + " rows; expected " +
                                                   std::to_string(k.length) + ", one for each key");
      }
      CallInput call = readCall(options, {q.count, o.num_heads, q.length, k.length}, true);
      call.options.masks = call.masks;
      call.options.rotary = rotary_.tables(std::max(q.length, k.length));
      const Shape weights_shape = q.weightsShape(o.num_heads, k.length);
      float* weights = call.return_weights ? arena().take<float>(weights_shape.size()) : nullptr;
      MatrixView output = arena().matrix(q.rows.rows(), o.embed_dim);
      attention_.forward(q.rows, k.rows, v.rows, q.sequences, k.sequences, call.options, output, weights, arena());
      return attended(writeTensor(q.shape(o.embed_dim), output.data()),
                      writeWeights(weights, weights_shape, q, k.length, readBool(options, "averageWeights")));
    });
  }

 private:
  static void sameCount(const char* argument, const Batch& b, const Batch& query) {
    if (b.count != query.count || b.batched != query.batched) {
      throw Error(ErrorCode::kShapeMismatch, std::string(argument) + ": got a batch of " + std::to_string(b.count) +
                                                 "; expected " + std::to_string(query.count) + ", as query's");
    }
  }
  static val writeWeights(float* weights, const Shape& shape, const Batch& q, Index keys, bool average) {
    if (!weights) return val::null();
    if (!average) return writeTensor(shape, weights);
    averageHeads(weights, q.count, shape[-3], q.length * keys);
    return writeTensor(q.batched ? Shape{q.count, q.length, keys} : Shape{q.length, keys}, weights);
  }

  MultiHeadAttention attention_;
  RotaryOption rotary_;
};

Index headWidth(const EncoderLayerOptions& o) {
  return o.key_dim ? o.key_dim : o.embed_dim / std::max<Index>(o.num_heads, 1);
}

class BoundEncoderLayer : public BoundModule {
 public:
  explicit BoundEncoderLayer(const val& o)
      : layer_(readEncoderLayerOptions(o)), rotary_(o["rotary"], headWidth(layer_.options())) {}
  Module& module() override { return layer_; }

  val forward(const val& tensor, const val& options) {
    return guarded([&] {
      const EncoderLayerOptions& o = layer_.options();
      const Batch x = readBatch("x", tensor, o.embed_dim);
      CallInput call = readCall(options, {x.count, o.num_heads, x.length, x.length}, true);
      call.options.masks = call.masks;
      call.options.rotary = rotary_.tables(x.length);
      const Shape weights_shape = x.weightsShape(o.num_heads, x.length);
      float* weights = call.return_weights ? arena().take<float>(weights_shape.size()) : nullptr;
      MatrixView output = arena().matrix(x.rows.rows(), o.embed_dim);
      layer_.forward(x.rows, x.sequences, call.options, output, weights, arena());
      return attended(writeTensor(x.shape(o.embed_dim), output.data()),
                      weights ? writeTensor(weights_shape, weights) : val::null());
    });
  }

 private:
  EncoderLayer layer_;
  RotaryOption rotary_;
};

/// Runs an encoder's layers one by one, since each may have heads masked of its own.
struct EncoderRun {
  MatrixView output;
  std::vector<float*> weights;
};

EncoderRun runEncoder(Encoder& encoder, const EncoderLayerOptions& o, const Batch& x, const val& options,
                      RotaryOption& rotary) {
  CallInput call = readCall(options, {x.count, o.num_heads, x.length, x.length}, false);
  call.options.masks = call.masks;
  call.options.rotary = rotary.tables(x.length);
  const Index layers = encoder.numLayers();
  const auto head_mask = readOptionalTensor(options["headMask"]);
  if (head_mask && head_mask->shape != Shape{layers, o.num_heads}) {
    throw Error(ErrorCode::kShapeMismatch, "headMask: got shape " + head_mask->shape.toString() + "; expected " +
                                               Shape{layers, o.num_heads}.toString());
  }
  EncoderRun run{arena().matrix(x.rows.rows(), o.embed_dim), {}};
  const Index weights_size = x.weightsShape(o.num_heads, x.length).size();
  for (Index i = 0; i < layers && call.return_weights; ++i) run.weights.push_back(arena().take<float>(weights_size));
  run.output = x.rows;
  for (Index i = 0; i < layers; ++i) {
    if (head_mask) call.options.head_scale = {head_mask->data + i * o.num_heads, static_cast<size_t>(o.num_heads)};
    encoder.layer(i).forward(readOnly(run.output), x.sequences, call.options, run.output,
                             run.weights.empty() ? nullptr : run.weights[static_cast<size_t>(i)], arena());
  }
  if (encoder.finalNorm()) encoder.finalNorm()->forward(readOnly(run.output), run.output);
  return run;
}

val writeAll(const std::vector<float*>& weights, const Shape& shape, bool asked) {
  if (!asked) return val::null();
  val list = val::array();
  for (const float* w : weights) list.call<void>("push", writeTensor(shape, w));
  return list;
}

class BoundEncoder : public BoundModule {
 public:
  explicit BoundEncoder(const val& o)
      : options_(readEncoderLayerOptions(o)),
        encoder_(options_, readIndex(o, "numLayers"), readBool(o, "finalNorm")),
        rotary_(o["rotary"], headWidth(options_)) {}
  Module& module() override { return encoder_; }

  val forward(const val& tensor, const val& options) {
    return guarded([&] {
      const Batch x = readBatch("x", tensor, options_.embed_dim);
      const EncoderRun run = runEncoder(encoder_, options_, x, options, rotary_);
      return attended(
          writeTensor(x.shape(options_.embed_dim), run.output.data()),
          writeAll(run.weights, x.weightsShape(options_.num_heads, x.length), readBool(options, "returnWeights")));
    });
  }

 private:
  EncoderLayerOptions options_;
  Encoder encoder_;
  RotaryOption rotary_;
};

/// Keys and values of one sequence on their way through decoding.
class BoundDecoderCache {
 public:
  explicit BoundDecoderCache(Decoder::Cache cache) : cache_(std::move(cache)) {}
  double length() const { return static_cast<double>(length_); }

 private:
  friend val stepDecoder(Decoder&, const EncoderLayerOptions&, const val&, BoundDecoderCache&, RotaryOption&);
  Decoder::Cache cache_;
  Index length_ = 0;
};

/// One sequence, as decoding step by step takes it.
Batch readSequence(const char* argument, const val& tensor, Index width) {
  const Batch batch = readBatch(argument, tensor, width);
  if (batch.batched)
    throw Error(ErrorCode::kShapeMismatch,
                std::string(argument) + ": got a batch; expected one sequence, [L, " + std::to_string(width) + "]");
  return batch;
}

/// The output of the next rows of the sequence that `cache` keeps.
val stepDecoder(Decoder& decoder, const EncoderLayerOptions& o, const val& target, BoundDecoderCache& cache,
                RotaryOption& rotary) {
  const Batch t = readSequence("target", target, o.embed_dim);
  MatrixView output = arena().matrix(t.rows.rows(), o.embed_dim);
  DecoderCallOptions call;
  call.self.rotary = rotary.tables(cache.length_ + t.length);
  decoder.step(t.rows, cache.cache_, call, output, arena());
  cache.length_ += t.length;
  return writeTensor(t.shape(o.embed_dim), output.data());
}

struct DecoderRun {
  MatrixView output;
  val weights;
};

DecoderRun runDecoder(Decoder& decoder, const EncoderLayerOptions& o, const Batch& target, const Batch& memory,
                      const val& options, RotaryOption& rotary) {
  if (memory.count != target.count || memory.batched != target.batched) {
    throw Error(ErrorCode::kShapeMismatch, "memory: got a batch of " + std::to_string(memory.count) + "; expected " +
                                               std::to_string(target.count) + ", as target's");
  }
  CallInput self = readMasks("mask", options["mask"], "keyMask", options["keyMask"],
                             {target.count, o.num_heads, target.length, target.length});
  CallInput cross = readMasks("memoryMask", options["memoryMask"], "memoryKeyMask", options["memoryKeyMask"],
                              {target.count, o.num_heads, target.length, memory.length});
  DecoderCallOptions call{.self = self.options, .memory = cross.options};
  call.self.masks = self.masks;
  call.self.causal = readBool(options, "causal");
  call.self.rotary = rotary.tables(target.length);
  call.memory.masks = cross.masks;

  const bool asked = readBool(options, "returnWeights");
  const Shape self_shape = target.weightsShape(o.num_heads, target.length),
              memory_shape = target.weightsShape(o.num_heads, memory.length);
  std::vector<DecoderWeights> weights;
  for (Index i = 0; i < decoder.numLayers() && asked; ++i)
    weights.push_back({arena().take<float>(self_shape.size()), arena().take<float>(memory_shape.size())});
  MatrixView output = arena().matrix(target.rows.rows(), o.embed_dim);
  decoder.forward(target.rows, memory.rows, target.sequences, memory.sequences, call, output, weights, arena());
  if (!asked) return {output, val::null()};
  val list = val::array();
  for (const DecoderWeights& w : weights) {
    val entry = val::object();
    entry.set("self", writeTensor(self_shape, w.self));
    entry.set("memory", writeTensor(memory_shape, w.memory));
    list.call<void>("push", entry);
  }
  return {output, list};
}

/// A decoder as a module whose parameters bear their plain names where it is a single layer.
class SingleLayerNames : public Module {
 public:
  explicit SingleLayerNames(Decoder& decoder) : decoder_(decoder) {}
  void setTraining(bool training) override { decoder_.setTraining(training); }
  void seed(uint64_t seed) override { decoder_.seed(seed); }
  void collect(const std::string& prefix, std::vector<Parameter>& out) override {
    const size_t first = out.size();
    decoder_.collect("", out);
    for (size_t p = first; p < out.size(); ++p) out[p].name = prefix + out[p].name.substr(sizeof("layers.0.") - 1);
  }

 private:
  Decoder& decoder_;
};

class BoundDecoder : public BoundModule {
 public:
  explicit BoundDecoder(const val& o) : BoundDecoder(o, readIndex(o, "numLayers"), readBool(o, "finalNorm")) {}
  Module& module() override { return decoder_; }

  val forward(const val& target, const val& memory, const val& options) {
    return guarded([&] {
      const Batch t = readBatch("target", target, options_.embed_dim),
                  m = readBatch("memory", memory, options_.embed_dim);
      DecoderRun run = runDecoder(decoder_, options_, t, m, options, rotary_);
      return attended(writeTensor(t.shape(options_.embed_dim), run.output.data()), run.weights);
    });
  }

  BoundDecoderCache* makeCache(const val& memory) {
    return guarded([&] {
      return new BoundDecoderCache(
          decoder_.makeCache(readSequence("memory", memory, options_.embed_dim).rows, arena()));
    });
  }

  val step(const val& target, BoundDecoderCache& cache) {
    return guarded([&] { return stepDecoder(decoder_, options_, target, cache, rotary_); });
  }

 protected:
  BoundDecoder(const val& o, Index layers, bool final_norm)
      : options_(readEncoderLayerOptions(o)),
        decoder_(options_, layers, final_norm),
        rotary_(o["rotary"], headWidth(options_)) {}
  Decoder& decoder() { return decoder_; }

 private:
  EncoderLayerOptions options_;
  Decoder decoder_;
  RotaryOption rotary_;
};

class BoundDecoderLayer : public BoundDecoder {
 public:
  explicit BoundDecoderLayer(const val& o) : BoundDecoder(o, 1, false), names_(decoder()) {}
  Module& module() override { return names_; }

 private:
  SingleLayerNames names_;
};

class BoundTransformer : public BoundModule {
 public:
  explicit BoundTransformer(const val& o)
      : options_(readEncoderLayerOptions(o)),
        transformer_(options_, readIndex(o, "numEncoderLayers"), readIndex(o, "numDecoderLayers")),
        rotary_(o["rotary"], headWidth(options_)) {}
  Module& module() override { return transformer_; }
  Initialization initialization() const override { return Initialization::kXavier; }

  val forward(const val& source, const val& target, const val& options) {
    return guarded([&] {
      const Batch s = readBatch("source", source, options_.embed_dim),
                  t = readBatch("target", target, options_.embed_dim);
      const val source_options = options["source"], target_options = options["target"];
      const EncoderRun encoded = runEncoder(transformer_.encoder(), options_, s, source_options, rotary_);
      const Batch memory{readOnly(encoded.output), s.sequences, s.count, s.length, s.batched};
      DecoderRun decoded = runDecoder(transformer_.decoder(), options_, t, memory, target_options, rotary_);
      val result = attended(writeTensor(t.shape(options_.embed_dim), decoded.output.data()), decoded.weights);
      result.set("memory", writeTensor(s.shape(options_.embed_dim), encoded.output.data()));
      result.set("encoderWeights", writeAll(encoded.weights, s.weightsShape(options_.num_heads, s.length),
                                            readBool(source_options, "returnWeights")));
      return result;
    });
  }

  BoundDecoderCache* makeCache(const val& source) {
    return guarded([&] {
      const Batch s = readSequence("source", source, options_.embed_dim);
      MatrixView memory = arena().matrix(s.rows.rows(), options_.embed_dim);
      MultiHeadCallOptions call;
      call.rotary = rotary_.tables(s.length);
      transformer_.encoder().forward(s.rows, s.sequences, call, memory, {}, arena());
      return new BoundDecoderCache(transformer_.decoder().makeCache(readOnly(memory), arena()));
    });
  }

  val step(const val& target, BoundDecoderCache& cache) {
    return guarded([&] { return stepDecoder(transformer_.decoder(), options_, target, cache, rotary_); });
  }

 private:
  EncoderLayerOptions options_;
  Transformer transformer_;
  RotaryOption rotary_;
};

template <class T>
T* make(const val& options) {
  return guarded([&] { return new T(options); });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_layers) {
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
  class_<BoundMultiHeadAttention, base<BoundModule>>("MultiHeadAttention")
      .constructor(&make<BoundMultiHeadAttention>, allow_raw_pointers())
      .function("forward", &BoundMultiHeadAttention::forward);
  class_<BoundEncoderLayer, base<BoundModule>>("EncoderLayer")
      .constructor(&make<BoundEncoderLayer>, allow_raw_pointers())
      .function("forward", &BoundEncoderLayer::forward);
  class_<BoundEncoder, base<BoundModule>>("Encoder")
      .constructor(&make<BoundEncoder>, allow_raw_pointers())
      .function("forward", &BoundEncoder::forward);
  class_<BoundDecoderCache>("DecoderCache").function("length", &BoundDecoderCache::length);
  class_<BoundDecoder, base<BoundModule>>("Decoder")
      .constructor(&make<BoundDecoder>, allow_raw_pointers())
      .function("forward", &BoundDecoder::forward)
      .function("makeCache", &BoundDecoder::makeCache, allow_raw_pointers())
      .function("step", &BoundDecoder::step);
  class_<BoundDecoderLayer, base<BoundDecoder>>("DecoderLayer")
      .constructor(&make<BoundDecoderLayer>, allow_raw_pointers());
  class_<BoundTransformer, base<BoundModule>>("Transformer")
      .constructor(&make<BoundTransformer>, allow_raw_pointers())
      .function("forward", &BoundTransformer::forward)
      .function("makeCache", &BoundTransformer::makeCache, allow_raw_pointers())
      .function("step", &BoundTransformer::step);
}

}  // namespace heed::bindings
