#include "heed/encoder_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "models/convolution_layer.h"
#include "models/embeddings.h"
#include "models/layer_inputs.h"
#include "models/patch_embeddings.h"
#include "models/task_adapters.h"

namespace heed {
namespace {

/// Limits far above any published encoder, but small enough that products of two of them do not overflow.
/// Configurations within these limits are then checked for their total size.
constexpr Index kMaxWidth = 1 << 16;
constexpr Index kMaxRows = 1 << 24;

/// WebAssembly memory is limited to 4 GB. In native builds, the limit keeps unreasonable files from exhausting the
/// machine.
constexpr double kMaxBytes = 4.0 * 1024 * 1024 * 1024;

/// Fills in defaults. Checks the total size, and the options that the constructors of the parts do not check.
EncoderModelConfig completed(EncoderModelConfig c) {
  EncoderLayerOptions& layer = c.layer;
  const auto require_range = [](const char* name, Index got, Index least, Index most) {
    requireRange(std::string("config.") + name, got, least, most);
  };
  require_range("patchSize", c.patch_size, 0, 1 << 12);
  require_range("vocabSize", c.vocab_size, c.patch_size > 0 ? 0 : 1, kMaxRows);
  require_range("embedDim", layer.embed_dim, 1, kMaxWidth);
  require_range("embeddingDim", c.embedding_dim, 0, kMaxWidth);
  require_range("numLayers", c.num_layers, 0, 1024);
  require_range("numHeads", layer.attention.num_heads, 1, layer.embed_dim);
  require_range("keyValueHeads", layer.attention.key_value_heads, 0, layer.attention.num_heads);
  require_range("headDim", layer.attention.key_dim, 0, kMaxWidth);
  if (layer.attention.key_value_heads == 0) layer.attention.key_value_heads = layer.attention.num_heads;
  if (layer.attention.key_dim == 0) {
    if (layer.embed_dim % layer.attention.num_heads != 0) {
      throwInvalid(ErrorCode::kInvalidArgument, "config.numHeads",
                   "a divisor of embedDim (" + std::to_string(layer.embed_dim) + ") unless headDim is given",
                   std::to_string(layer.attention.num_heads));
    }
    layer.attention.key_dim = layer.embed_dim / layer.attention.num_heads;
  }
  require_range("headDim", layer.attention.key_dim, 1,
                kMaxRows / layer.attention.num_heads);  // bounds the width of all heads
  layer.attention.value_dim = layer.attention.key_dim;
  require_range("feedForwardDim", layer.feed_forward.feed_forward_dim, 1,
                layer.precision == Precision::kInt8 ? kMaxInt8Inputs : 4 * kMaxWidth);
  require_range("positionOffset", c.position_offset, 0, kMaxRows);
  require_range("maxPositions", c.max_positions, c.position_offset + 1, kMaxRows);
  require_range("registers", c.registers, 0, c.positions == Positions::kAbsolute ? c.max_positions - 1 : kMaxRows);
  require_range("typeVocabSize", c.type_vocab_size, 0, kMaxRows);
  require_range("taskVocabSize", c.task_vocab_size, 0, kMaxRows);
  if (!c.local_layers.empty())
    requireShape("config.localLayers", {static_cast<Index>(c.local_layers.size())}, {c.num_layers});
  if (!(layer.norm.eps > 0 && layer.norm.eps < 1))
    throwInvalid(ErrorCode::kInvalidArgument, "config.eps", "a number between 0 and 1", numberText(layer.norm.eps));
  if (c.positions == Positions::kRelative) {
    require_range("relativeBuckets", c.relative_buckets, 4, 1024);
    require_range("relativeDistance", c.relative_distance, c.relative_buckets / 4 + 1, kMaxRows);
  }
  if (c.positions == Positions::kDisentangled) {
    require_range("relativeBuckets", c.relative_buckets, 0, kMaxRows);
    if (c.relative_buckets > 0 && c.relative_distance != 0) {
      require_range("relativeBuckets", c.relative_buckets, 2, kMaxRows);
      require_range("relativeDistance", c.relative_distance, c.relative_buckets / 2 + 2, kMaxRows);
    }
    require_range("keyValueHeads", layer.attention.key_value_heads, layer.attention.num_heads,
                  layer.attention.num_heads);
    require_range("headDim", layer.attention.key_dim * layer.attention.num_heads, layer.embed_dim, layer.embed_dim);
  }
  require_range("convolution", c.convolution, 0, 63);
  if (c.convolution > 0 && c.convolution % 2 == 0)
    throwInvalid(ErrorCode::kInvalidArgument, "config.convolution", "an odd width", std::to_string(c.convolution));
  if (layer.attention.joint_qk_norm)
    require_range("keyValueHeads", layer.attention.key_value_heads, layer.attention.num_heads,
                  layer.attention.num_heads);
  if (layer.nested_norm && (layer.norm_first || layer.output_norms || !c.first_attention_norm)) {
    throwInvalid(ErrorCode::kInvalidArgument, "config.nestedNorm",
                 "false with normFirst, outputNorms or without a first norm", "true");
  }
  require_range("localHeadDim", c.local_head_dim, 0, kMaxRows / layer.attention.num_heads);
  require_range("localKeyValueHeads", c.local_key_value_heads, 0, layer.attention.num_heads);
  require_range("layerInputDim", c.layer_input_dim, 0, kMaxWidth);
  require_range("outputDim", c.output_dim, 0, kMaxWidth);
  if (c.layer_input_dim > 0 && c.shared_layers)
    throwInvalid(ErrorCode::kInvalidArgument, "config.sharedLayers", "false with layerInputDim", "true");
  const auto require_finite = [](const char* name, double value) {
    if (!std::isfinite(value))
      throwInvalid(ErrorCode::kInvalidArgument, std::string("config.") + name, "a finite number", numberText(value));
  };
  if (c.positions == Positions::kRotary) {
    const auto require_pairs = [&](const char* name, const std::vector<double>& frequencies, Index head_dim) {
      require_range(name, 2 * static_cast<Index>(frequencies.size()), 0, head_dim);
      for (const double frequency : frequencies) require_finite(name, frequency);
    };
    require_pairs("rotaryFrequencies", c.rotary_frequencies, layer.attention.key_dim);
    require_pairs("localRotaryFrequencies", c.local_rotary_frequencies,
                  c.local_head_dim > 0 ? c.local_head_dim : layer.attention.key_dim);
    if (c.rotary_frequencies.empty()) require_range("rotaryDim", c.rotary_dim, 2, layer.attention.key_dim);
    if (c.local_rotary_frequencies.empty() && c.local_head_dim > 0 && c.window >= 0)
      require_range("rotaryDim", c.rotary_dim, 0, c.local_head_dim);
  }
  require_finite("attentionScale", static_cast<double>(c.attention_scale));
  require_finite("embeddingScale", static_cast<double>(c.embedding_scale));
  require_finite("normWeightOffset", static_cast<double>(layer.norm.weight_offset));
  require_finite("rotaryScale", c.rotary_scale);
  require_finite("rotaryFactor", c.rotary_factor);
  require_finite("localRotaryFactor", c.local_rotary_factor);
  require_finite("adapterScale", static_cast<double>(c.adapter_scale));
  require_range("adapterTasks", c.adapter_tasks, 0, 256);
  if (c.adapter_tasks > 0) {
    require_range("adapterRank", c.adapter_rank, 1, 4096);
    if (c.shared_layers || c.embedding_dim > 0 || c.patch_size > 0 || layer.feed_forward.gated ||
        c.local_head_dim > 0 || c.local_key_value_heads > 0 ||
        (layer.attention.key_value_heads > 0 && layer.attention.key_value_heads != layer.attention.num_heads)) {
      throwInvalid(ErrorCode::kUnsupported, "config.adapterTasks",
                   "0 for image encoders, shared or gated layers, factored tables, shared keys and local heads",
                   std::to_string(c.adapter_tasks));
    }
  }

  layer = layer.completed();
  const double width = static_cast<double>(c.embedding_dim > 0 ? c.embedding_dim : layer.embed_dim);
  const double e = static_cast<double>(layer.embed_dim);
  const auto heads = static_cast<double>(layer.attention.num_heads + layer.attention.key_value_heads);
  const double layer_size = 2 * e * heads * static_cast<double>(std::max(layer.attention.key_dim, c.local_head_dim)) +
                            3 * e * static_cast<double>(c.layer_input_dim) +
                            static_cast<double>(layer.feed_forward.gated ? 3 : 2) * e *
                                static_cast<double>(layer.feed_forward.feed_forward_dim);
  const double matrices =
      static_cast<double>(c.vocab_size + 3 * c.patch_size * c.patch_size) * width +
      layer_size * static_cast<double>(c.shared_layers ? 1 : c.num_layers) + e * static_cast<double>(c.output_dim) +
      e * e * static_cast<double>(c.convolution + (layer.attention.position_projections ? 2 * c.num_layers : 0));
  const auto positions = static_cast<double>(c.max_positions);
  const auto position_table = [&] {
    switch (c.positions) {
      case Positions::kRotary:
        return 2 * positions * static_cast<double>(c.rotary_dim);
      case Positions::kAlibi:
        return 2 * positions * static_cast<double>(layer.attention.num_heads);
      case Positions::kDisentangled:
        return 2 * positions + 2 * static_cast<double>(c.relative_buckets) * e +
               (c.position_embeddings ? positions * width : 0);
      case Positions::kRelative:
        return static_cast<double>(c.relative_buckets * layer.attention.num_heads) *
                   static_cast<double>(c.relative_per_layer ? c.num_layers : 1) +
               (c.position_embeddings ? positions * width : 0);
      default:
        return positions * width;
    }
  };
  const double tables = position_table() + static_cast<double>(c.type_vocab_size + c.task_vocab_size) * width;
  const double bytes = matrices * (layer.precision == Precision::kInt8 ? 1 : 4) + tables * 4;
  if (bytes > kMaxBytes) {
    throwInvalid(ErrorCode::kOutOfMemory, "config", "weights of less than 4096 MB",
                 numberText(std::floor(bytes / 1048576)) + " MB" +
                     (layer.precision == Precision::kInt8 ? "" : ". With dtype 'q8', matrices take a quarter"));
  }
  return c;
}

EncoderLayerOptions layerOptions(const EncoderModelConfig& c, Index i, bool is_local) {
  EncoderLayerOptions layer = c.layer;
  layer.attention_norm = i > 0 || c.first_attention_norm;
  layer.attention.position_projections =
      layer.attention.position_projections && c.positions == Positions::kDisentangled && c.relative_buckets > 0;
  if (is_local && c.local_head_dim > 0) layer.attention.key_dim = layer.attention.value_dim = c.local_head_dim;
  if (is_local && c.local_key_value_heads > 0) layer.attention.key_value_heads = c.local_key_value_heads;
  return layer;
}

/// The angles of layers with global attention, or of local ones.
RotaryAngles anglesOf(const EncoderModelConfig& c, bool is_local) {
  const std::vector<double>& given = is_local ? c.local_rotary_frequencies : c.rotary_frequencies;
  RotaryAngles angles =
      given.empty() ? RotaryAngles::of(c.rotary_dim, is_local ? c.local_rotary_base : c.rotary_base, c.rotary_scale)
                    : RotaryAngles{given};
  angles.factor = is_local ? c.local_rotary_factor : c.rotary_factor;
  return angles;
}

/// kRelative: the bucket of each distance from -relative_distance - 1 to relative_distance + 1. All larger distances
/// share the last bucket of their side.
std::vector<Index> relativeBuckets(const EncoderModelConfig& config) {
  // In a table whose rows contain their own numbers, biases are bucket numbers. If their number is odd, the last is
  // unused.
  const Index buckets = config.relative_buckets / 2 * 2;
  std::vector<float> numbers(static_cast<size_t>(buckets));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const ConstMatrixView table = view(static_cast<const float*>(numbers.data()), buckets, 1);
  const PositionBias bias = relativeBias(table, config.relative_distance + 1, config.relative_distance, true);
  return {bias.values.begin(), bias.values.end()};
}

}  // namespace

/// PK and PQ (see DisentangledPositions) of a layer for rows [first, first + count) of the table.
struct EncoderModel::ProjectedPositions {
  Index first, count;
  uint64_t writes;            // positionWrites() when they were computed
  std::vector<float> values;  // (2 count, H Dk)

