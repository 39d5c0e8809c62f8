#include "heed/train/recording_evaluator.h"

#include <array>

#include "core/check.h"
#include "heed/dropout.h"
#include "heed/linear.h"
#include "heed/train/ops.h"
#include "train/ops/attention.h"
#include "train/ops/linear.h"

namespace heed::train {

Value RecordingEvaluator::value(const Variable& variable) {
  if (!variable) return {};
  variables_.push_back(variable);
  return Value::constant(variable.value(), static_cast<Index>(variables_.size()) - 1);
}

Variable RecordingEvaluator::variable(const Value& value) const {
  if (value.variable() >= 0) return variables_[placeOf(value)];
  return value ? graph_.leaf(Matrix(value.values())) : Variable();
}

Variable RecordingEvaluator::take(const Value& value) {
  if (value.variable() < 0) return variable(value);
  return std::exchange(variables_[placeOf(value)], {});
}

size_t RecordingEvaluator::placeOf(const Value& value) const {
  const auto place = static_cast<size_t>(value.variable());
  if (place >= variables_.size() || !variables_[place])
    refuse(ErrorCode::kInvalidArgument, "value", "one that no operation has consumed", "a consumed one");
  return place;
}

std::shared_ptr<const void> RecordingEvaluator::ownerOf(const void* address) const {
  for (const Shared& shared : shared_) {
    if (shared.address == address) return shared.owner;
  }
  return nullptr;
}

Value RecordingEvaluator::endScope(Index first, const Value& result) {
  if (result.variable() < first) return result;
  const Variable kept = take(result);
  variables_.resize(static_cast<size_t>(first));
  return value(kept);
}

Value RecordingEvaluator::linear(const Linear& layer, const Value& x, const Value* residual, bool consumes_x) {
  const Variable y = train::linear(graph_, layer, consumes_x ? take(x) : variable(x));
  return value(residual ? train::add(graph_, take(*residual), y) : y);
}

Value RecordingEvaluator::product(const Linear& layer, const Value& x) {
  return value(train::product(graph_, layer, variable(x)));
}

void RecordingEvaluator::linears(std::span<const Linear* const> layers, const Value& x, Value* results) {
  for (const Variable& y : linearsOf(graph_, layers, variable(x))) *results++ = value(y);
}

Value RecordingEvaluator::normalize(const LayerNorm& norm, const Value& x, bool in_place) {
  return value(layerNorm(graph_, norm, in_place ? take(x) : variable(x)));
}

Value RecordingEvaluator::scaleColumns(const LayerScale& layer, const Value& x) {
  return value(train::scaleColumns(graph_, layer, take(x)));
}

Value RecordingEvaluator::batchNormalize(BatchNorm& norm, const Value& x) {
  return value(batchNorm(graph_, norm, variable(x)));
}

Value RecordingEvaluator::encodePositions(const PositionalEncoding& encoding, const Value& x,
                                          const Sequences& sequences) {
  return value(positionalEncoding(graph_, encoding, variable(x), sequences));
}

Value RecordingEvaluator::dropout(Dropout& layer, const Value& x, Index first_column) {
  if (!layer.active()) return x;
  const auto& [p, scaling] = layer.options();
  return value(train::dropout(graph_, take(x), p, scaling, layer.nextKey(), first_column));
}

Value RecordingEvaluator::lookUp(std::span<const TableRows> tables, Index width) {
  return value(train::lookUp(graph_, tables, width));
}

Value RecordingEvaluator::attention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                                    float* weights) {
  const auto variable_of = [&](const Value& v) { return v.variable() < 0 ? Variable() : variable(v); };
  AttentionVariables variables;
  variables.query = variable(input.query);
  variables.key = variable(input.key);
  variables.value = variable(input.value);
  variables.head_mask = variable_of(options.head_mask);
  variables.bias = variable_of(options.bias);
  if (options.positions) {
    variables.position_key = variable_of(options.positions->key);
    variables.position_query = variable_of(options.positions->query);
  }
  for (const MaskTensor& mask : options.masks) {
    variables.masks.push_back(variable_of(mask.added));
    variables.shared.push_back(ownerOf(mask.data));
  }
  RecordedSites* const touched = touches(Site::kScores) || touches(Site::kWeights) ? sites_ : nullptr;
  return value(
      recordAttention(graph_, std::move(variables), input.queries, input.keys, num_heads, options, weights, touched));
}

Value RecordingEvaluator::activate(const Value& x, Activation activation) {
  return value(train::activate(graph_, take(x), activation));
}

Value RecordingEvaluator::gate(const Value& x, Activation activation, bool second) {
  return value(train::gate(graph_, take(x), activation, second));
}

Value RecordingEvaluator::add(const Value& a, const Value& b) { return value(train::add(graph_, take(a), take(b))); }

Value RecordingEvaluator::scale(const Value& x, float factor) { return value(train::scale(graph_, take(x), factor)); }

Value RecordingEvaluator::addColumns(const Value& x, const Value& part, Index first) {
  return value(train::addColumns(graph_, take(x), take(part), first));
}

Value RecordingEvaluator::rotate(const Rotary& rotary, const Value& x, const Sequences& sequences, Index num_heads,
                                 Index first_position) {
  // The aliasing constructor shares ownership with the owner, if there is one.
  const std::shared_ptr<const Rotary> tables(ownerOf(&rotary), &rotary);
  return value(train::rotate(graph_, tables, take(x), sequences, num_heads, first_position));
}

Value RecordingEvaluator::gatherWindows(const Value& x, const Sequences& sequences, Index width) {
  return value(train::gatherWindows(graph_, variable(x), sequences, width));
}

Value RecordingEvaluator::transpose(const Value& x) { return value(train::transpose(graph_, variable(x))); }

Value RecordingEvaluator::concatenateRows(const Value& a, const Value& b) {
  return value(train::concatenateRows(graph_, variable(a), variable(b)));
}

Value RecordingEvaluator::row(const Value& x, Index i, Index columns) {
  return value(sliceColumns(graph_, gatherRows(graph_, variable(x), {i}), 0, columns));
}

}  // namespace heed::train
