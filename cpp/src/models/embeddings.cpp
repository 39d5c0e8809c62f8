#include "models/embeddings.h"

#include "core/check.h"
#include "gemm/weights/packed_weight.h"
#include "heed/evaluator.h"
#include "models/task_adapters.h"

namespace heed {
namespace {

/// Requires `values` to have shape (T) and entries in [0, limit). Messages count texts and tokens from 0.
void requireBelow(const char* argument, const std::vector<int32_t>& values, Index limit, const Sequences& sequences) {
  if (static_cast<Index>(values.size()) != sequences.totalRows()) {
    throwInvalid(ErrorCode::kShapeMismatch, argument, std::to_string(sequences.totalRows()) + " entries, one per token",
                 std::to_string(values.size()));
  }
  for (Index n = 0; n < sequences.count(); ++n) {
    for (Index t = sequences.begin(n); t < sequences.end(n); ++t) {
      const Index value = values[static_cast<size_t>(t)];
      if (value >= 0 && value < limit) continue;
      throwInvalid(ErrorCode::kInvalidArgument, argument, "an integer from 0 to " + std::to_string(limit - 1),
                   std::to_string(value) + " at token " + std::to_string(t - sequences.begin(n)) + " of text " +
                       std::to_string(n));
    }
  }
}

}  // namespace

EncoderModel::Embeddings::Embeddings(const EncoderModelConfig& config)
    : config_(config),
      width_(config.embedding_dim > 0 ? config.embedding_dim : config.layer.embed_dim),
      dropout_({.p = 0}) {
  if (config.table_code != RowCode::kNone) {
    coded_ = std::make_unique<CodedTable>(config.table_code, config.vocab_size, width_);
  } else {
    word_.emplace(LinearOptions{.in_features = width_,
                                .out_features = config.vocab_size,
                                .bias = false,
                                .precision = config.layer.precision,
                                .lookup = true});
  }
  const bool is_relative = config.positions == Positions::kRelative || config.positions == Positions::kDisentangled;
  if (config.positions == Positions::kAbsolute || (is_relative && config.position_embeddings))
    allocate("embeddings.position.weight", {config.max_positions, width_}, position_);
  allocate("embeddings.token_type.weight", {config.type_vocab_size, width_}, token_type_);
  allocate("embeddings.task_type.weight", {config.task_vocab_size, width_}, task_type_);
  LayerNormOptions norm = config.layer.norm;
  norm.normalized_shape = config.projection_first ? config.layer.embed_dim : width_;
  if (config.embedding_norm) norm_.emplace(norm);
  if (config.embedding_dim > 0) {
    projection_.emplace(LinearOptions{.in_features = width_,
                                      .out_features = config.layer.embed_dim,
                                      .bias = !config.projection_first,
                                      .precision = config.layer.precision});
  }
}

void EncoderModel::Embeddings::check(const TokenBatch& batch) const {
  const Sequences& sequences = batch.sequences;
  requireBelow("ids", batch.ids, config_.vocab_size, sequences);
  if (!batch.token_types.empty())
    requireBelow("tokenTypeIds", batch.token_types, std::max<Index>(config_.type_vocab_size, 1), sequences);
  if (!batch.positions.empty()) requireBelow("positions", batch.positions, config_.max_positions, sequences);
  const Index longest = config_.max_positions - config_.position_offset;
  for (Index n = 0; n < sequences.count(); ++n) {
    if (sequences.length(n) > longest) {
      throwInvalid(ErrorCode::kInvalidArgument, "ids",
                   "at most " + std::to_string(longest) + " tokens (the model's limit)",
                   std::to_string(sequences.length(n)) + " in text " + std::to_string(n));
    }
  }
}

Value EncoderModel::Embeddings::forward(Evaluator& e, const TokenBatch& batch, const TaskAdapters* adapters) {
  check(batch);
  const Sequences& sequences = batch.sequences;
  const Index count = sequences.totalRows();
  /// Row indices for a table: `given` or, if empty, default_row(n, t) for row t of the batch, a token of text n.
  const auto rows = [&](const std::vector<int32_t>& given, const auto& default_row) -> std::span<const Index> {
    auto* all = e.context().arena.take<Index>(count);
    for (Index n = 0; n < sequences.count(); ++n) {
      for (Index t = sequences.begin(n); t < sequences.end(n); ++t)
        all[t] = given.empty() ? default_row(n, t) : given[static_cast<size_t>(t)];
    }
    return {all, static_cast<size_t>(count)};
  };
  const auto zero = [](Index, Index) { return Index{0}; };
  std::vector<TableRows> tables;
  const RowStorage* words = word_ ? static_cast<const RowStorage*>(&word_->weight()) : coded_.get();
  tables.push_back({words, nullptr, rows(batch.ids, zero), config_.embedding_scale, true});
  if (!token_type_.empty()) tables.push_back({nullptr, token_type_.data(), rows(batch.token_types, zero), 1, true});
  if (!task_type_.empty()) tables.push_back({nullptr, task_type_.data(), rows({}, zero), 1, true});
  if (!position_.empty()) {
    const auto position = [&](Index n, Index t) { return config_.position_offset + (t - sequences.begin(n)); };
    tables.push_back({nullptr, position_.data(), rows(batch.positions, position), 1, true});
  }
  Value x = e.lookUp(tables, width_);
  if (adapters && batch.task >= 0) x = adapters->embed(e, x, tables[0].rows, rows(batch.token_types, zero), batch.task);
  if (projection_ && config_.projection_first) x = projection_->forward(e, x, nullptr, true);
  if (norm_) x = e.normalize(*norm_, x, true);
  x = dropout_.forward(e, x);
  return projection_ && !config_.projection_first ? projection_->forward(e, x, nullptr, true) : x;
}

Value EncoderModel::Embeddings::wordLogits(Evaluator& e, const Value& x) const {
  requireColumns("x", x.values(), width_);
  if (word_) return word_->forward(e, x);
  Context& context = e.context();
  MatrixView output = context.arena.matrix(x.rows(), coded_->rows());
  constexpr Index kRows = 1024;  // number of rows that are decoded at a time
  for (Index first = 0; first < coded_->rows(); first += kRows) {
    const Arena::Scope scope(context.arena);
    MatrixView rows = context.arena.matrix(std::min(kRows, coded_->rows() - first), width_);
    coded_->read(first, rows.rows(), rows.data());
    linear(x.values(), readOnly(rows), nullptr, Activation::kIdentity,
           view(output.data() + first, x.rows(), rows.rows(), output.outerStride()), context);
  }
  return output;
}

std::vector<Module::Child> EncoderModel::Embeddings::children() {
  std::vector<Child> all;
  if (word_) all.push_back({"word", &*word_});
  if (norm_) all.push_back({"norm", &*norm_});
  if (projection_) all.push_back({"projection", &*projection_});
  return all;
}

std::vector<Parameter> EncoderModel::Embeddings::ownParameters() {
  std::vector<Parameter> own;
  const auto add = [&](const char* name, std::vector<float>& table) {
    if (table.empty()) return;
    own.push_back(plainParameter(name, {static_cast<Index>(table.size()) / width_, width_}, table.data(),
                                 ParameterKind::kWeight, InitialValue::normal()));
  };
  if (coded_) {
    own.push_back({"word.weight",
                   {coded_->rows(), width_},
                   ParameterKind::kWeight,
                   InitialValue::normal(),
                   {{coded_->rows(), nullptr, &*coded_}}});
  }
  add("position.weight", position_);
  add("token_type.weight", token_type_);
  add("task_type.weight", task_type_);
  return own;
}

}  // namespace heed
