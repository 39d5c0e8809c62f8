#include "heed/train/encoder_model.h"

#include <algorithm>

#include "core/check.h"
#include "gemm/weights/packed_weight.h"
#include "heed/train/graph.h"
#include "heed/train/ops.h"
#include "models/convolution_layer.h"
#include "models/embeddings.h"
#include "models/layer_inputs.h"

namespace heed::train {
namespace {

/// Enables or disables dropout within a scope. Scopes may nest: a callback during a pass may begin another pass.
class TrainingScope {
 public:
  TrainingScope(TrainableEncoder& encoder, Lora* lora, bool training) : before_(encoder.training()) {
    if (training == before_) return;
    modules_ = encoder.modules();
    const auto add = [&](const std::vector<Module*>& all) { modules_.insert(modules_.end(), all.begin(), all.end()); };
    add(encoder.model().modules());
    if (lora) add(lora->modules());
    Module::setTraining(modules_, training);
  }
  ~TrainingScope() { Module::setTraining(modules_, before_); }
  TrainingScope(const TrainingScope&) = delete;
  TrainingScope& operator=(const TrainingScope&) = delete;

 private:
  const bool before_;
  std::vector<Module*> modules_;  // the modules that change; stored, so that the destructor does not allocate
};

std::vector<Dropout*> withLora(std::vector<Dropout*> dropouts, Lora* lora) {
  if (!lora) return dropouts;
  const std::vector<Dropout*> own = lora->dropouts();
  dropouts.insert(dropouts.end(), own.begin(), own.end());
  return dropouts;
}

/// Restores the state of dropouts at the end of a scope.
class DrawScope {
 public:
  explicit DrawScope(DrawState before) : before_(std::move(before)) {}
  ~DrawScope() { before_.restore(); }
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

