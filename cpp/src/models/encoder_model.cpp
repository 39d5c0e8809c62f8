#include "heed/encoder_model.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "models/embeddings.h"

namespace heed {
namespace {

/// Limits far above any published encoder, but small enough that products of two of them do not overflow.
/// Configurations within them are then checked for their total size.
constexpr Index kMaxWidth = 1 << 16;
constexpr Index kMaxRows = 1 << 24;

/// WebAssembly memory is limited to 4 GB. In native builds, the limit keeps absurd files from exhausting the machine.
constexpr double kMaxBytes = 4.0 * 1024 * 1024 * 1024;

/// Checks what the constructors of the parts do not check, and the total size.
void validate(const EncoderModelConfig& c) {
  const auto require_range = [](const char* name, Index got, Index least, Index most) {
    requireRange(std::string("config.") + name, got, least, most);
  };
  require_range("vocabSize", c.vocab_size, 1, kMaxRows);
  require_range("embedDim", c.embed_dim, 1, kMaxWidth);
  require_range("embeddingDim", c.embedding_dim, 0, kMaxWidth);
  require_range("numLayers", c.num_layers, 0, 1024);
  require_range("numHeads", c.num_heads, 1, c.embed_dim);
  require_range("feedForwardDim", c.feed_forward_dim, 1,
                c.precision == Precision::kInt8 ? kMaxInt8Inputs : 4 * kMaxWidth);
  require_range("positionOffset", c.position_offset, 0, kMaxRows);
  require_range("maxPositions", c.max_positions, c.position_offset + 1, kMaxRows);
  require_range("typeVocabSize", c.type_vocab_size, 0, kMaxRows);
  require_range("globalEvery", c.global_every, 1, 1024);
  if (!(c.eps > 0 && c.eps < 1))
    refuse(ErrorCode::kInvalidArgument, "config.eps", "a number between 0 and 1", numberText(c.eps));
  if (c.positions == Positions::kRelative) {
    require_range("relativeBuckets", c.relative_buckets, 4, 1024);
    require_range("relativeDistance", c.relative_distance, c.relative_buckets / 4 + 1, kMaxRows);
  }
  if (c.positions == Positions::kRotary) require_range("rotaryDim", c.rotary_dim, 2, c.embed_dim / c.num_heads);

  const double width = static_cast<double>(c.embedding_dim > 0 ? c.embedding_dim : c.embed_dim);
  const double e = static_cast<double>(c.embed_dim);
  const double layer = 4 * e * e + static_cast<double>(c.gated ? 3 : 2) * e * static_cast<double>(c.feed_forward_dim);
  const double matrices =
      static_cast<double>(c.vocab_size) * width + layer * static_cast<double>(c.shared_layers ? 1 : c.num_layers);
  const double tables = c.positions == Positions::kRotary
                            ? 2.0 * static_cast<double>(c.max_positions) * static_cast<double>(c.rotary_dim)
                            : static_cast<double>(c.max_positions + c.type_vocab_size) * width;
  const double bytes = matrices * (c.precision == Precision::kInt8 ? 1 : 4) + tables * 4;
  if (bytes > kMaxBytes) {
    refuse(ErrorCode::kOutOfMemory, "config", "sizes that need less than 4096 MB",
           numberText(std::floor(bytes / 1048576)) + " MB");
  }
}

EncoderLayerOptions layerOptions(const EncoderModelConfig& c, Index i) {
  return {.embed_dim = c.embed_dim,
          .num_heads = c.num_heads,
          .feed_forward_dim = c.feed_forward_dim,
          .activation = c.activation,
          .norm_first = c.norm_first,
          .eps = c.eps,
          .dropout = 0,
          .bias = c.bias,
          .norm_bias = c.norm_bias,
          .gated = c.gated,
          .attention_norm = i > 0 || c.first_attention_norm,
          .precision = c.precision};
}

}  // namespace

/// Rotary tables and relative position biases, shared by all layers except for ModernBERT's two rotary bases.
struct EncoderModel::PositionTables {
  std::optional<Rotary> rotary, local_rotary;
  std::vector<float> relative_table;  // (buckets, H)
  PositionBias relative;              // recomputed from the table after each write
};

EncoderModel::EncoderModel(const EncoderModelConfig& config)
    : config_((validate(config), config)),
      embeddings_(std::make_unique<Embeddings>(config)),
      positions_(std::make_unique<PositionTables>()) {
  const Index distinct_layers = config.shared_layers ? std::min<Index>(1, config.num_layers) : config.num_layers;
  for (Index i = 0; i < distinct_layers; ++i)
    layers_.push_back(std::make_unique<EncoderLayer>(layerOptions(config, i)));
  if (config.final_norm) norm_.emplace(normOptions(config, config.embed_dim));
  if (config.positions == Positions::kRotary) {
    positions_->rotary.emplace(config.rotary_dim, config.max_positions, config.rotary_base,
                               Rotary::Pairing::kHalfSplit);
    if (config.window >= 0 && config.local_rotary_base != config.rotary_base) {
      positions_->local_rotary.emplace(config.rotary_dim, config.max_positions, config.local_rotary_base,
                                       Rotary::Pairing::kHalfSplit);
    }
  }
  if (config.positions == Positions::kRelative) {
    positions_->relative_table.resize(static_cast<size_t>(config.relative_buckets * config.num_heads));
    updateRelativeBias();
  }
}

EncoderModel::~EncoderModel() = default;

void EncoderModel::updateRelativeBias() {
  const ConstMatrixView table =
      view(static_cast<const float*>(positions_->relative_table.data()), config_.relative_buckets, config_.num_heads);
  // Distances from relative_distance on share the last bucket, and PositionBias clamps larger ones.
  positions_->relative = heed::relativeBias(table, config_.relative_distance + 1, config_.relative_distance, true);
}

void EncoderModel::embed(const TokenBatch& batch, MatrixView hidden, Context& context) const {
  embeddings_->forward(batch, hidden, context);
}

void EncoderModel::runLayer(Index i, const Sequences& sequences, std::span<const float> head_mask, MatrixView hidden,
                            float* weights, Context& context) {
  requireRange("layer", i, 0, config_.num_layers - 1);
  if (!head_mask.empty() && static_cast<Index>(head_mask.size()) != config_.num_heads) {
    refuse(ErrorCode::kShapeMismatch, "headMask",
           std::to_string(config_.num_heads) + " factors for a layer, one per head", std::to_string(head_mask.size()));
  }
  MultiHeadCallOptions options;
  options.head_mask = head_mask;
  if (isLocal(i)) options.window = config_.window;
  options.rotary = rotary(i);
  if (config_.positions == Positions::kRelative) options.bias = &positions_->relative;
  layer(i).forward(readOnly(hidden), sequences, options, hidden, weights, context);
}

void EncoderModel::project(Index i, const Sequences& sequences, ConstMatrixView hidden, MatrixView q, MatrixView k,
                           MatrixView v, Context& context) const {
  requireRange("layer", i, 0, config_.num_layers - 1);
  requireShape("hidden", hidden, sequences.totalRows(), config_.embed_dim);
  const Arena::Scope scope(context.arena);
  const MultiHeadAttention& attention = layer(i).selfAttention();
  const auto normed = [&](const LayerNorm& norm) {
    const MatrixView y = context.arena.matrix(hidden.rows(), hidden.cols());
    norm.forward(hidden, y);
    return readOnly(y);
  };
  const LayerNorm* norm = config_.norm_first ? layer(i).norm1() : nullptr;
  const ConstMatrixView rows = norm ? normed(*norm) : hidden;
  attention.project(rows, rows, rows, q, k, v, context);
  if (const Rotary* rotation = rotary(i)) {
    attention.rotate(*rotation, sequences, 0, q);
    attention.rotate(*rotation, sequences, 0, k);
  }
}

const Rotary* EncoderModel::rotary(Index i) const {
  const std::optional<Rotary>& own =
      isLocal(i) && positions_->local_rotary ? positions_->local_rotary : positions_->rotary;
  return own ? &*own : nullptr;
}

const float* EncoderModel::relativeTable() const { return positions_->relative_table.data(); }
const PositionBias& EncoderModel::relativeBias() const { return positions_->relative; }

void EncoderModel::applyFinalNorm(MatrixView hidden) const {
  if (norm_) norm_->forward(readOnly(hidden), hidden);
}

void EncoderModel::wordLogits(ConstMatrixView x, MatrixView output, Context& context) const {
  embeddings_->word().forward(x, output, context);
}

std::vector<Module::Child> EncoderModel::children() {
  std::vector<Child> all = stackChildren(layers_, norm_);
  all.insert(all.begin(), {"embeddings", embeddings_.get()});
  return all;
}

std::vector<Parameter> EncoderModel::ownParameters() {
  if (config_.positions != Positions::kRelative) return {};
  Parameter table = plainParameter("relative_attention_bias.weight", {config_.relative_buckets, config_.num_heads},
                                   positions_->relative_table.data(), ParameterKind::kWeight, InitialValue::normal());
  table.on_write = [this] { updateRelativeBias(); };
  return {std::move(table)};
}

}  // namespace heed
