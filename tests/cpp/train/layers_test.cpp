#include "heed/train/layers.h"

#include "reference_layers.h"

namespace heed::test {
namespace {

using train::LayerSettings;
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
        {.embed_dim = kWidth, .num_heads = 1, .bias = false, .activation = Activation::kTanh},
        {.embed_dim = kWidth, .num_heads = 3, .key_dim = 4, .value_dim = 5}}) {
    for (const Index rotary_dim : {0, 2}) {
      SCOPED_TRACE(Shape({o.num_heads, o.key_dim, rotary_dim}).toString());
      MultiHeadAttention layer(o);
      fillRandomly(layer, 3);
      Recording pass(layer);
      const RowMajorMatrix factors = randomMatrix(1, o.num_heads, 5);
      LayerSettings settings;
      settings.causal = true;
      settings.head_mask = pass.graph.leaf(train::Matrix(window(factors)));
      if (rotary_dim)
        settings.rotary = std::make_shared<const Rotary>(rotary_dim, 9, 10000, Rotary::Pairing::kHalfSplit);
      const Variable& x = pass.input("x", randomMatrix(8, kWidth, 1));
      const Variable y = train::multiHeadAttention(pass.graph, layer, x, x, x, queryRows(), queryRows(), settings);
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
  const Variable &q = pass.input("query", randomMatrix(8, kWidth, 1)), &k = pass.input("key", randomMatrix(8, 5, 2)),
                 &v = pass.input("value", randomMatrix(8, 7, 3));
  const Variable y = train::multiHeadAttention(pass.graph, layer, q, k, v, queryRows(), keyRows(), {});
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
  LayerSettings settings;
  // The same for all sequences and heads.
  const Variable& mask = pass.input("mask", randomMatrix(1, 16, 4));
  settings.masks.push_back({"mask", {4, 4}, false, nullptr, mask});
  const Variable& x = pass.input("x", randomMatrix(8, kWidth, 1));
  const Variable y = train::multiHeadAttention(pass.graph, layer, x, x, x, rows, rows, settings);
  train::Backward::run(pass.graph, y, window(randomMatrix(8, kWidth, 9)));
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
    const Variable& x = pass.input("x", randomMatrix(13, 5, 1));
    pass.expectGradients(train::feedForward(pass.graph, layer, x),
                         [&](const Values& v) { return feedForward({v, ""}, o, v.at("x"), draws); });
  }
}

/// Options of encoder and decoder layers, post- and pre-norm.
std::vector<EncoderLayerOptions> layerOptions() {
  EncoderLayerOptions post{.embed_dim = kWidth, .num_heads = kHeads, .feed_forward_dim = 9, .dropout = 0.2f};
  post.activation = Activation::kGelu;
  EncoderLayerOptions pre = post;
  pre.norm_first = true;
  EncoderLayerOptions wide = post;
  wide.key_dim = 4;
  wide.value_dim = 5;
  wide.bias = wide.norm_bias = false;
  EncoderLayerOptions modern = pre;
  modern.gated = true;
  modern.attention_norm = false;
  return {post, pre, wide, modern};
}

/// The draws of a layer's next call, but for those of its attention.
template <class Layer>
LayerDraws drawsOf(Layer& layer) {
  LayerDraws draws{nextDraws(layer.feedForward().dropout()), nextDraws(layer.dropout1()), nextDraws(layer.dropout2())};
  if constexpr (std::is_same_v<Layer, DecoderLayer>) draws.block3 = nextDraws(layer.dropout3());
  return draws;
}

TEST(TrainEncoderLayer, HasTheGradientsOfTheFormula) {
  for (const bool training : {false, true}) {
    for (const EncoderLayerOptions& o : layerOptions()) {
      SCOPED_TRACE(std::to_string(training) + (o.norm_first ? " pre" : " post") + (o.gated ? " gated" : ""));
      EncoderLayer layer(o);
      fillRandomly(layer, 3);
      layer.setTraining(training);
      Recording pass(layer);
      const AttentionCase call{!training, 0, {}, nextDraws(layer.selfAttention().dropout())};
      const LayerDraws draws = drawsOf(layer);
      LayerSettings settings;
      settings.causal = call.causal;
      const Variable& x = pass.input("x", randomMatrix(8, kWidth, 1));
      pass.expectGradients(train::encoderLayer(pass.graph, layer, x, queryRows(), settings), [&](const Values& v) {
        return encoderLayer({v, ""}, layer, v.at("x"), queryRows(), call, draws);
      });
    }
  }
}