 private:
  const DrawState before_;
};

Variable withoutNode(const Variable& v) { return v ? Variable(v.shared(), nullptr) : v; }

/// A leaf with the value of a variable. The gradient accumulated in the variable moves to the leaf.
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

/// standIn() of each variable. Variables with one node share a leaf, which then has the sum of their gradients.
std::vector<Variable> standIns(const Graph& graph, const std::vector<Variable>& variables) {
  std::vector<Variable> leaves;
  for (const Variable& v : variables) {
    const auto has_same_node = [&](const Variable& other) { return other && other.node() == v.node(); };
    const auto first = v && v.needsGradient() ? std::ranges::find_if(variables, has_same_node) - variables.begin()
                                              : std::ssize(leaves);
    leaves.push_back(first < std::ssize(leaves) ? leaves[static_cast<size_t>(first)] : standIn(graph, v));
  }
  return leaves;
}

/// Moves the gradient that accumulated in a leaf back to the variable; does nothing if it has moved already.
void takeBack(const Variable& leaf, const Variable& v) {
  if (v && v.needsGradient() && leaf.node()->gradient.data()) v.node()->gradient = std::move(leaf.node()->gradient);
}

}  // namespace

TrainableEncoder::TrainableEncoder(EncoderModel& model, const std::vector<NamedRows>& names,
                                   const EncoderDropout& dropout)
    : model_(model) {
  if (!model.embeddings_) throwInvalid(ErrorCode::kUnsupported, "trainable", "a text model", "an image model");
  if (model.config().table_code != RowCode::kNone)
    throwInvalid(ErrorCode::kUnsupported, "trainable", "token embeddings that are not in 3 or 4 bits",
                 "such token embeddings");
  const std::vector<Parameter> all = model.parameters();
  for (const NamedRows& rows : names) addParameter(rows, all[rows.parameter]);
  // The model changes last.
  model.embeddings_->dropout() = Dropout({.p = dropout.embedding});
  model.position_dropout_ = Dropout({.p = dropout.position});
  if (model.convolution_) model.convolution_->dropout() = Dropout({.p = dropout.output});
  for (const auto& layer : model.layers_) {
    layer->selfAttention().dropout() = Dropout({.p = dropout.attention});
    layer->dropout1() = Dropout({.p = dropout.attention_output});
    layer->feedForward().dropout() = Dropout({.p = dropout.hidden});
    layer->dropout2() = Dropout({.p = dropout.output});
  }
}

TrainableEncoder::~TrainableEncoder() {
  if (lora_) lora_->detach();
}

Variable TrainableEncoder::forward(Graph& graph, const TokenBatch& batch, const EncoderPass& pass,
                                   RecordedSites* sites) {
  requireTrainable(*model_.embeddings_->word());
  const DrawState before(withLora(dropouts(), lora_));
  const TrainingScope scope(*this, lora_, pass.training);
  try {
    RecordingEvaluator e(graph);
    e.setSites(sites);
    Value x = model_.embed(e, batch);
    const PassInputs inputs = model_.inputs(e, batch.sequences, x);
    for (Index i = 0; i < model_.numLayers(); ++i) {
      const bool recomputes = pass.recompute && !(sites && sites->touchesLayer(i));
      x = recomputes ? recomputedLayer(e, i, x, batch.sequences, inputs)
                     : model_.runLayer(e, i, x, batch.sequences, inputs);
    }
    return e.variable(model_.applyFinalNorm(e, x));
  } catch (...) {
    before.restore();  // so that a repeated call uses the same draws
    throw;
  }
}

Variable TrainableEncoder::wordLogits(Graph& graph, const Variable& x) const {
  RecordingEvaluator e(graph);
  return e.variable(model_.wordLogits(e, e.value(x)));
}

Value TrainableEncoder::recomputedLayer(RecordingEvaluator& e, Index i, const Value& x, const Sequences& sequences,
                                        const PassInputs& inputs) {
  Graph& graph = e.graph();
  const DrawState draws(withLora(layerDropouts(i), lora_));
  const RandomState position = graph.context().random;
  const auto recorded = [&](const Value& v) { return v.variable() < 0 ? Variable() : e.variable(v); };
  // What the layer reads: its input, then the recorded values of `inputs`.
  const std::vector<Variable> read = {e.take(x), recorded(inputs.bias), recorded(inputs.distances.embeddings),
                                      recorded(inputs.embeddings)};
  // Runs the layer with the evaluator `with` on the given variables.
  const auto run = [this, i, sequences, inputs](RecordingEvaluator& with, const std::vector<Variable>& from) {
    PassInputs own = inputs;
    if (from[1]) own.bias = with.value(from[1]);
    if (from[2]) own.distances.embeddings = with.value(from[2]);
    if (from[3]) own.embeddings = with.value(from[3]);
    return with.take(model_.runLayer(with, i, with.value(from[0]), sequences, own));
  };
  std::vector<Variable> values;
  values.reserve(read.size());
  for (const Variable& v : read) values.push_back(withoutNode(v));
  Graph unrecorded(graph.context());
  RecordingEvaluator plain(unrecorded);
  const Variable y = run(plain, values);
  return e.value(
      graph.record(Matrix(y.value()), {read[0], read[1], read[2], read[3]}, trainsLayer(graph, i),
                   [this, draws, position, i, run, read, training = this->training()](Matrix& dy, Backward& pass) {
                     Graph& again = pass.graph();
                     const TrainingScope scope(*this, lora_, training);
                     const std::vector<Variable> leaves = standIns(again, read);
                     Variable out = [&] {
                       const RandomScope random(again.context());
                       const DrawScope later(DrawState(withLora(layerDropouts(i), lora_)));
                       draws.restore();
                       again.context().random = position;
                       RecordingEvaluator recording(again);
                       return run(recording, leaves);
                     }();
                     Backward::run(again, std::move(out), std::move(dy));
                     for (size_t at = 0; at < leaves.size(); ++at) takeBack(leaves[at], read[at]);
                   }));
}

bool TrainableEncoder::trainsLayer(const Graph& graph, Index i) const {
  std::vector<Parameter> all = model_.layer(i).parameters();
  const auto add = [&](Module& module) {
    for (Parameter& parameter : module.parameters()) all.push_back(std::move(parameter));
  };
  if (model_.hasLayerBias()) {
    for (Parameter& parameter : model_.ownParameters()) all.push_back(std::move(parameter));  // the layer looks them up
  }
  if (i == 0 && model_.convolution_) add(*model_.convolution_);
  if (model_.layer_inputs_) {
    add(*model_.layer_inputs_);
    add(model_.layer_inputs_->block(i));
  }
  for (const Parameter& parameter : all) {
    for (const Parameter::Part& part : parameter.parts) {
      const void* key = part.key();
      if (graph.requiresGradient(key) || (lora_ && lora_->trains(graph, key))) return true;
    }
  }
  return false;
}

std::vector<Dropout*> TrainableEncoder::layerDropouts(Index i) {
  EncoderLayer& layer = model_.layer(i);
  std::vector<Dropout*> all = {&layer.selfAttention().dropout(), &layer.dropout1(), &layer.feedForward().dropout(),
                               &layer.dropout2()};
  if (model_.config().positions == Positions::kDisentangled) all.push_back(&model_.position_dropout_);
  if (i == 0 && model_.convolution_) all.push_back(&model_.convolution_->dropout());
  return all;
}

std::vector<Dropout*> TrainableEncoder::dropouts() {
  std::vector<Dropout*> all = {&model_.embeddings_->dropout()};
  for (size_t i = 0; i < model_.layers_.size(); ++i) {
    for (Dropout* dropout : layerDropouts(static_cast<Index>(i))) all.push_back(dropout);
  }
  return all;
}

std::vector<Module::Child> TrainableEncoder::children() {
  std::vector<Child> all = {{"", &model_.embeddings_->dropout()}, {"", &model_.position_dropout_}};
  if (model_.convolution_) all.push_back({"", &model_.convolution_->dropout()});
  return all;
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
    if (low < high) parameter.parts.push_back({high - low, part.plain, part.storage, part.first + low - begin});
    begin += part.rows;
  }
  parameters_.push_back(std::move(parameter));
}

}  // namespace heed::train
