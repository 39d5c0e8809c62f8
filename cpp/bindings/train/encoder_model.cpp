#include "heed/train/encoder_model.h"

#include <emscripten/bind.h>

#include "core/check.h"
#include "graph.h"
#include "heed/train/ops.h"
#include "sites.h"

/// Training of pretrained encoders, and the operations that convert their rows to vectors. Rows are those of all texts,
/// one text after the other, without padding.
namespace heed::bindings {
namespace {

using train::EncoderPass;
using train::Lora;
using train::TrainableEncoder;

Sequences readSequences(const val& lengths) { return Sequences::ofLengths(readVector<Index>(lengths)); }

/// RawTokenBatch: { ids, tokenTypes, positions, lengths }.
TokenBatch readBatch(const val& batch) {
  return {.ids = readVector<int32_t>(batch["ids"]),
          .token_types = readVector<int32_t>(batch["tokenTypes"]),
          .positions = readVector<int32_t>(batch["positions"]),
          .sequences = readSequences(batch["lengths"])};
}

train::EncoderDropout readRates(const val& rates) {
  return {.embedding = readFloat(rates, "embedding"),
          .attention = readFloat(rates, "attention"),
          .attention_output = readFloat(rates, "attentionOutput"),
          .hidden = readFloat(rates, "hidden"),
          .output = readFloat(rates, "output"),
          .position = readFloat(rates, "position")};
}

std::vector<train::NamedRows> readNames(const val& list) {
  std::vector<train::NamedRows> names;
  const auto count = list["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    const val entry = list[i];
    names.push_back({readString(entry, "name"), entry["parameter"].as<unsigned>(), readIndex(entry, "firstRow"),
                     readIndex(entry, "rows")});
  }
  return names;
}

class BoundTrainableEncoder : public BoundModule {
 public:
  BoundTrainableEncoder(BoundModule& model, const val& names, const val& dropout)
      : encoder_(static_cast<EncoderModel&>(model.module()), readNames(names), readRates(dropout)) {}
  Module& module() override { return encoder_; }
  const Module& runner() override { return encoder_.model(); }
  TrainableEncoder& encoder() { return encoder_; }

 private:
  TrainableEncoder encoder_;
};

BoundTrainableEncoder* makeTrainableEncoder(BoundModule& model, const val& names, const val& dropout) {
  return guarded([&] { return new BoundTrainableEncoder(model, names, dropout); });
}

/// `modules`: the names of the targets and the indices of their weights among the encoder's parameters.
class BoundLora : public BoundModule {
 public:
  BoundLora(BoundTrainableEncoder& encoder, const val& modules, const val& options)
      : model_(encoder.encoder().model()),
        lora_(encoder.encoder(), targets(encoder, modules),
              {.rank = readIndex(options, "rank"),
               .alpha = readFloat(options, "alpha"),
               .dropout = readFloat(options, "dropout")}) {}
  Module& module() override { return lora_; }
  const Module& runner() override { return model_; }
  void merge() {
    guarded([&] { lora_.merge(); });
  }

 private:
  static std::vector<train::LoraTarget> targets(BoundTrainableEncoder& encoder, const val& modules) {
    const std::vector<Parameter> parameters = encoder.module().parameters();
    std::vector<train::LoraTarget> all;
    const auto count = modules["length"].as<unsigned>();
    for (unsigned i = 0; i < count; ++i)
      all.push_back({readString(modules[i], "name"), parameters[modules[i]["parameter"].as<unsigned>()]});
    return all;
  }

  const Module& model_;
  Lora lora_;
};

BoundLora* makeLora(BoundTrainableEncoder& encoder, const val& modules, const val& options) {
  return guarded([&] { return new BoundLora(encoder, modules, options); });
}

/// The last hidden states [T, E]. `given`: RawRecordedSites or null.
BoundVariable* recordEncoderModel(BoundGraph& graph, BoundTrainableEncoder& encoder, const val& batch,
                                  const val& options, const val& given) {
  return guarded([&] {
    const RunScope scope(encoder.runner());
    const EncoderPass pass{readBool(options, "training"), readBool(options, "recompute")};
    const TokenBatch tokens = readBatch(batch);
    const auto sites = readSites<BoundRecordedSites>(given, tokens.sequences, tokens.sequences);
    return made(encoder.encoder().forward(graph.graph(), tokens, pass, sites.get()));
  });
}

BoundVariable* recordWordLogits(BoundGraph& graph, BoundTrainableEncoder& encoder, const BoundVariable& x) {
  return guarded([&] { return made(encoder.encoder().wordLogits(graph.graph(), x.variable())); });
}

/// x [T, E] -> [N, E]. `skipped`: as in RawEncoding.pool().
BoundVariable* recordPool(BoundGraph& graph, const BoundVariable& x, const val& lengths, const val& skipped,
                          const std::string& pooling) {
  return guarded([&] {
    return made(train::pool(graph.graph(), x.variable(), readSequences(lengths), readVector<Index>(skipped),
                            poolingNamed(pooling)));
  });
}

BoundVariable* recordNormalize(BoundGraph& graph, const BoundVariable& x) {
  return guarded([&] { return made(x.shape(), train::normalize(graph.graph(), x.variable())); });
}

/// The rows of x [T, E] at `indices`.
BoundVariable* recordGatherRows(BoundGraph& graph, const BoundVariable& x, const val& indices) {
  return guarded([&] { return made(train::gatherRows(graph.graph(), x.variable(), readVector<Index>(indices))); });
}

/// A tensor [..., E] of shape `extents` whose rows at `indices` are those of x [T, E]; all other rows are zeros.
BoundVariable* recordScatterRows(BoundGraph& graph, const BoundVariable& x, const val& indices, const val& extents) {
  return guarded([&] {
    const Shape shape = readShape(extents);
    return made(shape, train::scatterRows(graph.graph(), x.variable(), readVector<Index>(indices), shape.rows()));
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_encoder_model) {
  using emscripten::allow_raw_pointers;
  using emscripten::base;
  using emscripten::class_;
  using emscripten::function;
  class_<BoundTrainableEncoder, base<BoundModule>>("TrainableEncoder")
      .constructor(&makeTrainableEncoder, allow_raw_pointers());
  class_<BoundLora, base<BoundModule>>("Lora")
      .constructor(&makeLora, allow_raw_pointers())
      .function("merge", &BoundLora::merge);
  function("recordEncoderModel", &recordEncoderModel, allow_raw_pointers());
  function("recordWordLogits", &recordWordLogits, allow_raw_pointers());
  function("recordPool", &recordPool, allow_raw_pointers());
  function("recordNormalize", &recordNormalize, allow_raw_pointers());
  function("recordGatherRows", &recordGatherRows, allow_raw_pointers());
  function("recordScatterRows", &recordScatterRows, allow_raw_pointers());
}

}  // namespace heed::bindings
