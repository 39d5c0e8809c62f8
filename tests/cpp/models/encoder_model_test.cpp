#include "heed/encoder_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "architectures.h"
#include "heed/linear.h"
#include "heed/pooling.h"
#include "support.h"

namespace heed {
namespace {

/// Wider layers and longer texts than in the tests of training.
EncoderModelConfig tinyConfig() {
  EncoderModelConfig config = test::tinyConfig();
  config.vocab_size = 37;
  config.layer.embed_dim = 24;
  config.layer.feed_forward.feed_forward_dim = 40;
  config.max_positions = 20;
  return config;
}

TokenBatch batchOf(const std::vector<std::vector<int32_t>>& texts) {
  std::vector<int32_t> ids;
  std::vector<Index> lengths;
  for (const auto& text : texts) {
    ids.insert(ids.end(), text.begin(), text.end());
    lengths.push_back(static_cast<Index>(text.size()));
  }
  return {.ids = ids, .token_types = {}, .positions = {}, .sequences = Sequences::ofLengths(lengths)};
}

RowMajorMatrix run(EncoderModel& model, const TokenBatch& batch, std::span<const MaskTensor> masks = {}) {
  test::Inference in;
  Value x = model.embed(in.e, batch);
  const PassInputs inputs = model.inputs(in.e, batch.sequences, x);
  for (Index i = 0; i < model.numLayers(); ++i)
    x = model.runLayer(in.e, i, x, batch.sequences, inputs, {}, nullptr, masks, batch.task);
  return model.applyFinalNorm(in.e, x).values();
}

ErrorCode codeOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kUnsupported;
}

std::vector<EncoderModelConfig> architectures() {
  std::vector<EncoderModelConfig> all = test::architectures(tinyConfig());
  all.push_back(tinyConfig());
  all.back().layer.precision = Precision::kInt8;
  return all;
}

TEST(EncoderModel, TakesBatchesWithoutTokens) {
  for (const EncoderModelConfig& config : architectures()) {
    EncoderModel model(config);
    test::fillRandomly(model, 7);
    for (const std::vector<std::vector<int32_t>>& texts : {std::vector<std::vector<int32_t>>{}, {{}}, {{}, {}}}) {
      const RowMajorMatrix none = run(model, batchOf(texts));
      EXPECT_EQ(none.rows(), 0);
      EXPECT_EQ(none.cols(), model.outputWidth());
    }
    EXPECT_EQ(run(model, batchOf({{}, {1, 2}, {}})), run(model, batchOf({{1, 2}})));
  }
}

TEST(EncoderModel, ResultDoesNotDependOnOtherTexts) {
  const std::vector<std::vector<int32_t>> texts = {
      {1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10, 11, 12, 13}, {3, 2, 1, 0, 36, 35, 34}};
  for (const EncoderModelConfig& config : architectures()) {
    EncoderModel model(config);
    test::fillRandomly(model, 7);
    const TokenBatch together = batchOf(texts);
    const RowMajorMatrix batch = run(model, together);
    for (size_t n = 0; n < texts.size(); ++n) {
      const RowMajorMatrix alone = run(model, batchOf({texts[n]}));
      const auto rows = batch.middleRows(together.sequences.begin(static_cast<Index>(n)), alone.rows());
      EXPECT_TRUE((rows.array() == alone.array()).all()) << "text " << n;
    }
  }
}

std::vector<float> valuesOf(const Parameter& parameter) {
  std::vector<float> values(static_cast<size_t>(parameter.shape.size()));
  parameter.read(0, parameter.shape[0], values.data());
  return values;
}

TEST(EncoderModel, AdaptersOfATaskAddTheirProductsToTheWeights) {
  EncoderModelConfig config = tinyConfig();
  config.adapter_tasks = 3;
  config.adapter_rank = 2;
  config.adapter_scale = 0.75f;
  EncoderModel adapted(config), plain(tinyConfig());
  test::fillRandomly(adapted, 5);
  test::fillRandomly(plain, 6);
  const std::vector<std::vector<int32_t>> texts = {{1, 2, 3}, {5, 6, 7, 8, 9}};
  std::map<std::string, Parameter> all;
  for (const Parameter& parameter : adapted.parameters()) all.emplace(parameter.name, parameter);
  for (Index task = -1; task < config.adapter_tasks; ++task) {
    for (const Parameter& parameter : plain.parameters()) {
      std::vector<float> values = valuesOf(all.at(parameter.name));
      // Without ".weight" or "_weight".
      const std::string module = parameter.name.substr(0, parameter.name.size() - std::string(".weight").size());
      const auto found = all.find(module + ".lora_A");
      if (task >= 0 && parameter.name.ends_with("weight") && found != all.end()) {
        const std::vector<float> a = valuesOf(found->second), b = valuesOf(all.at(module + ".lora_B"));
        const Index rows = parameter.shape[0], columns = parameter.shape[1], rank = config.adapter_rank;
        const bool is_table = module.starts_with("embeddings.");
        const auto at = [&](const std::vector<float>& of, Index row, Index column, Index height, Index width) {
          return of[static_cast<size_t>((task * height + row) * width + column)];
        };
        for (Index i = 0; i < rows; ++i) {
          for (Index j = 0; j < columns; ++j) {
            for (Index k = 0; k < rank; ++k) {
              const float product = is_table ? at(a, i, k, rows, rank) * at(b, k, j, rank, columns)
                                             : at(b, i, k, rows, rank) * at(a, k, j, rank, columns);
              values[static_cast<size_t>(i * columns + j)] += config.adapter_scale * product;
            }
          }
        }
      }
      parameter.write(0, parameter.shape[0], values.data());
    }
    TokenBatch batch = batchOf(texts);
    const RowMajorMatrix expected = run(plain, batch);
    batch.task = task;
    const RowMajorMatrix got = run(adapted, batch);
    EXPECT_LT((got - expected).cwiseAbs().maxCoeff(), 1e-4f) << "task " << task;
  }
  TokenBatch batch = batchOf(texts);
  batch.task = 3;
  EXPECT_EQ(codeOf([&] { run(adapted, batch); }), ErrorCode::kInvalidArgument);
}

/// The hidden states of texts that are padded to one length, with a mask of the padding.
RowMajorMatrix runPadded(EncoderModel& model, const std::vector<std::vector<int32_t>>& texts, Index length,
                         Mask::Kind kind) {
  std::vector<std::vector<int32_t>> padded = texts;
  for (auto& text : padded) text.resize(static_cast<size_t>(length), 9);
  const TokenBatch batch = batchOf(padded);
  const auto size = static_cast<size_t>(batch.sequences.totalRows());
  std::vector<uint8_t> allowed(size);
  std::vector<float> added(size, -std::numeric_limits<float>::infinity());
  for (size_t n = 0; n < texts.size(); ++n) {
    const auto first = static_cast<Index>(n) * length, count = static_cast<Index>(texts[n].size());
    std::fill_n(allowed.begin() + first, count, uint8_t{1});
    std::fill_n(added.begin() + first, count, 0.0f);
  }
  const void* data = kind == Mask::Kind::kBoolean ? static_cast<const void*>(allowed.data()) : added.data();
  const MaskTensor mask{"keyMask", kind, data, {batch.sequences.count(), length}, true};
  return run(model, batch, {&mask, 1});
}

TEST(EncoderModel, MasksOfKeysHidePadding) {
  const std::vector<std::vector<int32_t>> texts = {{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10, 11}};
  for (const EncoderModelConfig& config : architectures()) {
    if (config.convolution > 0) continue;  // combines neighbouring rows, regardless of key masks
    EncoderModel model(config);
    test::fillRandomly(model, 7);
    for (const Mask::Kind kind : {Mask::Kind::kBoolean, Mask::Kind::kAdditive}) {
      const Index length = 11;
      const RowMajorMatrix padded = runPadded(model, texts, length, kind);
      for (size_t n = 0; n < texts.size(); ++n) {
        const RowMajorMatrix alone = run(model, batchOf({texts[n]}));
        test::expectSame(padded.middleRows(static_cast<Index>(n) * length, alone.rows()), alone);
      }
    }
  }
}

// Values that a model caches between calls, such as projected relative positions, must not change results.
TEST(EncoderModel, ResultDoesNotDependOnEarlierCalls) {
  const TokenBatch texts[] = {batchOf({{1, 2, 3, 4}}), batchOf({{5, 6, 7, 8, 9, 10, 11, 12, 13}, {4, 3}}),
                              batchOf({{1}, {2, 3}}), batchOf({std::vector<int32_t>(20, 7)}), batchOf({{4, 5, 6}})};
  for (EncoderModelConfig config : architectures()) {
    for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
      config.layer.precision = precision;
      EncoderModel model(config);
      test::fillRandomly(model, 9);
      for (const TokenBatch& batch : texts) {
        EncoderModel fresh(config);
        test::fillRandomly(fresh, 9);
        EXPECT_TRUE((run(model, batch).array() == run(fresh, batch).array()).all());
      }
    }
  }
}

