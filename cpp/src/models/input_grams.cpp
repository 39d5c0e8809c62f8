#include "models/input_grams.h"

#include <algorithm>

#include "core/check.h"
#include "gemm/weights/packed_weight.h"
#include "heed/evaluator.h"
#include "heed/linear.h"

namespace heed {

class InputGrams::Recorder final : public LinearDecorator {
 public:
  explicit Recorder(Linear& layer) : layer_(layer) {
    const Index width = layer.options().in_features;
    allocate("X^T X", {width, width}, gram_);
    layer.setDecorator(this);
  }
  ~Recorder() { layer_.setDecorator(nullptr); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  Value forward(Evaluator& e, const Linear& layer, const Value& x, const Value* residual,
                bool consumes_x) const override {
    add(x.values(), e.context());
    return e.linear(layer, x, residual, consumes_x);
  }

  std::span<const float> gram() const { return gram_; }

 private:
  void add(ConstMatrixView x, Context& context) const {
    const Arena::Scope scope(context.arena);
    MatrixView transposed = context.arena.matrix(x.cols(), x.rows());
    transposed = x.transpose();
    MatrixView product = context.arena.matrix(x.cols(), x.cols());
    linear(readOnly(transposed), readOnly(transposed), nullptr, Activation::kIdentity, product, context);
    for (Index i = 0; i < product.rows(); ++i) {
      const float* from = product.data() + i * product.outerStride();
      float* to = gram_.data() + i * product.cols();
      for (Index j = 0; j < product.cols(); ++j) to[j] += from[j];
    }
  }

  Linear& layer_;
  mutable std::vector<float> gram_;  // (K, K); LinearDecorator::forward() is const
};

InputGrams::InputGrams(EncoderModel& model, std::span<const Parameter> weights) {
  const std::vector<Linear*> layers = model.linears();
  for (const Parameter& weight : weights) {
    const auto layer = std::ranges::find_if(layers, [&](const Linear* each) {
      return static_cast<const RowStorage*>(&each->weight()) == weight.parts.front().key();
    });
    if (layer == layers.end())
      throwInvalid(ErrorCode::kInvalidArgument, "parameter", "the weight of a linear layer", weight.name);
    recorders_.push_back(std::make_unique<Recorder>(**layer));
  }
}

InputGrams::~InputGrams() = default;

std::span<const float> InputGrams::gram(Index i) const { return recorders_[static_cast<size_t>(i)]->gram(); }

}  // namespace heed
