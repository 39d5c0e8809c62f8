#include <emscripten/bind.h>

#include "../module.h"
#include "core/check.h"
#include "heed/dropout.h"

/// The state of all dropouts inside a module, for checkpoints.
namespace heed::bindings {
namespace {

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

EMSCRIPTEN_BINDINGS(heed_train_dropouts) {
  emscripten::function("dropoutState", &dropoutState);
  emscripten::function("setDropoutState", &setDropoutState);
}

}  // namespace heed::bindings
