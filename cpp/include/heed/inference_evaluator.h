#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "heed/evaluator.h"

namespace heed {

/// Computes in the arena of a context. Products include their bias, activation and residual, and operations that
/// consume an argument write to its memory.
class InferenceEvaluator final : public Evaluator {
 public:
  /// `sites` as in setSites().
  explicit InferenceEvaluator(Context& context, Sites* sites = nullptr) : Evaluator(context) { setSites(sites); }

  Value linear(const Linear& layer, const Value& x, const Value* residual, bool consumes_x) override;
  Value product(const Linear& layer, const Value& x) override;
  void linears(std::span<const Linear* const> layers, const Value& x, Value* results) override;
  Value normalize(const LayerNorm& norm, const Value& x, bool in_place) override;
  Value scaleColumns(const LayerScale& layer, const Value& x) override;
  Value batchNormalize(BatchNorm& norm, const Value& x) override;
  Value encodePositions(const PositionalEncoding& encoding, const Value& x, const Sequences& sequences) override;
  Value dropout(const Value& x, const DropoutOptions& options, const DropoutKey& key, Index first_column) override;
  Value lookUp(std::span<const TableRows> tables, Index width) override;
  Value linear(const Value& x, const Value& weight, const Value& bias, Activation activation) override;
  Value layerNorm(const Value& x, const Value& weight, const Value& bias, float eps) override;
  Value softmax(const Value& x) override;
  Value attention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                  float* weights) override;
  Value activate(const Value& x, Activation activation) override;
  Value gate(const Value& x, Activation activation, bool second) override;
  Value add(const Value& a, const Value& b) override;
  Value multiply(const Value& a, const Value& b) override;
  Value scale(const Value& x, float factor) override;
  Value addColumns(const Value& x, const Value& part, Index first) override;
  Value rotate(const Rotary& rotary, const Value& x, const Sequences& sequences, Index num_heads,
               Index first_position) override;
  Value gatherWindows(const Value& x, const Sequences& sequences, const Windows& windows) override;
  Value transpose(const Value& x) override;
  Value concatenateRows(std::span<const Value> parts) override;
  Value columns(const Value& x, Index first, Index count) override;
  Value row(const Value& x, Index i, Index columns) override;
  Value gatherRows(const Value& x, std::vector<Index> indices) override;
  Value reshape(const Value& x, Index rows, Index columns) override { return view(x.view().data(), rows, columns); }
  Value copy(const Value& x) override;
  void share(std::shared_ptr<const void> argument) override { shared_.push_back(std::move(argument)); }
  void release(const Value&) override {}
  bool keepsValues() const override { return true; }

 private:
  Index beginScope() override { return 0; }
  Value endScope(Index, const Value& result) override { return result; }
  Value visit(Site site, const Value& x, Index heads) override {
    sites()->at(site, x.view(), heads);
    return x;
  }
  MatrixView matrix(Index rows, Index columns) const { return context().arena.matrix(rows, columns); }

  std::vector<std::shared_ptr<const void>> shared_;
};

}  // namespace heed
