#include <cstddef>
#include <utility>

#include "core/check.h"
#include "heed/decoder.h"
#include "layers.h"

/// The decoder, with step-by-step decoding, and the Transformer.
namespace heed::bindings {
namespace {

/// The decoding cache of a batch.
struct BoundDecoderCache {
  Decoder::Cache cache;
  Index count, memory_length;
  bool batched;
  std::optional<Mask::Kind> mask_kind;  // kind of the memory's key mask (N, S), if there is one
  std::vector<std::byte> mask;
  Index decoded = 0;

  double length() const { return static_cast<double>(decoded); }
};

BoundDecoderCache* copyOf(const BoundDecoderCache& cache) {
  return guarded([&] { return new BoundDecoderCache(cache); });
}

/// A module with a decoder that can run step by step.
class IncrementalDecoder : public BoundLayer {
 public:
  /// arguments: { input, keyMask }.
  BoundDecoderCache* makeCache(const val& arguments) {
    return guarded([&] {
      InferenceCall call(arguments);
      const Batch x = batchOf(input_, *call.tensor("input"), options_.embed_dim);
      AttentionCall attention(call, "mask", "keyMask");
      (void)broadcastMasks(attention.options.masks, x.sequences, options_.attention.num_heads, x.sequences);
      const Value rows = memory(call, x, attention);
      BoundDecoderCache made{
          decoder().makeCache(rows, context(), x.count), x.count, x.length, x.batched, std::nullopt, {}};
      for (const MaskTensor& mask : attention.options.masks) {
        const auto* bytes = static_cast<const std::byte*>(mask.data);
        made.mask_kind = mask.kind;
        made.mask.assign(bytes, bytes + x.count * x.length * (mask.kind == Mask::Kind::kBoolean ? 1 : 4));
      }
      return new BoundDecoderCache(std::move(made));
    });
  }

  /// Computes the output for the next rows of the cached sequences.
  val step(const val& arguments, BoundDecoderCache& cache) {
    return guarded([&] {
      InferenceCall call(arguments);
      const Batch t = readBatch(call, "target", options_.embed_dim);
      if (t.count != cache.count || t.batched != cache.batched) {
        throwShapeMismatch("target",
                           (cache.batched ? "[" + std::to_string(cache.count) + ", L, " : std::string("[L, ")) +
                               std::to_string(options_.embed_dim) + "], like the memory of the cache",
                           t.shape(options_.embed_dim));
      }
      DecoderCallOptions options;
      options.self.rotary = call.share(rotary_.tables(cache.decoded + t.length));
      std::optional<MaskTensor> mask;
      if (cache.mask_kind) {
        mask = {"keyMask", *cache.mask_kind, cache.mask.data(), {cache.count, cache.memory_length}, true};
        options.memory.masks = {&*mask, 1};
      }
      const Value output = decoder().step(call.evaluator(), t.rows, cache.cache, options);
      cache.decoded += t.length;
      return call.result(t.shape(options_.embed_dim), output);
    });
  }

 protected:
  /// `input`: the name of the input of makeCache(), for errors.
  IncrementalDecoder(const val& o, const char* input)
      : options_(readEncoderLayer(o)), rotary_(o["rotary"], options_.headWidth()), input_(input) {}
  virtual Decoder& decoder() = 0;
  /// The memory that makeCache() projects.
  virtual Value memory(Call&, const Batch& input, AttentionCall&) { return input.rows; }

  EncoderLayerOptions options_;
  RotaryOption rotary_;

 private:
  const char* input_;
};

/// The options of one call of a decoder, and the memory for its attention weights.
class DecoderCall {
 public:
  /// `key_mask`, `memory_key_mask`: the names of these arguments. Of `memory`, only the shape is used.
  DecoderCall(Call& call, const Decoder& decoder, Index num_heads, const Batch& target, const Batch& memory,
              RotaryOption& rotary, const char* key_mask, const char* memory_key_mask)
      : self_(call, "mask", key_mask),
        memory_(call, "memoryMask", memory_key_mask),
        self_shape_(target.weightsShape(num_heads, target.length)),
        memory_shape_(target.weightsShape(num_heads, memory.length)) {
    requireSameCount("memory", memory, target, "target");
    self_.options.causal = readBool(call.arguments(), "causal");
    self_.options.rotary = call.share(rotary.tables(target.length));
    for (Index i = 0; i < decoder.numLayers() && readBool(call.arguments(), "returnWeights"); ++i)
      weights.push_back({weightsFor(call, self_shape_), weightsFor(call, memory_shape_)});
  }