  bool has(Index begin, Index end, uint64_t current) const {
    return writes == current && first <= begin && end <= first + count;
  }
};

/// Rotary tables, and biases or embeddings of relative positions. All layers share them, except that local layers may
/// have another rotary base.
struct EncoderModel::PositionTables {
  std::optional<GrowingRotary> rotary, local_rotary;
  std::vector<float> relative_table;       // kRelative: (buckets, H), of each layer in turn if every layer has its own;
                                           // kDisentangled: (2 buckets, E)
  PositionBias alibi;                      // kAlibi
  std::optional<LayerNorm> relative_norm;  // kDisentangled
  std::vector<Index> rows;                 // the table's row for each distance
  // kDisentangled: one entry per layer, null until the layer has run. Shared ownership, because a callback during a
  // call may start another call, which replaces the entry if it needs more rows.
  std::vector<std::shared_ptr<const ProjectedPositions>> layers;
};

EncoderModel::EncoderModel(const EncoderModelConfig& given)
    : config_(completed(given)),
      embeddings_(config_.patch_size > 0 ? nullptr : std::make_unique<Embeddings>(config_)),
      patches_(config_.patch_size > 0 ? std::make_unique<PatchEmbeddings>(config_) : nullptr),
      positions_(std::make_unique<PositionTables>()),
      position_dropout_({.p = 0}) {
  const EncoderModelConfig& config = config_;
  const Index distinct_layers = config.shared_layers ? std::min<Index>(1, config.num_layers) : config.num_layers;
  for (Index i = 0; i < distinct_layers; ++i)
    layers_.push_back(std::make_unique<EncoderLayer>(layerOptions(config, i, isLocal(i))));
  if (config.adapter_tasks > 0) adapters_ = std::make_unique<TaskAdapters>(config, layers_);
  if (config.convolution > 0 && config.num_layers > 0) convolution_ = std::make_unique<Convolution>(config);
  if (config.layer_input_dim > 0) layer_inputs_ = std::make_unique<LayerInputs>(config);
  if (config.final_norm) norm_.emplace(config.layer.norm);
  if (config.output_dim > 0) {
    output_projection_ = std::make_unique<Linear>(LinearOptions{.in_features = config.layer.embed_dim,
                                                                .out_features = config.output_dim,
                                                                .bias = false,
                                                                .precision = config.layer.precision});
  }
  if (config.positions == Positions::kRotary && !patches_) {
    const Rotary::Pairing pairing =
        config.rotary_interleaved ? Rotary::Pairing::kInterleaved : Rotary::Pairing::kHalfSplit;
    const RotaryAngles angles = anglesOf(config, false);
    positions_->rotary.emplace(angles, pairing, config.max_positions);
    if (config.window >= 0) {
      RotaryAngles local = anglesOf(config, true);
      if (local.frequencies != angles.frequencies || local.factor != angles.factor)
        positions_->local_rotary.emplace(std::move(local), pairing, config.max_positions);
    }
  }
  if (config.positions == Positions::kRelative) {
    const Index tables = config.relative_per_layer ? config.num_layers : 1;
    allocate("relative_attention_bias.weight", {tables * config.relative_buckets, config.layer.attention.num_heads},
             positions_->relative_table);
    positions_->rows = relativeBuckets(config);
  }
  if (config.positions == Positions::kAlibi)
    positions_->alibi = alibiBias(config.layer.attention.num_heads, config.max_positions - 1);
  if (config.positions == Positions::kDisentangled && config.relative_buckets > 0) {
    allocate("relative_embeddings.weight", {2 * config.relative_buckets, config.layer.embed_dim},
             positions_->relative_table);
    if (config.relative_norm) positions_->relative_norm.emplace(config.layer.norm);
    positions_->layers.resize(static_cast<size_t>(config.num_layers));
    const Index buckets = config.relative_buckets;
    for (Index distance = 1 - config.max_positions; distance < config.max_positions; ++distance) {
      const Index bucket =
          config.relative_distance == 0 ? distance : logBucket(distance, buckets, config.relative_distance);
      positions_->rows.push_back(std::clamp<Index>(bucket + buckets, 0, 2 * buckets - 1));
    }
  }
}

EncoderModel::~EncoderModel() = default;

std::vector<float> EncoderModel::hiddenStates(const Sequences& sequences) const {
  std::vector<float> hidden;
  allocate("hidden states", {sequences.totalRows(), config_.layer.embed_dim}, hidden);
  return hidden;
}

Value EncoderModel::embed(Evaluator& e, const TokenBatch& batch) {
  if (!embeddings_) throwInvalid(ErrorCode::kUnsupported, "ids", "a text model", "an image model");
  e.enterLayer(0);
  if (batch.task >= 0) requireRange("task", batch.task, 0, config_.adapter_tasks - 1);
  return e.at(Site::kInput, embeddings_->forward(e, batch, adapters_.get()));
}

Value EncoderModel::embed(Evaluator& e, const ImageInput& image) const {
  requireRange("images", image.count * imageRows(image.height, image.width), 1, kMaxRows);
  e.enterLayer(0);
  return e.at(Site::kInput, patches_->forward(e, image));
}

Index EncoderModel::imageRows(Index height, Index width) const {
  if (!patches_) throwInvalid(ErrorCode::kUnsupported, "images", "an image model", "a text model");
  return patches_->rows(height, width);
}

PassInputs EncoderModel::inputs(Evaluator& e, const Sequences& sequences, const Value& embeddings) const {
  const Index longest = std::max<Index>(sequences.maxLength(), 1);
  PassInputs made;
  if (layer_inputs_) made.embeddings = e.copy(embeddings);
  if (config_.positions == Positions::kRelative && !hasLayerBias()) made.bias = relativeBias(e, 0, longest);
  if (config_.positions == Positions::kAlibi) made.bias = positions_->alibi.value();
  if (config_.positions == Positions::kDisentangled && config_.relative_buckets > 0 && !e.keepsValues())
    made.distances = distances(e, longest);
  return made;
}

Value EncoderModel::runLayer(Evaluator& e, Index i, const Value& x, const Sequences& sequences,
                             const PassInputs& inputs, const Value& head_mask, float* weights,
                             std::span<const MaskTensor> masks, Index task) {
  requireRange("layer", i, 0, config_.num_layers - 1);
  if (head_mask && head_mask.cols() != config_.layer.attention.num_heads) {
    throwInvalid(ErrorCode::kShapeMismatch, "headMask",
                 std::to_string(config_.layer.attention.num_heads) + " factors for a layer, one per head",
                 std::to_string(head_mask.cols()));
  }
  std::optional<TaskAdapters::Scope> adapted;
  if (task >= 0) {
    requireRange("task", task, 0, config_.adapter_tasks - 1);
    adapted.emplace(*adapters_, e, layer(i), i, task);
  }
  Evaluator::Scope scope(e);
  e.enterLayer(i);
  const Value in = i > 0 ? e.at(Site::kInput, x) : x;  // embed() has visited the first layer's input
  AttentionOptions options;
  options.head_mask = head_mask;
  options.causal = config_.causal;
  options.masks = masks;
  if (config_.attention_scale != 0) options.scale = config_.attention_scale;
  if (isLocal(i)) options.window = config_.window;
  options.rotary = inputs.rotary;
  if (const std::shared_ptr<const Rotary> tables = rotary(i, sequences.maxLength())) {
    e.share(tables);
    options.rotary = tables.get();
  }
  options.rotary_values = config_.rotary_values;
  options.bias = hasLayerBias() ? relativeBias(e, i, std::max<Index>(sequences.maxLength(), 1)) : inputs.bias;
  DisentangledPositions distances = inputs.distances;
  std::shared_ptr<const ProjectedPositions> projected;
  if (distances.embeddings) {
    distances.embeddings = position_dropout_.forward(e, e.copy(distances.embeddings));
    options.positions = &distances;
  } else if (config_.positions == Positions::kDisentangled && config_.relative_buckets > 0 && x.rows() > 0) {
    projected = projectedPositions(e, i, sequences.maxLength());
    const auto rows = [&](Index first) {
      const Index width = queryWidth();
      return Value::constant(view(projected->values.data() + first * width, projected->count, width));
    };
    const Index most = sequences.maxLength() - 1;
    distances = {.key = config_.layer.attention.content_to_position ? rows(0) : Value(),
                 .query = config_.layer.attention.position_to_content ? rows(projected->count) : Value(),
                 .max_distance = most,
                 .rows = distanceRows(most).data(),
                 .first = projected->first};
    options.positions = &distances;
  }
  const bool convolves = i == 0 && convolution_;
  const Value embeddings = convolves ? e.copy(in) : Value();
  Value output = layer(i).forward(e, in, sequences, options, weights);
  if (convolves) output = convolution_->forward(e, embeddings, output, sequences);
  if (layer_inputs_) output = layer_inputs_->forward(e, i, output, inputs.embeddings);
  return scope.leave(e.at(Site::kOutput, output));
}

Value EncoderModel::relativeBias(Evaluator& e, Index i, Index length) const {
  const std::span<const Index> buckets = distanceRows(std::min(length - 1, config_.relative_distance + 1));
  const Index first = hasLayerBias() ? i * config_.relative_buckets : 0;
  auto* rows = e.context().arena.take<Index>(static_cast<Index>(buckets.size()));
  std::transform(buckets.begin(), buckets.end(), rows, [first](Index bucket) { return first + bucket; });
  const TableRows biases{nullptr, positions_->relative_table.data(), {rows, buckets.size()}};
  return e.transpose(e.lookUp({&biases, 1}, config_.layer.attention.num_heads));
}

DisentangledPositions EncoderModel::distances(Evaluator& e, Index length) const {
  const std::span<const Index> of_distances = distanceRows(length - 1);
  const Index first = of_distances.front(), count = of_distances.back() + 1 - first;
  // Only the rows that occur: for short texts, projecting the whole table would cost more than the forward pass.
  auto* rows = e.context().arena.take<Index>(count);
  std::iota(rows, rows + count, first);
  const TableRows embeddings{nullptr, positions_->relative_table.data(), {rows, static_cast<size_t>(count)}};
  Value found = e.lookUp({&embeddings, 1}, config_.layer.embed_dim);
  if (const std::optional<LayerNorm>& norm = positions_->relative_norm) found = e.normalize(*norm, found, true);
  return {.key = {},
          .query = {},
          .max_distance = length - 1,
          .rows = of_distances.data(),
          .first = first,
          .embeddings = found};
}

std::shared_ptr<const EncoderModel::ProjectedPositions> EncoderModel::projectedPositions(Evaluator& e, Index i,
                                                                                         Index length) {
  const std::span<const Index> rows = distanceRows(length - 1);
  const uint64_t writes = positionWrites(i);
  // The model's modules do not count the writes to parameters of decorators, such as LoRA adapters.
  const bool is_decorated = layer(i).selfAttention().decoratesPositions();
  std::shared_ptr<const ProjectedPositions>& cached = positions_->layers[static_cast<size_t>(i)];
  if (!is_decorated && cached && cached->has(rows.front(), rows.back() + 1, writes)) return cached;
  const Arena::Scope scope(e.context().arena);
  DisentangledPositions made = distances(e, length);
  layer(i).selfAttention().projectPositions(e, made);
  const Index count = rows.back() + 1 - rows.front(), width = queryWidth();
  auto projected = std::make_shared<ProjectedPositions>(made.first, count, writes);
  allocate("positions", {2 * count, width}, projected->values);
  if (made.key) std::copy_n(made.key.data(), count * width, projected->values.data());
  if (made.query) std::copy_n(made.query.data(), count * width, projected->values.data() + count * width);
  if (!is_decorated) cached = projected;
  return projected;
}

uint64_t EncoderModel::positionWrites(Index i) const {
  std::optional<LayerNorm>& norm = positions_->relative_norm;
  return ownWrites() + (norm ? norm->writes() : 0) + layer(i).selfAttention().writes();
}

std::shared_ptr<const Rotary> EncoderModel::rotary(Index i, Index length) const {
  std::optional<GrowingRotary>& own =
      isLocal(i) && positions_->local_rotary ? positions_->local_rotary : positions_->rotary;
  return own ? own->tables(length) : nullptr;
}

std::span<const Index> EncoderModel::distanceRows(Index most) const {
  const std::vector<Index>& all = positions_->rows;
  return std::span(all).subspan(all.size() / 2 - static_cast<size_t>(most), static_cast<size_t>(2 * most + 1));
}

Value EncoderModel::applyFinalNorm(Evaluator& e, const Value& x) const {
  Value output = norm_ ? e.normalize(*norm_, x, true) : x;
  if (output_projection_) output = output_projection_->forward(e, output, nullptr, true);
  e.enterLayer(config_.num_layers);
  return e.at(Site::kOutput, output);
}

Value EncoderModel::wordLogits(Evaluator& e, const Value& x) const {
  if (!embeddings_) throwInvalid(ErrorCode::kUnsupported, "x", "a text model", "an image model");
  return embeddings_->wordLogits(e, x);
}

std::vector<Module::Child> EncoderModel::children() {
  std::vector<Child> all = stackChildren(layers_, norm_);
  Module* embeddings = patches_ ? static_cast<Module*>(patches_.get()) : embeddings_.get();
  all.insert(all.begin(), {"embeddings", embeddings});
  if (std::optional<LayerNorm>& norm = positions_->relative_norm) all.push_back({"relative_norm", &*norm});
  if (convolution_) all.push_back({"convolution", convolution_.get()});
  if (adapters_) all.push_back({"", adapters_.get()});
  if (layer_inputs_) {
    all.push_back({"layer_inputs", layer_inputs_.get()});
    for (Index i = 0; i < config_.num_layers; ++i)
      all.push_back({"layers." + std::to_string(i) + ".input", &layer_inputs_->block(i)});
  }
  if (output_projection_) all.push_back({"output_projection", output_projection_.get()});
  return all;
}

std::vector<Parameter> EncoderModel::ownParameters() {
  if (config_.positions == Positions::kDisentangled) {
    if (config_.relative_buckets == 0) return {};
    return {plainParameter("relative_embeddings.weight", {2 * config_.relative_buckets, config_.layer.embed_dim},
                           positions_->relative_table.data(), ParameterKind::kWeight, InitialValue::normal())};
  }
  if (config_.positions != Positions::kRelative) return {};
  const Index heads = config_.layer.attention.num_heads;
  std::vector<float>& table = positions_->relative_table;
  return {plainParameter("relative_attention_bias.weight", {static_cast<Index>(table.size()) / heads, heads},
                         table.data(), ParameterKind::kWeight, InitialValue::normal())};
}

std::vector<Linear*> EncoderModel::linears() const {
  std::vector<Linear*> all;
  const auto add = [&](const auto& layers) { all.insert(all.end(), layers.begin(), layers.end()); };
  if (embeddings_) add(embeddings_->linears());
  for (const auto& layer : layers_) {
    add(layer->selfAttention().linears());
    add(layer->feedForward().linears());
  }
  if (convolution_) all.push_back(&convolution_->linear());
  if (layer_inputs_) add(layer_inputs_->linears());
  if (output_projection_) all.push_back(output_projection_.get());
  return all;
}

}  // namespace heed
