#include "heed/encoder_model.h"

#include <algorithm>
#include <array>
#include <limits>

#include "models/embeddings.h"

namespace heed {
namespace {

void requireRange(const char* name, Index got, Index low, Index high) {
  if (got >= low && got <= high) return;
  throw Error(ErrorCode::kInvalidArgument, std::string("config.") + name + ": got " + std::to_string(got) +
                                               "; expected " + std::to_string(low) + " to " + std::to_string(high));
}

/// Bounds far beyond any published encoder, yet small enough that no product of two of them overflows: what they let
/// through is judged by its bytes.
constexpr Index kMaxWidth = 1 << 16;
constexpr Index kMaxRows = 1 << 24;

/// A wasm memory ends at 4 GB; natively the same bound keeps an absurd file from eating the machine.
constexpr double kMaxBytes = 4.0 * 1024 * 1024 * 1024;

void validate(const EncoderModelConfig& c) {
  requireRange("vocabSize", c.vocab_size, 1, kMaxRows);
  requireRange("embedDim", c.embed_dim, 1, kMaxWidth);
  requireRange("embeddingDim", c.embedding_dim, 0, kMaxWidth);
  requireRange("numLayers", c.num_layers, 0, 1024);
  requireRange("numHeads", c.num_heads, 1, c.embed_dim);
  if (c.embed_dim % c.num_heads != 0) {
    throw Error(ErrorCode::kInvalidArgument, "config.numHeads: got " + std::to_string(c.num_heads) +
                                                 "; expected a divisor of embedDim, " + std::to_string(c.embed_dim));
  }
  requireRange("feedForwardDim", c.feed_forward_dim, 1,
               c.precision == Precision::kInt8 ? kMostInt8Inputs : 4 * kMaxWidth);
  requireRange("positionOffset", c.position_offset, 0, kMaxRows);
  requireRange("maxPositions", c.max_positions, c.position_offset + 1, kMaxRows);
  requireRange("typeVocabSize", c.type_vocab_size, 0, kMaxRows);
  requireRange("globalEvery", c.global_every, 1, 1024);
  if (!(c.eps > 0 && c.eps < 1))
    throw Error(ErrorCode::kInvalidArgument,
                "config.eps: got " + numberText(c.eps) + "; expected a number between 0 and 1");
  if (c.positions == Positions::kRelative) {
    requireRange("relativeBuckets", c.relative_buckets, 4, 1024);
    requireRange("relativeDistance", c.relative_distance, c.relative_buckets / 4 + 1, kMaxRows);
  }
  if (c.positions == Positions::kRotary) {
    requireRange("rotaryDim", c.rotary_dim, 2, c.embed_dim / c.num_heads);
    requireRange("rotaryDim % 2", c.rotary_dim % 2, 0, 0);
    if (!(c.rotary_base > 1 && c.local_rotary_base > 1))
      throw Error(ErrorCode::kInvalidArgument, "config.rotaryBase: got at most 1; expected a larger number");
  }

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
    throw Error(ErrorCode::kOutOfMemory, "config: got sizes that need " +
                                             std::to_string(static_cast<Index>(bytes / 1048576)) +
                                             " MB; expected less than 4096 MB");
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

/// What turns or shifts the scores by position, in all layers alike but for ModernBERT's two bases.
struct EncoderModel::Order {
  std::optional<Rotary> rotary, local_rotary;
  std::vector<float> relative_table;  // (buckets, H)
  DistanceBias relative;              // follows from the table; remade after each write to it
};

EncoderModel::EncoderModel(const EncoderModelConfig& config)
    : config_((validate(config), config)),
      embeddings_(std::make_unique<Embeddings>(config)),
      order_(std::make_unique<Order>()) {
  const Index distinct_layers = std::min<Index>(config.shared_layers ? 1 : config.num_layers, config.num_layers);
  for (Index i = 0; i < distinct_layers; ++i)
    layers_.push_back(std::make_unique<EncoderLayer>(layerOptions(config, i)));
  if (config.final_norm)
    norm_.emplace(LayerNormOptions{
        .normalized_shape = config.embed_dim, .eps = config.eps, .elementwise_affine = true, .bias = config.norm_bias});
  if (config.positions == Positions::kRotary) {
    order_->rotary.emplace(config.rotary_dim, config.max_positions, config.rotary_base, Rotary::Pairing::kHalfSplit);
    if (config.window >= 0 && config.local_rotary_base != config.rotary_base) {
      order_->local_rotary.emplace(config.rotary_dim, config.max_positions, config.local_rotary_base,
                                   Rotary::Pairing::kHalfSplit);
    }
  }
  if (config.positions == Positions::kRelative) {
    order_->relative_table.resize(static_cast<size_t>(config.relative_buckets * config.num_heads));
    remakeRelativeBias();
  }
}

EncoderModel::~EncoderModel() = default;

void EncoderModel::remakeRelativeBias() {
  const ConstMatrixView table =
      view(static_cast<const float*>(order_->relative_table.data()), config_.relative_buckets, config_.num_heads);
  // Distances from relative_distance on share the last bucket, and DistanceBias clamps there.
  order_->relative = relativeBias(table, config_.relative_distance + 1, config_.relative_distance, true);
}

void EncoderModel::embed(const TokenBatch& batch, MatrixView hidden, Arena& arena) const {
  embeddings_->forward(batch, config_, hidden, arena);
}

void EncoderModel::runLayer(Index i, const Sequences& sequences, std::span<const float> head_scale, MatrixView hidden,
                            float* weights, Arena& arena) {
  requireRange("layer", i, 0, config_.num_layers - 1);
  if (!head_scale.empty() && static_cast<Index>(head_scale.size()) != config_.num_heads) {
    throw Error(ErrorCode::kShapeMismatch, "headMask: got " + std::to_string(head_scale.size()) +
                                               " factors for a layer; expected " + std::to_string(config_.num_heads) +
                                               ", one a head");
  }
  const bool local = config_.window >= 0 && i % config_.global_every != 0;
  MultiHeadCallOptions options;
  options.head_scale = head_scale;
  if (local) options.window = config_.window;
  const std::optional<Rotary>& rotary = local && order_->local_rotary ? order_->local_rotary : order_->rotary;
  if (rotary) options.rotary = &*rotary;
  if (config_.positions == Positions::kRelative) options.bias = &order_->relative;
  EncoderLayer& layer = *layers_[config_.shared_layers ? 0 : static_cast<size_t>(i)];
  layer.forward(readOnly(hidden), sequences, options, hidden, weights, arena);
}

void EncoderModel::finish(MatrixView hidden) const {
  if (norm_) norm_->forward(readOnly(hidden), hidden);
}

void EncoderModel::wordLogits(ConstMatrixView x, MatrixView output, Arena& arena) const {
  embeddings_->word.forward(x, output, arena);
}

void EncoderModel::collect(const std::string& prefix, std::vector<Parameter>& out) {
  const size_t first = out.size();
  embeddings_->collect(out);
  if (config_.positions == Positions::kRelative) {
    Parameter table = plainParameter("relative_attention_bias.weight", {config_.relative_buckets, config_.num_heads},
                                     order_->relative_table.data());
    table.write = [this, write = table.write](Index row, Index count, const float* in) {
      write(row, count, in);
      remakeRelativeBias();
    };
    out.push_back(std::move(table));
  }
  for (size_t i = 0; i < layers_.size(); ++i) layers_[i]->collect("layers." + std::to_string(i) + ".", out);
  if (norm_) norm_->collect("norm.", out);
  if (!prefix.empty()) {
    for (size_t p = first; p < out.size(); ++p) out[p].name = prefix + out[p].name;
  }
}

}  // namespace heed
