#include <emscripten/bind.h>

#include <algorithm>
#include <memory>

#include "core/check.h"
#include "core/encoded_rows.h"
#include "heed/encoder_model.h"
#include "heed/inference_evaluator.h"
#include "heed/pooling.h"
#include "layers.h"
#include "models/input_grams.h"
#include "sites.h"

namespace heed::bindings {
namespace {

Positions readPositions(const val& config) {
  const std::string name = readString(config, "positions");
  if (name == "rotary") return Positions::kRotary;
  if (name == "relative") return Positions::kRelative;
  if (name == "alibi") return Positions::kAlibi;
  if (name == "disentangled") return Positions::kDisentangled;
  return Positions::kAbsolute;
}

/// Absent options keep the defaults of EncoderModelConfig.
EncoderModelConfig readConfig(const val& config) {
  EncoderModelConfig c{};
  c.layer = readEncoderLayer(config, c.layer);
  readFields<Index>(config, {{&c.vocab_size, "vocabSize"},
                             {&c.embedding_dim, "embeddingDim"},
                             {&c.num_layers, "numLayers"},
                             {&c.max_positions, "maxPositions"},
                             {&c.position_offset, "positionOffset"},
                             {&c.type_vocab_size, "typeVocabSize"},
                             {&c.task_vocab_size, "taskVocabSize"},
                             {&c.relative_buckets, "relativeBuckets"},
                             {&c.relative_distance, "relativeDistance"},
                             {&c.convolution, "convolution"},
                             {&c.rotary_dim, "rotaryDim"},
                             {&c.window, "window"},
                             {&c.local_head_dim, "localHeadDim"},
                             {&c.local_key_value_heads, "localKeyValueHeads"},
                             {&c.layer_input_dim, "layerInputDim"},
                             {&c.output_dim, "outputDim"},
                             {&c.patch_size, "patchSize"},
                             {&c.adapter_tasks, "adapterTasks"},
                             {&c.adapter_rank, "adapterRank"},
                             {&c.registers, "registers"}});
  readFields<double>(config, {{&c.rotary_base, "rotaryBase"},
                              {&c.local_rotary_base, "localRotaryBase"},
                              {&c.rotary_scale, "rotaryScale"},
                              {&c.rotary_factor, "rotaryFactor"},
                              {&c.local_rotary_factor, "localRotaryFactor"}});
  readFields<float>(config, {{&c.attention_scale, "attentionScale"},
                             {&c.embedding_scale, "embeddingScale"},
                             {&c.adapter_scale, "adapterScale"}});
  readFields<bool>(config, {{&c.causal, "causal"},
                            {&c.embedding_norm, "embeddingNorm"},
                            {&c.projection_first, "projectionFirst"},
                            {&c.rotary_interleaved, "rotaryInterleaved"},
                            {&c.rotary_values, "rotaryValues"},
                            {&c.final_norm, "finalNorm"},
                            {&c.position_embeddings, "positionEmbeddings"},
                            {&c.class_row, "classRow"},
                            {&c.relative_norm, "relativeNorm"},
                            {&c.relative_per_layer, "relativePerLayer"},
                            {&c.first_attention_norm, "firstAttentionNorm"},
                            {&c.shared_layers, "sharedLayers"}});
  if (const val code = config["tableCode"]; !code.isUndefined()) c.table_code = rowCodeNamed(code.as<std::string>());
  if (const val local = config["localLayers"]; !local.isUndefined())
    c.local_layers = emscripten::vecFromJSArray<bool>(local);
  if (const val all = config["rotaryFrequencies"]; !all.isUndefined())
    c.rotary_frequencies = emscripten::vecFromJSArray<double>(all);
  if (const val all = config["localRotaryFrequencies"]; !all.isUndefined())
    c.local_rotary_frequencies = emscripten::vecFromJSArray<double>(all);
  if (c.convolution > 0) c.convolution_activation = readActivation(config, "convolutionActivation");
  c.positions = readPositions(config);
  return c;
}

/// Implements RawEncoding: the state of a batch of texts or images between the layers of a model. It owns its hidden
/// states instead of taking them from the arena, because calls for several batches may alternate.
class BoundEncoding {
 public:
  /// `input`: a TokenBatch or an ImageInput.
  template <class Source>
  BoundEncoding(std::shared_ptr<EncoderModel> model, Sequences sequences, const Source& input, const val& sites)
      : model_(std::move(model)),
        sequences_(std::move(sequences)),
        sites_(readSites<BoundSites>(sites, sequences_, sequences_)),
        width_(model_->config().layer.embed_dim),
        hidden_(model_->hiddenStates(sequences_)) {
    if (model_->training()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "model: a forward or backward pass of its training is in progress, so a callback cannot run the model");
    }
    const RunScope scope(*model_);
    InferenceEvaluator e = evaluator();
    keep(model_->embed(e, input));
    keepInputs(e);
  }

