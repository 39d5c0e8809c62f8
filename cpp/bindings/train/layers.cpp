#include "../layers.h"

#include <emscripten/bind.h>

#include "graph.h"
#include "heed/train/recording_evaluator.h"
#include "sites.h"

/// Recorded calls of layers and functions.
namespace heed::bindings {
namespace {

/// A call whose tensors, additive masks and results are handles of variables.
class RecordingCall final : public Call {
 public:
  RecordingCall(BoundGraph& graph, const val& arguments) : Call(recording_, arguments), recording_(graph.graph()) {}

  std::optional<TensorArgument> tensor(const char* name) override {
    const BoundVariable* x = readHandle(arguments()[name]);
    if (!x) return std::nullopt;
    return TensorArgument{x->shape(), recording_.value(x->variable()), x};
  }
  /// The data of byte masks are copied, because the graph reads them after the call.
  std::optional<MaskTensor> mask(const char* name) override {
    const val given = arguments()[name];
    if (given.isNull() || given.isUndefined()) return std::nullopt;
    if (given["data"].isUndefined()) {
      const BoundVariable& added = *readHandle(given);
      const Value values = recording_.value(asRow(recording_.graph(), added));
      return MaskTensor::additive(name, values.data(), added.shape(), values);
    }
    auto read = readMask(name, given);
    const auto* first = static_cast<const uint8_t*>(read->data);
    const auto bytes = std::make_shared<const std::vector<uint8_t>>(first, first + read->shape.size());
    recording_.share(std::shared_ptr<const void>(bytes, bytes->data()));
    read->data = bytes->data();
    return read;
  }
  void useSites(const Sequences& queries, const Sequences& keys) override {
    sites_ = readSites<BoundRecordedSites>(arguments()["sites"], queries, keys);
    recording_.setSites(sites_.get());
  }
  val result(const Shape& shape, const Value& value) override {
    return val(BoundVariable(shape, recording_.variable(recording_.reshape(value, shape.rows(), shape.columns()))));
  }

 private:
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
