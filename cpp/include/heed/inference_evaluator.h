#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "heed/evaluator.h"
#include "heed/norm.h"
#include "heed/positional_encoding.h"

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
  Value scaleColumns(const LayerScale& layer, const Value& x) override {
    layer.forward(x.values(), x.view());
    return x;
  }
  Value batchNormalize(BatchNorm& norm, const Value& x) override {
    const MatrixView output = matrix(x.rows(), x.cols());
    norm.forward(x.values(), output);
    return output;
  }
  Value encodePositions(const PositionalEncoding& encoding, const Value& x, const Sequences& sequences) override {
    const MatrixView output = matrix(x.rows(), encoding.outputWidth(x.cols()));
    encoding.forward(x.values(), sequences, output);
    return output;
  }
  Value dropout(const Value& x, const DropoutOptions& options, const DropoutKey& key, Index first_column) override {
    heed::dropout(x.values(), options, key, x.view(), context().random.first_row, first_column);
    return x;
  }
  Value lookUp(std::span<const TableRows> tables, Index width) override {
    const MatrixView sum = matrix(static_cast<Index>(tables.front().rows.size()), width);
    heed::lookUp(tables, sum);
    return sum;
  }
  Value linear(const Value& x, const Value& weight, const Value& bias, Activation activation) override;
  Value layerNorm(const Value& x, const Value& weight, const Value& bias, float eps) override {
    heed::layerNorm(x.values(), weight.data(), bias.data(), eps, x.view());
    return x;
  }
  Value softmax(const Value& x) override;
  Value attention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                  float* weights) override;
  Value activate(const Value& x, Activation activation) override {
    heed::activate(x.view(), activation);
    return x;
  }
  Value gate(const Value& x, Activation activation, bool second) override;
  Value add(const Value& a, const Value& b) override {
    a.view() += b.values();
    return a;
  }
  Value multiply(const Value& a, const Value& b) override {
    a.view().array() *= b.values().array();
    return a;
  }
  Value scale(const Value& x, float factor) override {
    x.view() *= factor;
    return x;
  }
  Value addColumns(const Value& x, const Value& part, Index first) override {
    x.view().middleCols(first, part.cols()) += part.values();
    return x;
  }
  Value rotate(const Rotary& rotary, const Value& x, const Sequences& sequences, Index num_heads,
               Index first_position) override;
  Value gatherWindows(const Value& x, const Sequences& sequences, const Windows& windows) override;
  Value transpose(const Value& x) override {
    MatrixView result = matrix(x.cols(), x.rows());
    result = x.values().transpose();
    return result;
  }
  Value concatenateRows(std::span<const Value> parts) override {
    Index rows = 0;
    for (const Value& part : parts) rows += part.rows();
    MatrixView result = matrix(rows, parts[0].cols());
    Index first = 0;
    for (const Value& part : parts) {
      result.middleRows(first, part.rows()) = part.values();
      first += part.rows();
    }
    return result;
  }
  Value columns(const Value& x, Index first, Index count) override {
    MatrixView result = matrix(x.rows(), count);
    result = x.values().middleCols(first, count);
    return result;
  }
  Value row(const Value& x, Index i, Index columns) override {
    MatrixView all = x.view();
    return view(all.row(i).data(), 1, columns);
  }
  Value gatherRows(const Value& x, std::vector<Index> indices) override {
    MatrixView result = matrix(static_cast<Index>(indices.size()), x.cols());
    for (size_t t = 0; t < indices.size(); ++t) result.row(static_cast<Index>(t)) = x.values().row(indices[t]);
    return result;
  }
  Value reshape(const Value& x, Index rows, Index columns) override { return view(x.view().data(), rows, columns); }
  Value copy(const Value& x) override {
    MatrixView result = matrix(x.rows(), x.cols());
    result = x.values();
    return result;
  }
  Value unwritten(Index rows, Index columns) override { return matrix(rows, columns); }
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
