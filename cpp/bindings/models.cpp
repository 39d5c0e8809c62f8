#include <emscripten/bind.h>

#include <memory>

#include "heed/encoder_model.h"
#include "heed/pooling.h"
#include "module.h"

namespace heed::bindings {
namespace {

Positions readPositions(const val& config) {
  const std::string name = readString(config, "positions");
  if (name == "rotary") return Positions::kRotary;
  if (name == "relative") return Positions::kRelative;
  return Positions::kAbsolute;
}

EncoderModelConfig readConfig(const val& config) {
  return {.vocab_size = readIndex(config, "vocabSize"),
          .embed_dim = readIndex(config, "embedDim"),
          .embedding_dim = readIndex(config, "embeddingDim"),
          .num_layers = readIndex(config, "numLayers"),
          .num_heads = readIndex(config, "numHeads"),
          .feed_forward_dim = readIndex(config, "feedForwardDim"),
          .max_positions = readIndex(config, "maxPositions"),
          .position_offset = readIndex(config, "positionOffset"),
          .type_vocab_size = readIndex(config, "typeVocabSize"),
          .activation = readActivation(config),
          .eps = readFloat(config, "eps"),
          .positions = readPositions(config),
          .relative_buckets = readIndex(config, "relativeBuckets"),
          .relative_distance = readIndex(config, "relativeDistance"),
          .rotary_dim = readIndex(config, "rotaryDim"),
          .rotary_base = config["rotaryBase"].as<double>(),
          .local_rotary_base = config["localRotaryBase"].as<double>(),
          .window = readIndex(config, "window"),
          .global_every = readIndex(config, "globalEvery"),
          .norm_first = readBool(config, "normFirst"),
          .embedding_norm = readBool(config, "embeddingNorm"),
          .final_norm = readBool(config, "finalNorm"),
          .bias = readBool(config, "bias"),
          .norm_bias = readBool(config, "normBias"),
          .gated = readBool(config, "gated"),
          .first_attention_norm = readBool(config, "firstAttentionNorm"),
          .shared_layers = readBool(config, "sharedLayers"),
          .precision = readBool(config, "int8") ? Precision::kInt8 : Precision::kFloat32};
}

/// Copies an Int32Array; empty if it is null.
std::vector<int32_t> readIntegers(const val& array) {
  if (array.isNull()) return {};
  std::vector<int32_t> values(array["length"].as<size_t>());
  val(emscripten::typed_memory_view(values.size(), values.data())).call<void>("set", array);
  return values;
}

/// A batch between the layers of a model. It owns its hidden states instead of taking them from the arena, because the
/// calls of several batches may alternate.
class BoundEncoding {
 public:
  BoundEncoding(std::shared_ptr<EncoderModel> model, const TokenBatch& batch)
      : model_(std::move(model)),
        sequences_(batch.sequences),
        hidden_(static_cast<size_t>(batch.sequences.totalRows() * width())) {
    model_->embed(batch, rows(), context());
  }

  val runLayer(int i, const val& head_mask, bool return_weights) {
    return guarded([&] {
      std::vector<float> factors;
      if (!head_mask.isNull()) factors = emscripten::convertJSArrayToNumberVector<float>(head_mask);
      const Index size = return_weights ? attentionWeightsSize(model_->config().num_heads, sequences_, sequences_) : 0;
      float* weights = return_weights ? arena().take(size) : nullptr;
      model_->runLayer(i, sequences_, factors, rows(), weights, context());
      return return_weights ? writeFloats(weights, size) : val::null();
    });
  }

  void finish() {
    guarded([&] { model_->finish(rows()); });
  }

  val hidden() {
    return guarded([&] { return writeFloats(hidden_.data(), static_cast<Index>(hidden_.size())); });
  }

  val pool(const std::string& pooling, const val& skipped) {
    return guarded([&] {
      const std::vector<int32_t> counts = readIntegers(skipped);
      const std::vector<Index> skips(counts.begin(), counts.end());
      MatrixView pooled = arena().matrix(sequences_.count(), width());
      heed::pool(readOnly(rows()), sequences_, skips, poolingNamed(pooling), pooled);
      return writeFloats(pooled.data(), pooled.size());
    });
  }

 private:
  Index width() const { return model_->config().embed_dim; }
  MatrixView rows() { return view(hidden_.data(), sequences_.totalRows(), width()); }

  std::shared_ptr<EncoderModel> model_;
  Sequences sequences_;
  std::vector<float> hidden_;
};

class BoundEncoderModel : public BoundModule {
 public:
  explicit BoundEncoderModel(const EncoderModelConfig& config) : model_(std::make_shared<EncoderModel>(config)) {}
  Module& module() override { return *model_; }

  BoundEncoding* begin(const val& ids, const val& token_types, const val& positions, const val& lengths) {
    return guarded([&] {
      std::vector<Index> extents;
      for (const int32_t length : readIntegers(lengths)) extents.push_back(length);
      const TokenBatch batch{.ids = readIntegers(ids),
                             .token_types = readIntegers(token_types),
                             .positions = readIntegers(positions),
                             .sequences = Sequences::ofLengths(extents)};
      return new BoundEncoding(model_, batch);
    });
  }

  val wordLogits(const val& x) {
    return guarded([&] {
      const Input rows = readTensor(x);
      const Index words = model_->config().vocab_size;
      MatrixView logits = arena().matrix(rows.shape.rows(), words);
      model_->wordLogits(rows.matrix(), logits, context());
      return writeTensor({rows.shape.rows(), words}, logits.data());
    });
  }

 private:
  std::shared_ptr<EncoderModel> model_;  // shared with the batches in progress
};

BoundEncoderModel* makeEncoderModel(const val& config) {
  return guarded([&] { return new BoundEncoderModel(readConfig(config)); });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_models) {
  using namespace emscripten;
  class_<BoundEncoding>("Encoding")
      .function("runLayer", &BoundEncoding::runLayer)
      .function("finish", &BoundEncoding::finish)
      .function("hidden", &BoundEncoding::hidden)
      .function("pool", &BoundEncoding::pool);
  class_<BoundEncoderModel, base<BoundModule>>("EncoderModel")
      .constructor(&makeEncoderModel, allow_raw_pointers())
      .function("begin", &BoundEncoderModel::begin, allow_raw_pointers())
      .function("wordLogits", &BoundEncoderModel::wordLogits);
}

}  // namespace heed::bindings
