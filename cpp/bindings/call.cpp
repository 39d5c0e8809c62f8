#include "call.h"

#include "heed/linear.h"
#include "heed/norm.h"
#include "ops/softmax.h"

namespace heed::bindings {

std::optional<Argument> InferenceCall::tensor(const char* name) {
  const auto input = readOptionalTensor(arguments()[name]);
  if (!input) return std::nullopt;
  const Shape& shape = input->shape;
  return Argument{shape, view(input->data, rowsOf(shape), columnsOf(shape)), input->data};
}

void InferenceCall::useSites(const Sequences& queries, const Sequences& keys) {
  sites_ = readSites(arguments()["sites"], queries, keys);
  computing_.setSites(sites_.get());
}

Value InferenceCall::softmax(const Value& x) {
  MatrixView rows = x.view();
  for (Index row = 0; row < rows.rows(); ++row) softmaxRow(rows.data() + row * rows.cols(), rows.cols());
  return x;
}

Value InferenceCall::linear(const Value& x, const Value& weight, const Value& bias, Activation activation) {
  const MatrixView output = arena().matrix(x.rows(), weight.rows());
  heed::linear(x.values(), weight.values(), bias.data(), activation, output, context());
  return output;
}

Value InferenceCall::layerNorm(const Value& x, const Value& weight, const Value& bias, float eps) {
  heed::layerNorm(x.values(), weight.data(), bias.data(), eps, x.view());
  return x;
}

Value InferenceCall::dropout(const Value& x, float p, DropoutScaling scaling, const DropoutKey& key) {
  heed::dropout(x.values(), p, scaling, key, x.view());
  return x;
}

Value InferenceCall::attention(const BatchedAttention& attention, const Argument& query, const Argument& key,
                               const Argument& value, AttentionOptions options, std::optional<MaskTensor> mask,
                               float* weights) {
  if (mask) options.masks = {&*mask, 1};
  const Shape& shape = attention.outputShape();
  MatrixView output = arena().matrix(rowsOf(shape), columnsOf(shape));
  attention.forward(query.value.data(), key.value.data(), value.value.data(), options, output.data(), weights,
                    context());
  return output;
}

float* weightsFor(const Call& call, const Shape& shape) {
  return readBool(call.arguments(), "returnWeights") ? arena().take<float>(shape.size()) : nullptr;
}

}  // namespace heed::bindings