TEST(TrainEncoder, HasTheGradientsOfTheFormulaWithAHeadMaskPerLayer) {
  for (const bool norm_first : {false, true}) {
    EncoderLayerOptions o{.embed_dim = kWidth, .num_heads = 2, .feed_forward_dim = 5, .key_dim = 3, .value_dim = 3};
    o.activation = Activation::kGelu;
    o.norm_first = norm_first;
    const std::vector<Index> heads = {1, 2};  // the first layer is pruned
    Encoder layers(o, 2, norm_first, heads);
    fillRandomly(layers, 3);
    Recording pass(layers);
    LayerSettings settings;
    const Variable& x = pass.input("x", randomMatrix(8, kWidth, 1));
    settings.head_mask = pass.input("headMask", randomMatrix(2, 2, 5));
    pass.expectGradients(train::encoder(pass.graph, layers, x, queryRows(), settings), [&](const Values& v) {
      const DoubleMatrix& mask = v.at("headMask");
      return encoder({v, ""}, layers, v.at("x"), queryRows(), {{false, 0, mask.row(0)}, {false, 0, mask.row(1)}});
    });
  }
}

TEST(TrainDecoderLayer, HasTheGradientsOfTheFormula) {
  for (EncoderLayerOptions o : layerOptions()) {
    o.attention_norm = true;
    SCOPED_TRACE(std::string(o.norm_first ? "pre" : "post") + (o.gated ? " gated" : ""));
    DecoderLayer layer(o);
    fillRandomly(layer, 3);
    layer.setTraining(true);
    Recording pass(layer);
    const AttentionCase self{true, 0, {}, nextDraws(layer.selfAttention().dropout())},
        cross{false, 0, {}, nextDraws(layer.crossAttention().dropout())};
    const LayerDraws draws = drawsOf(layer);
    train::DecoderSettings settings;
    settings.self.causal = true;
    const Variable &target = pass.input("target", randomMatrix(8, kWidth, 1)),
                   &memory = pass.input("memory", randomMatrix(8, kWidth, 2));
    pass.expectGradients(train::decoderLayer(pass.graph, layer, target, memory, queryRows(), keyRows(), settings),
                         [&](const Values& v) {
                           return decoderLayer({v, ""}, layer, v.at("target"), v.at("memory"), queryRows(), keyRows(),
                                               self, cross, draws);
                         });
  }
}

TEST(TrainTransformer, HasTheGradientsOfTheFormula) {
  for (const bool norm_first : {false, true}) {
    EncoderLayerOptions o{.embed_dim = kWidth, .num_heads = kHeads, .feed_forward_dim = 5};
    o.activation = Activation::kGelu;
    o.norm_first = norm_first;
    Transformer model(o, 1, 2);
    fillRandomly(model, 3);
    Recording pass(model);
    train::DecoderSettings settings;
    settings.self.causal = true;
    const Variable &source = pass.input("source", randomMatrix(8, kWidth, 1)),
                   &target = pass.input("target", randomMatrix(8, kWidth, 2));
    const train::TransformerOutput got =
        train::transformer(pass.graph, model, source, target, keyRows(), queryRows(), {}, settings);
    pass.expectGradients(got.output, [&](const Values& v) {
      const Scope p{v, ""};
      const DoubleMatrix memory = encoder(p.in("encoder"), model.encoder(), v.at("source"), keyRows(), {{}});
      return decoder(p.in("decoder"), model.decoder(), v.at("target"), memory, queryRows(), keyRows(), {true});
    });
  }
}

/// Runs a layer in inference and in training from the same random state, and expects the same bits.
void expectSameBits(Module& module, const std::function<void(Context&, MatrixView)>& inference,
                    const std::function<Variable(train::Graph&)>& training) {
  for (const bool draws : {false, true}) {
    module.setTraining(draws);
    module.seed(11);
    Context context;
    train::Graph graph(context);
    const Variable got = training(graph);
    module.seed(11);
    RowMajorMatrix expected(got.rows(), got.cols());
    inference(context, window(expected));
    expectSame(got.value(), expected);
  }
}

