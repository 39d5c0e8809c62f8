#include "heed/decoder.h"

#include "heed/transformer.h"
#include "support.h"

namespace heed {
namespace {

using namespace test;

constexpr EncoderLayerOptions kSmall{.embed_dim = 6, .num_heads = 2, .feed_forward_dim = 10, .dropout = 0};

EncoderLayerOptions with(auto change) {
  EncoderLayerOptions options = kSmall;
  change(options);
  return options;
}

DecoderCallOptions causal() {
  DecoderCallOptions options;
  options.self.causal = true;
  return options;
}

RowMajorMatrix run(Decoder& decoder, const RowMajorMatrix& target, const RowMajorMatrix& memory,
                   const DecoderCallOptions& options = causal()) {
  RowMajorMatrix y(target.rows(), target.cols());
  Context context;
  decoder.forward(
      {window(target), window(memory), Sequences::uniform(1, target.rows()), Sequences::uniform(1, memory.rows())},
      options, window(y), {}, context);
  return y;
}

/// Decodes `target` in steps of the given sizes.
RowMajorMatrix steps(Decoder& decoder, const RowMajorMatrix& target, const RowMajorMatrix& memory,
                     const std::vector<Index>& sizes, const DecoderCallOptions& options = {}) {
  Context context;
  Decoder::Cache cache = decoder.makeCache(window(memory), context);
  RowMajorMatrix y(target.rows(), target.cols());
  Index begin = 0;
  for (const Index size : sizes) {
    const ConstMatrixView in = view(target.data() + begin * target.cols(), size, target.cols());
    decoder.step(in, cache, options, view(y.data() + begin * y.cols(), size, y.cols()), context);
    begin += size;
    EXPECT_EQ(cache[0].length, begin);
  }
  return y;
}

TEST(DecoderLayer, ComposesThreeBlocks) {
  for (const bool norm_first : {false, true}) {
    DecoderLayer layer(with([=](auto& o) { o.norm_first = norm_first; }));
    fillRandomly(layer, 1);
    const RowMajorMatrix x = randomMatrix(4, 6, 2), memory = randomMatrix(5, 6, 3);
    const Sequences l = Sequences::uniform(1, 4), s = Sequences::uniform(1, 5);
    Context context;
    // The same blocks as separate layers with the same parameters.
    MultiHeadAttention self({.embed_dim = 6, .num_heads = 2}), cross({.embed_dim = 6, .num_heads = 2});
    FeedForward feed({.embed_dim = 6, .feed_forward_dim = 10});
    for (const char* name : {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}) {
      write(self, name, read(layer, std::string("self_attn.") + name));
      write(cross, name, read(layer, std::string("multihead_attn.") + name));
    }
    for (const char* name : {"linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"})
      write(feed, name, read(layer, name));
    const auto norm = [&](const RowMajorMatrix& in, const std::string& name) {
      RowMajorMatrix out(in.rows(), in.cols());
      layerNorm(window(in), read(layer, name + ".weight").data(), read(layer, name + ".bias").data(), 1e-5f,
                window(out));
      return out;
    };
    const auto block = [&](const RowMajorMatrix& in, const std::string& name, auto f) {
      RowMajorMatrix y(in.rows(), in.cols());
      f(norm_first ? norm(in, name) : in, y);
      return norm_first ? RowMajorMatrix(in + y) : norm(in + y, name);
    };
    RowMajorMatrix expected = block(x, "norm1", [&](const RowMajorMatrix& in, RowMajorMatrix& out) {
      MultiHeadCallOptions options;
      options.causal = true;
      self.forward({window(in), window(in), window(in), l, l}, options, {window(out), nullptr}, context);
    });
    expected = block(expected, "norm2", [&](const RowMajorMatrix& in, RowMajorMatrix& out) {
      cross.forward({window(in), window(memory), window(memory), l, s}, {}, {window(out), nullptr}, context);
    });
    expected = block(expected, "norm3", [&](const RowMajorMatrix& in, RowMajorMatrix& out) {
      feed.forward(window(in), window(out), context);
    });
    RowMajorMatrix y(4, 6);
    layer.forward({window(x), window(memory), l, s}, causal(), window(y), {}, context);
    expectNear(y, expected);
  }
}

TEST(DecoderLayer, ParametersHavePyTorchsOrder) {
  DecoderLayer layer(kSmall);
  std::vector<std::string> expected;
  for (const std::string attention : {"self_attn.", "multihead_attn."}) {
    for (const char* name :
         {"in_proj_weight [18, 6]", "in_proj_bias [18]", "out_proj.weight [6, 6]", "out_proj.bias [6]"})
      expected.push_back(attention + name);
  }
  for (const char* name : {"linear1.weight [10, 6]", "linear1.bias [10]", "linear2.weight [6, 10]", "linear2.bias [6]"})
    expected.push_back(name);
  for (const char* name : {"norm1", "norm2", "norm3"}) {
    for (const char* parameter : {".weight [6]", ".bias [6]"}) expected.push_back(std::string(name) + parameter);
  }
  EXPECT_EQ(names(layer), expected);
}

TEST(Decoder, CausalOutputDoesNotDependOnLaterTargets) {
  Decoder decoder(kSmall, 2, true);
  fillRandomly(decoder, 1);
  RowMajorMatrix target = randomMatrix(7, 6, 2);
  const RowMajorMatrix memory = randomMatrix(5, 6, 3), before = run(decoder, target, memory);
  target.bottomRows(3) = randomMatrix(3, 6, 4);
  expectSame(run(decoder, target, memory).topRows(4), before.topRows(4));
  EXPECT_NE(run(decoder, target, memory, {}).topRows(4), before.topRows(4));
}

TEST(Decoder, PermutingTheMemoryChangesNothing) {
  Decoder decoder(kSmall, 2, false);
  fillRandomly(decoder, 1);
  const RowMajorMatrix target = randomMatrix(4, 6, 2), memory = randomMatrix(5, 6, 3);
  expectNear(run(decoder, target, memory.colwise().reverse()), run(decoder, target, memory));
}

TEST(Decoder, StepsWithACacheEqualTheFullPass) {
  const RowMajorMatrix target = randomMatrix(9, 6, 2), memory = randomMatrix(5, 6, 3);
  for (const bool norm_first : {false, true}) {
    for (const bool pruned : {false, true}) {
      Decoder decoder(with([=](auto& o) {
                        o.norm_first = norm_first;
                        if (pruned) o.num_heads = 3, o.key_dim = 5, o.value_dim = 4;
                      }),
                      2, norm_first);
      fillRandomly(decoder, 1);
      const RowMajorMatrix expected = run(decoder, target, memory);
      expectNear(steps(decoder, target, memory, std::vector<Index>(9, 1)), expected);
      expectNear(steps(decoder, target, memory, {4, 1, 0, 3, 1}), expected);
      expectNear(steps(decoder, target, memory, {9}), expected);
    }
  }
}

TEST(Decoder, StepsEqualTheFullPassWithPositionsWindowsAndBiases) {
  Decoder decoder(kSmall, 2, false);
  fillRandomly(decoder, 1);
  const RowMajorMatrix target = randomMatrix(9, 6, 2), memory = randomMatrix(5, 6, 3);
  const Rotary rotary(2, 9, 100, Rotary::Pairing::kInterleaved);
  const PositionBias bias = alibiBias(2, 9);
  DecoderCallOptions options = causal();
  options.self.rotary = &rotary;
  options.self.bias = &bias;
  options.self.window = 2;
  expectNear(steps(decoder, target, memory, {1, 1, 3, 4}, options), run(decoder, target, memory, options));
}

TEST(Decoder, BatchedStepsAreBitIdenticalToSingleSteps) {
  Decoder decoder(with([](auto& o) { o.num_heads = 3, o.key_dim = 4, o.value_dim = 5; }), 2, true);
  fillRandomly(decoder, 1);
  const Rotary rotary(2, 9, 100, Rotary::Pairing::kHalfSplit);
  DecoderCallOptions options;
  options.self.rotary = &rotary;
  const Index n = 3, l = 7, s = 5;
  const RowMajorMatrix targets = randomMatrix(n * l, 6, 2), memories = randomMatrix(n * s, 6, 3);
  const auto rowsOf = [](const RowMajorMatrix& m, Index begin, Index count) {
    return RowMajorMatrix(m.middleRows(begin, count));
  };
  Context context;
  Decoder::Cache together = decoder.makeCache(window(memories), context, n);
  std::vector<Decoder::Cache> apart;
  for (Index i = 0; i < n; ++i) {
    const RowMajorMatrix memory = rowsOf(memories, i * s, s);
    apart.push_back(decoder.makeCache(window(memory), context));
  }
  Index first = 0;
  for (const Index count : {1, 1, 3, 2}) {
    RowMajorMatrix target(n * count, 6), output(n * count, 6);
    for (Index i = 0; i < n; ++i) target.middleRows(i * count, count) = targets.middleRows(i * l + first, count);
    decoder.step(window(std::as_const(target)), together, options, window(output), context);
    for (Index i = 0; i < n; ++i) {
      const RowMajorMatrix one = rowsOf(target, i * count, count);
      RowMajorMatrix alone(count, 6);
      decoder.step(window(one), apart[static_cast<size_t>(i)], options, window(alone), context);
      expectSame(rowsOf(output, i * count, count), alone);
    }
    first += count;
  }
}

TEST(Decoder, FailedStepLeavesTheCacheUnchanged) {
  Decoder decoder(kSmall, 2, false);
  fillRandomly(decoder, 1);
  const RowMajorMatrix target = randomMatrix(4, 6, 2), memory = randomMatrix(5, 6, 3),
                       expected = run(decoder, target, memory);
  Context context;
  Decoder::Cache cache = decoder.makeCache(window(memory), context);
  RowMajorMatrix y(4, 6);
  const auto step = [&](Index begin, Index count, const DecoderCallOptions& options = {}) {
    decoder.step(view(target.data() + begin * 6, count, 6), cache, options, view(y.data() + begin * 6, count, 6),
                 context);
  };
  step(0, 2);
  const std::vector<float> three(3, 1.0f);
  DecoderCallOptions broken;
  broken.memory.head_mask = three;  // detected after the first layer's self-attention has written to the cache
  expectError(ErrorCode::kShapeMismatch, "headMask: expected [1, 2], got shape [3]", [&] { step(2, 2, broken); });
  EXPECT_EQ(cache[0].length, 2);
  step(2, 2);
  expectNear(y, expected);
}

TEST(Decoder, WeightsOfBothAttentionsSumToOne) {
  Decoder decoder(kSmall, 1, false);
  fillRandomly(decoder, 1);
  const RowMajorMatrix target = randomMatrix(3, 6, 2), memory = randomMatrix(4, 6, 3);
  RowMajorMatrix y(3, 6);
  std::vector<float> self(2 * 3 * 3), cross(2 * 3 * 4);
  const DecoderWeights weights{self.data(), cross.data()};
  Context context;
  decoder.forward({window(target), window(memory), Sequences::uniform(1, 3), Sequences::uniform(1, 4)}, causal(),
                  window(y), {&weights, 1}, context);
  const auto expectSums = [](const std::vector<float>& w, Index columns) {
    const ConstMatrixView rows = view(w.data(), static_cast<Index>(w.size()) / columns, columns);
    expectNear(rows.rowwise().sum(), RowMajorMatrix::Ones(rows.rows(), 1));
  };
  expectSums(self, 3);
  expectSums(cross, 4);
  EXPECT_EQ(self[1], 0);  // query 0, key 1
}

TEST(Decoder, DropoutIsSeeded) {
  Decoder decoder(with([](auto& o) { o.dropout = 0.4f; }), 2, true);
  fillRandomly(decoder, 1);
  const RowMajorMatrix target = randomMatrix(4, 6, 2), memory = randomMatrix(5, 6, 3),
                       plain = run(decoder, target, memory);
  decoder.setTraining(true);
  decoder.seed(1);
  const RowMajorMatrix first = run(decoder, target, memory);
  EXPECT_NE(first, plain);
  EXPECT_NE(run(decoder, target, memory), first);
  decoder.seed(1);
  expectSame(run(decoder, target, memory), first);
}

TEST(Decoder, RejectsIncompatibleArguments) {
  using enum ErrorCode;
  Decoder decoder(kSmall, 2, false), other(kSmall, 1, false);
  const RowMajorMatrix target = randomMatrix(4, 6, 2), memory = randomMatrix(5, 6, 3), narrow = randomMatrix(5, 5, 3);
  RowMajorMatrix y(4, 6), y5(5, 5);
  Context context;
  expectError(kInvalidArgument, "numLayers: expected at least 1, got -2", [] { Decoder d(kSmall, -2, false); });
  expectError(kShapeMismatch, "memory: expected [5, 6], got shape [5, 5]", [&] { run(decoder, target, narrow); });
  expectError(kShapeMismatch, "target: expected [5, 6], got shape [5, 5]", [&] { run(decoder, narrow, memory); });
  expectError(kShapeMismatch, "memory: expected [5, 6], got shape [5, 5]",
              [&] { decoder.makeCache(window(narrow), context); });
  Decoder::Cache cache = other.makeCache(window(memory), context);
  expectError(kInvalidArgument, "cache: expected a cache made by this decoder, got a cache of 1 layers",
              [&] { decoder.step(window(target), cache, {}, window(y), context); });
  expectError(kShapeMismatch, "target: expected [5, 6], got shape [5, 5]",
              [&] { other.step(window(narrow), cache, {}, window(y5), context); });
  expectError(kInvalidArgument, "memory: expected at least 1 sequence, got 0",
              [&] { decoder.makeCache(window(memory), context, 0); });
  expectError(kShapeMismatch, "memory: expected [4, 6], got shape [5, 6]",
              [&] { decoder.makeCache(window(memory), context, 2); });
  const Rotary rotary(2, 9, 100, Rotary::Pairing::kInterleaved);
  DecoderCallOptions turned;
  turned.memory.rotary = &rotary;
  expectError(
      kUnsupported,
      "memory.rotary: expected none in a step (the cache holds unrotated keys of the memory), got rotary positions",
      [&] { other.step(window(target), cache, turned, window(y), context); });
}

TEST(Transformer, PassesTheEncodersOutputToTheDecoder) {
  Transformer transformer(kSmall, 2, 1);
  fillRandomly(transformer, 1);
  const std::vector<std::string> all = names(transformer);
  EXPECT_EQ(all.front(), "encoder.layers.0.self_attn.in_proj_weight [18, 6]");
  EXPECT_EQ(all.back(), "decoder.norm.bias [6]");
  EXPECT_NE(std::find(all.begin(), all.end(), "encoder.norm.weight [6]"), all.end());
  EXPECT_EQ(transformer.encoder().numLayers(), 2);
  EXPECT_EQ(transformer.decoder().numLayers(), 1);
  const RowMajorMatrix source = randomMatrix(5, 6, 2), target = randomMatrix(4, 6, 3);
  RowMajorMatrix memory(5, 6), y(4, 6);
  Context context;
  const Sequences s = Sequences::uniform(1, 5), t = Sequences::uniform(1, 4);
  transformer.encoder().forward(window(source), s, {}, window(memory), {}, context);
  transformer.forward(window(source), window(target), s, t, {}, causal(), window(y), context);
  expectSame(y, run(transformer.decoder(), target, memory));
}

TEST(Transformer, TrainingAndSeedReachBothStacks) {
  Transformer transformer(with([](auto& o) { o.dropout = 0.4f; }), 1, 1);
  fillRandomly(transformer, 1);
  transformer.setTraining(true);
  EXPECT_TRUE(transformer.encoder().training());
  EXPECT_TRUE(transformer.decoder().training());
  const RowMajorMatrix source = randomMatrix(5, 6, 2), target = randomMatrix(4, 6, 3);
  const auto forward = [&] {
    RowMajorMatrix y(4, 6);
    Context context;
    transformer.forward(window(source), window(target), Sequences::uniform(1, 5), Sequences::uniform(1, 4), {},
                        causal(), window(y), context);
    return y;
  };
  transformer.seed(1);
  const RowMajorMatrix first = forward();
  EXPECT_NE(forward(), first);
  transformer.seed(1);
  expectSame(forward(), first);
}

}  // namespace
}  // namespace heed
