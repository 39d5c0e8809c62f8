#include <cstddef>
#include <utility>

#include "core/check.h"
#include "heed/inference_evaluator.h"
#include "heed/transformer.h"
#include "layers.h"

/// The decoder, with step-by-step decoding, and the Transformer.
namespace heed::bindings {
namespace {

/// The cache of a batch during decoding.
struct BoundDecoderCache {
  Decoder::Cache cache;
  Index count, memory_length;
  bool batched;
  std::optional<Mask::Kind> mask_kind;  // of the memory's key mask, (N, S)
  std::vector<std::byte> mask;
  Index decoded = 0;

  double length() const { return static_cast<double>(decoded); }
};

BoundDecoderCache* copyOf(const BoundDecoderCache& cache) {
  return guarded([&] { return new BoundDecoderCache(cache); });
}

/// A module with a decoder, which it runs step by step.
class IncrementalDecoder : public BoundModule {
 public:
  BoundDecoderCache* makeCache(const val& input, const val& key_mask) {
    return guarded([&] {
      const Batch x = readBatch(input_, input, options_.embed_dim);
      std::vector<MaskTensor> tensors;
      if (auto mask = readMask("keyMask", key_mask)) tensors.push_back(std::move(*mask));
      for (MaskTensor& mask : tensors) mask.per_key = true;
      (void)broadcastMasks(tensors, {x.count, options_.num_heads, x.length, x.length});
      BoundDecoderCache made{
          decoder().makeCache(memory(x, tensors), context(), x.count), x.count, x.length, x.batched, std::nullopt, {}};
      for (const MaskTensor& mask : tensors) {
        const auto* bytes = static_cast<const std::byte*>(mask.data);
        made.mask_kind = mask.kind;
        made.mask.assign(bytes, bytes + x.count * x.length * (mask.kind == Mask::Kind::kBoolean ? 1 : 4));
      }
      return new BoundDecoderCache(std::move(made));
    });
  }

  /// Computes the output for the next rows of the cached sequences.
  val step(const val& target, BoundDecoderCache& cache) {
    return guarded([&] {
      const Batch t = readBatch("target", target, options_.embed_dim);
      if (t.count != cache.count || t.batched != cache.batched) {
        refuseShape("target",
                    (cache.batched ? "[" + std::to_string(cache.count) + ", L, " : std::string("[L, ")) +
                        std::to_string(options_.embed_dim) + "], like the memory of the cache",
                    t.shape(options_.embed_dim));
      }
      DecoderCallOptions call;
      call.self.rotary = rotary_.tables(cache.decoded + t.length);
      std::optional<MaskTensor> mask;
      if (cache.mask_kind) {
        mask = {"keyMask", *cache.mask_kind, cache.mask.data(), {cache.count, cache.memory_length}, true};
        call.memory.masks = {&*mask, 1};
      }
      InferenceEvaluator e(context());
      const Value output = decoder().step(e, t.rows, cache.cache, call);
      cache.decoded += t.length;
      return writeTensor(t.shape(options_.embed_dim), output.data());
    });
  }

 protected:
  /// `input`: the name of what makeCache() takes, for errors.
  IncrementalDecoder(const val& o, const char* input)
      : options_(readEncoderLayerOptions(o)), rotary_(o["rotary"], options_.headWidth()), input_(input) {}
  virtual Decoder& decoder() = 0;
  /// The memory that makeCache() projects.
  virtual Value memory(const Batch& input, const std::vector<MaskTensor>&) { return input.rows; }

  EncoderLayerOptions options_;
  RotaryOption rotary_;

 private:
  const char* input_;
};

struct DecoderRun {
  Value output;
  val weights;
};

DecoderRun runDecoder(Decoder& decoder, const EncoderLayerOptions& o, const Batch& target, const Batch& memory,
                      const val& options, RotaryOption& rotary) {
  requireSameCount("memory", memory, target, "target");
  const std::vector<MaskTensor> self_masks = readMasks(options, "mask", "keyMask"),
                                memory_masks = readMasks(options, "memoryMask", "memoryKeyMask");
  DecoderCallOptions call;
  call.self.masks = self_masks;
  call.self.causal = readBool(options, "causal");
  call.self.rotary = rotary.tables(target.length);
  call.memory.masks = memory_masks;

  const bool asked = readBool(options, "returnWeights");
  const Shape self_shape = target.weightsShape(o.num_heads, target.length),
              memory_shape = target.weightsShape(o.num_heads, memory.length);
  std::vector<DecoderWeights> weights;
  for (Index i = 0; i < decoder.numLayers() && asked; ++i)
    weights.push_back({arena().take<float>(self_shape.size()), arena().take<float>(memory_shape.size())});
  InferenceEvaluator e(context());
  const Value output =
      decoder.forward(e, {target.rows, memory.rows, target.sequences, memory.sequences}, call, weights);
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

class BoundDecoder : public IncrementalDecoder {
 public:
  explicit BoundDecoder(const val& o) : BoundDecoder(o, readIndex(o, "numLayers"), readBool(o, "finalNorm")) {}
  Module& module() override { return decoder_; }

  val forward(const val& target, const val& memory, const val& options) {
    return guarded([&] {
      const Batch t = readBatch("target", target, options_.embed_dim),
                  m = readBatch("memory", memory, options_.embed_dim);
      DecoderRun run = runDecoder(decoder_, options_, t, m, options, rotary_);
      return writeAttended(writeTensor(t.shape(options_.embed_dim), run.output.data()), run.weights);
    });
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

  val forward(const val& source, const val& target, const val& options) {
    return guarded([&] {
      const Index width = options_.embed_dim;
      const Batch s = readBatch("source", source, width), t = readBatch("target", target, width);
      const EncoderRun encoded = runEncoder(transformer_.encoder(), s, options["source"], rotary_);
      DecoderRun decoded = runDecoder(decoder(), options_, t, s.with(encoded.output), options["target"], rotary_);
      val result = writeAttended(writeTensor(t.shape(width), decoded.output.data()), decoded.weights);
      result.set("memory", writeTensor(s.shape(width), encoded.output.data()));
      result.set("encoderWeights", writeWeights(encoded));
      return result;
    });
  }

 private:
  Decoder& decoder() override { return transformer_.decoder(); }
  Value memory(const Batch& source, const std::vector<MaskTensor>& masks) override {
    AttentionOptions call;
    call.masks = masks;
    call.rotary = rotary_.tables(source.length);
    InferenceEvaluator e(context());
    return transformer_.encoder().forward(e, source.rows, source.sequences, call);
  }

  Transformer transformer_;
};

}  // namespace

EMSCRIPTEN_BINDINGS(heed_decoder_layers) {
  emscripten::class_<BoundDecoderCache>("DecoderCache")
      .function("length", &BoundDecoderCache::length)
      .function("copy", &copyOf, emscripten::allow_raw_pointers());
  emscripten::class_<IncrementalDecoder, emscripten::base<BoundModule>>("IncrementalDecoder")
      .function("makeCache", &IncrementalDecoder::makeCache, emscripten::allow_raw_pointers())
      .function("step", &IncrementalDecoder::step);
  registerLayer<BoundDecoder, IncrementalDecoder>("Decoder").function("forward", &BoundDecoder::forward);
  registerLayer<BoundDecoderLayer, BoundDecoder>("DecoderLayer");
  registerLayer<BoundTransformer, IncrementalDecoder>("Transformer").function("forward", &BoundTransformer::forward);
}

}  // namespace heed::bindings
