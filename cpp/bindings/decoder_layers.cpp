#include <emscripten/bind.h>

#include <cstddef>
#include <utility>

#include "core/check.h"
#include "heed/transformer.h"
#include "layers.h"

/// The decoder, with step-by-step decoding, and the Transformer.
namespace heed::bindings {
namespace {

/// The cache of a batch during decoding.
class BoundDecoderCache {
 public:
  double length() const { return static_cast<double>(length_); }

 private:
  friend class Stepping;
  Decoder::Cache cache_;
  Index count_, length_ = 0, memory_length_;
  bool batched_;
  std::optional<Mask::Kind> mask_kind_;  // of the memory's key mask, (N, S)
  std::vector<std::byte> mask_;
};

/// Decoding step by step.
class Stepping {
 public:
  Stepping(Decoder& decoder, Index width, RotaryOption& rotary) : decoder_(decoder), width_(width), rotary_(rotary) {}

  /// Makes the cache for a memory; `masks` contains its key mask or is empty.
  BoundDecoderCache* makeCache(const Batch& memory, const std::vector<Mask>& masks) const {
    BoundDecoderCache made;
    made.cache_ = decoder_.makeCache(memory.rows, context(), memory.count);
    made.count_ = memory.count;
    made.memory_length_ = memory.length;
    made.batched_ = memory.batched;
    for (const Mask& mask : masks) {
      const auto* bytes = static_cast<const std::byte*>(mask.data);
      made.mask_kind_ = mask.kind;
      made.mask_.assign(bytes, bytes + memory.count * memory.length * (mask.kind == Mask::Kind::kBoolean ? 1 : 4));
    }
    return new BoundDecoderCache(std::move(made));
  }

  /// Computes the output for the next rows of the cached sequences.
  val step(const val& target, BoundDecoderCache& cache) const {
    const Batch t = readBatch("target", target, width_);
    if (t.count != cache.count_ || t.batched != cache.batched_) {
      const std::string w = std::to_string(width_);
      refuseShape("target",
                  (cache.batched_ ? "[" + std::to_string(cache.count_) + ", L, " : std::string("[L, ")) + w +
                      "], like the memory of the cache",
                  t.shape(width_));
    }
    MatrixView output = arena().matrix(t.rows.rows(), width_);
    DecoderCallOptions call;
    call.self.rotary = rotary_.tables(cache.length_ + t.length);
    Mask mask;
    if (cache.mask_kind_) {
      mask = {*cache.mask_kind_, cache.mask_.data(), {cache.memory_length_, 0, 0, 1}};
      call.memory.masks = {&mask, 1};
    }
    decoder_.step(t.rows, cache.cache_, call, output, context());
    cache.length_ += t.length;
    return writeTensor(t.shape(width_), output.data());
  }

 private:
  Decoder& decoder_;
  Index width_;
  RotaryOption& rotary_;
};

/// Reads the key mask [N, S] of a cache's memory, or nothing.
std::vector<Mask> readCacheMask(const val& key_mask, const Batch& memory, Index heads) {
  auto mask = readMask("keyMask", key_mask);
  if (!mask) return {};
  mask->per_key = true;
  return {mask->broadcast({memory.count, heads, memory.length, memory.length})};
}

struct DecoderRun {
  MatrixView output;
  val weights;
};

DecoderRun runDecoder(Decoder& decoder, const EncoderLayerOptions& o, const Batch& target, const Batch& memory,
                      const val& options, RotaryOption& rotary) {
  requireSameCount("memory", memory, target, "target");
  const std::vector<Mask> self_masks = broadcastMasks(readMasks(options, "mask", "keyMask"),
                                                      {target.count, o.num_heads, target.length, target.length}),
                          memory_masks = broadcastMasks(readMasks(options, "memoryMask", "memoryKeyMask"),
                                                        {target.count, o.num_heads, target.length, memory.length});
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
  MatrixView output = arena().matrix(target.rows.rows(), o.embed_dim);
  decoder.forward({target.rows, memory.rows, target.sequences, memory.sequences}, call, output, weights, context());
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

class BoundDecoder : public BoundModule {
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

  BoundDecoderCache* makeCache(const val& memory, const val& key_mask) {
    return guarded([&] {
      const Batch m = readBatch("memory", memory, options_.embed_dim);
      return stepping().makeCache(m, readCacheMask(key_mask, m, options_.num_heads));
    });
  }

  val step(const val& target, BoundDecoderCache& cache) {
    return guarded([&] { return stepping().step(target, cache); });
  }

 protected:
  BoundDecoder(const val& o, Index layers, bool final_norm)
      : options_(readEncoderLayerOptions(o)),
        decoder_(options_, layers, final_norm),
        rotary_(o["rotary"], options_.headWidth()) {}
  Decoder& decoder() { return decoder_; }

 private:
  Stepping stepping() { return {decoder_, options_.embed_dim, rotary_}; }

  EncoderLayerOptions options_;
  Decoder decoder_;
  RotaryOption rotary_;
};

class BoundDecoderLayer : public BoundDecoder {
 public:
  explicit BoundDecoderLayer(const val& o) : BoundDecoder(o, 1, false) {}
  Module& module() override { return decoder().layer(0); }
};

class BoundTransformer : public BoundModule {
 public:
  explicit BoundTransformer(const val& o)
      : options_(readEncoderLayerOptions(o)),
        transformer_(options_, readIndex(o, "numEncoderLayers"), readIndex(o, "numDecoderLayers")),
        rotary_(o["rotary"], options_.headWidth()) {}
  Module& module() override { return transformer_; }
  Initialization initialization() const override { return Initialization::kXavier; }

  val forward(const val& source, const val& target, const val& options) {
    return guarded([&] {
      const Index width = options_.embed_dim;
      const Batch s = readBatch("source", source, width), t = readBatch("target", target, width);
      const EncoderRun encoded = runEncoder(transformer_.encoder(), s, options["source"], rotary_);
      const Batch memory{readOnly(encoded.output), s.sequences, s.count, s.length, s.batched};
      DecoderRun decoded = runDecoder(transformer_.decoder(), options_, t, memory, options["target"], rotary_);
      val result = writeAttended(writeTensor(t.shape(width), decoded.output.data()), decoded.weights);
      result.set("memory", writeTensor(s.shape(width), encoded.output.data()));
      result.set("encoderWeights", writeWeights(encoded));
      return result;
    });
  }

  BoundDecoderCache* makeCache(const val& source, const val& key_mask) {
    return guarded([&] {
      const Batch s = readBatch("source", source, options_.embed_dim);
      const std::vector<Mask> masks = readCacheMask(key_mask, s, options_.num_heads);
      MatrixView memory = arena().matrix(s.rows.rows(), options_.embed_dim);
      MultiHeadCallOptions call;
      call.masks = masks;
      call.rotary = rotary_.tables(s.length);
      transformer_.encoder().forward(s.rows, s.sequences, call, memory, {}, context());
      return stepping().makeCache({readOnly(memory), s.sequences, s.count, s.length, s.batched}, masks);
    });
  }

  val step(const val& target, BoundDecoderCache& cache) {
    return guarded([&] { return stepping().step(target, cache); });
  }

 private:
  Stepping stepping() { return {transformer_.decoder(), options_.embed_dim, rotary_}; }

  EncoderLayerOptions options_;
  Transformer transformer_;
  RotaryOption rotary_;
};

}  // namespace

EMSCRIPTEN_BINDINGS(heed_decoder_layers) {
  using emscripten::allow_raw_pointers;
  using emscripten::base;
  using emscripten::class_;
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
