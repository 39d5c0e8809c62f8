#include <algorithm>

#include "core/check.h"
#include "heed/inference_evaluator.h"
#include "heed/multi_head_attention.h"
#include "layers.h"

/// Multi-head attention and the encoder.
namespace heed::bindings {

EncoderRun runEncoder(Encoder& encoder, const Batch& x, const val& options, RotaryOption& rotary) {
  const std::vector<MaskTensor> masks = readMasks(options, "mask", "keyMask");
  AttentionOptions call = readCallOptions(options);
  call.masks = masks;
  call.rotary = rotary.tables(x.length);
  if (const auto head_mask = readOptionalTensor(options["headMask"])) {
    requireShape("headMask", head_mask->shape, {encoder.numLayers(), encoder.maxHeads()});
    call.head_mask = head_mask->matrix();
  }
  EncoderRun run;
  std::vector<float*> weights;
  for (Index i = 0; i < encoder.numLayers() && readBool(options, "returnWeights"); ++i) {
    const Shape shape = x.weightsShape(encoder.layer(i).options().num_heads, x.length);
    weights.push_back(arena().take<float>(shape.size()));
    run.weights.emplace_back(shape, weights.back());
  }
  InferenceEvaluator e(context());
  run.output = encoder.forward(e, x.rows, x.sequences, call, weights);
  return run;
}

val writeWeights(const EncoderRun& run) {
  if (run.weights.empty()) return val::null();
  val list = val::array();
  for (const auto& [shape, weights] : run.weights) list.call<void>("push", writeTensor(shape, weights));
  return list;
}

namespace {

/// The options of one call of multi-head attention, with the memory that they refer to, and its weights.
class Call {
 public:
  Call(const val& o, const Batch& query, const Batch& key, Index num_heads, RotaryOption& rotary)
      : options(readCallOptions(o)),
        weights_shape(query.weightsShape(num_heads, key.length)),
        weights(readBool(o, "returnWeights") ? arena().take<float>(weights_shape.size()) : nullptr),
        masks_(readMasks(o, "mask", "keyMask")) {
    options.masks = masks_;
    options.head_mask = readHeadMask(o, query.count, num_heads);
    options.rotary = rotary.tables(std::max(query.length, key.length));
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  val attended(const Batch& query, const Value& output) const {
    return writeAttended(writeTensor(query.shape(output.cols()), output.data()),
                         weights ? writeTensor(weights_shape, weights) : val::null());
  }

  AttentionOptions options;
  Shape weights_shape;  // [N, H, L, S] or [H, L, S]
  float* weights;       // null unless requested

 private:
  std::vector<MaskTensor> masks_;
};

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
      Call call(options, q, k, o.num_heads, rotary_);
      InferenceEvaluator e(context());
      const Value output =
          attention_.forward(e, {q.rows, k.rows, v.rows, q.sequences, k.sequences}, call.options, call.weights);
      if (call.weights && readBool(options, "averageWeights")) {
        averageHeads(call.weights, q.count, o.num_heads, q.length, k.length);
        call.weights_shape = q.shape(k.length);
      }
      return call.attended(q, output);
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
      Call call(options, x, x, o.num_heads, rotary_);
      std::optional<Rotary> given;
      if (const auto angles = readOptionalTensor(options["angles"])) {
        given.emplace(readOnly(angles->matrix()));
        call.options.rotary = &*given;
      }
      InferenceEvaluator e(context());
      return call.attended(x, layer_.forward(e, x.rows, x.sequences, call.options, call.weights));
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
  explicit BoundEncoder(const val& o)
      : options_(readEncoderLayerOptions(o)),
        encoder_(options_, readIndex(o, "numLayers"), readBool(o, "finalNorm"), readHeads(o["heads"])),
        rotary_(o["rotary"], options_.headWidth()) {}
  Module& module() override { return encoder_; }

  val forward(const val& tensor, const val& options) {
    return guarded([&] {
      const Batch x = readBatch("x", tensor, options_.embed_dim);
      const EncoderRun run = runEncoder(encoder_, x, options, rotary_);
      return writeAttended(writeTensor(x.shape(options_.embed_dim), run.output.data()), writeWeights(run));
    });
  }

 private:
  EncoderLayerOptions options_;
  Encoder encoder_;
  RotaryOption rotary_;
};

}  // namespace

EMSCRIPTEN_BINDINGS(heed_attention_layers) {
  registerLayer<BoundMultiHeadAttention>("MultiHeadAttention").function("forward", &BoundMultiHeadAttention::forward);
  registerLayer<BoundEncoderLayer>("EncoderLayer").function("forward", &BoundEncoderLayer::forward);
  registerLayer<BoundEncoder>("Encoder").function("forward", &BoundEncoder::forward);
}

}  // namespace heed::bindings
