#include <emscripten/bind.h>

#include <algorithm>

#include "attention.h"
#include "core/check.h"
#include "heed/train/ops.h"
#include "heed/transformer.h"

/// The layers with attention. Those that return weights set them in an object `results`.
namespace heed::bindings {
namespace {

using train::RecordingEvaluator;

/// Options of one recorded call of a layer with attention, and the masks that they refer to.
struct Call {
  AttentionOptions options;
  std::vector<MaskTensor> masks;

  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Reads `given[mask]` and `given[key_mask]`.
  void readMasks(BoundGraph& graph, RecordingEvaluator& e, const val& given, const char* mask, const char* key_mask) {
    if (auto read = readMask(graph, e, mask, given[mask])) masks.push_back(std::move(*read));
    if (auto read = readMask(graph, e, key_mask, given[key_mask])) {
      read->per_key = true;
      masks.push_back(std::move(*read));
    }
    options.masks = masks;
  }
  /// Reads RawLayerAttentionOptions without the head mask. `rotary` is the layer's option.
  void read(BoundGraph& graph, RecordingEvaluator& e, const val& given, const val& rotary, Index head_dim,
            Index length) {
    options = readCallOptions(given);
    readMasks(graph, e, given, "mask", "keyMask");
    options.rotary = e.share(rotaryTables(rotary, head_dim, length));
  }
  /// Reads headMask, [H] or [N, H].
  void readHeadMask(RecordingEvaluator& e, const val& given, Index count, Index heads) {
    const BoundVariable* mask = readHandle(given["headMask"]);
    if (!mask) return;
    if (mask->shape() != Shape{heads} && mask->shape() != Shape{count, heads})
      refuseShape("headMask", Shape{heads}.toString() + " or " + Shape{count, heads}.toString(), mask->shape());
    options.head_mask = e.value(train::reshape(e.graph(), mask->variable(), mask->shape().rows(), heads));
  }
};

/// Memory for weights of this shape if they are requested.
float* weightsFor(const val& options, const Shape& shape) {
  return readBool(options, "returnWeights") ? arena().take<float>(shape.size()) : nullptr;
}

BoundVariable* multiHeadAttentionLayer(BoundGraph& graph, BoundModule& module, const BoundVariable& query,
                                       const val& key, const val& value, const val& options, val results) {
  return guarded([&] {
    auto& layer = static_cast<MultiHeadAttention&>(module.module());
    const MultiHeadAttentionOptions& o = layer.options();
    RecordingEvaluator e(graph.graph());
    const Batch q = batchOf(e, "query", query, o.embed_dim);
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
    const auto other = [&](const char* argument, const BoundVariable& x, Index width) {
      return &x == &query && width == o.embed_dim ? q : batchOf(e, argument, x, width);
    };
    const Batch k = other("key", keys, o.key_input_dim), v = &values == &keys && o.value_input_dim == o.key_input_dim
                                                                 ? k
                                                                 : other("value", values, o.value_input_dim);
    requireSameCount("key", k, q);
    requireSameCount("value", v, q);
    if (v.length != k.length) {
      refuse(ErrorCode::kShapeMismatch, "value", std::to_string(k.length) + " rows, one per key",
             std::to_string(v.length));
    }
    Call call;
    call.read(graph, e, options, options["rotary"], o.key_dim, std::max(q.length, k.length));
    call.readHeadMask(e, options, q.count, o.num_heads);
    Shape weights_shape = q.weightsShape(o.num_heads, k.length);
    float* weights = weightsFor(options, weights_shape);
    const Value output = layer.forward(e, {q.rows, k.rows, v.rows, q.sequences, k.sequences}, call.options, weights);
    if (weights && readBool(options, "averageWeights")) {
      averageHeads(weights, q.count, o.num_heads, q.length, k.length);
      weights_shape = q.batched ? Shape{q.count, q.length, k.length} : Shape{q.length, k.length};
    }
    if (weights) results.set("weights", writeTensor(weights_shape, weights));
    return made(q.shape(o.embed_dim), e.variable(output));
  });
}

BoundVariable* encoderLayerLayer(BoundGraph& graph, BoundModule& module, const BoundVariable& x, const val& options,
                                 val results) {
  return guarded([&] {
    auto& layer = static_cast<EncoderLayer&>(module.module());
    const EncoderLayerOptions& o = layer.options();
    RecordingEvaluator e(graph.graph());
    const Batch batch = batchOf(e, "x", x, o.embed_dim);
    Call call;
    call.read(graph, e, options, options["rotary"], o.headWidth(), batch.length);
    call.readHeadMask(e, options, batch.count, o.num_heads);
    const Shape weights_shape = batch.weightsShape(o.num_heads, batch.length);
    float* weights = weightsFor(options, weights_shape);
    const Value output = layer.forward(e, batch.rows, batch.sequences, call.options, weights);
    if (weights) results.set("weights", writeTensor(weights_shape, weights));
    return made(x.shape(), e.variable(output));
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
    RecordingEvaluator e(graph.graph());
    const Batch batch = batchOf(e, "x", x, o.embed_dim);
    Call call;
    call.read(graph, e, options, options["rotary"], o.headWidth(), batch.length);
    if (const BoundVariable* mask = readHandle(options["headMask"])) {
      requireSame("headMask", mask->shape(), {encoder.numLayers(), encoder.maxHeads()});
      call.options.head_mask = e.value(mask->variable());
    }
    const EncoderWeights weights(encoder, batch, options);
    const Value output = encoder.forward(e, batch.rows, batch.sequences, call.options, weights.data);
    if (!weights.data.empty()) results.set("weights", weights.written());
    return made(x.shape(), e.variable(output));
  });
}

/// Options and weights of a decoder call.
struct DecoderCall {
  Call self, memory;
  DecoderCallOptions options;
  Shape self_shape, memory_shape;
  std::vector<DecoderWeights> weights;

