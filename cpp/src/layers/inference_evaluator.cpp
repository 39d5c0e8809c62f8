#include "heed/inference_evaluator.h"

#include "core/check.h"
#include "core/row_parts.h"
#include "gemm/gemm.h"
#include "heed/linear.h"
#include "heed/norm.h"
#include "heed/positional_encoding.h"
#include "ops/softmax.h"
#include "ops/windows.h"

namespace heed {

Value InferenceEvaluator::linear(const Linear& layer, const Value& x, const Value* residual, bool) {
  const LinearOptions& o = layer.options();
  requireColumns("x", x.values(), o.in_features);
  Epilogue epilogue{.bias = layer.bias(), .activation = o.activation};
  if (residual) {
    requireShape("residual", residual->values(), x.rows(), o.out_features);
    epilogue.residual = residual->data();
    epilogue.residual_stride = residual->view().outerStride();
  }
  const Value output = residual ? *residual : matrix(x.rows(), o.out_features);
  matmul(x.values(), layer.weight(), epilogue, output.view(), context());
  return output;
}

Value InferenceEvaluator::product(const Linear& layer, const Value& x) {
  requireColumns("x", x.values(), layer.options().in_features);
  const MatrixView output = matrix(x.rows(), layer.options().out_features);
  matmul(x.values(), layer.weight(), {.bias = layer.bias()}, output, context());
  return output;
}

void InferenceEvaluator::linears(std::span<const Linear* const> layers, const Value& x, Value* results) {
  auto* products = context().arena.take<Product>(static_cast<Index>(layers.size()));
  for (size_t i = 0; i < layers.size(); ++i) {
    const Linear& layer = *layers[i];
    requireColumns("x", x.values(), layer.options().in_features);
    const MatrixView output = matrix(x.rows(), layer.options().out_features);
    const Epilogue epilogue{.bias = layer.bias(), .activation = layer.options().activation};
    new (&products[i]) Product{&layer.weight(), epilogue, output};
    results[i] = output;
  }
  matmul(x.values(), {products, layers.size()}, context());
}

Value InferenceEvaluator::normalize(const LayerNorm& norm, const Value& x, bool in_place) {
  const Index width = norm.options().normalized_shape;
  if (x.cols() % width != 0) requireColumns("x", x.values(), width);
  MatrixView from = x.view(), to = in_place ? from : matrix(x.rows(), x.cols());
  forRowParts(from.rows(), from.cols(), context(), [&](Index begin, Index end) {
    for (Index first = 0; first < from.cols(); first += width) {
      const auto part = [&](MatrixView& m) {
        return view(m.data() + begin * m.outerStride() + first, end - begin, width, m.outerStride());
      };
      norm.forward(readOnly(part(from)), part(to));
    }
  });
  return to;
}

Value InferenceEvaluator::scaleColumns(const LayerScale& layer, const Value& x) {
  layer.forward(x.values(), x.view());
  return x;
}

Value InferenceEvaluator::batchNormalize(BatchNorm& norm, const Value& x) {
  const MatrixView output = matrix(x.rows(), x.cols());
  norm.forward(x.values(), output);
  return output;
}

Value InferenceEvaluator::encodePositions(const PositionalEncoding& encoding, const Value& x,
                                          const Sequences& sequences) {
  const MatrixView output = matrix(x.rows(), encoding.outputWidth(x.cols()));
  encoding.forward(x.values(), sequences, output);
  return output;
}

Value InferenceEvaluator::dropout(const Value& x, const DropoutOptions& options, const DropoutKey& key,
                                  Index first_column) {
  heed::dropout(x.values(), options, key, x.view(), context().random.first_row, first_column);
  return x;
}

Value InferenceEvaluator::lookUp(std::span<const TableRows> tables, Index width) {
  const MatrixView sum = matrix(static_cast<Index>(tables.front().rows.size()), width);
  heed::lookUp(tables, sum);
  return sum;
}

Value InferenceEvaluator::linear(const Value& x, const Value& weight, const Value& bias, Activation activation) {
  const MatrixView output = matrix(x.rows(), weight.rows());
  heed::linear(x.values(), weight.values(), bias.data(), activation, output, context());
  return output;
}

Value InferenceEvaluator::layerNorm(const Value& x, const Value& weight, const Value& bias, float eps) {
  heed::layerNorm(x.values(), weight.data(), bias.data(), eps, x.view());
  return x;
}

Value InferenceEvaluator::softmax(const Value& x) {
  MatrixView rows = x.view();
  for (Index t = 0; t < rows.rows(); ++t) softmaxRow(rows.data() + t * rows.outerStride(), rows.cols());
  return x;
}

Value InferenceEvaluator::attention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                                    float* weights) {
  const Index key_heads = options.keyHeads(num_heads);
  const MatrixView output = matrix(input.query.rows(), input.value.cols() / key_heads * num_heads);
  const bool touched = touches(Site::kScores) || touches(Site::kWeights);
  if (touched && !weights) weights = context().arena.take(attentionWeightsSize(num_heads, input.queries, input.keys));
  heed::attention(input, num_heads, options, {output, weights}, context());
  if (touched) sites()->atAttention(input, num_heads, options, {output, weights}, context());
  return output;
}