TEST(EncoderModel, FollowsEveryWrittenParameter) {
  const TokenBatch batch = batchOf({{1, 2, 3, 4, 5, 6, 7}});
  for (const EncoderModelConfig& config : architectures()) {
    if (config.layer.precision == Precision::kInt8) continue;  // quantizing values that were read may round differently
    EncoderModel model(config), other(config);
    test::fillRandomly(model, 3);
    test::fillRandomly(other, 4);
    const std::vector<Parameter> from = other.parameters(), to = model.parameters();
    for (size_t i = 0; i < to.size(); ++i) {
      run(model, batch);
      to[i].write(0, to[i].shape[0], valuesOf(from[i]).data());
      EncoderModel fresh(config);
      const std::vector<Parameter> all = fresh.parameters();
      for (size_t k = 0; k < all.size(); ++k) all[k].write(0, all[k].shape[0], valuesOf(to[k]).data());
      EXPECT_TRUE((run(model, batch).array() == run(fresh, batch).array()).all()) << to[i].name;
    }
  }
}

TEST(EncoderModel, KeepsProjectedPositionsUntilAParameterThatTheyDependOnIsWritten) {
  const TokenBatch batch = batchOf({{1, 2, 3, 4, 5, 6, 7}});
  for (const EncoderModelConfig& config : architectures()) {
    if (config.positions != Positions::kDisentangled || config.relative_buckets == 0) continue;
    EncoderModel model(config), other(config);
    Linear head({.in_features = 3, .out_features = 2});
    test::fillRandomly(model, 3);
    const RowMajorMatrix before = run(model, batch);
    // Changes the embeddings behind the model's back: results show whether it computes their projections again.
    const std::vector<Parameter> all = model.parameters();
    const Parameter& embeddings = test::parameter(all, "relative_embeddings.weight");
    const RowMajorMatrix values = test::read(model, "relative_embeddings.weight");
    for (Index i = 0; i < values.size(); ++i) embeddings.parts[0].plain[i] += static_cast<float>(i % 3);
    test::fillRandomly(head, 1);
    test::fillRandomly(other, 2);
    test::write(model, "layers.0.linear2.bias", test::read(model, "layers.0.linear2.bias"));
    test::expectSame(run(model, batch), before);
    test::write(model, "relative_embeddings.weight", test::read(model, "relative_embeddings.weight"));
    EXPECT_NE(run(model, batch), before);
    test::write(model, "relative_embeddings.weight", values);
    test::expectSame(run(model, batch), before);
  }
}

