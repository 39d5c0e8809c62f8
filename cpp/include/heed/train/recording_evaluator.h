#pragma once

#include <memory>
#include <vector>

#include "heed/evaluator.h"
#include "heed/train/graph.h"
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
  /// Keeps an argument of operations, such as Rotary tables or a mask's bytes, alive while the graph needs it. Returns
  /// its address.
  template <class T>
  T* share(std::shared_ptr<T> argument) {
    T* address = argument.get();
    if (address) shared_.push_back({address, std::move(argument)});
    return address;
  }

  Value linear(const Linear& layer, const Value& x, const Value* residual, bool consumes_x) override;
  Value product(const Linear& layer, const Value& x) override;
  void linears(std::span<const Linear* const> layers, const Value& x, Value* results) override;
  Value normalize(const LayerNorm& norm, const Value& x, bool in_place) override;
  Value scaleColumns(const LayerScale& layer, const Value& x) override;
  Value batchNormalize(BatchNorm& norm, const Value& x) override;
  Value encodePositions(const PositionalEncoding& encoding, const Value& x, const Sequences& sequences) override;
  Value dropout(Dropout& layer, const Value& x, Index first_column) override;
  Value lookUp(std::span<const TableRows> tables, Index width) override;
  Value attention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                  float* weights) override;
  Value activate(const Value& x, Activation activation) override;
  Value gate(const Value& x, Activation activation, bool second) override;
  Value add(const Value& a, const Value& b) override;
  Value scale(const Value& x, float factor) override;
  Value addColumns(const Value& x, const Value& part, Index first) override;
  Value rotate(const Rotary& rotary, const Value& x, const Sequences& sequences, Index num_heads,
               Index first_position) override;
  Value gatherWindows(const Value& x, const Sequences& sequences, Index width) override;
  Value transpose(const Value& x) override;
  Value concatenateRows(const Value& a, const Value& b) override;
  Value row(const Value& x, Index i, Index columns) override;
  Value copy(const Value& x) override { return value(variable(x)); }
  void release(const Value& x) override { (void)take(x); }
  bool keepsValues() const override { return false; }

 private:
  struct Shared {
    const void* address;
    std::shared_ptr<const void> owner;
  };
  Index beginScope() override { return static_cast<Index>(variables_.size()); }
  Value endScope(Index first, const Value& result) override;
  Value visit(Site site, const Value& x, Index heads) override {
    return value(sites_->visit(graph_, site, take(x), heads));
  }
  /// The index of a recorded value in variables_.
  size_t placeOf(const Value& value) const;
  /// The owner of an argument that was passed to share(), by its address; null if there is none.
  std::shared_ptr<const void> ownerOf(const void* address) const;

  Graph& graph_;
  RecordedSites* sites_ = nullptr;
  std::vector<Variable> variables_;  // indexed by Value::variable()
  std::vector<Shared> shared_;
};

}  // namespace heed::train
