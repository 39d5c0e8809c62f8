#include "heed/inference_evaluator.h"

#include "core/check.h"
#include "gemm/gemm.h"
#include "heed/linear.h"
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

Value InferenceEvaluator::linear(const Value& x, const Value& weight, const Value& bias, Activation activation) {
  const MatrixView output = matrix(x.rows(), weight.rows());
  heed::linear(x.values(), weight.values(), bias.data(), activation, output, context());
  return output;
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
  if (touched) {
    sites()->atAttention(input, num_heads, options, {output, weights}, context());
  } else {
    heed::attention(input, num_heads, options, {output, weights}, context());
  }
  return output;
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

}  // namespace heed
