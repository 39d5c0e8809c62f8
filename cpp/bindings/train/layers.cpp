#include "../layers.h"

#include <emscripten/bind.h>

#include "attention.h"
#include "graph.h"
#include "heed/train/ops.h"
#include "sites.h"

/// Recorded calls of layers and functions.
namespace heed::bindings {
namespace {

/// A call whose tensors, additive masks and results are handles of variables.
class RecordingCall final : public Call {
 public:
  RecordingCall(BoundGraph& graph, const val& arguments) : Call(recording_, arguments), recording_(graph.graph()) {}

  std::optional<Argument> tensor(const char* name) override {
    const BoundVariable* x = readHandle(arguments()[name]);
    if (!x) return std::nullopt;
    return Argument{x->shape(), recording_.value(x->variable()), x};
  }
  std::optional<MaskTensor> mask(const char* name) override { return readMask(recording_, name, arguments()[name]); }
  void useSites(const Sequences& queries, const Sequences& keys) override {
    sites_ = readRecordedSites(arguments()["sites"], queries, keys);
    recording_.setSites(sites_.get());
  }
  Value softmax(const Value& x) override { return recorded(train::softmax(graph(), variable(x))); }
  Value linear(const Value& x, const Value& weight, const Value& bias, Activation activation) override {
    return recorded(train::linear(graph(), variable(x), variable(weight), variable(bias), activation));
  }
  Value layerNorm(const Value& x, const Value& weight, const Value& bias, float eps) override {
    return recorded(train::layerNorm(graph(), variable(x), variable(weight), variable(bias), eps));
  }
  Value dropout(const Value& x, float p, DropoutScaling scaling, const DropoutKey& key) override {
    return recorded(train::dropout(graph(), variable(x), p, scaling, key));
  }
  Value attention(const BatchedAttention& attention, const Argument& query, const Argument& key, const Argument& value,
                  AttentionOptions options, std::optional<MaskTensor> mask, float* weights) override {
    return recordAttention(recording_, attention, query, key, value, options, std::move(mask), weights);
  }
  Value reshape(const Value& x, Index rows, Index columns) override { return recorded(reshaped(x, rows, columns)); }
  const Rotary* share(const std::shared_ptr<const Rotary>& tables) override { return recording_.share(tables); }
  val result(const Shape& shape, const Value& value) override {
    return val(BoundVariable(shape, reshaped(value, rowsOf(shape), columnsOf(shape))));
  }

 private:
  train::Graph& graph() const { return recording_.graph(); }
  Variable variable(const Value& x) const { return recording_.variable(x); }
  Value recorded(const Variable& variable) { return recording_.value(variable); }
  Variable reshaped(const Value& x, Index rows, Index columns) const {
    return train::reshape(graph(), variable(x), rows, columns);
  }

  train::RecordingEvaluator recording_;
  std::unique_ptr<BoundRecordedSites> sites_;
};

/// Records BoundLayer::run(). `position`: null, or [sequence, row], the position of the first sequence and row in the
/// whole batch, for the draws of dropout.
val record(BoundGraph& graph, BoundLayer& layer, const val& arguments, const val& position) {
  return guarded([&] {
    if (!position.isNull()) context().random = {position[0].as<Index>(), position[1].as<Index>()};
    const RunScope scope(layer.module());
    RecordingCall call(graph, arguments);
    return drawing(layer.module(), [&] { return layer.run(call); });
  });
}

/// Records a call of the function with that name.
val recordFunction(BoundGraph& graph, const std::string& name, const val& arguments) {
  return guarded([&] {
    RecordingCall call(graph, arguments);
    return functionNamed(name)(call);
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_layers) {
  emscripten::function("record", &record);
  emscripten::function("recordFunction", &recordFunction);
}

}  // namespace heed::bindings
