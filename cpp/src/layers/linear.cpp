#include "heed/linear.h"

#include <algorithm>

#include "core/check.h"
#include "gemm/gemm.h"
#include "gemm/weights/float32.h"
#include "heed/evaluator.h"

namespace heed {
namespace {

LinearOptions checked(const LinearOptions& options) {
  requireAtLeast("inFeatures", options.in_features, 1);
  requireAtLeast("outFeatures", options.out_features, 1);
  requireRoom("weight", {options.out_features, options.in_features});
  if (options.precision == Precision::kInt8 && options.in_features > kMaxInt8Inputs) {
    throwInvalid(ErrorCode::kUnsupported, "inFeatures",
                 "at most " + std::to_string(kMaxInt8Inputs) + " in int8 (sums of products must fit into 32 bits)",
                 std::to_string(options.in_features));
  }
  return options;
}

}  // namespace

Value LinearDecorator::finish(Evaluator& e, const Linear& layer, const Value& y, const Value& x, const Value* residual,
                              bool consumes_x) {
  if (consumes_x) e.release(x);
  const Value activated = e.activate(y, layer.options().activation);
  return residual ? e.add(*residual, activated) : activated;
}

Linear::Linear(const LinearOptions& options)
    : options_(checked(options)),
      weight_(PackedWeight::create(options.out_features, options.in_features, options.precision, options.lookup)),
      bias_(options.bias ? static_cast<size_t>(options.out_features) : 0) {}

Linear::~Linear() = default;
Linear::Linear(Linear&&) noexcept = default;
Linear& Linear::operator=(Linear&&) noexcept = default;

Value Linear::forward(Evaluator& e, const Value& x, const Value* residual, bool consumes_x) const {
  return decorator_ ? decorator_->forward(e, *this, x, residual, consumes_x) : e.linear(*this, x, residual, consumes_x);
}

void forwardAll(Evaluator& e, std::span<const Linear* const> layers, const Value& x, Value* results) {
  if (std::ranges::all_of(layers, [](const Linear* layer) { return layer->decorator() == nullptr; }))
    return e.linears(layers, x, results);
  for (const Linear* layer : layers) *results++ = layer->forward(e, x);
}

std::vector<Parameter> Linear::ownParameters() {
  const InitialValue initial = InitialValue::linear(options_.in_features);
  std::vector<Parameter> own = {{"weight",
                                 {options_.out_features, options_.in_features},
                                 ParameterKind::kWeight,
                                 initial,
                                 {{options_.out_features, nullptr, weight_.get()}}}};
  if (options_.bias)
    own.push_back(plainParameter("bias", {options_.out_features}, bias_.data(), ParameterKind::kBias, initial));
  return own;
}

void linear(ConstMatrixView x, ConstMatrixView weight, const float* bias, Activation activation, MatrixView output,
            Context& context) {
  requireColumns("weight", weight, x.cols());
  requireShape("output", readOnly(output), x.rows(), weight.rows());
  Float32Weight packed(weight.rows(), weight.cols());
  // Adjacent rows are written by one call, which interleaves the rows of a panel four at a time.
  const Index step = weight.outerStride() == weight.cols() ? weight.rows() : 1;
  for (Index row = 0; row < weight.rows(); row += step)
    packed.write(row, step, weight.data() + row * weight.outerStride());
  matmul(x, packed, {.bias = bias, .activation = activation}, output, context);
}

}  // namespace heed
