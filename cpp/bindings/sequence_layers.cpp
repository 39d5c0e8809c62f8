#include "core/check.h"
#include "heed/convolution.h"
#include "heed/embedding.h"
#include "heed/recurrent.h"
#include "layers.h"

/// Layers along sequences, and parameters that belong to no layer.
namespace heed::bindings {
namespace {

/// x [N, L, I] or [L, I] -> [N, L, D H] or [L, D H].
template <RecurrentOptions::Cell kCell>
class BoundRecurrent final : public BoundLayer {
 public:
  explicit BoundRecurrent(const val& o)
      : layer_({.cell = kCell,
                .input_size = readIndex(o, "inputSize"),
                .hidden_size = readIndex(o, "hiddenSize"),
                .num_layers = readIndex(o, "numLayers"),
                .bias = readBool(o, "bias"),
                .bidirectional = readBool(o, "bidirectional")}) {}
  Module& module() override { return layer_; }

  val run(Call& call) override {
    const Batch x = readBatch(call, "x", layer_.options().input_size);
    return call.result(x.shape(layer_.outputWidth()), layer_.forward(call.evaluator(), x.rows, x.sequences));
  }

 private:
  Recurrent layer_;
};

/// x [N, L, C] or [L, C] -> [N, windows, D] or [windows, D].
class BoundConvolution final : public BoundLayer {
 public:
  explicit BoundConvolution(const val& o)
      : layer_({.in_channels = readIndex(o, "inChannels"),
                .out_channels = readIndex(o, "outChannels"),
                .groups = readIndex(o, "groups"),
                .bias = readBool(o, "bias"),
                .windows = {.width = readIndex(o, "kernelSize"),
                            .stride = readIndex(o, "stride"),
                            .dilation = readIndex(o, "dilation"),
                            .before = readIndex(o, "before"),
                            .after = readIndex(o, "after")}}) {}
  Module& module() override { return layer_; }

  val run(Call& call) override {
    Batch x = readBatch(call, "x", layer_.options().in_channels);
    const Value output = layer_.forward(call.evaluator(), x.rows, x.sequences);
    x.length = layer_.options().windows.count(x.length);
    return call.result(x.shape(output.cols()), output);
  }

 private:
  Convolution layer_;
};

class BoundParameter final : public BoundLayer {
 public:
  explicit BoundParameter(const val& o) : parameter_(readShape(o["shape"]), readInitial(o)) {}
  Module& module() override { return parameter_; }
  val run(Call& call) override { return call.result(parameter_.shape(), parameter_.forward(call.evaluator())); }

 private:
  static InitialValue readInitial(const val& o) {
    const std::string name = readString(o, "init");
    if (name == "uniform") return InitialValue::uniform(readFloat(o, "bound"));
    return name == "normal" ? InitialValue::normal() : InitialValue::constant(name == "ones" ? 1 : 0);
  }

  FreeParameter parameter_;
};

}  // namespace

EMSCRIPTEN_BINDINGS(heed_sequence_layers) {
  using Cell = RecurrentOptions::Cell;
  registerLayer<BoundRecurrent<Cell::kLstm>>("LSTM");
  registerLayer<BoundRecurrent<Cell::kGru>>("GRU");
  registerLayer<BoundConvolution>("Conv1D");
  registerLayer<BoundParameter>("Parameter");
}

}  // namespace heed::bindings
