#include <cstring>
#include <memory>

#include "allocations/failing_allocations.h"
#include "heed/decoder.h"
#include "heed/encoder.h"
#include "heed/encoder_model.h"
#include "heed/linear.h"
#include "heed/module.h"
#include "heed/vector_index.h"
#include "layer_options.h"

/// Inference while allocations fail: layers, models, the index, reading and writing parameters.
namespace heed::test {
namespace {

constexpr LayerOptions kSmallLayer{.embed_dim = 6, .num_heads = 2, .feed_forward_dim = 10, .dropout = 0.3f};

/// A call of a layer in inference. Each call has a new context, so that the arena allocates.
template <class Layer, class Run>
void expectUnchanged(const std::string& name, const std::function<std::shared_ptr<Layer>()>& make, const Run& run) {
  expectUnchangedByFailures(name, [&]() -> ObservedCall {
    const std::shared_ptr<Layer> layer = make();
    fillRandomly(*layer, 1);
    layer->setTraining(true);
    return [layer, run] {
      Inference in;
      const Value y = drawing(*layer, [&] { return run(in, *layer); });
      return observed([&] { return valuesOf({RowMajorMatrix(y.values())}); });
    };
  });
}

TEST(Allocations, OfLayers) {
  const RowMajorMatrix x = randomMatrix(7, 6, 2);
  const Sequences sequences = Sequences::ofLengths({4, 3});
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
    LayerOptions options = kSmallLayer;
    options.precision = precision;
    expectUnchanged<Encoder>(
        "Encoder", [&] { return std::make_shared<Encoder>(options, 2, true); },
        [&](Inference& in, Encoder& layer) { return layer.forward(in.e, in(x), sequences, {}); });
  }
  expectUnchanged<Transformer>(
      "Decoder", [] { return std::make_shared<Transformer>(kSmallLayer, 1, 2); },
      [&](Inference& in, Transformer& layer) {
        return layer.decoder().forward(in.e, {in(x), valueOf(x), sequences, sequences}, {});
      });
}

TEST(Allocations, OfStepsOfADecoder) {
  struct State {
    Decoder decoder{kSmallLayer, 2, true};
    Context context;
    Decoder::Cache cache;
  };
  expectUnchangedByFailures("step", []() -> ObservedCall {
    const auto state = std::make_shared<State>();
    fillRandomly(state->decoder, 1);
    state->decoder.setTraining(true);
    state->cache = state->decoder.makeCache(valueOf(randomMatrix(5, 6, 2)), state->context);
    return [state] {
      Inference in;
      const Value y = drawing(state->decoder,
                              [&] { return state->decoder.step(in.e, in(randomMatrix(2, 6, 3)), state->cache, {}); });
      return observed([&] { return valuesOf({RowMajorMatrix(y.values())}); });
    };
  });
}

EncoderModelConfig modelConfig(Positions positions) {
  EncoderModelConfig made{};
  made.vocab_size = 23;
  made.layer.embed_dim = 12;
  made.num_layers = 2;
  made.layer.attention.num_heads = 3;
  made.layer.feed_forward.feed_forward_dim = 10;
  made.max_positions = 9;
  made.positions = positions;
  made.relative_buckets = positions == Positions::kRelative ? 8 : 2;
  made.relative_distance = positions == Positions::kRelative ? 16 : 9;
  made.rotary_dim = 4;
  return made;
}

const TokenBatch kBatch{.ids = {1, 2, 3, 4, 2, 6, 22, 0, 5},
                        .token_types = {},
                        .positions = {},
                        .sequences = Sequences::ofLengths({3, 1, 5})};

TEST(Allocations, OfModels) {
  for (const Positions positions :
       {Positions::kAbsolute, Positions::kRelative, Positions::kRotary, Positions::kDisentangled}) {
    expectUnchanged<EncoderModel>(
        "EncoderModel", [&] { return std::make_shared<EncoderModel>(modelConfig(positions)); },
        [](Inference& in, EncoderModel& model) {
          Value x = model.embed(in.e, kBatch);
          const PassInputs at = model.inputs(in.e, kBatch.sequences, x);
          for (Index i = 0; i < model.numLayers(); ++i) x = model.runLayer(in.e, i, x, kBatch.sequences, at);
          return model.applyFinalNorm(in.e, x);
        });
  }
}

TEST(Allocations, OfConstructors) {
  expectUnchangedByFailures("Transformer", [] {
    return [] {
      Transformer made(kSmallLayer, 1, 1);
      initialize(made, 3);
      return valuesOf(made);
    };
  });
  expectUnchangedByFailures("EncoderModel", [] {
    return [] {
      EncoderModel made(modelConfig(Positions::kDisentangled));
      return valuesOf(made);
    };
  });
}

TEST(Allocations, OfWritingParameters) {
  for (const Precision precision : {Precision::kFloat32, Precision::kInt8}) {
    LayerOptions options = kSmallLayer;
    options.precision = precision;
    const auto write = [&](const std::string& name, const std::function<void(const Parameter&)>& call) {
      expectUnchangedByFailures(name, [&]() -> ObservedCall {
        const auto layer = std::make_shared<EncoderLayer>(options);
        fillRandomly(*layer, 1);
        return [layer, call] {
          const std::vector<Parameter> all = layer->parameters();
          call(parameter(all, "self_attn.in_proj_weight"));
          return observed([&] { return valuesOf(*layer); });
        };
      });
    };
    write("write", [](const Parameter& p) { p.write(3, 12, randomMatrix(12, 6, 5).data()); });
    write("writeInt8", [](const Parameter& p) {
      const std::vector<signed char> rows(size_t{12 * 6}, 77);
      const std::vector<float> scales(12, 0.5f);
      float row[6];
      p.writeCoded(3, 12, {RowCode::kInt8, 6, reinterpret_cast<const uint8_t*>(rows.data()), scales.data()}, row);
    });
    write("writeRotatedInt8", [](const Parameter& p) {
      const std::vector<signed char> rows(size_t{12 * 6}, 77);
      const std::vector<float> scales(12, 0.5f);
      float row[6];
      p.writeCoded(3, 12, {RowCode::kRotatedInt8, 6, reinterpret_cast<const uint8_t*>(rows.data()), scales.data()},
                   row);
    });
    write("writeCoded", [](const Parameter& p) {
      const std::vector<uint8_t> rows(size_t{12 * 4}, 0x52);
      const std::vector<float> scales(12, 0.5f);
      float row[6];
      p.writeCoded(3, 12, {RowCode::kInt4, 6, rows.data(), scales.data()}, row);
    });
  }
}

TEST(Allocations, OfChangesOfAModule) {
  const auto change = [](const std::string& name, const std::function<void(EncoderLayer&)>& call) {
    expectUnchangedByFailures(name, [&]() -> ObservedCall {
      const auto layer = std::make_shared<EncoderLayer>(kSmallLayer);
      fillRandomly(*layer, 1);
      return [layer, call] {
        const auto state = [&] {
          std::vector<float> all = valuesOf(*layer);
          for (Module* module : layer->modules()) all.push_back(module->training() ? 1 : 0);
          for (const Dropout* dropout : layer->dropouts())
            all.push_back(static_cast<float>(dropout->key().seed % 1000));
          return all;
        };
        std::vector<float> both = observed(state);
        call(*layer);
        return observed([&] {
          const std::vector<float> after = state();
          both.insert(both.end(), after.begin(), after.end());
          return both;
        });
      };
    });
  };
  change("initialize", [](EncoderLayer& layer) { initialize(layer, 3); });
  change("seed", [](EncoderLayer& layer) { layer.seed(7); });
  change("setTraining", [](EncoderLayer& layer) { layer.setTraining(true); });
}

/// A search of an index, with or without candidates.
std::vector<float> searched(VectorIndex& index, const RowMajorMatrix& queries, Index candidates) {
  Context context;
  const std::vector<float> thresholds(static_cast<size_t>(queries.rows()), -kInfinity);
  std::vector<VectorHit> hits(static_cast<size_t>(queries.rows() * 3));
  std::vector<Index> counts(static_cast<size_t>(queries.rows()));
  index.search(queries.data(), queries.rows(),
               {.top_k = 3, .thresholds = thresholds.data(), .candidates = candidates, .allowed = {}}, context,
               hits.data(), counts.data());
  std::vector<float> found;
  for (Index q = 0; q < queries.rows(); ++q) {
    for (Index i = 0; i < counts[static_cast<size_t>(q)]; ++i) {
      const VectorHit& hit = hits[static_cast<size_t>(3 * q + i)];
      found.insert(found.end(), {static_cast<float>(hit.row), hit.score});
    }
  }
  return found;
}

TEST(Allocations, OfAnIndex) {
  constexpr Index kWidth = 20, kRows = 30;
  const RowMajorMatrix rows = randomMatrix(kRows, kWidth, 1), queries = randomMatrix(4, kWidth, 2);
  const std::vector<float> factors(kRows, 1);
  std::vector<std::byte> bytes(size_t{kRows * kWidth * sizeof(float)});
  std::memcpy(bytes.data(), rows.data(), bytes.size());
  for (const VectorForm form : {VectorForm::kFloat32, VectorForm::kInt8, VectorForm::kBits}) {
    const auto make = [&](Index count) {
      const auto index = std::make_shared<VectorIndex>(form, kWidth);
      index->append(bytes.data(), std::span(factors).first(static_cast<size_t>(count)));
      return index;
    };
    for (const Index candidates : {0, 5}) {
      expectUnchangedByFailures("search", [&]() -> ObservedCall {
        return [&, candidates, index = make(kRows)] { return searched(*index, queries, candidates); };
      });
      // An index that has signs if there are candidates.
      const auto changed = [&](const std::string& name, const std::function<void(VectorIndex&)>& change) {
        expectUnchangedByFailures(name, [&]() -> ObservedCall {
          const auto index = make(7);
          (void)searched(*index, queries, candidates);
          return [&, index] {
            change(*index);
            return observed([&] { return searched(*index, queries, candidates); });
          };
        });
      };
      changed("append", [&](VectorIndex& index) { index.append(bytes.data(), factors); });
    }
  }
}

}  // namespace
}  // namespace heed::test
