#include "heed/encoder.h"

#include <cmath>
#include <limits>

#include "layer_options.h"
#include "support.h"

namespace heed {
namespace {

using namespace test;

constexpr LayerOptions kSmall{.embed_dim = 6, .num_heads = 2, .feed_forward_dim = 10, .dropout = 0};

LayerOptions with(auto change) {
  LayerOptions options = kSmall;
  change(options);
  return options;
}

RowMajorMatrix run(EncoderLayer& layer, const RowMajorMatrix& x, const Sequences& sequences,
                   const AttentionOptions& options = {}) {
  Inference in;
  return layer.forward(in.e, in(x), sequences, options).values();
}

RowMajorMatrix run(EncoderLayer& layer, const RowMajorMatrix& x) {
  return run(layer, x, Sequences::uniform(1, x.rows()));
}

RowMajorMatrix normed(const RowMajorMatrix& x, Module& layer, const std::string& name) {
  const RowMajorMatrix weight = read(layer, name + ".weight"), bias = read(layer, name + ".bias");
  RowMajorMatrix y(x.rows(), x.cols());
  layerNorm(window(x), weight.data(), bias.data(), 1e-5f, window(y));
  return y;
}

RowMajorMatrix attended(EncoderLayer& layer, const RowMajorMatrix& x) {
  Inference in;
  const Sequences one = Sequences::uniform(1, x.rows());
  return layer.selfAttention().forward(in.e, {valueOf(x), valueOf(x), valueOf(x), one, one}, {}).values();
}

RowMajorMatrix run(FeedForward& layer, const RowMajorMatrix& x) {
  Inference in;
  return layer.forward(in.e, valueOf(x)).values();
}

/// W_2 relu(W_1 x + b_1) + b_2.
RowMajorMatrix fed(Module& layer, const RowMajorMatrix& x) {
  const auto affine = [&](const RowMajorMatrix& in, const std::string& name) -> RowMajorMatrix {
    return (in * read(layer, name + ".weight").transpose()).rowwise() + read(layer, name + ".bias").col(0).transpose();
  };
  return affine(affine(x, "linear1").cwiseMax(0.0f), "linear2");
}

TEST(FeedForward, MatchesHandComputedValues) {
  FeedForward layer({.embed_dim = 1, .feed_forward_dim = 2});
  write(layer, "linear1.weight", matrix({{1}, {-1}}));
  write(layer, "linear1.bias", matrix({{0, 1}}));
  write(layer, "linear2.weight", matrix({{2, 3}}));
  write(layer, "linear2.bias", matrix({{0.5f}}));
  expectNear(run(layer, matrix({{2}, {-2}})),
             matrix({{4.5f}, {9.5f}}));  // 2 relu(2) + 3 relu(-1) + 0.5; 2 relu(-2) + 3 relu(3) + 0.5
}

TEST(FeedForward, GatedMultipliesTheActivatedHalfByTheOther) {
  FeedForward layer(
      {.embed_dim = 3, .feed_forward_dim = 5, .activation = Activation::kTanh, .bias = false, .gated = true});
  fillRandomly(layer, 1);
  EXPECT_EQ(names(layer), (std::vector<std::string>{"linear1.weight [10, 3]", "linear2.weight [3, 5]"}));
  const RowMajorMatrix x = randomMatrix(4, 3, 2), w = read(layer, "linear1.weight");
  const RowMajorMatrix inner =
      (x * w.topRows(5).transpose()).array().tanh() * (x * w.bottomRows(5).transpose()).array();
  expectNear(run(layer, x), inner * read(layer, "linear2.weight").transpose());
}

TEST(FeedForward, TheSecondHalfMayBeTheActivatedOne) {
  FeedForwardOptions options{.embed_dim = 3, .feed_forward_dim = 5, .activation = Activation::kTanh, .gated = true};
  options.linear1_bias = false;
  FeedForward first(options);
  options.gate_second = true;
  FeedForward second(options);
  fillRandomly(first, 1);
  EXPECT_EQ(names(first),
            (std::vector<std::string>{"linear1.weight [10, 3]", "linear2.weight [3, 5]", "linear2.bias [3]"}));
  const RowMajorMatrix x = randomMatrix(4, 3, 2), w = read(first, "linear1.weight");
  RowMajorMatrix swapped(10, 3);
  swapped << w.bottomRows(5), w.topRows(5);
  write(second, "linear1.weight", swapped);
  write(second, "linear2.weight", read(first, "linear2.weight"));
  write(second, "linear2.bias", read(first, "linear2.bias"));
  expectSame(run(first, x), run(second, x));
}

TEST(FeedForward, DropoutDrawsInTrainingOnly) {
  FeedForward layer({.embed_dim = 4, .feed_forward_dim = 20, .dropout = 0.5f});
  fillRandomly(layer, 1);
  const RowMajorMatrix x = randomMatrix(5, 4, 2), plain = run(layer, x);
  layer.setTraining(true);
  layer.seed(1);
  const RowMajorMatrix first = run(layer, x);
  EXPECT_NE(first, plain);
  layer.seed(1);
  expectSame(run(layer, x), first);
}

TEST(EncoderLayer, PostNormMatchesThePaper) {
  EncoderLayer layer(kSmall);
  fillRandomly(layer, 1);
  const RowMajorMatrix x = randomMatrix(7, 6, 2);
  const RowMajorMatrix a = normed(x + attended(layer, x), layer, "norm1");
  expectNear(run(layer, x), normed(a + fed(layer, a), layer, "norm2"));
}

TEST(EncoderLayer, PreNormDoesNotNormalizeTheResidual) {
  EncoderLayer layer(with([](auto& o) { o.norm_first = true; }));
  fillRandomly(layer, 1);
  const RowMajorMatrix x = randomMatrix(7, 6, 2);
  const RowMajorMatrix a = x + attended(layer, normed(x, layer, "norm1"));
  expectNear(run(layer, x), a + fed(layer, normed(a, layer, "norm2")));
}

TEST(EncoderLayer, WithoutAttentionNormAttentionReadsTheInputDirectly) {
  EncoderLayer layer(with([](auto& o) { o.norm_first = true, o.attention_norm = false; }));
  fillRandomly(layer, 1);
  const RowMajorMatrix x = randomMatrix(7, 6, 2), a = x + attended(layer, x);
  expectNear(run(layer, x), a + fed(layer, normed(a, layer, "norm2")));
  for (const std::string& name : names(layer)) EXPECT_NE(name.substr(0, 5), "norm1");
}

TEST(EncoderLayer, ZeroBlocksLeaveTheIdentityOrTheNorms) {
  for (const bool norm_first : {false, true}) {
    EncoderLayer layer(with([=](auto& o) { o.norm_first = norm_first; }));
    fillRandomly(layer, 1);
    for (const char* name : {"self_attn.out_proj.weight", "self_attn.out_proj.bias", "linear2.weight", "linear2.bias"})
      zero(layer, name);
    const RowMajorMatrix x = randomMatrix(5, 6, 2);
    if (norm_first) {
      expectSame(run(layer, x), x);
    } else {
      expectNear(run(layer, x), normed(normed(x, layer, "norm1"), layer, "norm2"));
    }
  }
}

TEST(EncoderLayer, ResultDoesNotDependOnOtherSequences) {
  for (const bool norm_first : {false, true}) {
    EncoderLayer layer(with([=](auto& o) {
      o.norm_first = norm_first, o.embed_dim = 20, o.feed_forward_dim = 37, o.activation = Activation::kGelu;
    }));
    fillRandomly(layer, 1);
    const Sequences all = Sequences::ofLengths({3, 1, 8, 13, 5});
    const RowMajorMatrix x = randomMatrix(all.totalRows(), 20, 2), together = run(layer, x, all);
    for (Index n = 0; n < all.count(); ++n) {
      const auto rows = [&](const RowMajorMatrix& m) {
        return RowMajorMatrix(m.middleRows(all.begin(n), all.length(n)));
      };
      expectSame(run(layer, rows(x)), rows(together));
    }
  }
}

TEST(EncoderLayer, PermutingPositionsPermutesTheOutput) {
  EncoderLayer layer(kSmall);
  fillRandomly(layer, 1);
  const RowMajorMatrix x = randomMatrix(7, 6, 2);
  expectNear(run(layer, x.colwise().reverse()), run(layer, x).colwise().reverse());
}

TEST(EncoderLayer, WritesItsResultToTheMemoryOfItsInput) {
  for (const bool norm_first : {false, true}) {
    EncoderLayer layer(with([=](auto& o) { o.norm_first = norm_first, o.dropout = 0.3f; }));
    fillRandomly(layer, 1);
    for (const bool training : {false, true}) {
      layer.setTraining(training);
      Inference in;
      const Value x = in(randomMatrix(7, 6, 2));
      EXPECT_EQ(layer.forward(in.e, x, Sequences::uniform(1, 7), {}), x);
    }
  }
}

TEST(EncoderLayer, DropoutAppliesToEveryBlockAndPreservesTheExpectation) {
  // Pre-norm with blocks that return constants: output = x + Z_1 c_1 + Z_2 c_2 with Z in {0, 2}.
  EncoderLayer layer(with([](auto& o) { o.norm_first = true, o.dropout = 0.5f; }));
  for (const char* name : {"self_attn.out_proj.weight", "linear2.weight"}) zero(layer, name);
  write(layer, "self_attn.out_proj.bias", RowMajorMatrix::Constant(6, 1, 1));
  write(layer, "linear2.bias", RowMajorMatrix::Constant(6, 1, 10));
  layer.setTraining(true);
  const Index rows = 4000;
  const RowMajorMatrix y = run(layer, RowMajorMatrix::Zero(rows, 6), Sequences::uniform(rows, 1));
  const auto count = static_cast<double>(y.size());
  for (const float value : {0.0f, 2.0f, 20.0f, 22.0f}) {
    const auto times = static_cast<double>((y.array() == value).count());
    EXPECT_NEAR(times / count, 0.25, 4 * std::sqrt(0.25 * 0.75 / count)) << value;
  }
}

TEST(EncoderLayer, ParametersHavePyTorchsOrder) {
  EncoderLayer layer(kSmall);
  EXPECT_EQ(names(layer),
            (std::vector<std::string>{
                "self_attn.in_proj_weight [18, 6]", "self_attn.in_proj_bias [18]", "self_attn.out_proj.weight [6, 6]",
                "self_attn.out_proj.bias [6]", "linear1.weight [10, 6]", "linear1.bias [10]", "linear2.weight [6, 10]",
                "linear2.bias [6]", "norm1.weight [6]", "norm1.bias [6]", "norm2.weight [6]", "norm2.bias [6]"}));
  EncoderLayer bare(with([](auto& o) { o.bias = false, o.norm_bias = false; }));
  for (const std::string& name : names(bare)) EXPECT_EQ(name.find("bias"), std::string::npos) << name;
}

TEST(Encoder, ComposesItsLayersAndTheFinalNorm) {
  Encoder encoder(kSmall, 3, true);
  fillRandomly(encoder, 1);
  const RowMajorMatrix x = randomMatrix(5, 6, 2);
  RowMajorMatrix expected = x;
  for (Index i = 0; i < encoder.numLayers(); ++i) expected = run(encoder.layer(i), expected);
  ASSERT_NE(encoder.finalNorm(), nullptr);
  Inference in;
  std::vector<std::vector<float>> weights(3, std::vector<float>(2 * 5 * 5));
  const std::vector<float*> places = {weights[0].data(), weights[1].data(), weights[2].data()};
  const Value y = encoder.forward(in.e, in(x), Sequences::uniform(1, 5), {}, places);
  expectSame(y.values(), normed(expected, encoder, "norm"));
  for (const auto& layer : weights) {
    for (size_t row = 0; row < 10; ++row) {
      float sum = 0;
      for (size_t j = 0; j < 5; ++j) sum += layer[5 * row + j];
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
  EXPECT_EQ(names(encoder).front(), "layers.0.self_attn.in_proj_weight [18, 6]");
  EXPECT_EQ(names(encoder).back(), "norm.bias [6]");
  EXPECT_EQ(Encoder(kSmall, 2, false).finalNorm(), nullptr);
}

TEST(Encoder, LayersMayHaveDifferentNumbersOfHeads) {
  const std::vector<Index> heads = {3, 1};
  Encoder encoder(with([](auto& o) { o.key_dim = 4, o.value_dim = 2; }), 2, false, heads);
  fillRandomly(encoder, 1);
  EXPECT_EQ(encoder.layer(0).options().attention.num_heads, 3);
  EXPECT_EQ(encoder.layer(1).options().attention.num_heads, 1);
  const RowMajorMatrix x = randomMatrix(5, 6, 2);
  Inference in;
  expectSame(encoder.forward(in.e, in(x), Sequences::uniform(1, 5), {}).values(),
             run(encoder.layer(1), run(encoder.layer(0), x)));
  expectError(ErrorCode::kShapeMismatch, "heads: expected [3], got shape [2]",
              [&] { Encoder wrong(kSmall, 3, false, heads); });
}

TEST(Encoder, SeedsAreReproducibleAndLayersDrawIndependently) {
  Encoder encoder(with([](auto& o) { o.dropout = 0.5f, o.norm_first = true; }), 2, false);
  for (Index i = 0; i < 2; ++i) {  // each layer adds only Z_i
    for (const char* name : {"self_attn.out_proj.weight", "self_attn.out_proj.bias", "linear2.weight"})
      zero(encoder.layer(i), name);
    write(encoder.layer(i), "linear2.bias", RowMajorMatrix::Ones(6, 1));
  }
  encoder.setTraining(true);
  const RowMajorMatrix x = RowMajorMatrix::Zero(100, 6);
  const Sequences s = Sequences::uniform(100, 1);
  Inference in;
  const auto seeded = [&]() -> RowMajorMatrix {
    encoder.seed(9);
    return encoder.forward(in.e, in(x), s, {}).values();
  };
  const RowMajorMatrix y = seeded();
  expectSame(seeded(), y);
  EXPECT_TRUE((y.array() == 2).any());  // kept in one layer, dropped in the other
}

TEST(EncoderLayer, RejectsInvalidArguments) {
  using enum ErrorCode;
  const auto make = [](auto change) { return [=] { EncoderLayer layer(with(change)); }; };
  expectError(kInvalidArgument, "embedDim: expected at least 1, got 0", make([](auto& o) { o.embed_dim = 0; }));
  expectError(kInvalidArgument,
              "numHeads: expected a divisor of embedDim (6) unless keyDim and valueDim are given, got 4",
              make([](auto& o) { o.num_heads = 4; }));
  expectError(kInvalidArgument, "feedForwardDim: expected at least 1, got 0",
              make([](auto& o) { o.feed_forward_dim = 0; }));
  expectError(kOutOfMemory,
              "linear1.weight: expected a size that fits into 4 GB of memory, got shape [2, 1073741824, 6]",
              make([](auto& o) { o.feed_forward_dim = 1 << 30, o.gated = true; }));
  expectError(kInvalidArgument, "dropout: expected a rate in [0, 1], got -0.5",
              make([](auto& o) { o.dropout = -0.5f; }));
  expectError(kInvalidArgument, "eps: expected a finite number >= 0, got NaN",
              make([](auto& o) { o.eps = std::nanf(""); }));
  expectError(kInvalidArgument, "numLayers: expected at least 1, got 0", [] { Encoder encoder(kSmall, 0, false); });
  expectError(kOutOfMemory, "numLayers: expected a size that fits into 4 GB of memory, got shape [1073741824, 328]",
              [] { Encoder encoder(kSmall, 1 << 30, false); });
  EncoderLayer layer(kSmall);
  expectError(kShapeMismatch, "x: expected [4, 6], got shape [4, 5]", [&] { run(layer, randomMatrix(4, 5, 1)); });
  expectError(kShapeMismatch, "x: expected [5, 6], got shape [4, 6]",
              [&] { run(layer, randomMatrix(4, 6, 1), Sequences::uniform(1, 5)); });
}

}  // namespace
}  // namespace heed
