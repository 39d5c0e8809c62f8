#include "heed/train/encoder_model.h"

#include <cmath>
#include <functional>
#include <map>

#include "gradients.h"
#include "heed/train/sites.h"
#include "tiny_encoder.h"

namespace heed::test {
namespace {

using train::EncoderDropout;
using train::EncoderPass;
using train::Graph;
using train::NamedRows;
using train::ParameterGradients;
using train::TrainableEncoder;
using train::Variable;

TEST(TrainableEncoder, ComputesWhatTheModelComputes) {
  for (const EncoderModelConfig& config : architectures(tinyConfig())) {
    EncoderModel model(config);
    fillRandomly(model, 7);
    TrainableEncoder encoder(model, ownNames(model), {});
    Context context;
    InferenceEvaluator e(context);
    Value x = model.embed(e, batch());
    const PassInputs inputs = model.inputs(e, batch().sequences, x);
    for (Index i = 0; i < model.numLayers(); ++i) x = model.runLayer(e, i, x, batch().sequences, inputs);
    const RowMajorMatrix expected = model.applyFinalNorm(e, x).values();
    Graph graph(context);
    expectSame(encoder.forward(graph, batch(), {}).value(), expected);
    EXPECT_FALSE(encoder.forward(graph, batch(), {.recompute = true}).needsGradient());
  }
}

/// Calls a function at the output of the first layer.
class CallingSites final : public train::RecordedSites {
 public:
  CallingSites(const Sequences& sequences, std::function<void()> call)
      : RecordedSites(sequences, sequences), call_(std::move(call)) {
    SiteEdit edit{0, Site::kOutput, SiteEdit::Verb::kMap};
    edit.extents = {3, 1, 5, 12};
    addEdit(std::move(edit));
  }

 private:
  void map(size_t, std::vector<float>&) override { call_(); }
  Variable readVariable(Graph&, Index, Site, const Variable& x, const SiteValues&) override { return x; }
  Variable operand(size_t) const override { return {}; }

