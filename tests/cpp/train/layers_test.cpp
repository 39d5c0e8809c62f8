#include "layer_options.h"
#include "reference_layers.h"

namespace heed::test {
namespace {

using train::Variable;

constexpr Index kWidth = 6, kHeads = 2;

const Sequences& queryRows() {
  static const Sequences rows = Sequences::ofLengths({3, 1, 4});
  return rows;
}
const Sequences& keyRows() {
  static const Sequences rows = Sequences::ofLengths({2, 5, 1});
  return rows;
}

TEST(TrainMultiHeadAttention, SelfAttentionHasTheGradientsOfTheFormula) {
  for (const MultiHeadAttentionOptions& o :
       {MultiHeadAttentionOptions{.embed_dim = kWidth, .num_heads = kHeads},
        {.embed_dim = kWidth, .num_heads = 1, .bias = false, .value_activation = Activation::kTanh},
        {.embed_dim = kWidth, .num_heads = 3, .key_dim = 4, .value_dim = 5}}) {
    for (const Index rotary_dim : {0, 2}) {
      SCOPED_TRACE(Shape({o.num_heads, o.key_dim, rotary_dim}).toString());
      MultiHeadAttention layer(o);
      fillRandomly(layer, 3);
      Recording pass(layer);
      const RowMajorMatrix factors = randomMatrix(1, o.num_heads, 5);
      AttentionOptions options;
      options.causal = true;
      options.head_mask = valueOf(factors);
      const Rotary rotary(2, 9, 10000, Rotary::Pairing::kHalfSplit);
      if (rotary_dim) options.rotary = &rotary;
      const Value x = pass("x", randomMatrix(8, kWidth, 1));
      const Value y = layer.forward(pass.e, {x, x, x, queryRows(), queryRows()}, options);
      pass.expectGradients(y, [&](const Values& v) {
        return multiHeadAttention({v, ""}, layer.options(), v.at("x"), v.at("x"), v.at("x"), queryRows(), queryRows(),
                                  {true, rotary_dim, factors.cast<double>()});
      });
    }
  }
}

TEST(TrainMultiHeadAttention, CrossAttentionHasTheGradientsOfTheFormula) {
  MultiHeadAttention layer(
      {.embed_dim = kWidth, .num_heads = kHeads, .key_input_dim = 5, .value_input_dim = 7, .dropout = 0.3f});
  fillRandomly(layer, 3);
  layer.setTraining(true);
  Recording pass(layer);
  const Draws draws = nextDraws(layer.dropout());
  const Value q = pass("query", randomMatrix(8, kWidth, 1)), k = pass("key", randomMatrix(8, 5, 2)),
              v = pass("value", randomMatrix(8, 7, 3));
  const Value y = layer.forward(pass.e, {q, k, v, queryRows(), keyRows()}, {});
  pass.expectGradients(y, [&](const Values& all) {
    return multiHeadAttention({all, ""}, layer.options(), all.at("query"), all.at("key"), all.at("value"), queryRows(),
                              keyRows(), {false, 0, {}, draws});
  });
}

TEST(TrainMultiHeadAttention, AMaskOfScoresHasAGradientThroughTheLayer) {
  MultiHeadAttention layer({.embed_dim = kWidth, .num_heads = kHeads});
  fillRandomly(layer, 3);
  Recording pass(layer);
  const Sequences rows = Sequences::uniform(2, 4);
  // The same for all sequences and heads.
  const Variable& mask = pass.input("mask", randomMatrix(1, 16, 4));
  const Value added = pass.e.value(mask), x = pass("x", randomMatrix(8, kWidth, 1));
  const MaskTensor tensor{"mask", Mask::Kind::kAdditive, added.data(), {4, 4}, false, added};
  AttentionOptions options;
  options.masks = {&tensor, 1};
  const Value y = layer.forward(pass.e, {x, x, x, rows, rows}, options);
  train::Backward::run(pass.graph, pass.e.variable(y), window(randomMatrix(8, kWidth, 9)));
  // Adding a constant to a row of scores changes nothing.
  const RowMajorMatrix gradient = gradientOf(mask).reshaped<Eigen::RowMajor>(4, 4);
  EXPECT_GT(gradient.cwiseAbs().maxCoeff(), 1e-3f);
  for (Index i = 0; i < 4; ++i) EXPECT_NEAR(gradient.row(i).sum(), 0, 1e-6);
}

TEST(TrainFeedForward, HasTheGradientsOfTheFormula) {
  for (const FeedForwardOptions& o :
       {FeedForwardOptions{.embed_dim = 5, .feed_forward_dim = 9, .activation = Activation::kGelu},
        {.embed_dim = 5, .feed_forward_dim = 9, .bias = false},
        {.embed_dim = 5, .feed_forward_dim = 9, .activation = Activation::kSilu, .dropout = 0.4f},
        {.embed_dim = 5, .feed_forward_dim = 9, .activation = Activation::kGelu, .dropout = 0.4f, .gated = true}}) {
    FeedForward layer(o);
    fillRandomly(layer, 3);
    layer.setTraining(true);
    Recording pass(layer);
    const Draws draws = nextDraws(layer.dropout());
    pass.expectGradients(layer.forward(pass.e, pass("x", randomMatrix(13, 5, 1))),
                         [&](const Values& v) { return feedForward({v, ""}, o, v.at("x"), draws); });
  }
}

/// Options of encoder and decoder layers, post- and pre-norm.
std::vector<LayerOptions> layerOptions() {
  LayerOptions post{.embed_dim = kWidth, .num_heads = kHeads, .feed_forward_dim = 9, .dropout = 0.2f};
  post.activation = Activation::kGelu;
  LayerOptions pre = post;
  pre.norm_first = true;
  LayerOptions wide = post;
  wide.key_dim = 4;
  wide.value_dim = 5;
  wide.bias = wide.norm_bias = false;
  LayerOptions modern = pre;
  modern.gated = true;
  modern.attention_norm = false;
  return {post, pre, wide, modern};
}

/// The draws of a layer's next call, except those of its attention.
template <class Layer>
LayerDraws drawsOf(Layer& layer) {
  LayerDraws draws{nextDraws(layer.feedForward().dropout()), nextDraws(layer.dropout1()), nextDraws(layer.dropout2())};
  if constexpr (std::is_same_v<Layer, DecoderLayer>) draws.block3 = nextDraws(layer.dropout3());
  return draws;
}

TEST(TrainEncoderLayer, HasTheGradientsOfTheFormula) {
  for (const bool training : {false, true}) {
    for (const LayerOptions& o : layerOptions()) {
      SCOPED_TRACE(std::to_string(training) + (o.norm_first ? " pre" : " post") + (o.gated ? " gated" : ""));
      EncoderLayer layer(o);
      fillRandomly(layer, 3);
      layer.setTraining(training);
      Recording pass(layer);
      const AttentionCase call{!training, 0, {}, nextDraws(layer.selfAttention().dropout())};
      const LayerDraws draws = drawsOf(layer);
      AttentionOptions options;
      options.causal = call.causal;
      const Value x = pass("x", randomMatrix(8, kWidth, 1));
      pass.expectGradients(layer.forward(pass.e, x, queryRows(), options), [&](const Values& v) {
        return encoderLayer({v, ""}, layer, v.at("x"), queryRows(), call, draws);
      });
    }
  }
}

TEST(TrainEncoder, HasTheGradientsOfTheFormulaWithAHeadMaskPerLayer) {
  for (const bool norm_first : {false, true}) {
    LayerOptions o{.embed_dim = kWidth, .num_heads = 2, .feed_forward_dim = 5, .key_dim = 3, .value_dim = 3};
    o.activation = Activation::kGelu;
    o.norm_first = norm_first;
    const std::vector<Index> heads = {1, 2};  // the first layer is pruned
    Encoder layers(o, 2, norm_first, heads);
    fillRandomly(layers, 3);
    Recording pass(layers);
    AttentionOptions options;
    const Value x = pass("x", randomMatrix(8, kWidth, 1));
    options.head_mask = pass("headMask", randomMatrix(2, 2, 5));
    pass.expectGradients(layers.forward(pass.e, x, queryRows(), options), [&](const Values& v) {
      const DoubleMatrix& mask = v.at("headMask");
      return encoder({v, ""}, layers, v.at("x"), queryRows(), {{false, 0, mask.row(0)}, {false, 0, mask.row(1)}});
    });
  }
}

TEST(TrainDecoderLayer, HasTheGradientsOfTheFormula) {
  for (LayerOptions o : layerOptions()) {
    o.attention_norm = true;
    SCOPED_TRACE(std::string(o.norm_first ? "pre" : "post") + (o.gated ? " gated" : ""));
    DecoderLayer layer(o);
    fillRandomly(layer, 3);
    layer.setTraining(true);
    Recording pass(layer);
    const AttentionCase self{true, 0, {}, nextDraws(layer.selfAttention().dropout())},
        cross{false, 0, {}, nextDraws(layer.crossAttention().dropout())};
    const LayerDraws draws = drawsOf(layer);
    DecoderCallOptions options;
    options.self.causal = true;
    const Value target = pass("target", randomMatrix(8, kWidth, 1)),
                memory = pass("memory", randomMatrix(8, kWidth, 2));
    pass.expectGradients(layer.forward(pass.e, {target, memory, queryRows(), keyRows()}, options),
                         [&](const Values& v) {
                           return decoderLayer({v, ""}, layer, v.at("target"), v.at("memory"), queryRows(), keyRows(),
                                               self, cross, draws);
                         });
  }
}

TEST(TrainTransformer, HasTheGradientsOfTheFormula) {
  for (const bool norm_first : {false, true}) {
    LayerOptions o{.embed_dim = kWidth, .num_heads = kHeads, .feed_forward_dim = 5};
    o.activation = Activation::kGelu;
    o.norm_first = norm_first;
    Transformer model(o, 1, 2);
    fillRandomly(model, 3);
    Recording pass(model);
    DecoderCallOptions options;
    options.self.causal = true;
    const Value source = pass("source", randomMatrix(8, kWidth, 1)),
                target = pass("target", randomMatrix(8, kWidth, 2));
    const Transformer::Output got = model.forward(pass.e, source, target, keyRows(), queryRows(), {}, options);
    pass.expectGradients(got.output, [&](const Values& v) {
      const Scope p{v, ""};
      const DoubleMatrix memory = encoder(p.in("encoder"), model.encoder(), v.at("source"), keyRows(), {{}});
      return decoder(p.in("decoder"), model.decoder(), v.at("target"), memory, queryRows(), keyRows(), {true});
    });
  }
}

/// Runs a layer in inference and in training with the same random state, and expects the same bits. `forward` receives
/// an evaluator and a function that creates values.
void expectSameBits(
    Module& module,
    const std::function<Value(Evaluator&, const std::function<Value(const RowMajorMatrix&)>&)>& forward) {
  for (const bool draws : {false, true}) {
    module.setTraining(draws);
    Inference in;
    module.seed(11);
    const Value expected = forward(in.e, [&](const RowMajorMatrix& m) { return in(m); });
    train::Graph graph(in.context);
    train::RecordingEvaluator e(graph);
    module.seed(11);
    const Value got =
        forward(e, [&](const RowMajorMatrix& m) { return e.value(graph.leaf(train::Matrix(window(m)))); });
    expectSame(got.values(), expected.values());
  }
}

TEST(TrainLayers, GiveTheBitsOfInference) {
  const RowMajorMatrix x = randomMatrix(130, 24, 1), memory = randomMatrix(57, 24, 2);
  const Sequences targets = Sequences::ofLengths({100, 13, 17}), memories = Sequences::ofLengths({1, 48, 8});
  AttentionOptions call;
  call.causal = true;
  for (LayerOptions o : layerOptions()) {
    o.embed_dim = 24;
    o.feed_forward_dim = 33;
    Encoder layers(o, 3, true);
    fillRandomly(layers, 5);
    const Index size = attentionWeightsSize(o.num_heads, targets, targets);
    std::vector<RowMajorMatrix> weights;  // of three layers: in inference and in training, without and with dropout
    expectSameBits(layers, [&](Evaluator& e, const auto& value) {
      std::vector<float*> places;
      for (size_t i = 0; i < 3; ++i) weights.emplace_back(1, size);
      for (size_t i = weights.size() - 3; i < weights.size(); ++i) places.push_back(weights[i].data());
      return layers.forward(e, value(x), targets, call, places);
    });
    for (const size_t i : {0, 1, 2, 6, 7, 8}) expectSame(weights[i + 3], weights[i]);

    o.attention_norm = true;
    Decoder decoder(o, 2, true);
    fillRandomly(decoder, 5);
    expectSameBits(decoder, [&](Evaluator& e, const auto& value) {
      return decoder.forward(e, {value(x), value(memory), targets, memories}, {call, {}});
    });

    MultiHeadAttention attention({.embed_dim = 24,
                                  .num_heads = 3,
                                  .query_activation = Activation::kGelu,
                                  .key_activation = Activation::kTanh,
                                  .dropout = 0.1f});
    fillRandomly(attention, 5);
    const Rotary rotary(4, 100, 10000, Rotary::Pairing::kInterleaved);
    AttentionOptions rotated = call;
    rotated.rotary = &rotary;
    expectSameBits(attention, [&](Evaluator& e, const auto& value) {
      const Value in = value(x);
      return attention.forward(e, {in, in, in, targets, targets}, rotated);
    });
  }
}

TEST(TrainLayers, NameWrongArguments) {
  Context context;
  train::Graph graph(context);
  train::RecordingEvaluator e(graph);
  const auto value = [&](Index rows, Index columns) { return e.value(leaf(graph, randomMatrix(rows, columns, 1))); };
  const Value x = value(8, kWidth), narrow = value(8, 5);
  const LayerOptions o{.embed_dim = kWidth, .num_heads = kHeads, .feed_forward_dim = 9};
  Encoder encoder(o, 2, true);
  AttentionOptions options;
  options.head_mask = value(1, 2);
  expectError(ErrorCode::kShapeMismatch, "headMask", [&] { encoder.forward(e, x, queryRows(), options); });
  expectError(ErrorCode::kShapeMismatch, "x", [&] { encoder.forward(e, narrow, queryRows(), {}); });
  DecoderLayer decoder(o);
  expectError(ErrorCode::kShapeMismatch, "memory",
              [&] { decoder.forward(e, {x, narrow, queryRows(), keyRows()}, {}); });
  MultiHeadAttention quantized({.embed_dim = kWidth, .num_heads = kHeads, .precision = Precision::kInt8});
  expectError(ErrorCode::kUnsupported, "dtype", [&] { quantized.forward(e, {x, x, x, queryRows(), queryRows()}, {}); });
}

}  // namespace
}  // namespace heed::test
