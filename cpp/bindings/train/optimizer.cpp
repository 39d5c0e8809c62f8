#include "heed/train/optimizer.h"

#include <emscripten/bind.h>

#include "core/check.h"
#include "graph.h"
#include "heed/dropout.h"

/// Optimizers, and the state of all dropouts inside a module, for checkpoints.
namespace heed::bindings {
namespace {

/// Absent options keep the defaults of GroupOptions.
train::GroupOptions readGroup(const val& options) {
  train::GroupOptions group;
  const auto read = [&](const char* key, double& number) {
    if (const val value = options[key]; !value.isUndefined()) number = value.as<double>();
  };
  read("lr", group.lr);
  read("weightDecay", group.weight_decay);
  read("momentum", group.momentum);
  if (const val betas = options["betas"]; !betas.isUndefined()) {
    group.beta1 = betas[0].as<double>();
    group.beta2 = betas[1].as<double>();
  }
  // One number, or Adafactor's two.
  if (const val eps = options["eps"]; eps.isNumber()) {
    group.eps = eps.as<double>();
  } else if (!eps.isUndefined()) {
    group.gradient_eps = eps[0].as<double>();
    group.parameter_eps = eps[1].as<double>();
  }
  const auto read_flag = [&](const char* key, bool& flag) {
    if (const val value = options[key]; !value.isUndefined()) flag = value.as<bool>();
  };
  read_flag("nesterov", group.nesterov);
  read_flag("amsgrad", group.amsgrad);
  read_flag("centered", group.centered);
  read("alpha", group.alpha);
  read("beta2Decay", group.beta2_decay);
  read("clipThreshold", group.clip_threshold);
  return group;
}

/// Implements RawOptimizer.
class BoundOptimizer {
 public:
  explicit BoundOptimizer(const std::string& kind) : optimizer_(kind) {}

  /// Returns the group's index.
  double addGroup(const val& options) {
    return guarded([&] { return static_cast<double>(optimizer_.addGroup(readGroup(options))); });
  }
  void setRate(double group, double lr) { optimizer_.group(static_cast<Index>(group)).lr = lr; }
  void addParameter(double group, BoundGradients& gradients, unsigned parameter) {
    guarded([&] { optimizer_.addParameter(static_cast<Index>(group), gradients.gradients(), parameter); });
  }
  /// Returns false, with the parameters unchanged, if a gradient is not finite.
  bool step() {
    return guarded([&] { return optimizer_.step(); });
  }
  /// Returns { steps, moments: [{ name, shape, values: Float32Array }] } for a parameter, numbered in the order of
  /// addParameter().
  val state(double parameter) const {
    return guarded([&] {
      const auto index = static_cast<Index>(parameter);
      val moments = val::array();
      for (const train::Optimizer::State& each : optimizer_.state(index)) {
        val moment = val::object();
        moment.set("name", each.name);
        moment.set("shape", writeShape(each.shape));
        moment.set("values", writeFloats(each.values.data(), static_cast<Index>(each.values.size())));
        moments.call<void>("push", moment);
      }
      val state = val::object();
      state.set("steps", static_cast<double>(optimizer_.steps(index)));
      state.set("moments", moments);
      return state;
    });
  }
  /// Restores the states of all parameters. If it throws, the states are unchanged.
  void restore(const val& states) {
    guarded([&] {
      std::vector<train::Optimizer::Saved> all(states["length"].as<unsigned>());
      for (unsigned i = 0; i < all.size(); ++i) {
        const val moments = states[i]["moments"];
        const auto count = moments["length"].as<unsigned>();
        all[i].steps = static_cast<int64_t>(states[i]["steps"].as<double>());
        for (unsigned j = 0; j < count; ++j)
          all[i].moments.push_back({readString(moments[j], "name"), readIndex(moments[j]["values"], "length")});
        all[i].copy = [moments](size_t j, float* to) {
          const val values = moments[j]["values"];
          val(emscripten::typed_memory_view(values["length"].as<size_t>(), to)).call<void>("set", values);
        };
      }
      optimizer_.restore(all);
    });
  }

 private:
  train::Optimizer optimizer_;
};

BoundOptimizer* makeOptimizer(const std::string& kind) {
  return guarded([&] { return new BoundOptimizer(kind); });
}

/// Returns an array with four words per dropout: seed and step, each with its lower half first.
val dropoutState(BoundModule& module) {
  return guarded([&] {
    val words = val::array();
    const auto push = [&](uint64_t number) {
      words.call<void>("push", static_cast<double>(number & 0xffffffffu));
      words.call<void>("push", static_cast<double>(number >> 32));
    };
    for (const Dropout* dropout : module.module().dropouts()) {
      push(dropout->key().seed);
      push(dropout->key().step);
    }
    return words;
  });
}

/// Requires as many words as dropoutState() returns.
void setDropoutState(BoundModule& module, const val& words) {
  guarded([&] {
    const std::vector<Dropout*> all = module.module().dropouts();
    requireCount("dropout", words["length"].as<double>(), 4 * static_cast<Index>(all.size()));
    unsigned next = 0;
    const auto take = [&] {
      const uint64_t low = words[next].as<uint32_t>(), high = words[next + 1].as<uint32_t>();
      next += 2;
      return high << 32 | low;
    };
    for (Dropout* dropout : all) {
      const uint64_t seed = take();
      dropout->setKey({seed, take()});
    }
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_optimizer) {
  emscripten::class_<BoundOptimizer>("Optimizer")
      .constructor(&makeOptimizer, emscripten::allow_raw_pointers())
      .function("addGroup", &BoundOptimizer::addGroup)
      .function("setRate", &BoundOptimizer::setRate)
      .function("addParameter", &BoundOptimizer::addParameter)
      .function("step", &BoundOptimizer::step)
      .function("state", &BoundOptimizer::state)
      .function("restore", &BoundOptimizer::restore);
  emscripten::function("dropoutState", &dropoutState);
  emscripten::function("setDropoutState", &setDropoutState);
}

}  // namespace heed::bindings