  DecoderCallOptions options() const { return {self_.options, memory_.options}; }
  /// The weights as a JavaScript array, or null if they were not requested.
  val writeWeights() const {
    if (weights.empty()) return val::null();
    val list = val::array();
    for (const DecoderWeights& w : weights) {
      val entry = val::object();
      entry.set("self", writeTensor(self_shape_, w.self));
      entry.set("memory", writeTensor(memory_shape_, w.memory));
      list.call<void>("push", entry);
    }
    return list;
  }

  std::vector<DecoderWeights> weights;  // one entry per layer, or empty if they were not requested

 private:
  AttentionCall self_, memory_;
  Shape self_shape_, memory_shape_;
};

class BoundDecoder : public IncrementalDecoder {
 public:
  explicit BoundDecoder(const val& o) : BoundDecoder(o, readIndex(o, "numLayers"), readBool(o, "finalNorm")) {}
  Module& module() override { return decoder_; }

  val run(Call& call) override {
    const Index width = options_.embed_dim;
    const Batch target = readBatch(call, "target", width), memory = readBatch(call, "memory", width);
    call.useSites(target.sequences, target.sequences);
    const DecoderCall own(call, decoder_, options_.attention.num_heads, target, memory, rotary_, "keyMask",
                          "memoryKeyMask");
    const Value output = decoder_.forward(
        call.evaluator(), {target.rows, memory.rows, target.sequences, memory.sequences}, own.options(), own.weights);
    return writeAttended(call.result(target.shape(width), output), own.writeWeights());
  }

 protected:
  BoundDecoder(const val& o, Index layers, bool final_norm)
      : IncrementalDecoder(o, "memory"), decoder_(options_, layers, final_norm) {}
  Decoder& decoder() override { return decoder_; }

 private:
  Decoder decoder_;
};

class BoundDecoderLayer : public BoundDecoder {
 public:
  explicit BoundDecoderLayer(const val& o) : BoundDecoder(o, 1, false) {}
  Module& module() override { return decoder().layer(0); }
};

class BoundTransformer : public IncrementalDecoder {
 public:
  explicit BoundTransformer(const val& o)
      : IncrementalDecoder(o, "source"),
        transformer_(options_, readIndex(o, "numEncoderLayers"), readIndex(o, "numDecoderLayers")) {}
  Module& module() override { return transformer_; }
  Initialization initialization() const override { return Initialization::kXavier; }

  val run(Call& call) override {
    const Index width = options_.embed_dim;
    const Batch source = readBatch(call, "source", width), target = readBatch(call, "target", width);
    const EncoderCall encoding(call, transformer_.encoder(), source, rotary_, "sourceKeyMask");
    const DecoderCall decoding(call, decoder(), options_.attention.num_heads, target, source, rotary_, "targetKeyMask",
                               "sourceKeyMask");
    call.useSites(source.sequences, source.sequences);
    const auto [output, memory] =
        transformer_.forward(call.evaluator(), source.rows, target.rows, source.sequences, target.sequences,
                             encoding.options, decoding.options(), encoding.weights, decoding.weights);
    val results = writeAttended(call.result(target.shape(width), output), decoding.writeWeights());
    results.set("memory", call.result(source.shape(width), memory));
    results.set("encoderWeights", encoding.writeWeights());
    return results;
  }

 private:
  Decoder& decoder() override { return transformer_.decoder(); }
  Value memory(Call& call, const Batch& source, AttentionCall& attention) override {
    attention.options.rotary = call.share(rotary_.tables(source.length));
    return transformer_.encoder().forward(call.evaluator(), source.rows, source.sequences, attention.options);
  }

  Transformer transformer_;
};

}  // namespace

EMSCRIPTEN_BINDINGS(heed_decoder_layers) {
  emscripten::class_<BoundDecoderCache>("DecoderCache")
      .function("length", &BoundDecoderCache::length)
      .function("copy", &copyOf, emscripten::allow_raw_pointers());
  emscripten::class_<IncrementalDecoder, emscripten::base<BoundLayer>>("IncrementalDecoder")
      .function("makeCache", &IncrementalDecoder::makeCache, emscripten::allow_raw_pointers())
      .function("step", &IncrementalDecoder::step);
  registerLayer<BoundDecoder, IncrementalDecoder>("Decoder");
  registerLayer<BoundDecoderLayer, BoundDecoder>("DecoderLayer");
  registerLayer<BoundTransformer, IncrementalDecoder>("Transformer");
}

}  // namespace heed::bindings
