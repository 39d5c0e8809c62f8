#include <memory>

#include "allocations/failing_allocations.h"
#include "heed/encoder_model.h"
#include "heed/train/encoder_model.h"
#include "heed/train/lora.h"
#include "heed/train/ops.h"
#include "heed/train/optimizer.h"
#include "train/gradients.h"
#include "train/loss_support.h"

/// Training while allocations fail: forward and backward passes, optimizers, LoRA adapters.
namespace heed::test {
namespace {

using train::Graph;
using train::Lora;
using train::Optimizer;
using train::ParameterGradients;
using train::TrainableEncoder;
using train::Variable;

EncoderModelConfig trainedConfig(Positions positions) {
  EncoderModelConfig made{};
  made.vocab_size = 11;
  made.layer.embed_dim = 6;
  made.num_layers = 2;
  made.layer.attention.num_heads = 2;
  made.layer.feed_forward.feed_forward_dim = 5;
  made.max_positions = 6;
  made.positions = positions;
  made.relative_buckets = 2;
  made.relative_distance = 6;
  return made;
}

TokenBatch trainedBatch() {
  return {.ids = {1, 2, 3, 4, 2, 6}, .token_types = {}, .positions = {}, .sequences = Sequences::ofLengths({2, 4})};
}

/// An encoder in training, with everything that a step needs.
struct Training {
  Context context;
  Graph graph{context};
  EncoderModel model;
  std::unique_ptr<TrainableEncoder> encoder;
  std::unique_ptr<Lora> lora;
  std::unique_ptr<ParameterGradients> gradients;
  Optimizer optimizer{"AdamW"};

  explicit Training(Positions positions = Positions::kAbsolute) : model(trainedConfig(positions)) {
    fillRandomly(model, 1);
    std::vector<train::NamedRows> names;
    for (const Parameter& p : model.parameters()) names.push_back({p.name, names.size(), 0, p.shape[0]});
    encoder =
        std::make_unique<TrainableEncoder>(model, names, train::EncoderDropout{0.1f, 0.2f, 0.1f, 0.1f, 0.1f, 0.1f});
    encoder->seed(3);
    gradients = std::make_unique<ParameterGradients>(*encoder);
    graph.add(*gradients);
    const Index group = optimizer.addGroup({.lr = 0.01, .weight_decay = 0.1});
    for (size_t i = 0; i < gradients->parameters().size(); ++i) optimizer.addParameter(group, *gradients, i);
  }

  /// Adds a LoRA adapter to the first layer.
  void addLora() {
    const std::vector<Parameter> all = encoder->parameters();
    const Parameter weight = parameter(all, "layers.0.linear1.weight");
    lora = std::make_unique<Lora>(*encoder, std::vector<train::LoraTarget>{{"linear1", weight}},
                                  train::LoraOptions{.rank = 2, .alpha = 4, .dropout = 0.2f});
    observed([&] { fillRandomly(*lora, 9); });
  }