TEST(TrainLayers, GiveTheBitsOfInference) {
  const RowMajorMatrix x = randomMatrix(130, 24, 1), memory = randomMatrix(57, 24, 2);
  const Sequences targets = Sequences::ofLengths({100, 13, 17}), memories = Sequences::ofLengths({1, 48, 8});
  const auto constant = [](train::Graph& graph, const RowMajorMatrix& m) {
    return graph.leaf(train::Matrix(window(m)));
  };
  MultiHeadCallOptions call;
  call.causal = true;
  LayerSettings settings;
  settings.causal = true;
  for (EncoderLayerOptions o : layerOptions()) {
    o.embed_dim = 24;
    o.feed_forward_dim = 33;
    Encoder layers(o, 3, true);
    fillRandomly(layers, 5);
    const Index size = attentionWeightsSize(o.num_heads, targets, targets);
    std::vector<RowMajorMatrix> weights(6, RowMajorMatrix(1, size));
    std::vector<float*> expected, got;
    for (size_t i = 0; i < 3; ++i) {
      expected.push_back(weights[i].data());
      got.push_back(weights[i + 3].data());
    }
    expectSameBits(
        layers, [&](Context& context, MatrixView y) { layers.forward(window(x), targets, call, y, expected, context); },
        [&](train::Graph& graph) { return train::encoder(graph, layers, constant(graph, x), targets, settings, got); });
    for (size_t i = 0; i < 3; ++i) expectSame(weights[i + 3], weights[i]);

    o.attention_norm = true;
    Decoder decoder(o, 2, true);
    fillRandomly(decoder, 5);
    expectSameBits(
        decoder,
        [&](Context& context, MatrixView y) {
          decoder.forward({window(x), window(memory), targets, memories}, {call, {}}, y, {}, context);
        },
        [&](train::Graph& graph) {
          return train::decoder(graph, decoder, constant(graph, x), constant(graph, memory), targets, memories,
                                {settings, {}});
        });

    MultiHeadAttention attention({.embed_dim = 24, .num_heads = 3, .activation = Activation::kGelu, .dropout = 0.1f});
    fillRandomly(attention, 5);
    const Rotary rotary(4, 100, 10000, Rotary::Pairing::kInterleaved);
    LayerSettings rotated = settings;
    rotated.rotary = std::make_shared<const Rotary>(rotary);
    MultiHeadCallOptions rotated_call = call;
    rotated_call.rotary = &rotary;
    expectSameBits(
        attention,
        [&](Context& context, MatrixView y) {
          attention.forward({window(x), window(x), window(x), targets, targets}, rotated_call, {y}, context);
        },
        [&](train::Graph& graph) {
          const Variable in = constant(graph, x);
          return train::multiHeadAttention(graph, attention, in, in, in, targets, targets, rotated);
        });
  }
}

TEST(TrainLayers, NameWrongArguments) {
  Context context;
  train::Graph graph(context);
  const Variable x = leaf(graph, randomMatrix(8, kWidth, 1)), narrow = leaf(graph, randomMatrix(8, 5, 1));
  const EncoderLayerOptions o{.embed_dim = kWidth, .num_heads = kHeads, .feed_forward_dim = 9};
  Encoder encoder(o, 2, true);
  LayerSettings settings;
  settings.head_mask = leaf(graph, randomMatrix(1, 2, 1));
  expectError(ErrorCode::kShapeMismatch, "headMask", [&] { train::encoder(graph, encoder, x, queryRows(), settings); });
  expectError(ErrorCode::kShapeMismatch, "x", [&] { train::encoder(graph, encoder, narrow, queryRows(), {}); });
  DecoderLayer decoder(o);
  expectError(ErrorCode::kShapeMismatch, "memory",
              [&] { train::decoderLayer(graph, decoder, x, narrow, queryRows(), keyRows(), {}); });
  MultiHeadAttention quantized({.embed_dim = kWidth, .num_heads = kHeads, .precision = Precision::kInt8});
  expectError(ErrorCode::kUnsupported, "dtype",
              [&] { train::multiHeadAttention(graph, quantized, x, x, x, queryRows(), queryRows(), {}); });
}

}  // namespace
}  // namespace heed::test
