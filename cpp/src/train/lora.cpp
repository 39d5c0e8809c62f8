/// LoRA adapters: y = phi(x W^T + b + scale dropout(x) A^T B^T). There is no backward pass here: LowRankLinear calls
/// operations of an Evaluator, and each operation is recorded with its gradient.
#include "heed/train/lora.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "gemm/weights/packed_weight.h"
#include "heed/evaluator.h"
#include "heed/train/encoder_model.h"

namespace heed::train {
namespace {

const void* keyOf(const Linear& layer) { return static_cast<const RowStorage*>(&layer.weight()); }

}  // namespace

/// The adapter of one target. A module of a checkpoint may correspond to several layers of the model, or to a part of
/// one. B has one part for each of these layers.
struct Lora::Update {
  struct Part {
    const void* key;  // the layer's weight
    Index first;      // the first of the layer's output features to which the part adds
    Linear b;
  };
  LoraTarget target;
  Linear a;
  Dropout dropout;
  std::vector<Part> parts;

  Update(const LoraTarget& to, const LoraOptions& options)
      : target(to),
        a({.in_features = to.weight.rowSize(), .out_features = options.rank, .bias = false}),
        dropout({.p = options.dropout}) {
    for (const Parameter::Part& part : to.weight.parts) {
      parts.push_back(
          {part.key(), part.first, Linear({.in_features = options.rank, .out_features = part.rows, .bias = false})});
    }
  }
};

/// A linear layer with its adapters, which are added before phi.
class Lora::LowRankLinear final : public LinearDecorator {
 public:
  LowRankLinear(Linear& layer, float scale) : layer_(layer), scale_(scale) { layer.setDecorator(this); }
  ~LowRankLinear() { layer_.setDecorator(nullptr); }
  LowRankLinear(const LowRankLinear&) = delete;
  LowRankLinear& operator=(const LowRankLinear&) = delete;

  const void* key() const { return keyOf(layer_); }
  void add(Update& update, const Update::Part& part) { parts_.push_back({update, part}); }

  Value forward(Evaluator& e, const Linear& layer, const Value& x, const Value* residual,
                bool consumes_x) const override {
    Value y = e.product(layer, x);
    for (const auto& [update, part] : parts_) {
      const bool draws = update.dropout.active();
      const Value in = draws ? inputOf(e, update, part, x) : x;
      const Value hidden = e.scale(update.a.forward(e, in, nullptr, draws), scale_);
      y = e.addColumns(y, part.b.forward(e, hidden, nullptr, true), part.first);
    }
    return finish(e, layer, y, x, residual, consumes_x);
  }

 private:
  struct Added {
    Update& update;
    const Update::Part& part;
  };
  /// Dropout(x). All parts of an adapter use the same draws, since they have the same input.
  static Value inputOf(Evaluator& e, Update& update, const Update::Part& part, const Value& x) {
    const DropoutKey key = update.dropout.key();
    const Value dropped = update.dropout.forward(e, e.copy(x));
    if (&part != &update.parts.back()) update.dropout.setKey(key);
    return dropped;
  }

  Linear& layer_;
  float scale_;
  std::vector<Added> parts_;
};

Lora::Lora(TrainableEncoder& encoder, const std::vector<LoraTarget>& targets, const LoraOptions& options)
    : encoder_(nullptr) {
  requireAtLeast("rank", options.rank, 1);
  requireRate("dropout", options.dropout);
  if (!std::isfinite(options.alpha))
    throwInvalid(ErrorCode::kInvalidArgument, "alpha", "a finite number",
                 numberText(static_cast<double>(options.alpha)));
  scale_ = options.alpha / static_cast<float>(options.rank);
  for (const LoraTarget& target : targets) updates_.push_back(std::make_unique<Update>(target, options));
  for (Linear* linear : encoder.model().linears()) {
    for (const auto& update : updates_) {
      for (const Update::Part& part : update->parts) {
        if (part.key != keyOf(*linear)) continue;
        if (layers_.empty() || layers_.back()->key() != part.key)
          layers_.push_back(std::make_unique<LowRankLinear>(*linear, scale_));
        layers_.back()->add(*update, part);
      }
    }
  }
  encoder_ = &encoder;
  encoder.setLora(this);
}

Lora::~Lora() { detach(); }

void Lora::detach() {
  layers_.clear();
  if (encoder_) encoder_->setLora(nullptr);
  encoder_ = nullptr;
}

void Lora::merge() {
  // Allocates all memory before the first change.
  Index widest = 0, greatest_rank = 0;
  for (const auto& update : updates_) {
    widest = std::max(widest, update->target.weight.rowSize());
    greatest_rank = std::max(greatest_rank, update->a.options().out_features);
  }
  Matrix a(greatest_rank, widest), row(1, widest), b(1, greatest_rank);
  detach();
  for (const auto& update : updates_) {
    const Parameter& weight = update->target.weight;
    const Index width = weight.rowSize(), rank = update->a.options().out_features;
    update->a.weight().read(0, rank, a.data());
    Index first = 0;
    for (const Update::Part& part : update->parts) {
      for (Index i = 0; i < part.b.options().out_features; ++i, ++first) {
        part.b.weight().read(i, 1, b.data());
        weight.read(first, 1, row.data());
        for (Index k = 0; k < rank; ++k) {
          const float factor = scale_ * b.data()[k];
          for (Index j = 0; j < width; ++j) row.data()[j] += factor * a.data()[k * width + j];
        }
        weight.write(first, 1, row.data());
      }
    }
  }
}

bool Lora::trains(const Graph& graph, const void* key) const {
  for (const auto& update : updates_) {
    for (const Update::Part& part : update->parts) {
      if (part.key != key) continue;
      const auto is_trained = [&](const Linear& layer) {
        return graph.requiresGradient(static_cast<const RowStorage*>(&layer.weight()));
      };
      if (is_trained(update->a) || is_trained(part.b)) return true;
    }
  }
  return false;
}

std::vector<Module::Child> Lora::children() {
  std::vector<Child> all;
  all.reserve(updates_.size());
  for (const auto& update : updates_) all.push_back({"", &update->dropout});
  return all;
}

std::vector<Parameter> Lora::ownParameters() {
  std::vector<Parameter> own;
  for (const auto& update : updates_) {
    Parameter a = update->a.ownParameters()[0];
    a.name = update->target.name + ".lora_A.weight";
    own.push_back(std::move(a));
    Parameter b{update->target.name + ".lora_B.weight",
                {update->target.weight.shape[0], update->a.options().out_features},
                ParameterKind::kWeight,
                InitialValue::constant(0),
                {}};
    for (Update::Part& part : update->parts) b.parts.push_back(part.b.ownParameters()[0].parts[0]);
    own.push_back(std::move(b));
  }
  return own;
}

}  // namespace heed::train
