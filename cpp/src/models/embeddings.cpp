#include "models/embeddings.h"

#include "check.h"
#include "gemm/gemm.h"

namespace heed {
namespace {

[[noreturn]] void refuseToken(const char* what, Index got, Index legal, Index text, Index place) {
  throw Error(ErrorCode::kInvalidArgument, std::string(what) + ": got " + std::to_string(got) + " at token " +
                                               std::to_string(place) + " of text " + std::to_string(text) +
                                               "; expected 0 to " + std::to_string(legal - 1));
}

/// Every entry of `values` (T) lies in [0, limit); the message counts texts and tokens from 0.
void requireBelow(const char* what, const std::vector<int32_t>& values, Index limit, const Sequences& sequences) {
  for (Index n = 0; n < sequences.count(); ++n) {
    for (Index t = sequences.begin(n); t < sequences.end(n); ++t) {
      const Index value = values[static_cast<size_t>(t)];
      if (value < 0 || value >= limit) refuseToken(what, value, limit, n, t - sequences.begin(n));
    }
  }
}

void requireLength(const char* what, size_t got, Index rows) {
  if (static_cast<Index>(got) != rows) {
    throw Error(ErrorCode::kShapeMismatch, std::string(what) + ": got " + std::to_string(got) + " entries; expected " +
                                               std::to_string(rows) + ", one a token");
  }
}

LayerNormOptions normOptions(const EncoderModelConfig& config, Index width) {
  return {.normalized_shape = width, .eps = config.eps, .elementwise_affine = true, .bias = config.norm_bias};
}

}  // namespace

EncoderModel::Embeddings::Embeddings(const EncoderModelConfig& config)
    : width(config.embedding_dim > 0 ? config.embedding_dim : config.embed_dim),
      word({.in_features = width,
            .out_features = config.vocab_size,
            .bias = false,
            .activation = Activation::kIdentity,
            .precision = config.precision,
            .lookup = true}) {
  const auto table = [&](const char* name, Index rows, std::vector<float>& values) {
    const Shape shape{rows, width};
    allocate(name, shape, values, requireRoom(name, shape));
  };
  if (config.positions != Positions::kRotary) table("embeddings.position.weight", config.max_positions, position);
  table("embeddings.token_type.weight", config.type_vocab_size, token_type);
  if (config.embedding_norm) norm.emplace(normOptions(config, width));
  if (config.embedding_dim > 0) {
    projection.emplace(LinearOptions{.in_features = width,
                                     .out_features = config.embed_dim,
                                     .bias = true,
                                     .activation = Activation::kIdentity,
                                     .precision = config.precision});
  }
}

void EncoderModel::Embeddings::forward(const TokenBatch& batch, const EncoderModelConfig& config, MatrixView hidden,
                                       Arena& arena) const {
  const Sequences& sequences = batch.sequences;
  const Index rows = sequences.totalRows();
  requireLength("ids", batch.ids.size(), rows);
  requireBelow("ids", batch.ids, config.vocab_size, sequences);
  if (!batch.token_types.empty()) {
    requireLength("tokenTypeIds", batch.token_types.size(), rows);
    requireBelow("tokenTypeIds", batch.token_types, std::max<Index>(config.type_vocab_size, 1), sequences);
  }
  if (!batch.positions.empty()) {
    requireLength("positions", batch.positions.size(), rows);
    requireBelow("positions", batch.positions, config.max_positions, sequences);
  }
  const Index longest = config.max_positions - config.position_offset;
  for (Index n = 0; n < sequences.count(); ++n) {
    if (sequences.length(n) > longest) {
      throw Error(ErrorCode::kInvalidArgument, "ids: got " + std::to_string(sequences.length(n)) + " tokens in text " +
                                                   std::to_string(n) + "; expected at most " + std::to_string(longest) +
                                                   ", the model's limit");
    }
  }

  const Arena::Scope scope(arena);
  MatrixView x = projection ? arena.matrix(rows, width) : hidden;
  for (Index n = 0; n < sequences.count(); ++n) {
    for (Index t = sequences.begin(n); t < sequences.end(n); ++t) {
      const size_t at = static_cast<size_t>(t);
      word.weight().read(batch.ids[at], 1, x.row(t).data());
      if (!token_type.empty()) {
        const Index type = batch.token_types.empty() ? 0 : batch.token_types[at];
        x.row(t) += view(token_type.data() + type * width, 1, width).row(0);
      }
      if (!position.empty()) {
        const Index place =
            batch.positions.empty() ? config.position_offset + (t - sequences.begin(n)) : batch.positions[at];
        x.row(t) += view(position.data() + place * width, 1, width).row(0);
      }
    }
  }
  if (norm) norm->forward(readOnly(x), x);
  if (projection) projection->forward(readOnly(x), hidden, arena);
}

void EncoderModel::Embeddings::collect(std::vector<Parameter>& out) {
  word.collect("embeddings.word.", out);
  if (!position.empty()) {
    out.push_back(plainParameter("embeddings.position.weight", {static_cast<Index>(position.size()) / width, width},
                                 position.data()));
  }
  if (!token_type.empty()) {
    out.push_back(plainParameter("embeddings.token_type.weight", {static_cast<Index>(token_type.size()) / width, width},
                                 token_type.data()));
  }
  if (norm) norm->collect("embeddings.norm.", out);
  if (projection) projection->collect("embeddings.projection.", out);
}

}  // namespace heed
