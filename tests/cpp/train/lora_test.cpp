#include <cmath>

#include "gradients.h"
#include "tiny_encoder.h"

namespace heed::test {
namespace {

using train::EncoderDropout;
using train::EncoderPass;
using train::Graph;
using train::Lora;
using train::ParameterGradients;
using train::TrainableEncoder;
using train::Variable;

/// A model with LoRA adapters on the attention of all layers, with random A and B.
struct Updated {
  EncoderModel model{tinyConfig()};
  std::unique_ptr<TrainableEncoder> encoder;
  std::unique_ptr<Lora> lora;

  explicit Updated(float dropout = 0) {
    fillRandomly(model, 7);
    encoder = std::make_unique<TrainableEncoder>(model, ownNames(model), EncoderDropout{});
    std::vector<train::LoraTarget> targets;
    for (const Parameter& p : encoder->parameters()) {
      if (p.name.ends_with("in_proj_weight") || p.name.ends_with("linear1.weight")) targets.push_back({p.name, p});
    }
    lora = std::make_unique<Lora>(*encoder, targets, train::LoraOptions{.rank = 2, .alpha = 3, .dropout = dropout});
    fillRandomly(*lora, 11);
  }
};

TEST(Lora, HasTheGradientsOfTheWeightThatItUpdates) {
  const RowMajorMatrix cotangent = randomMatrix(9, 12, 3);
  Updated updated, merged;
  merged.lora->merge();
  Context context;
  Graph graph(context);
  ParameterGradients of_updates(*updated.lora), of_base(*updated.encoder), of_merged(*merged.encoder);
  for (size_t i = 0; i < of_base.parameters().size(); ++i) of_base.setRequiresGradient(i, false);
  graph.add(of_updates);
  graph.add(of_base);
  const Variable y = updated.encoder->forward(graph, batch(), {});
  train::Backward::run(graph, y, window(cotangent));
  Graph plain(context);
  plain.add(of_merged);
  const Variable expected = merged.encoder->forward(plain, batch(), {});
  expectNear(y.value(), expected.value());
  train::Backward::run(plain, expected, window(cotangent));
  for (const std::string layer : {"0", "1", "2"}) {
    for (const std::string module : {".self_attn.in_proj_weight", ".linear1.weight"}) {
      const std::string name = "layers." + layer + module;
      // y = x (W + s B A)^T: dB = s dW A^T, dA = s B^T dW.
      const RowMajorMatrix dw = gradientOf(of_merged, name), a = read(*updated.lora, name + ".lora_A.weight"),
                           b = read(*updated.lora, name + ".lora_B.weight");
      expectNear(gradientOf(of_updates, name + ".lora_A.weight"), 1.5f * b.transpose() * dw);
      expectNear(gradientOf(of_updates, name + ".lora_B.weight"), 1.5f * dw * a.transpose());
    }
  }
  for (size_t i = 0; i < of_base.parameters().size(); ++i) {
    EXPECT_FALSE(of_base.hasGradient(i));
    EXPECT_EQ(of_base.entry(i).dense.data(), nullptr);
  }
}

TEST(Lora, ChangesNothingWhileBIsZero) {
  Updated updated;
  for (const Parameter& p : updated.lora->parameters()) {
    if (p.name.ends_with("lora_B.weight")) zero(*updated.lora, p.name);
  }
  Context context;
  Graph graph(context);
  const Variable y = updated.encoder->forward(graph, batch(), {});
  updated.lora->detach();
  expectSame(y.value(), updated.encoder->forward(graph, batch(), {}).value());
}

TEST(Lora, GivesTheBitsOfTrainingInInference) {
  Updated updated;
  Context context;
  Graph graph(context);
  InferenceEvaluator e(context);
  EncoderModel& model = updated.model;
  Value x = model.embed(e, batch());
  const PassInputs inputs = model.inputs(e, batch().sequences, x);
  for (Index i = 0; i < model.numLayers(); ++i) x = model.runLayer(e, i, x, batch().sequences, inputs);
  expectSame(model.applyFinalNorm(e, x).values(), updated.encoder->forward(graph, batch(), {}).value());
}

TEST(Lora, DropsAnewInEachPassAndRecomputesItsDraws) {
  const RowMajorMatrix cotangent = randomMatrix(9, 12, 3);
  std::vector<std::map<std::string, RowMajorMatrix>> found;
  for (const bool recompute : {false, true}) {
    Updated updated(0.4f);
    updated.lora->seed(3);
    Context context;
    Graph graph(context);
    ParameterGradients gradients(*updated.lora);
    graph.add(gradients);
    const EncoderPass pass{true, recompute};
    const Variable first = updated.encoder->forward(graph, batch(), pass);
    const Variable second = updated.encoder->forward(graph, batch(), pass);
    EXPECT_GT((first.value() - second.value()).cwiseAbs().maxCoeff(), 0);
    train::Backward::run(graph, first, window(cotangent));
    found.push_back(allGradients(gradients));
  }
  expectSameGradients(found[1], found[0]);
}

TEST(Lora, RefusesBadOptions) {
  Updated updated;
  const std::vector<train::LoraTarget> targets = {{"w", updated.encoder->parameters()[5]}};
  expectError(ErrorCode::kInvalidArgument, "rank:", [&] { Lora(*updated.encoder, targets, {.rank = 0, .alpha = 1}); });
  expectError(ErrorCode::kInvalidArgument,
              "alpha:", [&] { Lora(*updated.encoder, targets, {.rank = 1, .alpha = NAN}); });
  expectError(ErrorCode::kInvalidArgument,
              "dropout:", [&] { Lora(*updated.encoder, targets, {.rank = 1, .alpha = 1, .dropout = 2}); });
}

}  // namespace
}  // namespace heed::test
