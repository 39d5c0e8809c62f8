#include <emscripten/bind.h>

#include <algorithm>

#include "core/check.h"
#include "heed/multi_head_attention.h"
#include "layers.h"

/// Multi-head attention and the encoder.
namespace heed::bindings {

val writeAttended(const val& output, const val& weights) {
  val result = val::object();
  result.set("output", output);
  result.set("weights", weights);
  return result;
}

EncoderRun runEncoder(Encoder& encoder, const Batch& x, const val& options, RotaryOption& rotary) {
  const std::vector<MaskTensor> masks = readMasks(options, "mask", "keyMask");
  EncoderCallOptions call = readCallOptions(options);
  call.mask_tensors = masks;
  call.rotary = rotary.tables(x.length);
  if (const auto head_mask = readOptionalTensor(options["headMask"])) {
    requireShape("headMask", head_mask->shape, {encoder.numLayers(), encoder.mostHeads()});
    call.layer_head_masks = {head_mask->data, static_cast<size_t>(head_mask->shape.size())};
  }
  EncoderRun run{arena().matrix(x.rows.rows(), x.rows.cols()), {}};
  std::vector<float*> weights;
  for (Index i = 0; i < encoder.numLayers() && readBool(options, "returnWeights"); ++i) {
    const Shape shape = x.weightsShape(encoder.layer(i).options().num_heads, x.length);
    weights.push_back(arena().take<float>(shape.size()));
    run.weights.emplace_back(shape, weights.back());
  }
  encoder.forward(x.rows, x.sequences, call, run.output, weights, context());
  return run;
}

val writeWeights(const EncoderRun& run) {
  if (run.weights.empty()) return val::null();
  val list = val::array();
  for (const auto& [shape, weights] : run.weights) list.call<void>("push", writeTensor(shape, weights));
  return list;
}

namespace {

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
        refuse(ErrorCode::kShapeMismatch, "key",
               "a key of width " + std::to_string(o.key_input_dim) + " and a value of width " +
                   std::to_string(o.value_input_dim) + " (the query has another width)",
               "none");
      }
      const Batch k = key.isNull() ? q : readBatch("key", key, o.key_input_dim);
      const Batch v = value.isNull() ? k : readBatch("value", value, o.value_input_dim);
      if (k.rows.cols() != o.key_input_dim || v.rows.cols() != o.value_input_dim) {
        refuse(ErrorCode::kShapeMismatch, "value", "width " + std::to_string(o.value_input_dim),
               "width " + std::to_string(v.rows.cols()));
      }
      requireSameCount("key", k, q);
      requireSameCount("value", v, q);
      if (v.length != k.length) {
        refuse(ErrorCode::kShapeMismatch, "value", std::to_string(k.length) + " rows, one per key",
               std::to_string(v.length));
      }
      MultiHeadCallOptions call = readCallOptions(options);
      const std::vector<Mask> masks =
          broadcastMasks(readMasks(options, "mask", "keyMask"), {q.count, o.num_heads, q.length, k.length});
      call.masks = masks;
      call.head_mask = readHeadMask(options, q.count, o.num_heads);
      call.rotary = rotary_.tables(std::max(q.length, k.length));
      Shape weights_shape = q.weightsShape(o.num_heads, k.length);
      float* weights = readBool(options, "returnWeights") ? arena().take<float>(weights_shape.size()) : nullptr;
      MatrixView output = arena().matrix(q.rows.rows(), o.embed_dim);
      attention_.forward({q.rows, k.rows, v.rows, q.sequences, k.sequences}, call, {output, weights}, context());
      if (weights && readBool(options, "averageWeights")) {
        averageHeads(weights, q.count, o.num_heads, q.length, k.length);
        weights_shape = q.batched ? Shape{q.count, q.length, k.length} : Shape{q.length, k.length};
      }
      return writeAttended(writeTensor(q.shape(o.embed_dim), output.data()),
                           weights ? writeTensor(weights_shape, weights) : val::null());
    });
  }

 private:
  MultiHeadAttention attention_;
  RotaryOption rotary_;
};

class BoundEncoderLayer : public BoundModule {
 public:
  explicit BoundEncoderLayer(const val& o)
      : layer_(readEncoderLayerOptions(o)), rotary_(o["rotary"], layer_.options().headWidth()) {}
  Module& module() override { return layer_; }

  val forward(const val& tensor, const val& options) {
    return guarded([&] {
      const EncoderLayerOptions& o = layer_.options();
      const Batch x = readBatch("x", tensor, o.embed_dim);
      MultiHeadCallOptions call = readCallOptions(options);
      const std::vector<Mask> masks =
          broadcastMasks(readMasks(options, "mask", "keyMask"), {x.count, o.num_heads, x.length, x.length});
      call.masks = masks;
      call.head_mask = readHeadMask(options, x.count, o.num_heads);
      call.rotary = rotary_.tables(x.length);
      const Shape weights_shape = x.weightsShape(o.num_heads, x.length);
      float* weights = readBool(options, "returnWeights") ? arena().take<float>(weights_shape.size()) : nullptr;
      MatrixView output = arena().matrix(x.rows.rows(), o.embed_dim);
      layer_.forward(x.rows, x.sequences, call, output, weights, context());
      return writeAttended(writeTensor(x.shape(o.embed_dim), output.data()),
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
      return writeAttended(writeTensor(x.shape(width_), run.output.data()), writeWeights(run));
    });
  }

 private:
  BoundEncoder(const val& o, const EncoderLayerOptions& layer)
      : width_(layer.embed_dim),
        encoder_(layer, readIndex(o, "numLayers"), readBool(o, "finalNorm"), readHeads(o["heads"])),
        rotary_(o["rotary"], layer.headWidth()) {}

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
