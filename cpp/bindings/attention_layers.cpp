#include <algorithm>

#include "core/check.h"
#include "heed/multi_head_attention.h"
#include "layers.h"

/// Multi-head attention and the encoder.
namespace heed::bindings {

namespace {

/// The options of multi-head attention in layers and models; `embedDim`, `bias`, `dropout` and `int8` are read by both.
void readAttention(const val& o, MultiHeadAttentionOptions& attention) {
  readFields<Index>(o, {{&attention.num_heads, "numHeads"},
                        {&attention.key_value_heads, "keyValueHeads"},
                        {&attention.key_dim, "keyDim"},
                        {&attention.key_dim, "headDim"},
                        {&attention.value_dim, "valueDim"}});
  readFields<bool>(o, {{&attention.qk_norm, "qkNorm"},
                       {&attention.joint_qk_norm, "jointQkNorm"},
                       {&attention.value_norm, "valueNorm"},
                       {&attention.position_projections, "positionProjections"},
                       {&attention.content_to_position, "contentToPosition"},
                       {&attention.position_to_content, "positionToContent"}});
}

}  // namespace

void readFeedForward(const val& o, FeedForwardOptions& feed_forward) {
  readFields<Index>(o, {{&feed_forward.feed_forward_dim, "feedForwardDim"}});
  readFields<bool>(o, {{&feed_forward.gated, "gated"},
                       {&feed_forward.gate_second, "gateSecond"},
                       {&feed_forward.linear1_bias, "linear1Bias"}});
  feed_forward.activation = readActivation(o);
}

EncoderLayerOptions readEncoderLayer(const val& o, EncoderLayerOptions layer) {
  readAttention(o, layer.attention);
  readFeedForward(o, layer.feed_forward);
  readFields<Index>(o, {{&layer.embed_dim, "embedDim"}});
  readFields<float>(
      o, {{&layer.dropout, "dropout"}, {&layer.norm.eps, "eps"}, {&layer.norm.weight_offset, "normWeightOffset"}});
  readFields<bool>(o, {{&layer.bias, "bias"},
                       {&layer.attention_bias, "attentionBias"},
                       {&layer.feed_forward_bias, "feedForwardBias"},
                       {&layer.norm.bias, "normBias"},
                       {&layer.norm.rms, "rmsNorm"},
                       {&layer.norm_first, "normFirst"},
                       {&layer.output_norms, "outputNorms"},
                       {&layer.layer_scale, "layerScale"},
                       {&layer.nested_norm, "nestedNorm"}});
  layer.precision = readBool(o, "int8") ? Precision::kInt8 : Precision::kFloat32;
  return layer;
}

EncoderCall::EncoderCall(Call& call, Encoder& encoder, const Batch& x, RotaryOption& rotary, const char* key_mask)
    : AttentionCall(call, "mask", key_mask) {
  options.rotary = call.share(rotary.tables(x.length));
  if (const auto head_mask = call.tensor("headMask")) {
    requireShape("headMask", head_mask->shape, {encoder.numLayers(), encoder.maxHeads()});
    options.head_mask = head_mask->value;
  }
  for (Index i = 0; i < encoder.numLayers(); ++i) {
    const Shape shape = x.weightsShape(encoder.layer(i).options().attention.num_heads, x.length);
    float* const own = weightsFor(call, shape);
    if (!own) break;
    weights.push_back(own);
    shapes_.push_back(shape);
  }
}

val EncoderCall::writeWeights() const {
  if (weights.empty()) return val::null();
  val list = val::array();
  for (size_t i = 0; i < weights.size(); ++i) list.call<void>("push", writeTensor(shapes_[i], weights[i]));
  return list;
}

namespace {

/// The options and results of one call of multi-head attention.
class HeadsCall : public AttentionCall {
 public:
  HeadsCall(Call& call, const Batch& query, const Batch& key, Index num_heads, RotaryOption& rotary)
      : AttentionCall(call, "mask", "keyMask"),
        weights_shape(query.weightsShape(num_heads, key.length)),
        weights(weightsFor(call, weights_shape)) {
    options.causal = readBool(call.arguments(), "causal");
    options.window = readWindow(call.arguments());
    options.rotary = call.share(rotary.tables(std::max(query.length, key.length)));
    if (const auto head_mask = call.tensor("headMask")) {
      const Shape heads{num_heads}, per_sequence{query.count, num_heads};
      if (head_mask->shape != heads && head_mask->shape != per_sequence)
        throwShapeMismatch("headMask", heads.toString() + " or " + per_sequence.toString(), head_mask->shape);
      options.head_mask = head_mask->value;
    }
  }

  val attended(Call& call, const Batch& query, const Value& output) const {
    const val written = weights ? writeTensor(weights_shape, weights) : val::null();
    return writeAttended(call.result(query.shape(output.cols()), output), written);
  }

  Shape weights_shape;  // [N, H, L, S] or [H, L, S]
  float* weights;       // null unless requested
};

class BoundMultiHeadAttention : public BoundLayer {
 public:
  explicit BoundMultiHeadAttention(const val& o)
      : attention_(readOptions(o)), rotary_(o["rotary"], attention_.options().key_dim) {}
  Module& module() override { return attention_; }

