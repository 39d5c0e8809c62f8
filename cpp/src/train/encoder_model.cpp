#include "heed/train/encoder_model.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "gemm/weights/packed_weight.h"
#include "models/convolution_layer.h"
#include "models/embeddings.h"
#include "train/ops/accumulate.h"
#include "train/ops/linear.h"

namespace heed::train {
namespace {

/// Throws kUnsupported for configurations whose gradients are not known here.
void requireKnown(const EncoderModelConfig& config) {
  // Every option by name: with a new one, this does not compile until the forward pass below handles or refuses it.
  [[maybe_unused]] const auto& [vocab_size, embed_dim, embedding_dim, num_layers, num_heads, key_value_heads, head_dim,
                                feed_forward_dim, max_positions, position_offset, type_vocab_size, activation, eps,
                                positions, relative_buckets, relative_distance, relative_norm, position_embeddings,
                                position_projections, convolution, convolution_activation, rotary_dim, rotary_base,
                                local_rotary_base, rotary_scale, window, local_layers, causal, attention_scale,
                                embedding_scale, norm_first, embedding_norm, final_norm, bias, norm_bias, rms_norm,
                                norm_weight_offset, qk_norm, joint_qk_norm, nested_norm, output_norms, gated,
                                gate_second, linear1_bias, first_attention_norm, shared_layers, precision, int4_table] =
      config;
  if (int4_table) refuse(ErrorCode::kUnsupported, "trainable", "a model without a word table of 4 bits", "one with it");
}

/// Switches dropout and low-rank updates on for the calls in a scope.
class PassScope {
 public:
  PassScope(TrainableEncoder& encoder, Graph& graph, bool training, const Lora* lora)
      : encoder_(encoder), graph_(graph), before_(graph.lora()) {
    graph.setLora(lora);
    if (training) setTraining(true);
  }
  ~PassScope() {
    setTraining(false);
    graph_.setLora(before_);
  }
  PassScope(const PassScope&) = delete;
  PassScope& operator=(const PassScope&) = delete;

 private:
  void setTraining(bool training) {
    encoder_.setTraining(training);
    encoder_.model().setTraining(training);
    if (!graph_.lora()) return;
    for (Dropout* dropout : graph_.lora()->dropouts()) dropout->setTraining(training);
  }

  TrainableEncoder& encoder_;
  Graph& graph_;
  const Lora* before_;
};

/// The draws of a pass, to repeat them.
struct Draws {
  std::vector<Dropout*> dropouts;
  std::vector<DropoutKey> keys;
  RandomState random;

