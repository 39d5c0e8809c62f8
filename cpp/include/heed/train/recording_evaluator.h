#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "heed/evaluator.h"
#include "heed/train/ops.h"
#include "heed/train/sites.h"

namespace heed::train {

/// Computes the same results as InferenceEvaluator, bit for bit, and records the operations in a graph. The graph must
/// not outlive the modules, their parameters, or Rotary tables and masks that were not passed to share().
class RecordingEvaluator final : public Evaluator {
 public:
  explicit RecordingEvaluator(Graph& graph) : Evaluator(graph.context()), graph_(graph) {}

  Graph& graph() const { return graph_; }
  /// As Evaluator::setSites(). Reads and edits are recorded, too.
  void setSites(RecordedSites* sites) {
    Evaluator::setSites(sites);
    sites_ = sites;
  }
  /// The value of a variable; empty if the variable is.
  Value value(const Variable& variable);
  /// The variable of a value. If the value is not recorded, returns a new leaf with a copy of the matrix. Throws
  /// kInvalidArgument for a consumed value.
  Variable variable(const Value& value) const;
  /// Consumes a value and returns its variable, as variable() does. The matrix is freed when nothing else needs it.
  Variable take(const Value& value);

  Value linear(const Linear& layer, const Value& x, const Value* residual, bool consumes_x) override;
  Value product(const Linear& layer, const Value& x) override;
  void linears(std::span<const Linear* const> layers, const Value& x, Value* results) override;
  Value normalize(const LayerNorm& norm, const Value& x, bool in_place) override {
    return value(train::layerNorm(graph_, norm, in_place ? take(x) : variable(x)));
  }
  Value scaleColumns(const LayerScale& layer, const Value& x) override {
    return value(train::scaleColumns(graph_, layer, take(x)));
  }
  Value batchNormalize(BatchNorm& norm, const Value& x) override {
    return value(train::batchNorm(graph_, norm, variable(x)));
  }
  Value encodePositions(const PositionalEncoding& encoding, const Value& x, const Sequences& sequences) override {
    return value(train::positionalEncoding(graph_, encoding, variable(x), sequences));
  }
  Value dropout(const Value& x, const DropoutOptions& options, const DropoutKey& key, Index first_column) override {
    return value(train::dropout(graph_, take(x), options, key, first_column));
  }
  Value lookUp(std::span<const TableRows> tables, Index width) override {
    return value(train::lookUp(graph_, tables, width));
  }
  Value linear(const Value& x, const Value& weight, const Value& bias, Activation activation) override {
    return value(train::linear(graph_, variable(x), variable(weight), variable(bias), activation));
  }
  Value layerNorm(const Value& x, const Value& weight, const Value& bias, float eps) override {
    return value(train::layerNorm(graph_, take(x), variable(weight), variable(bias), eps));
  }
  Value softmax(const Value& x) override { return value(train::softmax(graph_, take(x))); }
  Value attention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                  float* weights) override;
  Value activate(const Value& x, Activation activation) override {
    return value(train::activate(graph_, take(x), activation));
  }
  Value gate(const Value& x, Activation activation, bool second) override {
    return value(train::gate(graph_, take(x), activation, second));
  }
  Value add(const Value& a, const Value& b) override { return value(train::add(graph_, take(a), take(b))); }
  Value multiply(const Value& a, const Value& b) override {
    return value(train::multiply(graph_, take(a), variable(b)));
  }
  Value scale(const Value& x, float factor) override { return value(train::scale(graph_, take(x), factor)); }
  Value addColumns(const Value& x, const Value& part, Index first) override {
    return value(train::addColumns(graph_, take(x), take(part), first));
  }
  Value rotate(const Rotary& rotary, const Value& x, const Sequences& sequences, Index num_heads,
               Index first_position) override;
  Value gatherWindows(const Value& x, const Sequences& sequences, const Windows& windows) override {
    return value(train::gatherWindows(graph_, variable(x), sequences, windows));
  }
  Value transpose(const Value& x) override { return value(train::transpose(graph_, variable(x))); }
  Value concatenateRows(std::span<const Value> parts) override;
  Value columns(const Value& x, Index first, Index count) override {
    return value(sliceColumns(graph_, variable(x), first, count));
  }
  Value row(const Value& x, Index i, Index columns) override {
    return value(sliceColumns(graph_, train::gatherRows(graph_, variable(x), {i}), 0, columns));
  }
  Value gatherRows(const Value& x, std::vector<Index> indices) override {
    return value(train::gatherRows(graph_, variable(x), std::move(indices)));
  }
  Value reshape(const Value& x, Index rows, Index columns) override {
    return value(train::reshape(graph_, variable(x), rows, columns));
  }
  Value copy(const Value& x) override { return value(variable(x)); }
  Value unwritten(Index, Index) override { return {}; }
  void share(std::shared_ptr<const void> argument) override {
    if (argument) shared_.push_back(std::move(argument));
  }
  void release(const Value& x) override { (void)take(x); }
  bool keepsValues() const override { return false; }

 private:
  Index beginScope() override { return static_cast<Index>(variables_.size()); }
  Value endScope(Index first, const Value& result) override;
  Value visit(Site site, const Value& x, Index heads) override {
    return value(sites_->visit(graph_, site, take(x), heads));
  }
  /// The index of a recorded value in variables_.
  size_t placeOf(const Value& value) const;
  /// The argument at an address that was passed to share(); null if there is none.
  std::shared_ptr<const void> ownerOf(const void* address) const;

  Graph& graph_;
  RecordedSites* sites_ = nullptr;
  std::vector<Variable> variables_;  // indexed by Value::variable()
  std::vector<std::shared_ptr<const void>> shared_;
};

}  // namespace heed::train
