#include "heed/encoder_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "models/convolution_layer.h"
#include "models/embeddings.h"
#include "models/patch_embeddings.h"

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
  require_range("numHeads", layer.num_heads, 1, layer.embed_dim);
  require_range("keyValueHeads", layer.key_value_heads, 0, layer.num_heads);
  require_range("headDim", layer.key_dim, 0, kMaxWidth);
  if (layer.key_value_heads == 0) layer.key_value_heads = layer.num_heads;
  if (layer.key_dim == 0) {
    if (layer.embed_dim % layer.num_heads != 0) {
      throwInvalid(ErrorCode::kInvalidArgument, "config.numHeads",
                   "a divisor of embedDim (" + std::to_string(layer.embed_dim) + ") unless headDim is given",
                   std::to_string(layer.num_heads));
    }
    layer.key_dim = layer.embed_dim / layer.num_heads;
  }
  require_range("headDim", layer.key_dim, 1, kMaxRows / layer.num_heads);  // bounds the width of all heads
  layer.value_dim = layer.key_dim;
  require_range("feedForwardDim", layer.feed_forward_dim, 1,
                layer.precision == Precision::kInt8 ? kMaxInt8Inputs : 4 * kMaxWidth);
  require_range("positionOffset", c.position_offset, 0, kMaxRows);
  require_range("maxPositions", c.max_positions, c.position_offset + 1, kMaxRows);
  require_range("registers", c.registers, 0, c.positions == Positions::kAbsolute ? c.max_positions - 1 : kMaxRows);
  require_range("typeVocabSize", c.type_vocab_size, 0, kMaxRows);
  if (!c.local_layers.empty())
    requireShape("config.localLayers", {static_cast<Index>(c.local_layers.size())}, {c.num_layers});
  if (!(layer.eps > 0 && layer.eps < 1))
    throwInvalid(ErrorCode::kInvalidArgument, "config.eps", "a number between 0 and 1", numberText(layer.eps));
  if (c.positions == Positions::kRelative) {
    require_range("relativeBuckets", c.relative_buckets, 4, 1024);
    require_range("relativeDistance", c.relative_distance, c.relative_buckets / 4 + 1, kMaxRows);
  }
  if (c.positions == Positions::kDisentangled) {
    require_range("relativeBuckets", c.relative_buckets, 2, kMaxRows);
    require_range("relativeDistance", c.relative_distance, c.relative_buckets, kMaxRows);
    require_range("keyValueHeads", layer.key_value_heads, layer.num_heads, layer.num_heads);
    require_range("headDim", layer.key_dim * layer.num_heads, layer.embed_dim, layer.embed_dim);
  }
  require_range("convolution", c.convolution, 0, 63);
  if (c.convolution > 0 && c.convolution % 2 == 0)
    throwInvalid(ErrorCode::kInvalidArgument, "config.convolution", "an odd width", std::to_string(c.convolution));
  if (layer.joint_qk_norm) require_range("keyValueHeads", layer.key_value_heads, layer.num_heads, layer.num_heads);
  if (layer.nested_norm && (layer.norm_first || layer.output_norms || !c.first_attention_norm)) {
    throwInvalid(ErrorCode::kInvalidArgument, "config.nestedNorm",
                 "false with normFirst, outputNorms or without a first norm", "true");
  }
  if (c.positions == Positions::kRotary) require_range("rotaryDim", c.rotary_dim, 2, layer.key_dim);
  const auto require_finite = [](const char* name, double value) {
    if (!std::isfinite(value))
      throwInvalid(ErrorCode::kInvalidArgument, std::string("config.") + name, "a finite number", numberText(value));
  };
  require_finite("attentionScale", static_cast<double>(c.attention_scale));
  require_finite("embeddingScale", static_cast<double>(c.embedding_scale));
  require_finite("normWeightOffset", static_cast<double>(layer.norm_weight_offset));
  require_finite("rotaryScale", c.rotary_scale);

  const double width = static_cast<double>(c.embedding_dim > 0 ? c.embedding_dim : layer.embed_dim);
  const double e = static_cast<double>(layer.embed_dim);
  const auto heads = static_cast<double>(layer.num_heads + layer.key_value_heads);
  const double layer_size = 2 * e * heads * static_cast<double>(layer.key_dim) +
                            static_cast<double>(layer.gated ? 3 : 2) * e * static_cast<double>(layer.feed_forward_dim);
  const double matrices =
      static_cast<double>(c.vocab_size + 3 * c.patch_size * c.patch_size) * width +
      layer_size * static_cast<double>(c.shared_layers ? 1 : c.num_layers) +
      e * e * static_cast<double>(c.convolution + (layer.position_projections ? 2 * c.num_layers : 0));
  const auto positions = static_cast<double>(c.max_positions);
  const auto position_table = [&] {
    switch (c.positions) {
      case Positions::kRotary:
        return 2 * positions * static_cast<double>(c.rotary_dim);
      case Positions::kAlibi:
        return 2 * positions * static_cast<double>(layer.num_heads);
      case Positions::kDisentangled:
        return 2 * positions + 2 * static_cast<double>(c.relative_buckets) * e +
               (c.position_embeddings ? positions * width : 0);
      default:
        return positions * width;
    }
  };
  const double tables = position_table() + static_cast<double>(c.type_vocab_size) * width;
  const double bytes = matrices * (layer.precision == Precision::kInt8 ? 1 : 4) + tables * 4;
  if (bytes > kMaxBytes) {
    throwInvalid(ErrorCode::kOutOfMemory, "config", "weights of less than 4096 MB",
                 numberText(std::floor(bytes / 1048576)) + " MB" +
                     (layer.precision == Precision::kInt8 ? "" : ". With dtype 'q8', matrices take a quarter"));
  }
  return c;
}