  Variable forward(bool recompute = false) {
    return encoder->forward(graph, trainedBatch(), {.training = true, .recompute = recompute});
  }
  Variable loss(bool recompute = false) {
    return mse(graph, forward(recompute), graph.leaf(train::Matrix(window(randomMatrix(6, 6, 5)))));
  }
  std::vector<float> allGradients() const {
    std::vector<float> all;
    for (size_t i = 0; i < gradients->parameters().size(); ++i) {
      all.push_back(gradients->hasGradient(i) ? 1 : 0);
      const RowMajorMatrix own = gradientOf(*gradients, gradients->parameters()[i].name);
      all.insert(all.end(), own.data(), own.data() + own.size());
    }
    return all;
  }
};

TEST(TrainAllocations, OfForwardPasses) {
  for (const Positions positions : {Positions::kAbsolute, Positions::kDisentangled}) {
    for (const bool recompute : {false, true}) {
      expectUnchangedByFailures("forward", [&]() -> ObservedCall {
        const auto training = std::make_shared<Training>(positions);
        return [training, recompute] {
          const Variable y = training->forward(recompute);
          return observed([&] { return valuesOf({RowMajorMatrix(y.value())}); });
        };
      });
    }
  }
}

TEST(TrainAllocations, OfBackwardPasses) {
  for (const Positions positions : {Positions::kAbsolute, Positions::kDisentangled}) {
    for (const bool recompute : {false, true}) {
      expectUnchangedByFailures("backward", [&]() -> ObservedCall {
        const auto training = std::make_shared<Training>(positions);
        const Variable loss = training->loss(recompute);
        // A failed call must not leave a part of its gradients, to which the second call would add.
        return [training, loss] {
          backward(training->graph, loss);
          return observed([&] {
            std::vector<float> all = training->allGradients();
            training->gradients->zero();
            return all;
          });
        };
      });
    }
  }
}

TEST(TrainAllocations, LeaveTheGradientsOfLeavesAsTheyWere) {
  struct State {
    Context context;
    Graph graph{context};
    Variable a = leaf(graph, randomMatrix(3, 4, 1)), b = leaf(graph, randomMatrix(3, 4, 2));
  };
  expectUnchangedByFailures("backward to leaves", []() -> ObservedCall {
    const auto state = std::make_shared<State>();
    auto& [context, graph, a, b] = *state;
    const Variable y = train::multiply(graph, a, train::activate(graph, b, Activation::kGelu));
    return [state, y] {
      const RowMajorMatrix ones = RowMajorMatrix::Ones(3, 4);
      train::Backward::run(state->graph, y, window(ones));  // adds to the gradients of the calls before
      return observed([&] { return valuesOf({gradientOf(state->a), gradientOf(state->b)}); });
    };
  });
}

TEST(TrainAllocations, RefuseGradientsThatContainAPartOfAPass) {
  Training training;
  backward(training.graph, training.loss());
  const Variable loss = training.loss();
  bool refused = false;
  for (int64_t n = 0; !refused; ++n) {
    {
      const FailingAllocation failing(n);
      try {
        backward(training.graph, loss);
        break;
      } catch (const std::bad_alloc&) {
      } catch (const Error&) {
      }
    }
    try {
      training.optimizer.step();
    } catch (const Error& error) {
      refused = std::string(error.what()).find("Call zeroGrad()") != std::string::npos;
    }
  }
  EXPECT_TRUE(refused);
  training.gradients->zero();
  backward(training.graph, training.loss());
  EXPECT_TRUE(training.optimizer.step());
}

TEST(TrainAllocations, OfSteps) {
  for (const char* kind : {"SGD", "Adam", "AdamW", "RMSprop", "Adafactor"}) {
    expectUnchangedByFailures(kind, [&]() -> ObservedCall {
      struct State {
        Training training;
        Optimizer optimizer;
        explicit State(const char* name) : optimizer(name) {}
      };
      const auto state = std::make_shared<State>(kind);
      const Index group = state->optimizer.addGroup({.lr = 0.01, .momentum = 0.9});
      auto& gradients = *state->training.gradients;
      for (size_t i = 0; i < gradients.parameters().size(); ++i) state->optimizer.addParameter(group, gradients, i);
      backward(state->training.graph, state->training.loss());
      return [state] {
        (void)state->optimizer.step();
        return observed([&] {
          std::vector<float> all = valuesOf(state->training.model);
          for (size_t i = 0; i < state->training.gradients->parameters().size(); ++i) {
            for (const Optimizer::State& moments : state->optimizer.state(static_cast<Index>(i)))
              all.insert(all.end(), moments.values.begin(), moments.values.end());
          }
          return all;
        });
      };
    });
  }
}

TEST(TrainAllocations, OfBatchNorm) {
  struct State {
    Context context;
    Graph graph{context};
    BatchNorm layer{{.num_features = 4}};
    Variable x = leaf(graph, randomMatrix(5, 4, 1));
  };
  expectUnchangedByFailures("batchNorm", []() -> ObservedCall {
    const auto state = std::make_shared<State>();
    state->layer.setTraining(true);
    return [state] {
      const Variable y = train::batchNorm(state->graph, state->layer, state->x);
      return observed([&] {
        std::vector<float> all = valuesOf({RowMajorMatrix(y.value())}), averages = valuesOf(state->layer);
        all.insert(all.end(), averages.begin(), averages.end());
        return all;
      });
    };
  });
}

TEST(TrainAllocations, OfLowRankUpdates) {
  const auto output = [](Training& training) {
    return observed([&] {
      return valuesOf({RowMajorMatrix(training.encoder->forward(training.graph, trainedBatch(), {}).value())});
    });
  };
  expectUnchangedByFailures("add", [&]() -> ObservedCall {
    const auto training = std::make_shared<Training>();
    return [training, output] {
      std::vector<float> both = output(*training);
      training->addLora();
      return observed([&] {
        const std::vector<float> after = output(*training);
        both.insert(both.end(), after.begin(), after.end());
        training->lora = nullptr;
        return both;
      });
    };
  });
  expectUnchangedByFailures("merge", [&]() -> ObservedCall {
    const auto training = std::make_shared<Training>();
    training->addLora();
    return [training, output] {
      training->lora->merge();
      return output(*training);
    };
  });
  expectUnchangedByFailures("forward and backward", [&]() -> ObservedCall {
    const auto training = std::make_shared<Training>();
    training->addLora();
    return [training] {
      const Variable y = training->forward(true);
      return observed([&] { return valuesOf({RowMajorMatrix(y.value())}); });
    };
  });
}

}  // namespace
}  // namespace heed::test