  DecoderCall(BoundGraph& graph, RecordingEvaluator& e, const EncoderLayerOptions& o, const Batch& target,
              const Batch& memory_batch, Index layers, const val& given, const val& rotary)
      : self_shape(target.weightsShape(o.num_heads, target.length)),
        memory_shape(target.weightsShape(o.num_heads, memory_batch.length)) {
    requireSameCount("memory", memory_batch, target, "target");
    self.readMasks(graph, e, given, "mask", "keyMask");
    memory.readMasks(graph, e, given, "memoryMask", "memoryKeyMask");
    self.options.causal = readBool(given, "causal");
    self.options.rotary = e.share(rotaryTables(rotary, o.headWidth(), target.length));
    options = {self.options, memory.options};
    for (Index i = 0; i < layers && readBool(given, "returnWeights"); ++i)
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
    RecordingEvaluator e(graph.graph());
    const Batch t = batchOf(e, "target", target, o.embed_dim), m = batchOf(e, "memory", memory, o.embed_dim);
    const DecoderCall call(graph, e, o, t, m, 1, options, options["rotary"]);
    const Value output = layer.forward(e, {t.rows, m.rows, t.sequences, m.sequences}, call.options,
                                       call.weights.empty() ? DecoderWeights{} : call.weights[0]);
    call.write(results);
    return made(target.shape(), e.variable(output));
  });
}

BoundVariable* decoderModule(BoundGraph& graph, BoundModule& module, const BoundVariable& target,
                             const BoundVariable& memory, const val& options, val results) {
  return guarded([&] {
    auto& decoder = static_cast<Decoder&>(module.module());
    const EncoderLayerOptions& o = decoder.layer(0).options();
    RecordingEvaluator e(graph.graph());
    const Batch t = batchOf(e, "target", target, o.embed_dim), m = batchOf(e, "memory", memory, o.embed_dim);
    const DecoderCall call(graph, e, o, t, m, decoder.numLayers(), options, options["rotary"]);
    const Value output = decoder.forward(e, {t.rows, m.rows, t.sequences, m.sequences}, call.options, call.weights);
    call.write(results);
    return made(target.shape(), e.variable(output));
  });
}

/// `memory` receives the encoder's output.
BoundVariable* transformerModule(BoundGraph& graph, BoundModule& module, const BoundVariable& source,
                                 const BoundVariable& target, const val& options, BoundVariable& memory, val results) {
  return guarded([&] {
    auto& model = static_cast<Transformer&>(module.module());
    const EncoderLayerOptions& o = model.encoder().layer(0).options();
    RecordingEvaluator e(graph.graph());
    const Batch s = batchOf(e, "source", source, o.embed_dim), t = batchOf(e, "target", target, o.embed_dim);
    const val from = options["source"], rotary = options["rotary"];
    Call source_call;
    source_call.read(graph, e, from, rotary, o.headWidth(), s.length);
    const EncoderWeights weights(model.encoder(), s, from);
    const DecoderCall call(graph, e, o, t, s, model.decoder().numLayers(), options["target"], rotary);
    const Transformer::Output run = model.forward(e, s.rows, t.rows, s.sequences, t.sequences, source_call.options,
                                                  call.options, weights.data, call.weights);
    call.write(results);
    if (!weights.data.empty()) results.set("encoderWeights", weights.written());
    memory = BoundVariable(source.shape(), e.variable(run.memory));
    return made(target.shape(), e.variable(run.output));
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
