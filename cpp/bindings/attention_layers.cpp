#include <emscripten/bind.h>

#include <algorithm>

#include "heed/multi_head_attention.h"
#include "layers.h"

/// Attention with parameters, and the encoder around it.
namespace heed::bindings {

val attended(const val& output, const val& weights) {
  val result = val::object();
  result.set("output", output);
  result.set("weights", weights);
  return result;
}

Index headWidth(const EncoderLayerOptions& o) {
  return o.key_dim ? o.key_dim : o.embed_dim / std::max<Index>(o.num_heads, 1);
}

/// Layer by layer, since each may have heads masked of its own, and as many heads as pruning left it.
EncoderRun runEncoder(Encoder& encoder, const Batch& x, const val& options, RotaryOption& rotary) {
  const Index layers = encoder.numLayers();
  Index most_heads = 0;
  for (Index i = 0; i < layers; ++i) most_heads = std::max(most_heads, encoder.layer(i).options().num_heads);
  const auto head_mask = readOptionalTensor(options["headMask"]);
  if (head_mask && head_mask->shape != Shape{layers, most_heads}) {
    throw Error(ErrorCode::kShapeMismatch, "headMask: got shape " + head_mask->shape.toString() + "; expected " +
                                               Shape{layers, most_heads}.toString());
  }
  EncoderRun run{arena().matrix(x.rows.rows(), x.rows.cols()), {}};
  run.output = x.rows;
  CallInput call;
  for (Index i = 0, last_heads = 0; i < layers; ++i) {
    EncoderLayer& layer = encoder.layer(i);
    const Index heads = layer.options().num_heads;
    if (heads != last_heads) {
      call = readCall(options, {x.count, heads, x.length, x.length}, false);
      call.options.masks = call.masks;
      call.options.rotary = rotary.tables(x.length);
      last_heads = heads;
    }
    if (head_mask) call.options.head_scale = {head_mask->data + i * most_heads, static_cast<size_t>(heads)};
    float* weights = nullptr;
    if (call.return_weights) {
      const Shape shape = x.weightsShape(heads, x.length);
      weights = arena().take<float>(shape.size());
      run.weights.emplace_back(shape, weights);
    }
    layer.forward(readOnly(run.output), x.sequences, call.options, run.output, weights, arena());
  }
  if (encoder.finalNorm()) encoder.finalNorm()->forward(readOnly(run.output), run.output);
  return run;
}

val writeWeights(const EncoderRun& run) {
  if (run.weights.empty()) return val::null();
  val list = val::array();
  for (const auto& [shape, weights] : run.weights) list.call<void>("push", writeTensor(shape, weights));
  return list;
}

namespace {

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
                      weightsOf(weights, weights_shape, q, k.length, readBool(options, "averageWeights")));
    });
  }

 private:
  static void sameCount(const char* argument, const Batch& b, const Batch& query) {
    if (b.count != query.count || b.batched != query.batched) {
      throw Error(ErrorCode::kShapeMismatch, std::string(argument) + ": got a batch of " + std::to_string(b.count) +
                                                 "; expected " + std::to_string(query.count) + ", as query's");
    }
  }
  static val weightsOf(float* weights, const Shape& shape, const Batch& q, Index keys, bool average) {
    if (!weights) return val::null();
    if (!average) return writeTensor(shape, weights);
    averageHeads(weights, q.count, shape[-3], q.length * keys);
    return writeTensor(q.batched ? Shape{q.count, q.length, keys} : Shape{q.length, keys}, weights);
  }

  MultiHeadAttention attention_;
  RotaryOption rotary_;
};

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

std::vector<Index> readHeads(const val& heads) {
  return heads.isNull() ? std::vector<Index>() : readShape(heads).extents();
}

class BoundEncoder : public BoundModule {
 public:
  explicit BoundEncoder(const val& o) : BoundEncoder(o, readEncoderLayerOptions(o)) {}
  Module& module() override { return encoder_; }

  val forward(const val& tensor, const val& options) {
    return guarded([&] {
      const Batch x = readBatch("x", tensor, width_);
      const EncoderRun run = runEncoder(encoder_, x, options, rotary_);
      return attended(writeTensor(x.shape(width_), run.output.data()), writeWeights(run));
    });
  }

 private:
  BoundEncoder(const val& o, const EncoderLayerOptions& layer)
      : width_(layer.embed_dim),
        encoder_(layer, readIndex(o, "numLayers"), readBool(o, "finalNorm"), readHeads(o["heads"])),
        rotary_(o["rotary"], headWidth(layer)) {}

  Index width_;
  Encoder encoder_;
  RotaryOption rotary_;
};

}  // namespace

EMSCRIPTEN_BINDINGS(heed_attention_layers) {
  using emscripten::allow_raw_pointers;
  using emscripten::base;
  using emscripten::class_;
  class_<BoundMultiHeadAttention, base<BoundModule>>("MultiHeadAttention")
      .constructor(&make<BoundMultiHeadAttention>, allow_raw_pointers())
      .function("forward", &BoundMultiHeadAttention::forward);
  class_<BoundEncoderLayer, base<BoundModule>>("EncoderLayer")
      .constructor(&make<BoundEncoderLayer>, allow_raw_pointers())
      .function("forward", &BoundEncoderLayer::forward);
  class_<BoundEncoder, base<BoundModule>>("Encoder")
      .constructor(&make<BoundEncoder>, allow_raw_pointers())
      .function("forward", &BoundEncoder::forward);
}

}  // namespace heed::bindings
