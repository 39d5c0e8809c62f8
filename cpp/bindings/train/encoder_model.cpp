#include "heed/train/encoder_model.h"

#include <emscripten/bind.h>

#include <memory>

#include "core/check.h"
#include "graph.h"
#include "heed/train/ops.h"

/// Pretrained encoders in training, and what turns their rows into vectors. Rows are those of all texts, one text after
/// the other, without padding.
namespace heed::bindings {
namespace {

using train::EncoderPass;
using train::Lora;
using train::TrainableEncoder;

std::vector<Index> readIndices(const val& array) {
  if (array.isNull()) return {};
  const std::vector<int32_t> values = readIntegers(array);
  return {values.begin(), values.end()};
}

Sequences readSequences(const val& lengths) { return Sequences::ofLengths(readIndices(lengths)); }

/// RawTokenBatch: { ids, tokenTypes, positions, lengths }.
TokenBatch readBatch(const val& batch) {
  const auto read = [&](const char* key) {
    return batch[key].isNull() ? std::vector<int32_t>() : readIntegers(batch[key]);
  };
  return {.ids = read("ids"),
          .token_types = read("tokenTypes"),
          .positions = read("positions"),
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
      : lora_(std::make_shared<Lora>(targets(encoder, modules),
                                     train::LoraOptions{.rank = readIndex(options, "rank"),
                                                        .alpha = readFloat(options, "alpha"),
                                                        .dropout = readFloat(options, "dropout")})) {}
  Module& module() override { return *lora_; }
  std::shared_ptr<const Lora> shared() const { return lora_; }
  void merge() {
    guarded([&] { lora_->merge(); });
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

  std::shared_ptr<Lora> lora_;  // encodings in progress may outlive the handle
};

BoundLora* makeLora(BoundTrainableEncoder& encoder, const val& modules, const val& options) {
  return guarded([&] { return new BoundLora(encoder, modules, options); });
}

/// The updates of a handle, or null.
std::shared_ptr<const Lora> readLora(const val& lora) {
  if (lora.isNull()) return nullptr;
  return lora.as<BoundLora*>(emscripten::allow_raw_pointers())->shared();
}

/// RawEncoding with low-rank updates, which the model itself does not know.
class BoundTrainableEncoding {
 public:
  BoundTrainableEncoding(TrainableEncoder& encoder, std::shared_ptr<const Lora> lora, const TokenBatch& batch)
      : encoder_(encoder), lora_(std::move(lora)), sequences_(batch.sequences), graph_(context()), e_(graph_) {
    graph_.setLora(lora_.get());
    hidden_ = model().embed(e_, batch);
    positions_ = model().positions(e_, sequences_);
  }

  val runLayer(int i, const val& head_mask, bool return_weights) {
    return guarded([&] {
      const Index heads = model().config().num_heads;
      std::vector<float> factors;
      if (!head_mask.isNull()) factors = emscripten::convertJSArrayToNumberVector<float>(head_mask);
      const Value mask = factors.empty() ? Value() : view(factors.data(), 1, static_cast<Index>(factors.size()));
      const Index size = return_weights ? attentionWeightsSize(heads, sequences_, sequences_) : 0;
      float* weights = return_weights ? arena().take(size) : nullptr;
      hidden_ = model().runLayer(e_, i, hidden_, sequences_, positions_, mask, weights);
      return return_weights ? writeFloats(weights, size) : val::null();
    });
  }
  val project(int) {
    return guarded([]() -> val {
      refuse(ErrorCode::kUnsupported, "outputProjections", "a model without low-rank updates, or with merged ones",
             "one with updates");
    });
  }
  void applyFinalNorm() {
    guarded([&] { hidden_ = model().applyFinalNorm(e_, hidden_); });
  }
  val hidden() {
    return guarded([&] { return writeFloats(hidden_.data(), hidden_.rows() * hidden_.cols()); });
  }
  val pool(const std::string& pooling, const val& skipped) {
    return guarded([&] {
      const Variable pooled =
          train::pool(graph_, e_.variable(hidden_), sequences_, readIndices(skipped), poolingNamed(pooling));
      return writeFloats(pooled.value().data(), pooled.rows() * pooled.cols());
    });
  }

 private:
  EncoderModel& model() const { return encoder_.model(); }

  TrainableEncoder& encoder_;
  std::shared_ptr<const Lora> lora_;
  Sequences sequences_;
  train::Graph graph_;  // records nothing, as no parameters were added to it
  train::RecordingEvaluator e_;
  PassPositions positions_;
  Value hidden_;
};

BoundTrainableEncoding* beginEncoding(BoundTrainableEncoder& encoder, const val& lora, const val& batch) {
  return guarded([&] { return new BoundTrainableEncoding(encoder.encoder(), readLora(lora), readBatch(batch)); });
}

/// The last hidden rows [T, E].
BoundVariable* recordEncoderModel(BoundGraph& graph, BoundTrainableEncoder& encoder, const val& lora, const val& batch,
                                  const val& options) {
  return guarded([&] {
    const EncoderPass pass{readBool(options, "training"), readBool(options, "recompute"), readLora(lora).get()};
    const Variable rows = encoder.encoder().forward(graph.graph(), readBatch(batch), pass);
    return made({rows.rows(), rows.cols()}, rows);
  });
}

BoundVariable* recordWordLogits(BoundGraph& graph, BoundTrainableEncoder& encoder, const BoundVariable& x) {
  return guarded([&] {
    const Variable logits = encoder.encoder().wordLogits(graph.graph(), x.variable());
    return made({logits.rows(), logits.cols()}, logits);
  });
}

/// x [T, E] -> [N, E]. `skipped`: as RawEncoding.pool().
BoundVariable* recordPool(BoundGraph& graph, const BoundVariable& x, const val& lengths, const val& skipped,
                          const std::string& pooling) {
  return guarded([&] {
    const Variable pooled =
        train::pool(graph.graph(), x.variable(), readSequences(lengths), readIndices(skipped), poolingNamed(pooling));
    return made({pooled.rows(), pooled.cols()}, pooled);
  });
}

BoundVariable* recordNormalize(BoundGraph& graph, const BoundVariable& x) {
  return guarded([&] { return made(x.shape(), train::normalize(graph.graph(), x.variable())); });
}

/// The rows of x [T, E] at `indices`.
BoundVariable* recordGatherRows(BoundGraph& graph, const BoundVariable& x, const val& indices) {
  return guarded([&] {
    const Variable rows = train::gatherRows(graph.graph(), x.variable(), readIndices(indices));
    return made({rows.rows(), rows.cols()}, rows);
  });
}

/// A tensor [..., E] of the shape `extents` whose rows at `indices` are those of x [T, E]; the others are zeros.
BoundVariable* recordScatterRows(BoundGraph& graph, const BoundVariable& x, const val& indices, const val& extents) {
  return guarded([&] {
    const Shape shape = readShape(extents);
    return made(shape, train::scatterRows(graph.graph(), x.variable(), readIndices(indices), rowsOf(shape)));
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
  class_<BoundTrainableEncoding>("TrainableEncoding")
      .function("runLayer", &BoundTrainableEncoding::runLayer)
      .function("project", &BoundTrainableEncoding::project)
      .function("applyFinalNorm", &BoundTrainableEncoding::applyFinalNorm)
      .function("hidden", &BoundTrainableEncoding::hidden)
      .function("pool", &BoundTrainableEncoding::pool);
  function("beginEncoding", &beginEncoding, allow_raw_pointers());
  function("recordEncoderModel", &recordEncoderModel, allow_raw_pointers());
  function("recordWordLogits", &recordWordLogits, allow_raw_pointers());
  function("recordPool", &recordPool, allow_raw_pointers());
  function("recordNormalize", &recordNormalize, allow_raw_pointers());
  function("recordGatherRows", &recordGatherRows, allow_raw_pointers());
  function("recordScatterRows", &recordScatterRows, allow_raw_pointers());
}

}  // namespace heed::bindings