  void setKeyMask(std::vector<float> key_mask) {
    if (!key_mask.empty()) {
      requireCount("keyMask", key_mask.size(), sequences_.count() * sequences_.maxLength());
      requireCount("keyMask", key_mask.size(), sequences_.totalRows());
    }
    key_mask_ = std::move(key_mask);
  }
  /// The task whose adapters runLayer() adds; -1: none.
  void setTask(Index task) { task_ = task; }
  /// `angles` (L, Dk / 2): row i rotates the queries and keys of row i of each sequence.
  void setAngles(ConstMatrixView angles) {
    requireShape("angles", angles, sequences_.maxLength(), model_->config().layer.attention.key_dim / 2);
    rotary_.emplace(angles);
    inputs_.rotary = &*rotary_;
  }

  val runLayer(int i, const val& head_mask, bool return_weights) {
    return guarded([&] {
      const RunScope scope(*model_);
      const std::span<float> factors = readArray<float>(head_mask);
      const Index size =
          return_weights ? attentionWeightsSize(model_->config().layer.attention.num_heads, sequences_, sequences_) : 0;
      float* weights = return_weights ? arena().take(size) : nullptr;
      const MaskTensor mask{
          "keyMask", Mask::Kind::kAdditive, key_mask_.data(), {sequences_.count(), sequences_.maxLength()}, true};
      InferenceEvaluator e = evaluator();
      const Value factor_row = factors.empty() ? Value() : view(factors.data(), 1, static_cast<Index>(factors.size()));
      keep(model_->runLayer(e, i, rows(), sequences_, inputs_, factor_row, weights,
                            {&mask, key_mask_.empty() ? 0U : 1U}, task_));
      return return_weights ? writeFloats(weights, size) : val::null();
    });
  }

  void applyFinalNorm() {
    guarded([&] {
      const RunScope scope(*model_);
      InferenceEvaluator e = evaluator();
      keep(model_->applyFinalNorm(e, rows()));
    });
  }

  val hidden() {
    return guarded([&] { return writeFloats(hidden_.data(), static_cast<Index>(hidden_.size())); });
  }

  val pool(const std::string& pooling, const val& skipped) {
    return guarded([&] {
      MatrixView pooled = arena().matrix(sequences_.count(), width_);
      heed::pool(readOnly(rows()), sequences_, readArray<Index>(skipped), poolingNamed(pooling), pooled);
      return writeFloats(pooled.data(), pooled.size());
    });
  }

 private:
  InferenceEvaluator evaluator() const { return InferenceEvaluator(context(), sites_.get()); }
  MatrixView rows() { return view(hidden_.data(), sequences_.totalRows(), width_); }
  /// Copies a result to the hidden states, unless it is already there.
  void keep(const Value& result) {
    if (result.data() == hidden_.data()) return;
    width_ = result.cols();
    hidden_.assign(result.data(), result.data() + result.rows() * width_);
  }

  /// Computes the inputs that all layers share, and copies those in the arena, whose memory ends with the call.
  void keepInputs(InferenceEvaluator& e) {
    inputs_ = model_->inputs(e, sequences_, rows());
    const auto copy = [](const Value& value, std::vector<float>& to) {
      to.resize(static_cast<size_t>(value.rows() * value.cols()));
      MatrixView own = view(to.data(), value.rows(), value.cols());
      own = value.values();
      return Value::constant(readOnly(own));
    };
    if (model_->config().layer_input_dim > 0) inputs_.embeddings = copy(inputs_.embeddings, embeddings_);
    // ALiBi's bias belongs to the model.
    if (model_->config().positions == Positions::kRelative) inputs_.bias = copy(inputs_.bias, bias_);
  }

  std::shared_ptr<EncoderModel> model_;
  Sequences sequences_;
  std::vector<float> key_mask_;        // empty, or (T)
  std::unique_ptr<BoundSites> sites_;  // null: none
  std::optional<Rotary> rotary_;       // image encoders with rotary positions
  Index width_;                        // of the hidden states: E or, after the output projection, O
  std::vector<float> hidden_;
  Index task_ = -1;
  PassInputs inputs_;
  std::vector<float> embeddings_, bias_;  // those of inputs_
};

class BoundEncoderModel : public BoundModule {
 public:
  explicit BoundEncoderModel(const EncoderModelConfig& config) : model_(std::make_shared<EncoderModel>(config)) {}
  Module& module() override { return *model_; }

