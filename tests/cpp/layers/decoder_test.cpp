#include "heed/decoder.h"

#include "layer_options.h"
#include "support.h"

namespace heed {
namespace {

using namespace test;

constexpr LayerOptions kSmallDecoder{.embed_dim = 6, .num_heads = 2, .feed_forward_dim = 10, .dropout = 0};

LayerOptions decoderWith(auto change) {
  LayerOptions options = kSmallDecoder;
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
  Inference in;
  const Sequences targets = Sequences::uniform(1, target.rows()), memories = Sequences::uniform(1, memory.rows());
  return decoder.forward(in.e, {in(target), valueOf(memory), targets, memories}, options).values();
}

template <class Stack, class Cache>
RowMajorMatrix step(Stack& stack, const RowMajorMatrix& target, Cache& cache, const DecoderCallOptions& options) {
  Inference in;
  return stack.step(in.e, in(target), cache, options).values();
}

/// Decodes `target` in steps of the given sizes.
RowMajorMatrix steps(Decoder& decoder, const RowMajorMatrix& target, const RowMajorMatrix& memory,
                     const std::vector<Index>& sizes, const DecoderCallOptions& options = {}) {
  Context context;
  Decoder::Cache cache = decoder.makeCache(valueOf(memory), context);
  RowMajorMatrix y(target.rows(), target.cols());
  Index begin = 0;
  for (const Index size : sizes) {
    y.middleRows(begin, size) = step(decoder, target.middleRows(begin, size), cache, options);
    begin += size;
    EXPECT_EQ(cache[0].length, begin);
  }
  return y;
}

TEST(DecoderLayer, ComposesThreeBlocks) {
  for (const bool norm_first : {false, true}) {
    DecoderLayer layer(decoderWith([=](auto& o) { o.norm_first = norm_first; }));
    fillRandomly(layer, 1);
    const RowMajorMatrix x = randomMatrix(4, 6, 2), memory = randomMatrix(5, 6, 3);
    const Sequences l = Sequences::uniform(1, 4), s = Sequences::uniform(1, 5);
    Inference inference;
    Evaluator& e = inference.e;
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
      const RowMajorMatrix y = f(valueOf(norm_first ? norm(in, name) : in)).values();
      return norm_first ? RowMajorMatrix(in + y) : norm(in + y, name);
    };
    RowMajorMatrix expected = block(x, "norm1", [&](const Value& in) {
      AttentionOptions options;
      options.causal = true;
      return self.forward(e, {in, in, in, l, l}, options);
    });
    expected = block(expected, "norm2", [&](const Value& in) {
      return cross.forward(e, {in, valueOf(memory), valueOf(memory), l, s}, {});
    });
    expected = block(expected, "norm3", [&](const Value& in) { return feed.forward(e, in); });
    expectNear(layer.forward(e, {inference(x), valueOf(memory), l, s}, causal()).values(), expected);
  }
}

TEST(DecoderLayer, ParametersHavePyTorchsOrder) {
  DecoderLayer layer(kSmallDecoder);
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
  Decoder decoder(kSmallDecoder, 2, true);
  fillRandomly(decoder, 1);
  RowMajorMatrix target = randomMatrix(7, 6, 2);
  const RowMajorMatrix memory = randomMatrix(5, 6, 3), before = run(decoder, target, memory);
  target.bottomRows(3) = randomMatrix(3, 6, 4);
  expectSame(run(decoder, target, memory).topRows(4), before.topRows(4));
  EXPECT_NE(run(decoder, target, memory, {}).topRows(4), before.topRows(4));
}

TEST(Decoder, PermutingTheMemoryChangesNothing) {
  Decoder decoder(kSmallDecoder, 2, false);
  fillRandomly(decoder, 1);
  const RowMajorMatrix target = randomMatrix(4, 6, 2), memory = randomMatrix(5, 6, 3);
  expectNear(run(decoder, target, memory.colwise().reverse()), run(decoder, target, memory));
}

TEST(Decoder, StepsWithACacheEqualTheFullPass) {
  const RowMajorMatrix target = randomMatrix(9, 6, 2), memory = randomMatrix(5, 6, 3);
  for (const bool norm_first : {false, true}) {
    for (const bool pruned : {false, true}) {
      Decoder decoder(decoderWith([=](auto& o) {
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
  Decoder decoder(kSmallDecoder, 2, false);
  fillRandomly(decoder, 1);
  const RowMajorMatrix target = randomMatrix(9, 6, 2), memory = randomMatrix(5, 6, 3);
  const Rotary rotary(2, 9, 100, Rotary::Pairing::kInterleaved);
  const PositionBias bias = alibiBias(2, 9);
  DecoderCallOptions options = causal();
  options.self.rotary = &rotary;
  options.self.bias = bias.value();
  options.self.window = 2;
  expectNear(steps(decoder, target, memory, {1, 1, 3, 4}, options), run(decoder, target, memory, options));
}

TEST(Decoder, StepsEqualTheFullPassWithGroupedQueriesAndNormsOfQueriesAndKeys) {
  const RowMajorMatrix target = randomMatrix(9, 8, 2), memory = randomMatrix(5, 8, 3);
  const Rotary rotary(2, 9, 100, Rotary::Pairing::kHalfSplit);
  DecoderCallOptions options = causal();
  options.self.rotary = &rotary;
  for (const Index key_value_heads : {1, 2, 4}) {
    for (const bool qk_norm : {false, true}) {
      Decoder decoder(decoderWith([=](auto& o) {
                        o.embed_dim = 8, o.num_heads = 4;
                        o.key_value_heads = key_value_heads;
                        o.qk_norm = o.rms_norm = qk_norm;
                      }),
                      2, false);
      fillRandomly(decoder, 1);
      expectNear(steps(decoder, target, memory, {1, 1, 3, 4}, options), run(decoder, target, memory, options));
    }
  }
}

TEST(Decoder, BatchedStepsAreBitIdenticalToSingleSteps) {
  Decoder decoder(decoderWith([](auto& o) { o.num_heads = 3, o.key_dim = 4, o.value_dim = 5; }), 2, true);
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
  Decoder::Cache together = decoder.makeCache(valueOf(memories), context, n);
  std::vector<Decoder::Cache> apart;
  for (Index i = 0; i < n; ++i) {
    const RowMajorMatrix memory = rowsOf(memories, i * s, s);
    apart.push_back(decoder.makeCache(valueOf(memory), context));
  }
  Index first = 0;
  for (const Index count : {1, 1, 3, 2}) {
    RowMajorMatrix target(n * count, 6);
    for (Index i = 0; i < n; ++i) target.middleRows(i * count, count) = targets.middleRows(i * l + first, count);
    const RowMajorMatrix output = step(decoder, target, together, options);
    for (Index i = 0; i < n; ++i) {
      const RowMajorMatrix one = rowsOf(target, i * count, count);
      expectSame(rowsOf(output, i * count, count), step(decoder, one, apart[static_cast<size_t>(i)], options));
    }
    first += count;
  }
}

TEST(Decoder, FailedStepLeavesTheCacheUnchanged) {
  Decoder decoder(kSmallDecoder, 2, false);
  fillRandomly(decoder, 1);
  const RowMajorMatrix target = randomMatrix(4, 6, 2), memory = randomMatrix(5, 6, 3),
                       expected = run(decoder, target, memory);
  Context context;
  Decoder::Cache cache = decoder.makeCache(valueOf(memory), context);
  RowMajorMatrix y(4, 6);
  const auto stepFrom = [&](Index begin, Index count, const DecoderCallOptions& options = {}) {
    y.middleRows(begin, count) = step(decoder, target.middleRows(begin, count), cache, options);
  };
  stepFrom(0, 2);
  const RowMajorMatrix three = RowMajorMatrix::Ones(1, 3);
  DecoderCallOptions broken;
  broken.memory.head_mask = valueOf(three);  // detected after the first layer's self-attention has written to the cache
  expectError(ErrorCode::kShapeMismatch, "headMask: expected [1, 2], got shape [1, 3]",
              [&] { stepFrom(2, 2, broken); });
  EXPECT_EQ(cache[0].length, 2);
  stepFrom(2, 2);
  expectNear(y, expected);
}

TEST(Decoder, WeightsOfBothAttentionsSumToOne) {
  Decoder decoder(kSmallDecoder, 1, false);
  fillRandomly(decoder, 1);
  const RowMajorMatrix target = randomMatrix(3, 6, 2), memory = randomMatrix(4, 6, 3);
  std::vector<float> self(2 * 3 * 3), cross(2 * 3 * 4);
  const DecoderWeights weights{self.data(), cross.data()};
  Inference in;
  const Sequences targets = Sequences::uniform(1, 3), memories = Sequences::uniform(1, 4);
  decoder.forward(in.e, {in(target), valueOf(memory), targets, memories}, causal(), {&weights, 1});
  const auto expectSums = [](const std::vector<float>& w, Index columns) {
    const ConstMatrixView rows = view(w.data(), static_cast<Index>(w.size()) / columns, columns);
    expectNear(rows.rowwise().sum(), RowMajorMatrix::Ones(rows.rows(), 1));
  };
  expectSums(self, 3);
  expectSums(cross, 4);
  EXPECT_EQ(self[1], 0);  // query 0, key 1
}

TEST(Decoder, DropoutIsSeeded) {
  Decoder decoder(decoderWith([](auto& o) { o.dropout = 0.4f; }), 2, true);
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

TEST(Decoder, RejectsWhatOnlyEncoderLayersHave) {
  const auto refuses = [](const std::string& name, auto change) {
    expectError(ErrorCode::kUnsupported, name + ": decoder layers do not support this option",
                [&] { DecoderLayer layer(decoderWith(change)); });
  };
  refuses("outputNorms", [](auto& o) { o.output_norms = true; });
  refuses("layerScale", [](auto& o) { o.layer_scale = true; });
  refuses("nestedNorm", [](auto& o) { o.nested_norm = true; });
  refuses("attentionNorm", [](auto& o) { o.attention_norm = false; });
  refuses("positionProjections", [](auto& o) { o.position_projections = true; });
}

TEST(Decoder, RejectsIncompatibleArguments) {
  using enum ErrorCode;
  Decoder decoder(kSmallDecoder, 2, false), other(kSmallDecoder, 1, false);
  const RowMajorMatrix target = randomMatrix(4, 6, 2), memory = randomMatrix(5, 6, 3), narrow = randomMatrix(5, 5, 3);
  Context context;
  expectError(kInvalidArgument, "numLayers: expected at least 1, got -2", [] { Decoder d(kSmallDecoder, -2, false); });
  expectError(kShapeMismatch, "memory: expected [5, 6], got shape [5, 5]", [&] { run(decoder, target, narrow); });
  expectError(kShapeMismatch, "target: expected [5, 6], got shape [5, 5]", [&] { run(decoder, narrow, memory); });
  expectError(kShapeMismatch, "memory: expected [5, 6], got shape [5, 5]",
              [&] { decoder.makeCache(valueOf(narrow), context); });
  Decoder::Cache cache = other.makeCache(valueOf(memory), context);
  expectError(kInvalidArgument, "cache: expected a cache made by this decoder, got a cache of 1 layers",
              [&] { step(decoder, target, cache, {}); });
  // A cache of another width.
  Decoder slim(decoderWith([](auto& o) { o.key_dim = 2; }), 1, false),
      wide(decoderWith([](auto& o) { o.value_dim = 7; }), 1, false);
  for (Decoder* foreign : {&slim, &wide}) {
    Decoder::Cache of_foreign = foreign->makeCache(valueOf(memory), context);
    expectError(kInvalidArgument, "cache: expected a cache made by this decoder, with keys and values of width [6, 6]",
                [&] { step(other, target, of_foreign, {}); });
  }
  Decoder::Cache empty(1);
  expectError(kInvalidArgument, "cache: expected a cache made by this decoder, with keys and values of width",
              [&] { step(other, target, empty, {}); });
  expectError(kShapeMismatch, "target: expected [5, 6], got shape [5, 5]", [&] { step(other, narrow, cache, {}); });
  expectError(kInvalidArgument, "memory: expected at least 1 sequence, got 0",
              [&] { decoder.makeCache(valueOf(memory), context, 0); });
  expectError(kShapeMismatch, "memory: expected [4, 6], got shape [5, 6]",
              [&] { decoder.makeCache(valueOf(memory), context, 2); });
  const Rotary rotary(2, 9, 100, Rotary::Pairing::kInterleaved);
  DecoderCallOptions turned;
  turned.memory.rotary = &rotary;
  expectError(kUnsupported,
              "memory.rotary: steps do not support rotary positions of the memory (the cache holds unrotated keys)",
              [&] { step(other, target, cache, turned); });
}

TEST(Transformer, PassesTheEncodersOutputToTheDecoder) {
  Transformer transformer(kSmallDecoder, 2, 1);
  fillRandomly(transformer, 1);
  const std::vector<std::string> all = names(transformer);
  EXPECT_EQ(all.front(), "encoder.layers.0.self_attn.in_proj_weight [18, 6]");
  EXPECT_EQ(all.back(), "decoder.norm.bias [6]");
  EXPECT_NE(std::find(all.begin(), all.end(), "encoder.norm.weight [6]"), all.end());
  EXPECT_EQ(transformer.encoder().numLayers(), 2);
  EXPECT_EQ(transformer.decoder().numLayers(), 1);
  const RowMajorMatrix source = randomMatrix(5, 6, 2), target = randomMatrix(4, 6, 3);
  Inference in;
  const Sequences s = Sequences::uniform(1, 5), t = Sequences::uniform(1, 4);
  const RowMajorMatrix memory = transformer.encoder().forward(in.e, in(source), s, {}).values();
  const auto [y, got_memory] = transformer.forward(in.e, in(source), in(target), s, t, {}, causal());
  expectSame(got_memory.values(), memory);
  expectSame(y.values(), run(transformer.decoder(), target, memory));
}

TEST(Transformer, TrainingAndSeedReachBothStacks) {
  Transformer transformer(decoderWith([](auto& o) { o.dropout = 0.4f; }), 1, 1);
  fillRandomly(transformer, 1);
  transformer.setTraining(true);
  EXPECT_TRUE(transformer.encoder().training());
  EXPECT_TRUE(transformer.decoder().training());
  const RowMajorMatrix source = randomMatrix(5, 6, 2), target = randomMatrix(4, 6, 3);
  const auto forward = [&]() -> RowMajorMatrix {
    Inference in;
    const Sequences s = Sequences::uniform(1, 5), t = Sequences::uniform(1, 4);
    return transformer.forward(in.e, in(source), in(target), s, t, {}, causal()).output.values();
  };
  transformer.seed(1);
  const RowMajorMatrix first = forward();
  EXPECT_NE(forward(), first);
  transformer.seed(1);
  expectSame(forward(), first);
}

}  // namespace
}  // namespace heed
