#include <emscripten/bind.h>

#include <algorithm>

#include "attention.h"
#include "core/check.h"

/// The layers with attention. Those that return weights set them in an object `results`.
namespace heed::bindings {
namespace {

using train::Graph;
using train::LayerSettings;

/// Reads `options[mask]` and `options[key_mask]`.
void addMasks(BoundGraph& graph, const val& options, const char* mask, const char* key_mask, LayerSettings& call) {
  if (auto read = readAttentionMask(graph, mask, options[mask])) call.masks.push_back(std::move(*read));
  if (auto read = readAttentionMask(graph, key_mask, options[key_mask])) {
    read->per_key = true;
    call.masks.push_back(std::move(*read));
  }
}

/// Reads RawLayerAttentionOptions without the head mask. `rotary` is the layer's option.
LayerSettings readSettings(BoundGraph& graph, const val& options, const val& rotary, Index head_dim, Index length) {
  LayerSettings call;
  call.causal = readBool(options, "causal");
  call.window = readWindow(options);
  addMasks(graph, options, "mask", "keyMask", call);
  call.rotary = rotaryTables(rotary, head_dim, length);
  return call;
}

/// Reads headMask, [H] or [N, H].
void readHeadMask(BoundGraph& graph, const val& options, Index count, Index heads, LayerSettings& call) {
  const BoundVariable* mask = readHandle(options["headMask"]);
  if (!mask) return;
  if (mask->shape() != Shape{heads} && mask->shape() != Shape{count, heads})
    refuseShape("headMask", Shape{heads}.toString() + " or " + Shape{count, heads}.toString(), mask->shape());
  call.head_mask = train::reshape(graph.graph(), mask->variable(), mask->shape().rows(), heads);
}

/// Memory for weights of this shape if they are requested.
float* weightsFor(const val& options, const Shape& shape) {
  return readBool(options, "returnWeights") ? arena().take<float>(shape.size()) : nullptr;
}

BoundVariable* multiHeadAttentionLayer(BoundGraph& graph, BoundModule& module, const BoundVariable& query,
                                       const val& key, const val& value, const val& options, val results) {
  return guarded([&] {
    auto& layer = static_cast<MultiHeadAttention&>(module.module());
    const MultiHeadAttentionOptions& o = layer.options();
    const Batch q = batchOf("query", query, o.embed_dim);
    const BoundVariable* given_key = readHandle(key);
    const BoundVariable* given_value = readHandle(value);
    const BoundVariable& keys = given_key ? *given_key : query;
    const BoundVariable& values = given_value ? *given_value : keys;
    if (!given_key && !given_value && (o.key_input_dim != o.embed_dim || o.value_input_dim != o.embed_dim)) {
      refuse(ErrorCode::kShapeMismatch, "key",
             "a key of width " + std::to_string(o.key_input_dim) + " and a value of width " +
                 std::to_string(o.value_input_dim) + ", because they differ from the query's width",
             "none");
    }
    const Batch k = batchOf("key", keys, o.key_input_dim), v = batchOf("value", values, o.value_input_dim);
    requireSameCount("key", k, q);
    requireSameCount("value", v, q);
    if (v.length != k.length) {
      refuse(ErrorCode::kShapeMismatch, "value", std::to_string(k.length) + " rows, one per key",
             std::to_string(v.length));
    }
    LayerSettings call = readSettings(graph, options, options["rotary"], o.key_dim, std::max(q.length, k.length));
    readHeadMask(graph, options, q.count, o.num_heads, call);
    Shape weights_shape = q.weightsShape(o.num_heads, k.length);
    float* weights = weightsFor(options, weights_shape);
    const Variable output = train::multiHeadAttention(graph.graph(), layer, query.variable(), keys.variable(),
                                                      values.variable(), q.sequences, k.sequences, call, weights);
    if (weights && readBool(options, "averageWeights")) {
      averageHeads(weights, q.count, o.num_heads, q.length, k.length);
      weights_shape = q.batched ? Shape{q.count, q.length, k.length} : Shape{q.length, k.length};
    }
    if (weights) results.set("weights", writeTensor(weights_shape, weights));
    return made(q.shape(o.embed_dim), output);
  });
}

BoundVariable* encoderLayerLayer(BoundGraph& graph, BoundModule& module, const BoundVariable& x, const val& options,
                                 val results) {
  return guarded([&] {
    auto& layer = static_cast<EncoderLayer&>(module.module());
    const EncoderLayerOptions& o = layer.options();
    const Batch batch = batchOf("x", x, o.embed_dim);
    LayerSettings call = readSettings(graph, options, options["rotary"], o.headWidth(), batch.length);
    readHeadMask(graph, options, batch.count, o.num_heads, call);
    const Shape weights_shape = batch.weightsShape(o.num_heads, batch.length);
    float* weights = weightsFor(options, weights_shape);
    const Variable output = train::encoderLayer(graph.graph(), layer, x.variable(), batch.sequences, call, weights);
    if (weights) results.set("weights", writeTensor(weights_shape, weights));
    return made(x.shape(), output);
  });
}

/// Weights of every layer of an encoder, in the arena.
struct EncoderWeights {
  std::vector<Shape> shapes;
  std::vector<float*> data;