  std::function<void()> call_;
};

TEST(TrainableEncoder, PassesWithinAPassLeaveItsModeAlone) {
  for (const bool training : {false, true}) {
    EncoderModel model(tinyConfig());
    fillRandomly(model, 7);
    TrainableEncoder encoder(model, ownNames(model), {0.1f, 0.2f, 0.3f, 0.1f, 0.2f, 0.2f});
    Context context;
    Graph graph(context);
    bool was_training = false;
    CallingSites sites(batch().sequences, [&] {
      for (const bool inner : {false, true}) (void)encoder.forward(graph, batch(), {.training = inner});
      was_training = encoder.training() && model.training();
    });
    (void)encoder.forward(graph, batch(), {.training = training}, &sites);
    EXPECT_EQ(was_training, training);
    EXPECT_FALSE(encoder.training() || model.training());
  }
}

TEST(TrainableEncoder, RecomputesTheSameGradients) {
  for (const EncoderModelConfig& config : architectures(tinyConfig())) {
    std::vector<std::map<std::string, RowMajorMatrix>> found;
    for (const bool recompute : {false, true}) {
      EncoderModel model(config);
      const RowMajorMatrix cotangent = randomMatrix(9, model.outputWidth(), 3);
      fillRandomly(model, 7);
      TrainableEncoder encoder(model, ownNames(model), {0.1f, 0.2f, 0.3f, 0.1f, 0.2f, 0.2f});
      encoder.seed(5);
      ParameterGradients gradients(encoder);
      Context context;
      context.random = {2, 40};
      Graph graph(context);
      graph.add(gradients);
      // Two graphs that exist at the same time.
      const Variable first = encoder.forward(graph, batch(), {true, recompute});
      const Variable second = encoder.forward(graph, batch(), {true, recompute});
      context.random = {};
      train::Backward::run(graph, first, window(cotangent));
      train::Backward::run(graph, second, window(cotangent));
      found.push_back(allGradients(gradients));
      for (const Parameter& p : gradients.parameters())
        EXPECT_EQ(found.back().at(p.name).cwiseAbs().maxCoeff() > 0, p.kind != ParameterKind::kBuffer) << p.name;
    }
    expectSameGradients(found[1], found[0]);
  }
}

TEST(TrainableEncoder, RecomputesWithTheRequirementsOfTheForwardPass) {
  const RowMajorMatrix cotangent = randomMatrix(9, 12, 3);
  for (const bool recompute : {false, true}) {
    EncoderModel model(tinyConfig());
    fillRandomly(model, 7);
    TrainableEncoder encoder(model, ownNames(model), {});
    ParameterGradients gradients(encoder);
    Context context;
    Graph graph(context);
    graph.add(gradients);
    const auto require = [&](size_t rest) {
      for (size_t i = 0; i < gradients.parameters().size(); ++i) gradients.setRequiresGradient(i, i % 3 != rest);
    };
    require(0);
    const Variable rows = encoder.forward(graph, batch(), {false, recompute});
    require(1);
    train::Backward::run(graph, rows, window(cotangent));
    for (size_t i = 0; i < gradients.parameters().size(); ++i)
      EXPECT_EQ(gradients.hasGradient(i), i % 3 == 2) << gradients.parameters()[i].name << ", " << recompute;
  }
}

TEST(TrainableEncoder, PartsOfAParameterHaveItsGradient) {
  EncoderModelConfig config = tinyConfig();
  config.layer.feed_forward.gated = true;
  const RowMajorMatrix cotangent = randomMatrix(9, 12, 3);
  EncoderModel model(config);
  fillRandomly(model, 7);
  TrainableEncoder whole(model, ownNames(model), {});
  // Divides in_proj into query, key and value, and the gated layer, which has one storage, into halves.
  std::vector<NamedRows> names;
  const std::vector<Parameter> all = model.parameters();
  for (size_t i = 0; i < all.size(); ++i) {
    const Index rows = all[i].shape[0];
    const Index parts = all[i].name.find("in_proj") != std::string::npos   ? 3
                        : all[i].name.find("linear1") != std::string::npos ? 2
                                                                           : 1;
    for (Index part = 0; part < parts; ++part)
      names.push_back({all[i].name + std::to_string(part), i, part * rows / parts, rows / parts});
  }
  TrainableEncoder split(model, names, {});
  for (const bool halves_frozen : {false, true}) {
    Context context;
    std::vector<std::map<std::string, RowMajorMatrix>> found;
    for (TrainableEncoder* encoder : {&whole, &split}) {
      ParameterGradients gradients(*encoder);
      for (size_t i = 0; halves_frozen && encoder == &split && i < names.size(); ++i)
        gradients.setRequiresGradient(i, names[i].name.back() != '0');
      Graph graph(context);
      graph.add(gradients);
      train::Backward::run(graph, encoder->forward(graph, batch(), {}), window(cotangent));
      found.push_back(allGradients(gradients));
    }
    for (const NamedRows& rows : names) {
      SCOPED_TRACE(rows.name);
      const RowMajorMatrix expected = found[0].at(all[rows.parameter].name).middleRows(rows.first_row, rows.rows);
      const bool is_frozen = halves_frozen && rows.name.back() == '0';
      expectNear(found[1].at(rows.name), is_frozen ? RowMajorMatrix(0 * expected) : expected);
    }
  }
  // Values can be read and written through the divided parameters, too.
  const std::string name = "layers.1.linear1.weight";
  const RowMajorMatrix moved = randomMatrix(10, 12, 4);
  write(split, name + "1", moved);
  expectSame(read(model, name).bottomRows(10), moved);
  expectSame(read(split, name + "1"), moved);
  write(split, "layers.1.linear1.bias1", matrix({{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}));
  EXPECT_EQ(read(model, "layers.1.linear1.bias")(19, 0), 10);
  EXPECT_EQ(read(split, "layers.1.linear1.bias1")(0, 0), 1);
}

TEST(TrainableEncoder, AddsTheWordTablesGradientsAsLookupAndAsOutputLayer) {
  EncoderModel model(tinyConfig());
  fillRandomly(model, 7);
  TrainableEncoder encoder(model, ownNames(model), {});
  const std::string word = "embeddings.word.weight";
  const RowMajorMatrix rows = randomMatrix(4, 12, 5), cotangent = randomMatrix(9, 12, 3),
                       logits_cotangent = randomMatrix(4, 23, 6);
  const auto run = [&](const std::string& order) {
    ParameterGradients gradients(encoder);
    Context context;
    Graph graph(context);
    graph.add(gradients);
    for (const char use : order) {
      if (use == 'l') train::Backward::run(graph, encoder.forward(graph, batch(), {}), window(cotangent));
      if (use == 'o') {
        const Variable x = graph.leaf(train::Matrix(window(rows)));
        train::Backward::run(graph, encoder.wordLogits(graph, x), window(logits_cotangent));
      }
    }
    return gradientOf(gradients, word);
  };
  const RowMajorMatrix lookup = run("l"), output = run("o");
  expectNear(output, logits_cotangent.transpose() * rows);
  EXPECT_EQ(lookup.row(7).cwiseAbs().maxCoeff(), 0);  // a token that occurs in no text
  expectNear(run("lo"), lookup + output);
  expectNear(run("ol"), lookup + output);
}

TEST(TrainableEncoder, RefusesInt8AndBadTokens) {
  EncoderModelConfig config = tinyConfig();
  config.layer.precision = Precision::kInt8;
  EncoderModel model(config);
  TrainableEncoder encoder(model, ownNames(model), {});
  Context context;
  Graph graph(context);
  expectError(ErrorCode::kUnsupported, "dtype:", [&] { encoder.forward(graph, batch(), {}); });
  EncoderModel exact(tinyConfig());
  TrainableEncoder usable(exact, ownNames(exact), {});
  TokenBatch wrong = batch();
  wrong.ids[2] = 23;
  expectError(ErrorCode::kInvalidArgument, "ids:", [&] { usable.forward(graph, wrong, {.training = true}); });
  EXPECT_FALSE(exact.training());
}

}  // namespace
}  // namespace heed::test
