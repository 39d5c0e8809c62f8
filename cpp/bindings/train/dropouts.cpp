#include <emscripten/bind.h>

#include <functional>

#include "../module.h"
#include "heed/train/encoder_model.h"
#include "heed/transformer.h"

/// The draws of the dropout inside layers, for checkpoints. Without run-time type information, the dropouts of a module
/// are found by its class.
namespace heed::bindings {
namespace {

using Visit = std::function<void(Dropout&)>;

void visitDropouts(MultiHeadAttention& layer, const Visit& visit) { visit(layer.dropout()); }

void visitDropouts(FeedForward& layer, const Visit& visit) { visit(layer.dropout()); }

void visitDropouts(EncoderLayer& layer, const Visit& visit) {
  visitDropouts(layer.selfAttention(), visit);
  visitDropouts(layer.feedForward(), visit);
  visit(layer.dropout1());
  visit(layer.dropout2());
}

void visitDropouts(DecoderLayer& layer, const Visit& visit) {
  visitDropouts(layer.selfAttention(), visit);
  visitDropouts(layer.crossAttention(), visit);
  visitDropouts(layer.feedForward(), visit);
  visit(layer.dropout1());
  visit(layer.dropout2());
  visit(layer.dropout3());
}

template <class Stack>
void visitStack(Stack& stack, const Visit& visit) {
  for (Index i = 0; i < stack.numLayers(); ++i) visitDropouts(stack.layer(i), visit);
}

/// `name`: the class of the layer in JavaScript.
void visitDropouts(const std::string& name, Module& module, const Visit& visit) {
  if (name == "Dropout") visit(static_cast<Dropout&>(module));
  if (name == "MultiHeadAttention") visitDropouts(static_cast<MultiHeadAttention&>(module), visit);
  if (name == "FeedForward") visitDropouts(static_cast<FeedForward&>(module), visit);
  if (name == "EncoderLayer") visitDropouts(static_cast<EncoderLayer&>(module), visit);
  if (name == "Encoder") visitStack(static_cast<Encoder&>(module), visit);
  if (name == "DecoderLayer") visitDropouts(static_cast<DecoderLayer&>(module), visit);
  if (name == "Decoder") visitStack(static_cast<Decoder&>(module), visit);
  if (name == "TrainableEncoder") {
    for (Dropout* dropout : static_cast<train::TrainableEncoder&>(module).dropouts()) visit(*dropout);
  }
  if (name == "Lora") {
    for (Dropout* dropout : static_cast<train::Lora&>(module).dropouts()) visit(*dropout);
  }
  if (name == "Transformer") {
    visitStack(static_cast<Transformer&>(module).encoder(), visit);
    visitStack(static_cast<Transformer&>(module).decoder(), visit);
  }
}

/// An array of four words for each dropout: seed and step, each with its lower half first.
val dropoutState(const std::string& name, BoundModule& module) {
  return guarded([&] {
    val words = val::array();
    const auto push = [&](uint64_t number) {
      words.call<void>("push", static_cast<double>(number & 0xffffffffu));
      words.call<void>("push", static_cast<double>(number >> 32));
    };
    visitDropouts(name, module.module(), [&](Dropout& dropout) {
      push(dropout.key().seed);
      push(dropout.key().step);
    });
    return words;
  });
}

/// Requires as many words as dropoutState() returns.
void setDropoutState(const std::string& name, BoundModule& module, const val& words) {
  guarded([&] {
    unsigned next = 0;
    const auto take = [&] {
      const uint64_t low = words[next].as<uint32_t>(), high = words[next + 1].as<uint32_t>();
      next += 2;
      return high << 32 | low;
    };
    visitDropouts(name, module.module(), [&](Dropout& dropout) {
      const uint64_t seed = take();
      dropout.setKey({seed, take()});
    });
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_dropouts) {
  emscripten::function("dropoutState", &dropoutState);
  emscripten::function("setDropoutState", &setDropoutState);
}

}  // namespace heed::bindings