EncoderLayerOptions layerOptions(const EncoderModelConfig& c, Index i) {
  EncoderLayerOptions layer = c.layer;
  layer.attention_norm = i > 0 || c.first_attention_norm;
  layer.position_projections = layer.position_projections && c.positions == Positions::kDisentangled;
  return layer;
}

/// kRelative: the bucket of each distance from -relative_distance - 1 to relative_distance + 1. All larger distances
/// share the last bucket of their side.
std::vector<Index> relativeBuckets(const EncoderModelConfig& config) {
  // In a table whose rows contain their own numbers, biases are bucket numbers.
  std::vector<float> numbers(static_cast<size_t>(config.relative_buckets));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const ConstMatrixView table = view(static_cast<const float*>(numbers.data()), config.relative_buckets, 1);
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
  std::vector<float> relative_table;       // kRelative: (buckets, H); kDisentangled: (2 buckets, E)
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
    layers_.push_back(std::make_unique<EncoderLayer>(layerOptions(config, i)));
  if (config.convolution > 0 && config.num_layers > 0) convolution_ = std::make_unique<Convolution>(config);
  if (config.final_norm) norm_.emplace(normOptions(config.layer));
  if (config.positions == Positions::kRotary && !patches_) {
    positions_->rotary.emplace(config.rotary_dim, config.rotary_base, Rotary::Pairing::kHalfSplit, config.rotary_scale,
                               config.max_positions);
    if (config.window >= 0 && config.local_rotary_base != config.rotary_base) {
      positions_->local_rotary.emplace(config.rotary_dim, config.local_rotary_base, Rotary::Pairing::kHalfSplit,
                                       config.rotary_scale, config.max_positions);
    }
  }
  if (config.positions == Positions::kRelative) {
    positions_->relative_table.resize(static_cast<size_t>(config.relative_buckets * config.layer.num_heads));
    positions_->rows = relativeBuckets(config);
  }
  if (config.positions == Positions::kAlibi)
    positions_->alibi = alibiBias(config.layer.num_heads, config.max_positions - 1);
  if (config.positions == Positions::kDisentangled) {
    allocate("relative_embeddings.weight", {2 * config.relative_buckets, config.layer.embed_dim},
             positions_->relative_table);
    if (config.relative_norm) positions_->relative_norm.emplace(normOptions(config.layer));
    positions_->layers.resize(static_cast<size_t>(config.num_layers));
    const Index buckets = config.relative_buckets;
    for (Index distance = 1 - config.max_positions; distance < config.max_positions; ++distance) {
      const Index bucket =
          buckets == config.relative_distance ? distance : logBucket(distance, buckets, config.relative_distance);
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
  return e.at(Site::kInput, embeddings_->forward(e, batch));
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

PassPositions EncoderModel::positions(Evaluator& e, const Sequences& sequences) const {
  const Index longest = std::max<Index>(sequences.maxLength(), 1);
  switch (config_.positions) {
    case Positions::kRelative: {
      const TableRows biases{nullptr, positions_->relative_table.data(),
                             distanceRows(std::min(longest - 1, config_.relative_distance + 1))};
      return {.bias = e.transpose(e.lookUp({&biases, 1}, config_.layer.num_heads)), .distances = {}};
    }
    case Positions::kAlibi:
      return {.bias = positions_->alibi.value(), .distances = {}};
    case Positions::kDisentangled:
      return {.bias = {}, .distances = e.keepsValues() ? DisentangledPositions{} : distances(e, longest)};
    default:
      return {};
  }
}

Value EncoderModel::runLayer(Evaluator& e, Index i, const Value& x, const Sequences& sequences,
                             const PassPositions& positions, const Value& head_mask, float* weights,
                             std::span<const MaskTensor> masks) {
  requireRange("layer", i, 0, config_.num_layers - 1);
  if (head_mask && head_mask.cols() != config_.layer.num_heads) {
    throwInvalid(ErrorCode::kShapeMismatch, "headMask",
                 std::to_string(config_.layer.num_heads) + " factors for a layer, one per head",
                 std::to_string(head_mask.cols()));
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
  options.rotary = positions.rotary;
  if (const std::shared_ptr<const Rotary> tables = rotary(i, sequences.maxLength())) {
    e.share(tables);
    options.rotary = tables.get();
  }
  options.bias = positions.bias;
  DisentangledPositions distances = positions.distances;
  std::shared_ptr<const ProjectedPositions> projected;
  if (distances.embeddings) {
    distances.embeddings = position_dropout_.forward(e, e.copy(distances.embeddings));
    options.positions = &distances;
  } else if (config_.positions == Positions::kDisentangled && x.rows() > 0) {
    projected = projectedPositions(e, i, sequences.maxLength());
    const auto rows = [&](Index first) {
      const Index width = queryWidth();
      return Value::constant(view(projected->values.data() + first * width, projected->count, width));
    };
    const Index most = sequences.maxLength() - 1;
    distances = {.key = rows(0),
                 .query = rows(projected->count),
                 .max_distance = most,
                 .rows = distanceRows(most).data(),
                 .first = projected->first};
    options.positions = &distances;
  }
  if (i > 0 || !convolution_)
    return scope.leave(e.at(Site::kOutput, layer(i).forward(e, in, sequences, options, weights)));
  const Value embeddings = e.copy(in);
  const Value output = layer(i).forward(e, in, sequences, options, weights);
  return scope.leave(e.at(Site::kOutput, convolution_->forward(e, embeddings, output, sequences)));
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
  const Index count = made.key.rows(), width = queryWidth();
  auto projected = std::make_shared<ProjectedPositions>(made.first, count, writes);
  allocate("positions", {2 * count, width}, projected->values);
  std::copy_n(made.query.data(), count * width, std::copy_n(made.key.data(), count * width, projected->values.data()));
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
  const Value output = norm_ ? e.normalize(*norm_, x, true) : x;
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
  return all;
}

std::vector<Parameter> EncoderModel::ownParameters() {
  if (config_.positions == Positions::kDisentangled) {
    return {plainParameter("relative_embeddings.weight", {2 * config_.relative_buckets, config_.layer.embed_dim},
                           positions_->relative_table.data(), ParameterKind::kWeight, InitialValue::normal())};
  }
  if (config_.positions != Positions::kRelative) return {};
  return {plainParameter("relative_attention_bias.weight", {config_.relative_buckets, config_.layer.num_heads},
                         positions_->relative_table.data(), ParameterKind::kWeight, InitialValue::normal())};
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
  return all;
}

}  // namespace heed