  val run(Call& call) override {
    const MultiHeadAttentionOptions& o = attention_.options();
    const TensorArgument query = *call.tensor("query");
    const auto given_key = call.tensor("key"), given_value = call.tensor("value");
    const Batch q = batchOf("query", query, o.embed_dim);
    if (!given_key && !given_value && (o.key_input_dim != o.embed_dim || o.value_input_dim != o.embed_dim)) {
      throwInvalid(ErrorCode::kShapeMismatch, "key",
                   "a key of width " + std::to_string(o.key_input_dim) + " and a value of width " +
                       std::to_string(o.value_input_dim) + " (the query has another width)",
                   "neither");
    }
    // If the same tensor is passed twice, use the same Value, so that it is packed only once.
    const TensorArgument &key = given_key ? *given_key : query, &value = given_value ? *given_value : key;
    const bool query_is_key = key.source == query.source && o.key_input_dim == o.embed_dim;
    const Batch k = query_is_key ? q : batchOf("key", key, o.key_input_dim);
    const auto value_batch = [&] {
      if (value.source == query.source && o.value_input_dim == o.embed_dim) return q;
      if (value.source == key.source && o.value_input_dim == o.key_input_dim) return k;
      return batchOf("value", value, o.value_input_dim);
    };
    const Batch v = value_batch();
    requireSameCount("key", k, q);
    requireSameCount("value", v, q);
    if (v.length != k.length) {
      throwInvalid(ErrorCode::kShapeMismatch, "value", std::to_string(k.length) + " rows, one per key",
                   std::to_string(v.length));
    }
    HeadsCall heads(call, q, k, o.num_heads, rotary_);
    call.useSites(q.sequences, k.sequences);
    Evaluator& e = call.evaluator();
    const AttentionInput input{q.rows, k.rows, v.rows, q.sequences, k.sequences};
    const Value output = e.at(Site::kAttention, attention_.forward(e, input, heads.options, heads.weights));
    if (heads.weights && readBool(call.arguments(), "averageWeights")) {
      averageHeads(heads.weights, q.count, o.num_heads, q.length, k.length);
      heads.weights_shape = q.shape(k.length);
    }
    return heads.attended(call, q, output);
  }

 private:
  static MultiHeadAttentionOptions readOptions(const val& o) {
    MultiHeadAttentionOptions options{.embed_dim = readIndex(o, "embedDim"),
                                      .key_input_dim = readIndex(o, "keyInputDim"),
                                      .value_input_dim = readIndex(o, "valueInputDim"),
                                      .bias = readBool(o, "bias"),
                                      .query_activation = readActivation(o["activation"], "query"),
                                      .key_activation = readActivation(o["activation"], "key"),
                                      .value_activation = readActivation(o["activation"], "value"),
                                      .dropout = readFloat(o, "dropout")};
    readAttention(o, options);
    return options;
  }

  MultiHeadAttention attention_;
  RotaryOption rotary_;
};

class BoundEncoderLayer : public BoundLayer {
 public:
  explicit BoundEncoderLayer(const val& o)
      : layer_(readEncoderLayer(o)), rotary_(o["rotary"], layer_.options().headWidth()) {}
  Module& module() override { return layer_; }

  val run(Call& call) override {
    const EncoderLayerOptions& o = layer_.options();
    const Batch x = readBatch(call, "x", o.embed_dim);
    HeadsCall heads(call, x, x, o.attention.num_heads, rotary_);
    call.useSites(x.sequences, x.sequences);
    Evaluator& e = call.evaluator();
    const Value output = layer_.forward(e, e.at(Site::kInput, x.rows), x.sequences, heads.options, heads.weights);
    return heads.attended(call, x, e.at(Site::kOutput, output));
  }

 private:
  EncoderLayer layer_;
  RotaryOption rotary_;
};

std::vector<Index> readHeads(const val& heads) {
  return heads.isNull() ? std::vector<Index>() : readShape(heads).extents();
}

class BoundEncoder : public BoundLayer {
 public:
  explicit BoundEncoder(const val& o)
      : options_(readEncoderLayer(o)),
        encoder_(options_, readIndex(o, "numLayers"), readBool(o, "finalNorm"), readHeads(o["heads"])),
        rotary_(o["rotary"], options_.headWidth()) {}
  Module& module() override { return encoder_; }

  val run(Call& call) override {
    const Batch x = readBatch(call, "x", options_.embed_dim);
    EncoderCall own(call, encoder_, x, rotary_, "keyMask");
    own.options.causal = readBool(call.arguments(), "causal");
    own.options.window = readWindow(call.arguments());
    call.useSites(x.sequences, x.sequences);
    const Value output = encoder_.forward(call.evaluator(), x.rows, x.sequences, own.options, own.weights);
    return writeAttended(call.result(x.shape(options_.embed_dim), output), own.writeWeights());
  }

 private:
  EncoderLayerOptions options_;
  Encoder encoder_;
  RotaryOption rotary_;
};

}  // namespace

EMSCRIPTEN_BINDINGS(heed_attention_layers) {
  registerLayer<BoundMultiHeadAttention>("MultiHeadAttention");
  registerLayer<BoundEncoderLayer>("EncoderLayer");
  registerLayer<BoundEncoder>("Encoder");
}

}  // namespace heed::bindings
