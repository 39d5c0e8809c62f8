#include "heed/train/recording_evaluator.h"

#include <array>

#include "core/check.h"
#include "heed/linear.h"
#include "heed/train/ops.h"
#include "ops/attention_backward.h"

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
    throwInvalid(ErrorCode::kInvalidArgument, "value", "a value that no operation has consumed", "a consumed value");
  return place;
}

std::shared_ptr<const void> RecordingEvaluator::ownerOf(const void* address) const {
  for (const std::shared_ptr<const void>& shared : shared_) {
    if (shared.get() == address) return shared;
  }
  return nullptr;
}

Value RecordingEvaluator::endScope(Index first, const Value& result) {
  if (result.variable() < first) return result;
  const Variable taken = take(result);
  variables_.resize(static_cast<size_t>(first));
  return value(taken);
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

Value RecordingEvaluator::concatenateRows(std::span<const Value> parts) {
  std::vector<Variable> variables;
  for (const Value& part : parts) variables.push_back(variable(part));
  return value(train::concatenateRows(graph_, variables));
}

Value RecordingEvaluator::rotate(const Rotary& rotary, const Value& x, const Sequences& sequences, Index num_heads,
                                 Index first_position) {
  // The aliasing constructor shares ownership with the owner, if there is one.
  const std::shared_ptr<const Rotary> tables(ownerOf(&rotary), &rotary);
  return value(train::rotate(graph_, tables, take(x), sequences, num_heads, first_position));
}

}  // namespace heed::train
