#include "heed/train/optimizer.h"

#include <emscripten/bind.h>

#include "graph.h"

namespace heed::bindings {
namespace {

train::Optimizer::Kind kindNamed(const std::string& name) {
  if (name == "SGD") return train::Optimizer::Kind::kSgd;
  return name == "Adam" ? train::Optimizer::Kind::kAdam : train::Optimizer::Kind::kAdamW;
}

train::GroupOptions readGroup(const val& options) {
  const auto number = [&](const char* key) { return options[key].as<double>(); };
  return {.lr = number("lr"),
          .weight_decay = number("weightDecay"),
          .momentum = number("momentum"),
          .nesterov = readBool(options, "nesterov"),
          .beta1 = number("beta1"),
          .beta2 = number("beta2"),
          .eps = number("eps")};
}

/// RawOptimizer.
class BoundOptimizer {
 public:
  explicit BoundOptimizer(const std::string& kind) : optimizer_(kindNamed(kind)) {}

  /// Returns the group's index.
  double addGroup(const val& options) {
    return guarded([&] { return static_cast<double>(optimizer_.addGroup(readGroup(options))); });
  }
  void setRate(double group, double lr) { optimizer_.group(static_cast<Index>(group)).lr = lr; }
  void addParameter(double group, BoundGradients& gradients, unsigned parameter) {
    guarded([&] { optimizer_.addParameter(static_cast<Index>(group), gradients.gradients(), parameter); });
  }
  /// False, with the parameters unchanged, if a gradient is not finite.
  bool step() {
    return guarded([&] { return optimizer_.step(); });
  }

 private:
  train::Optimizer optimizer_;
};

BoundOptimizer* makeOptimizer(const std::string& kind) {
  return guarded([&] { return new BoundOptimizer(kind); });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_optimizer) {
  emscripten::class_<BoundOptimizer>("Optimizer")
      .constructor(&makeOptimizer, emscripten::allow_raw_pointers())
      .function("addGroup", &BoundOptimizer::addGroup)
      .function("setRate", &BoundOptimizer::setRate)
      .function("addParameter", &BoundOptimizer::addParameter)
      .function("step", &BoundOptimizer::step);
}

}  // namespace heed::bindings