  /// `key_mask` (T) or null: -infinity for rows to which no query attends, otherwise 0; requires all sequences to have
  /// the same length. `sites`: RawSites or null. `task` as in TokenBatch.
  BoundEncoding* begin(const val& ids, const val& token_types, const val& positions, const val& lengths,
                       const val& key_mask, const val& sites, int task) {
    return guarded([&] {
      const TokenBatch batch{.ids = readVector<int32_t>(ids),
                             .token_types = readVector<int32_t>(token_types),
                             .positions = readVector<int32_t>(positions),
                             .sequences = Sequences::ofLengths(readVector<Index>(lengths)),
                             .task = task};
      auto encoding = std::make_unique<BoundEncoding>(model_, batch.sequences, batch, sites);
      encoding->setKeyMask(readVector<float>(key_mask));
      encoding->setTask(task);
      return encoding.release();
    });
  }

  /// `pixels` [N, 3, height, width]; `positions` as in ImageInput or null; `angles` as in setAngles() or null.
  BoundEncoding* beginImages(const val& pixels, const val& positions, const val& angles, const val& sites) {
    return guarded([&] {
      const Input image = readTensor(pixels);
      if (image.shape.rank() != 4 || image.shape[1] != 3)
        throwShapeMismatch("pixels", "[N, 3, height, width]", image.shape);
      ImageInput input{image.data, image.shape[-2], image.shape[-1], image.shape[0]};
      if (const auto table = readOptionalTensor(positions)) input.positions = table->matrix();
      const Index rows = model_->imageRows(input.height, input.width);
      const std::vector<Index> lengths(static_cast<size_t>(input.count), rows);
      auto encoding = std::make_unique<BoundEncoding>(model_, Sequences::ofLengths(lengths), input, sites);
      if (const auto given = readOptionalTensor(angles)) encoding->setAngles(readOnly(given->matrix()));
      return encoding.release();
    });
  }

  /// See RawEncoderModel.recordInputs.
  void recordInputs(const val& parameters) {
    guarded([&] {
      grams_.reset();  // before the new one, since a layer has one decorator
      const auto indices = readVector<uint32_t>(parameters);
      if (indices.empty()) return;
      std::vector<Parameter> all = model_->parameters(), chosen;
      for (const uint32_t index : indices) {
        requireRange("parameter", static_cast<Index>(index), 0, static_cast<Index>(all.size()) - 1);
        chosen.push_back(all[index]);
      }
      grams_ = std::make_unique<InputGrams>(*model_, chosen);
    });
  }

  /// See RawEncoderModel.inputGram.
  val inputGram(int i) {
    return guarded([&] {
      requireRange("i", i, 0, grams_ ? grams_->count() - 1 : -1);
      const std::span<const float> gram = grams_->gram(i);
      return writeFloats(gram.data(), static_cast<Index>(gram.size()));
    });
  }

  val wordLogits(const val& x) {
    return guarded([&] {
      const Input rows = readTensor(x);
      if (rows.shape.rank() < 1) throwShapeMismatch("x", "[rows, D]", rows.shape);
      const Index words = model_->config().vocab_size;
      InferenceEvaluator e(context());
      const Value logits = model_->wordLogits(e, rows.matrix());
      return writeTensor({rows.shape.rows(), words}, logits.data());
    });
  }

 private:
  std::shared_ptr<EncoderModel> model_;  // shared with the batches in progress
  std::unique_ptr<InputGrams> grams_;    // null: inputs are not recorded
};

BoundEncoderModel* makeEncoderModel(const val& config) {
  return guarded([&] { return new BoundEncoderModel(readConfig(config)); });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_models) {
  using namespace emscripten;
  class_<BoundEncoding>("Encoding")
      .function("runLayer", &BoundEncoding::runLayer)
      .function("applyFinalNorm", &BoundEncoding::applyFinalNorm)
      .function("hidden", &BoundEncoding::hidden)
      .function("pool", &BoundEncoding::pool);
  class_<BoundEncoderModel, base<BoundModule>>("EncoderModel")
      .constructor(&makeEncoderModel, allow_raw_pointers())
      .function("begin", &BoundEncoderModel::begin, allow_raw_pointers())
      .function("beginImages", &BoundEncoderModel::beginImages, allow_raw_pointers())
      .function("wordLogits", &BoundEncoderModel::wordLogits)
      .function("recordInputs", &BoundEncoderModel::recordInputs)
      .function("inputGram", &BoundEncoderModel::inputGram);
}

}  // namespace heed::bindings