Value InferenceEvaluator::activate(const Value& x, Activation activation) {
  heed::activate(x.view(), activation);
  return x;
}

Value InferenceEvaluator::gate(const Value& x, Activation activation, bool second) {
  const Index width = x.cols() / 2;
  MatrixView all = x.view();
  forRowParts(all.rows(), width, context(), [&](Index begin, Index end) {
    MatrixView left = view(all.data() + begin * all.outerStride(), end - begin, width, all.outerStride());
    MatrixView right = view(left.data() + width, left.rows(), width, left.outerStride());
    heed::activate(second ? right : left, activation);
    left.array() *= right.array();
  });
  return view(all.data(), all.rows(), width, all.outerStride());
}

Value InferenceEvaluator::add(const Value& a, const Value& b) {
  a.view() += b.values();
  return a;
}

Value InferenceEvaluator::multiply(const Value& a, const Value& b) {
  a.view().array() *= b.values().array();
  return a;
}

Value InferenceEvaluator::scale(const Value& x, float factor) {
  x.view() *= factor;
  return x;
}

Value InferenceEvaluator::addColumns(const Value& x, const Value& part, Index first) {
  x.view().middleCols(first, part.cols()) += part.values();
  return x;
}

Value InferenceEvaluator::rotate(const Rotary& rotary, const Value& x, const Sequences& sequences, Index num_heads,
                                 Index first_position) {
  const MatrixView all = x.view();
  for (Index n = 0; n < sequences.count(); ++n)
    rotary.rotate(rowsOf(all, sequences.begin(n), sequences.end(n)), num_heads, first_position);
  return x;
}

Value InferenceEvaluator::gatherWindows(const Value& x, const Sequences& sequences, const Windows& windows) {
  const MatrixView gathered = matrix(windowSequences(windows, sequences).totalRows(), x.cols() * windows.width);
  heed::gatherWindows(x.values(), sequences, windows, gathered);
  return gathered;
}

Value InferenceEvaluator::transpose(const Value& x) {
  MatrixView result = matrix(x.cols(), x.rows());
  result = x.values().transpose();
  return result;
}

Value InferenceEvaluator::concatenateRows(std::span<const Value> parts) {
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

Value InferenceEvaluator::columns(const Value& x, Index first, Index count) {
  MatrixView result = matrix(x.rows(), count);
  result = x.values().middleCols(first, count);
  return result;
}

Value InferenceEvaluator::row(const Value& x, Index i, Index columns) {
  MatrixView all = x.view();
  return view(all.row(i).data(), 1, columns);
}

Value InferenceEvaluator::gatherRows(const Value& x, std::vector<Index> indices) {
  MatrixView result = matrix(static_cast<Index>(indices.size()), x.cols());
  for (size_t t = 0; t < indices.size(); ++t) result.row(static_cast<Index>(t)) = x.values().row(indices[t]);
  return result;
}

Value InferenceEvaluator::copy(const Value& x) {
  MatrixView result = matrix(x.rows(), x.cols());
  result = x.values();
  return result;
}

}  // namespace heed