  EncoderWeights(Encoder& encoder, const Batch& x, const val& options) {
    for (Index i = 0; i < encoder.numLayers() && readBool(options, "returnWeights"); ++i) {
      shapes.push_back(x.weightsShape(encoder.layer(i).options().num_heads, x.length));
      data.push_back(arena().take<float>(shapes.back().size()));
    }
  }
  val written() const {
    val list = val::array();
    for (size_t i = 0; i < data.size(); ++i) list.call<void>("push", writeTensor(shapes[i], data[i]));
    return list;
  }
};

BoundVariable* encoderModule(BoundGraph& graph, BoundModule& module, const BoundVariable& x, const val& options,
                             val results) {
  return guarded([&] {
    auto& encoder = static_cast<Encoder&>(module.module());
    const EncoderLayerOptions& o = encoder.layer(0).options();
    const Batch batch = batchOf("x", x, o.embed_dim);
    LayerSettings call = readSettings(graph, options, options["rotary"], o.headWidth(), batch.length);
    if (const BoundVariable* mask = readHandle(options["headMask"])) {
      requireSame("headMask", mask->shape(), {encoder.numLayers(), encoder.maxHeads()});
      call.head_mask = mask->variable();
    }
    const EncoderWeights weights(encoder, batch, options);
    const Variable output = train::encoder(graph.graph(), encoder, x.variable(), batch.sequences, call, weights.data);
    if (!weights.data.empty()) results.set("weights", weights.written());
    return made(x.shape(), output);
  });
}

/// Options and weights of a decoder call.
struct DecoderCall {
  train::DecoderSettings settings;
  Shape self_shape, memory_shape;
  std::vector<DecoderWeights> weights;

  DecoderCall(BoundGraph& graph, const EncoderLayerOptions& o, const Batch& target, const Batch& memory, Index layers,
              const val& options, const val& rotary)
      : self_shape(target.weightsShape(o.num_heads, target.length)),
        memory_shape(target.weightsShape(o.num_heads, memory.length)) {
    requireSameCount("memory", memory, target, "target");
    settings.self.causal = readBool(options, "causal");
    settings.self.rotary = rotaryTables(rotary, o.headWidth(), target.length);
    addMasks(graph, options, "mask", "keyMask", settings.self);
    addMasks(graph, options, "memoryMask", "memoryKeyMask", settings.memory);
    for (Index i = 0; i < layers && readBool(options, "returnWeights"); ++i)
      weights.push_back({arena().take<float>(self_shape.size()), arena().take<float>(memory_shape.size())});
  }
  void write(val& results) const {
    if (weights.empty()) return;
    val list = val::array();
    for (const DecoderWeights& w : weights) {
      val entry = val::object();
      entry.set("self", writeTensor(self_shape, w.self));
      entry.set("memory", writeTensor(memory_shape, w.memory));
      list.call<void>("push", entry);
    }
    results.set("weights", list);
  }
};

BoundVariable* decoderLayerLayer(BoundGraph& graph, BoundModule& module, const BoundVariable& target,
                                 const BoundVariable& memory, const val& options, val results) {
  return guarded([&] {
    auto& layer = static_cast<DecoderLayer&>(module.module());
    const EncoderLayerOptions& o = layer.options();
    const Batch t = batchOf("target", target, o.embed_dim), m = batchOf("memory", memory, o.embed_dim);
    const DecoderCall call(graph, o, t, m, 1, options, options["rotary"]);
    const Variable output =
        train::decoderLayer(graph.graph(), layer, target.variable(), memory.variable(), t.sequences, m.sequences,
                            call.settings, call.weights.empty() ? DecoderWeights{} : call.weights[0]);
    call.write(results);
    return made(target.shape(), output);
  });
}

BoundVariable* decoderModule(BoundGraph& graph, BoundModule& module, const BoundVariable& target,
                             const BoundVariable& memory, const val& options, val results) {
  return guarded([&] {
    auto& decoder = static_cast<Decoder&>(module.module());
    const EncoderLayerOptions& o = decoder.layer(0).options();
    const Batch t = batchOf("target", target, o.embed_dim), m = batchOf("memory", memory, o.embed_dim);
    const DecoderCall call(graph, o, t, m, decoder.numLayers(), options, options["rotary"]);
    const Variable output = train::decoder(graph.graph(), decoder, target.variable(), memory.variable(), t.sequences,
                                           m.sequences, call.settings, call.weights);
    call.write(results);
    return made(target.shape(), output);
  });
}

/// `memory` receives the encoder's output.
BoundVariable* transformerModule(BoundGraph& graph, BoundModule& module, const BoundVariable& source,
                                 const BoundVariable& target, const val& options, BoundVariable& memory, val results) {
  return guarded([&] {
    auto& model = static_cast<Transformer&>(module.module());
    const EncoderLayerOptions& o = model.encoder().layer(0).options();
    const Batch s = batchOf("source", source, o.embed_dim), t = batchOf("target", target, o.embed_dim);
    const val from = options["source"], rotary = options["rotary"];
    const LayerSettings settings = readSettings(graph, from, rotary, o.headWidth(), s.length);
    const EncoderWeights weights(model.encoder(), s, from);
    const DecoderCall call(graph, o, t, s, model.decoder().numLayers(), options["target"], rotary);
    const train::TransformerOutput run =
        train::transformer(graph.graph(), model, source.variable(), target.variable(), s.sequences, t.sequences,
                           settings, call.settings, weights.data, call.weights);
    call.write(results);
    if (!weights.data.empty()) results.set("encoderWeights", weights.written());
    memory = BoundVariable(source.shape(), run.memory);
    return made(target.shape(), run.output);
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_attention_layers) {
  using emscripten::allow_raw_pointers;
  using emscripten::function;
  function("recordMultiHeadAttentionLayer", &multiHeadAttentionLayer, allow_raw_pointers());
  function("recordEncoderLayerLayer", &encoderLayerLayer, allow_raw_pointers());
  function("recordEncoderLayer", &encoderModule, allow_raw_pointers());
  function("recordDecoderLayerLayer", &decoderLayerLayer, allow_raw_pointers());
  function("recordDecoderLayer", &decoderModule, allow_raw_pointers());
  function("recordTransformerLayer", &transformerModule, allow_raw_pointers());
}

}  // namespace heed::bindings