  Draws(std::vector<Dropout*> layer, const Graph& graph) : dropouts(std::move(layer)), random(graph.context().random) {
    if (graph.lora()) {
      for (Dropout* dropout : graph.lora()->dropouts()) dropouts.push_back(dropout);
    }
    for (const Dropout* dropout : dropouts) keys.push_back(dropout->key());
  }
  void restore(Context& context) const {
    for (size_t i = 0; i < dropouts.size(); ++i) dropouts[i]->setKey(keys[i]);
    context.random = random;
  }
};

Variable withoutNode(const Variable& v) { return v ? Variable(v.shared(), nullptr) : v; }

/// A leaf that stands for a variable: it takes the gradient that has reached the variable so far.
Variable standIn(const Graph& graph, const Variable& v) {
  if (!v || !v.needsGradient()) return v;
  auto node = std::make_shared<Node>();
  node->generation = graph.generation();
  node->rows = v.rows();
  node->columns = v.cols();
  node->leaf = true;
  std::swap(node->gradient, v.node()->gradient);
  return {v.shared(), std::move(node)};
}

void takeBack(const Variable& leaf, const Variable& v) {
  if (v && v.needsGradient()) std::swap(leaf.node()->gradient, v.node()->gradient);
}

const RowStorage* weightOf(const Linear& layer) { return &layer.weight(); }

}  // namespace

TrainableEncoder::TrainableEncoder(EncoderModel& model, const std::vector<NamedRows>& names,
                                   const EncoderDropout& dropout)
    : model_(model),
      embedding_dropout_({.p = dropout.embedding}),
      position_dropout_({.p = dropout.position}),
      convolution_dropout_({.p = dropout.output}) {
  requireKnown(model.config());
  for (const auto& layer : model.layers_) {
    layer->selfAttention().dropout() = Dropout({.p = dropout.attention});
    layer->dropout1() = Dropout({.p = dropout.attention_output});
    layer->feedForward().dropout() = Dropout({.p = dropout.hidden});
    layer->dropout2() = Dropout({.p = dropout.output});
  }
  const std::vector<Parameter> all = model.parameters();
  for (const NamedRows& rows : names) addParameter(rows, all[rows.parameter]);
}

Variable TrainableEncoder::forward(Graph& graph, const TokenBatch& batch, const EncoderPass& pass) {
  requireTrainable(*model_.embeddings_->word());
  const PassScope scope(*this, graph, pass.training, pass.lora);
  Variable x = embed(graph, batch);
  const PassPositions places = positions(graph, batch.sequences);
  for (Index i = 0; i < model_.numLayers(); ++i) {
    x = pass.recompute ? recomputedLayer(graph, i, x, batch.sequences, places)
                       : layer(graph, i, x, batch.sequences, places);
  }
  return finalNorm(graph, x);
}

Variable TrainableEncoder::wordLogits(Graph& graph, const Variable& x) const {
  return linear(graph, *model_.embeddings_->word(), x);
}

Variable TrainableEncoder::embed(Graph& graph, const TokenBatch& batch) {
  const EncoderModel::Embeddings& tables = *model_.embeddings_;
  const Index width = tables.width();
  Matrix sum(batch.sequences.totalRows(), width);
  tables.lookUp(batch, sum.view());
  const RowStorage* word = weightOf(*tables.word());
  const bool trains = graph.requiresGradient(word) || graph.requiresGradient(tables.position()) ||
                      graph.requiresGradient(tables.tokenType());
  const float scale = model_.config().embedding_scale;
  Variable x =
      graph.record(std::move(sum), {}, trains, [&tables, word, batch, width, scale](Matrix& dx, Backward& pass) {
        const auto add = [&](const void* table, Index row, Index t) {
          float* gradient = table ? pass.tableRow(table, row) : nullptr;
          if (gradient) accumulate(width, dx.data() + t * width, gradient, table == word ? scale : 1);
        };
        for (Index n = 0; n < batch.sequences.count(); ++n) {
          for (Index t = batch.sequences.begin(n); t < batch.sequences.end(n); ++t) {
            const auto at = static_cast<size_t>(t);
            add(word, batch.ids[at], t);
            add(tables.tokenType(), batch.token_types.empty() ? 0 : batch.token_types[at], t);
            add(tables.position(), tables.positionRow(batch, n, t), t);
          }
        }
      });
  if (tables.norm()) x = layerNorm(graph, *tables.norm(), x);
  x = dropout(graph, embedding_dropout_, x);
  return tables.projection() ? linear(graph, *tables.projection(), x) : x;
}

PassPositions TrainableEncoder::positions(Graph& graph, const Sequences& sequences) const {
  const Index longest = std::max<Index>(sequences.maxLength(), 1), heads = model_.config().num_heads;
  switch (model_.config().positions) {
    case Positions::kRelative:
      return {.bias = relativeBias(graph), .embeddings = {}, .rows = {}};
    case Positions::kAlibi: {
      const PositionBias bias = alibiBias(heads, longest - 1);
      return {
          .bias = graph.leaf(Matrix(view(bias.values.data(), heads, 2 * longest - 1))), .embeddings = {}, .rows = {}};
    }
    case Positions::kDisentangled:
      return distanceEmbeddings(graph, longest);
    default:
      return {};
  }
}

PassPositions TrainableEncoder::distanceEmbeddings(Graph& graph, Index longest) const {
  const std::span<const Index> table_rows = model_.distanceRows(longest);
  const Index first = table_rows.front(), count = table_rows.back() + 1 - first, width = model_.config().embed_dim;
  std::vector<Index> rows(table_rows.begin(), table_rows.end());
  for (Index& row : rows) row -= first;
  const float* table = model_.relativeTable();
  const Variable embeddings = graph.record(Matrix(view(table + first * width, count, width)), {},
                                           graph.requiresGradient(table), [table, first](Matrix& dy, Backward& pass) {
                                             pass.addToParameter(table, [&](MatrixView gradient, Index) {
                                               accumulate(dy.rows() * dy.cols(), dy.data(), gradient.row(first).data());
                                             });
                                           });
  const LayerNorm* norm = model_.relativeNorm();
  return {.bias = {},
          .embeddings = norm ? layerNorm(graph, *norm, embeddings) : embeddings,
          .rows = std::make_shared<const std::vector<Index>>(std::move(rows))};
}

Variable TrainableEncoder::relativeBias(Graph& graph) const {
  const PositionBias& bias = model_.relativeBias();
  const Index heads = model_.config().num_heads, width = 2 * bias.max_distance + 1;
  const float* table = model_.relativeTable();
  return graph.record(Matrix(view(bias.values.data(), heads, width)), {}, graph.requiresGradient(table),
                      [&bias, &config = model_.config(), table, width](Matrix& dy, Backward& pass) {
                        // A table that contains its own row numbers gives the bucket of each distance.
                        std::vector<float> rows(static_cast<size_t>(config.relative_buckets));
                        std::iota(rows.begin(), rows.end(), 0.0f);
                        const PositionBias buckets =
                            heed::relativeBias(view(static_cast<const float*>(rows.data()), config.relative_buckets, 1),
                                               bias.max_distance, config.relative_distance, true);
                        pass.addToParameter(table, [&](MatrixView gradient, Index) {
                          for (Index h = 0; h < dy.rows(); ++h) {
                            for (Index d = 0; d < width; ++d)
                              gradient(static_cast<Index>(buckets.values[static_cast<size_t>(d)]), h) +=
                                  dy.data()[h * width + d];
                          }
                        });
                      });
}

Variable TrainableEncoder::layer(Graph& graph, Index i, const Variable& x, const Sequences& sequences,
                                 const PassPositions& positions, const Variable& head_mask, float* weights) {
  LayerSettings settings;
  settings.causal = model_.config().causal;
  if (model_.config().attention_scale != 0) settings.scale = model_.config().attention_scale;
  if (model_.isLocal(i)) settings.window = model_.config().window;
  // The model, which owns the tables, outlives the pass.
  settings.rotary = std::shared_ptr<const Rotary>(std::shared_ptr<const Rotary>(), model_.rotary(i));
  settings.position_bias = positions.bias;
  settings.positions.rows = positions.rows;
  if (positions.embeddings) settings.distance_embeddings = dropout(graph, position_dropout_, positions.embeddings);
  settings.head_mask = head_mask;
  const Variable y = encoderLayer(graph, model_.layer(i), x, sequences, settings, weights);
  return i == 0 && model_.convolution_ ? convolved(graph, x, y, sequences) : y;
}

Variable TrainableEncoder::convolved(Graph& graph, const Variable& x, const Variable& y, const Sequences& sequences) {
  const EncoderModel::Convolution& layer = *model_.convolution_;
  const Variable product = linear(graph, layer.linear(), gatherWindows(graph, x, sequences, layer.width()));
  const Variable local = activate(graph, dropout(graph, convolution_dropout_, product), layer.activation());
  return layerNorm(graph, layer.norm(), add(graph, y, local));
}

Variable TrainableEncoder::recomputedLayer(Graph& graph, Index i, const Variable& x, const Sequences& sequences,
                                           const PassPositions& positions) {
  const Draws draws(dropouts(i), graph);
  Graph unrecorded(graph.context());
  unrecorded.setLora(graph.lora());
  const auto& [bias, embeddings, rows] = positions;
  const Variable y =
      layer(unrecorded, i, withoutNode(x), sequences, {withoutNode(bias), withoutNode(embeddings), rows});
  const bool training = embedding_dropout_.training();
  return graph.record(
      Matrix(y.value()), {x, bias, embeddings}, trainsLayer(graph, i),
      [this, draws, i, x, sequences, positions, training, lora = graph.lora()](Matrix& dy, Backward& pass) {
        Graph& recorded = pass.graph();
        const PassScope scope(*this, recorded, training, lora);
        const RandomScope random(recorded.context());
        const Draws later(dropouts(i), recorded);
        draws.restore(recorded.context());
        const Variable in = standIn(recorded, x);
        const PassPositions places = {standIn(recorded, positions.bias), standIn(recorded, positions.embeddings),
                                      positions.rows};
        Variable out = layer(recorded, i, in, sequences, places);
        later.restore(recorded.context());
        Backward::run(recorded, std::move(out), std::move(dy));
        takeBack(in, x);
        takeBack(places.bias, positions.bias);
        takeBack(places.embeddings, positions.embeddings);
      });
}

bool TrainableEncoder::trainsLayer(const Graph& graph, Index i) const {
  std::vector<Parameter> all = model_.layer(i).parameters();
  if (i == 0 && model_.convolution_) {
    for (Parameter& parameter : model_.convolution_->parameters()) all.push_back(std::move(parameter));
  }
  for (const Parameter& parameter : all) {
    for (const Parameter::Part& part : parameter.parts) {
      const void* key = RowSlice::placeOf(part).key;
      if (graph.requiresGradient(key) || (graph.lora() && graph.lora()->trains(graph, key))) return true;
    }
  }
  return false;
}

Variable TrainableEncoder::finalNorm(Graph& graph, const Variable& x) const {
  return model_.norm_ ? layerNorm(graph, *model_.norm_, x) : x;
}

std::vector<Dropout*> TrainableEncoder::dropouts(Index i) {
  EncoderLayer& layer = model_.layer(i);
  std::vector<Dropout*> all = {&layer.selfAttention().dropout(), &layer.dropout1(), &layer.feedForward().dropout(),
                               &layer.dropout2()};
  if (model_.config().positions == Positions::kDisentangled) all.push_back(&position_dropout_);
  if (i == 0 && model_.convolution_) all.push_back(&convolution_dropout_);
  return all;
}

std::vector<Dropout*> TrainableEncoder::dropouts() {
  std::vector<Dropout*> all = {&embedding_dropout_};
  for (size_t i = 0; i < model_.layers_.size(); ++i) {
    for (Dropout* dropout : dropouts(static_cast<Index>(i))) all.push_back(dropout);
  }
  return all;
}

std::vector<Module::Child> TrainableEncoder::children() {
  return {{"", &embedding_dropout_}, {"", &position_dropout_}, {"", &convolution_dropout_}};
}

void TrainableEncoder::seedOwn(uint64_t seed) { model_.seed(seed); }

void TrainableEncoder::addParameter(const NamedRows& rows, const Parameter& whole) {
  Parameter parameter = whole;
  std::vector<Index> extents = whole.shape.extents();
  extents[0] = rows.rows;
  parameter.name = rows.name;
  parameter.shape = Shape(std::move(extents));
  parameter.parts.clear();
  Index begin = 0;
  for (const Parameter::Part& part : whole.parts) {
    const Index low = std::max(rows.first_row, begin), high = std::min(rows.first_row + rows.rows, begin + part.rows);
    if (low < high && high - low == part.rows) {
      parameter.parts.push_back(part);
    } else if (low < high) {
      slices_.push_back(std::make_unique<RowSlice>(part, low - begin, whole.rowSize()));
      parameter.parts.push_back({high - low, nullptr, slices_.back().get()});
    }
    begin += part.rows;
  }
  parameters_.push_back(std::move(parameter));
}

}  // namespace heed::train