TEST(EncoderModel, DependsOnOrderInEveryArchitecture) {
  for (const EncoderModelConfig& config : architectures()) {
    EncoderModel model(config);
    test::fillRandomly(model, 11);
    const RowMajorMatrix forward = run(model, batchOf({{1, 2, 3, 4}}));
    const RowMajorMatrix other = run(model, batchOf({{2, 1, 4, 3}}));  // ALiBi does not distinguish the reverse order
    EXPECT_GT((forward.colwise().mean() - other.colwise().mean()).norm(), 1e-4f);
  }
}

TEST(EncoderModel, RejectsInvalidConfigs) {
  const auto codeWith = [](const std::function<void(EncoderModelConfig&)>& change) {
    EncoderModelConfig config = tinyConfig();
    change(config);
    return codeOf([&] { EncoderModel model(config); });
  };
  EXPECT_EQ(codeWith([](auto& c) { c.vocab_size = 0; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.layer.attention.num_heads = 5; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.layer.embed_dim = -8; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.position_offset = 20; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.layer.norm.eps = 0; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.positions = Positions::kRotary; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) {
              c.positions = Positions::kRotary, c.rotary_dim = c.layer.attention.key_dim = 6, c.window = 2;
              c.local_head_dim = 4;
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.layer.attention.key_value_heads = 2; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.layer.attention.key_dim = 1 << 20; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) {
              c.layer.embed_dim = c.layer.attention.num_heads = c.layer.attention.key_dim = 1 << 16, c.num_layers = 0;
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.attention_scale = std::nanf(""); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.positions = Positions::kDisentangled, c.relative_buckets = 1; }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) {
              c.positions = Positions::kDisentangled, c.relative_buckets = 8, c.relative_distance = 5;
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.vocab_size = 0, c.patch_size = 2, c.registers = c.max_positions; }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.window = 2, c.local_layers = {true, false}; }), ErrorCode::kShapeMismatch);
  EXPECT_EQ(codeWith([](auto& c) { c.layer_input_dim = 4, c.shared_layers = true; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.positions = Positions::kRotary, c.rotary_frequencies = {1, std::nan("")}; }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) { c.adapter_tasks = 2, c.layer.feed_forward.gated = true; }), ErrorCode::kUnsupported);
  EXPECT_EQ(codeWith([](auto& c) { c.vocab_size = 1 << 24, c.layer.embed_dim = 3 << 14; }), ErrorCode::kOutOfMemory);
  EXPECT_EQ(codeWith([](auto& c) {
              c.positions = Positions::kRotary, c.max_positions = 1 << 24, c.layer.embed_dim = 1 << 10,
              c.layer.attention.num_heads = 1, c.rotary_dim = 1 << 10;
            }),
            ErrorCode::kOutOfMemory);
  EXPECT_EQ(codeWith([](auto& c) {
              c.layer.feed_forward.feed_forward_dim = kMaxInt8Inputs + 1, c.layer.precision = Precision::kInt8;
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeWith([](auto& c) {
              c.num_layers = 1024, c.layer.feed_forward.feed_forward_dim = 1 << 18, c.layer.embed_dim = 3 << 12;
            }),
            ErrorCode::kOutOfMemory);
}

// A product of rows and width beyond 32 bits is rejected. Its lower half could be allocated.
TEST(EncoderModel, RefusesHiddenStatesBeyondMemory) {
  EncoderModelConfig config{};
  config.vocab_size = config.layer.attention.num_heads = config.layer.feed_forward.feed_forward_dim = 1;
  config.layer.embed_dim = 1 << 16;
  config.num_layers = 0;
  config.max_positions = 8;
  config.positions = Positions::kRotary;
  config.rotary_dim = config.layer.attention.key_dim = 2;
  EncoderModel model(config);
  EXPECT_EQ(model.hiddenStates(Sequences::ofLengths({3})).size(), 3u << 16);
  test::expectError(ErrorCode::kOutOfMemory,
                    "hidden states: expected a size that fits into 4 GB of memory, got shape [65537, 65536]",
                    [&] { (void)model.hiddenStates(Sequences::ofLengths({65'536, 1})); });
  test::expectError(ErrorCode::kOutOfMemory,
                    "hidden states:", [&] { (void)model.hiddenStates(Sequences::ofLengths({1 << 24})); });
}

TEST(EncoderModel, RejectsTokensOutsideItsTables) {
  EncoderModel model(tinyConfig());
  const auto codeFor = [&](const TokenBatch& batch) { return codeOf([&] { run(model, batch); }); };
  EXPECT_EQ(codeFor(batchOf({{1, 37}})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeFor(batchOf({{-1}})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeFor(batchOf({std::vector<int32_t>(21, 1)})), ErrorCode::kInvalidArgument);
  TokenBatch types = batchOf({{1, 2}});
  types.token_types = {0, 2};
  EXPECT_EQ(codeFor(types), ErrorCode::kInvalidArgument);
  TokenBatch positions = batchOf({{1, 2}});
  positions.positions = {0, 20};
  EXPECT_EQ(codeFor(positions), ErrorCode::kInvalidArgument);
  positions.positions = {0};
  EXPECT_EQ(codeFor(positions), ErrorCode::kShapeMismatch);
}

TEST(EncoderModel, ExplicitPositionsEqualTheDefault) {
  EncoderModelConfig config = tinyConfig();
  config.position_offset = 2;
  EncoderModel model(config);
  test::fillRandomly(model, 3);
  TokenBatch batch = batchOf({{1, 2, 3}, {4, 5}});
  const RowMajorMatrix counted = run(model, batch);
  batch.positions = {2, 3, 4, 2, 3};
  EXPECT_TRUE((run(model, batch).array() == counted.array()).all());
  batch.positions = {3, 4, 5, 2, 3};
  EXPECT_FALSE((run(model, batch).array() == counted.array()).all());
}

TEST(EncoderModel, AcceptsEmptyBatchesAndEmptyTexts) {
  EncoderModel model(tinyConfig());
  test::fillRandomly(model, 5);
  EXPECT_EQ(run(model, batchOf({})).rows(), 0);
  EXPECT_EQ(run(model, batchOf({{}, {1}, {}})).rows(), 1);
}

std::vector<float> pooled(Pooling pooling, const std::vector<Index>& skipped = {}) {
  const std::vector<float> rows = {1, 5, 3, -1, 2, 8, 7, 7};
  std::vector<float> out(6, -1);
  pool(view(rows.data(), 4, 2), Sequences::ofLengths({3, 0, 1}), skipped, pooling, view(out.data(), 3, 2));
  return out;
}

TEST(Pool, ComputesMeansFirstLastAndMaximum) {
  const float root = std::sqrt(3.0f);
  EXPECT_EQ(pooled(Pooling::kMean), (std::vector<float>{2, 4, 0, 0, 7, 7}));
  EXPECT_EQ(pooled(Pooling::kCls), (std::vector<float>{1, 5, 0, 0, 7, 7}));
  EXPECT_EQ(pooled(Pooling::kLast), (std::vector<float>{2, 8, 0, 0, 7, 7}));
  EXPECT_EQ(pooled(Pooling::kMax), (std::vector<float>{3, 8, 0, 0, 7, 7}));
  EXPECT_EQ(pooled(Pooling::kMeanSqrtLength), (std::vector<float>{6 / root, 12 / root, 0, 0, 7, 7}));
  EXPECT_EQ(pooled(Pooling::kWeightedMean), (std::vector<float>{13.0f / 6, 27.0f / 6, 0, 0, 7, 7}));
}

TEST(Pool, PropagatesNaNInAnyRow) {
  for (Index odd = 0; odd < 3; ++odd) {
    RowMajorMatrix rows = RowMajorMatrix::Ones(3, 2), out(1, 2);
    rows(odd, 1) = std::nanf("");
    for (const Pooling pooling : {Pooling::kMax, Pooling::kMean, Pooling::kMeanSqrtLength, Pooling::kWeightedMean}) {
      pool(view(static_cast<const float*>(rows.data()), rows.rows(), rows.cols()), Sequences::uniform(1, 3), {},
           pooling, view(out.data(), out.rows(), out.cols()));
      EXPECT_TRUE(std::isnan(out(0, 1)));
      EXPECT_EQ(out(0, 0), pooling == Pooling::kMeanSqrtLength ? 3 / std::sqrt(3.0f) : 1);
    }
  }
}

TEST(Pool, WeightedMeanOfManyTokensDoesNotOverflow) {
  // sum i = 100,000 * 100,001 / 2 exceeds 2^32.
  const RowMajorMatrix rows = RowMajorMatrix::Constant(100'000, 1, 2);
  RowMajorMatrix out(1, 1);
  pool(view(static_cast<const float*>(rows.data()), rows.rows(), rows.cols()), Sequences::uniform(1, rows.rows()), {},
       Pooling::kWeightedMean, view(out.data(), out.rows(), out.cols()));
  EXPECT_NEAR(out(0, 0), 2, 1e-2);
}

TEST(Pool, SkipsThePrompt) {
  EXPECT_EQ(pooled(Pooling::kMean, {2, 0, 0}), (std::vector<float>{2, 8, 0, 0, 7, 7}));
  EXPECT_EQ(pooled(Pooling::kMax, {1, 0, 1}), (std::vector<float>{3, 8, 0, 0, 0, 0}));
  EXPECT_EQ(pooled(Pooling::kWeightedMean, {1, 5, 0}), (std::vector<float>{12.0f / 5, 22.0f / 5, 0, 0, 7, 7}));
  EXPECT_EQ(pooled(Pooling::kCls, {2, 2, 2}), (std::vector<float>{1, 5, 0, 0, 7, 7}));
  EXPECT_EQ(codeOf([] { pooled(Pooling::kMean, {1}); }), ErrorCode::kShapeMismatch);
}

TEST(Pool, HasNames) {
  EXPECT_EQ(poolingNamed("weighted_mean"), Pooling::kWeightedMean);
  EXPECT_EQ(poolingNamed("mean"), Pooling::kMean);
  EXPECT_EQ(codeOf([] { poolingNamed("sum"); }), ErrorCode::kInvalidArgument);
}

TEST(EncoderModel, EmbedsManyImagesInMemoryThatGrowsWithTheirNumber) {
  EncoderModelConfig config = tinyConfig();
  config.vocab_size = 0;
  config.patch_size = 4;
  config.class_row = true;
  config.registers = 2;
  config.max_positions = 1 + 16 + 2;
  EncoderModel model(config);
  test::fillRandomly(model, 1);
  constexpr Index kImages = 300, kRows = 1 + 2 + 16;
  const RowMajorMatrix pixels = test::randomMatrix(kImages, 3 * 16 * 16, 2);
  const auto embed = [&](Index first, Index count) {
    test::Inference in;
    const ImageInput image{pixels.row(first).data(), 16, 16, count};
    const RowMajorMatrix rows = model.embed(in.e, image).values();
    // The rows of all images take 0.55 MB. Growing the result image by image in the arena would take 82 MB.
    EXPECT_LT(in.context.arena.capacity(), size_t{2'000'000});
    return rows;
  };
  const RowMajorMatrix all = embed(0, kImages);
  ASSERT_EQ(all.rows(), kImages * kRows);
  for (const Index n : {Index{0}, Index{1}, kImages - 1})
    test::expectSame(all.middleRows(n * kRows, kRows), embed(n, 1));
}

}  // namespace
}  // namespace heed
