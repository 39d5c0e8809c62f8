#include "heed/train/optimizer.h"

#include <limits>

#include "gradients.h"
#include "heed/embedding.h"
#include "heed/train/ops.h"
#include "heed/train/recording_evaluator.h"

namespace heed::test {
namespace {

using train::GroupOptions;
using train::Optimizer;
using train::ParameterGradients;

/// torch.optim's formulas in double precision, for one parameter.
struct Reference {
  std::string kind;
  GroupOptions options;
  DoubleMatrix weight;
  DoubleMatrix first = DoubleMatrix::Zero(weight.rows(), weight.cols()), second = first;
  int steps = 0;

  void step(const DoubleMatrix& gradient) {
    const GroupOptions& o = options;
    ++steps;
    DoubleMatrix g = gradient;
    if (kind == "AdamW") {
      weight *= 1 - o.lr * o.weight_decay;
    } else {
      g += o.weight_decay * weight;
    }
    if (kind == "SGD") {
      if (o.momentum != 0) {
        first = steps == 1 ? g : DoubleMatrix(o.momentum * first + g);
        g = o.nesterov ? DoubleMatrix(g + o.momentum * first) : first;
      }
      weight -= o.lr * g;
      return;
    }
    first = o.beta1 * first + (1 - o.beta1) * g;
    second = o.beta2 * second + (1 - o.beta2) * g.cwiseProduct(g);
    const double correction1 = 1 - std::pow(o.beta1, steps), correction2 = 1 - std::pow(o.beta2, steps);
    weight.array() -= o.lr / correction1 * first.array() / ((second.array() / correction2).sqrt() + o.eps);
  }
};

struct Case {
  std::string kind;
  GroupOptions options;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kAll{
      {"SGD", {.lr = 0.1}},
      {"SGD", {.lr = 0.1, .weight_decay = 0.05}},
      {"SGD", {.lr = 0.1, .momentum = 0.9}},
      {"SGD", {.lr = 0.1, .weight_decay = 0.05, .momentum = 0.9, .nesterov = true}},
      {"Adam", {.lr = 0.01}},
      {"Adam", {.lr = 0.01, .weight_decay = 0.1}},
      {"Adam", {.lr = 0.01, .beta1 = 0.2, .beta2 = 0.5, .eps = 1e-3}},
      {"AdamW", {.lr = 0.01, .weight_decay = 0.1}},
      {"AdamW", {.lr = 0.01}},
  };
  return kAll;
}

void addAll(Optimizer& optimizer, const GroupOptions& options, ParameterGradients& gradients) {
  const Index group = optimizer.addGroup(options);
  for (size_t i = 0; i < gradients.parameters().size(); ++i) optimizer.addParameter(group, gradients, i);
}

/// Replaces the gradient of a parameter.
void setGradient(ParameterGradients& gradients, size_t i, const RowMajorMatrix& values) {
  gradients.add(i, 0, values.rows(), values.data());
}

/// The states of an optimizer's first `count` parameters, to be restored.
std::vector<Optimizer::Saved> savedOf(const Optimizer& optimizer, size_t count) {
  std::vector<Optimizer::Saved> all(count);
  for (size_t i = 0; i < count; ++i) {
    all[i].steps = optimizer.steps(static_cast<Index>(i));
    const auto state = optimizer.state(static_cast<Index>(i));
    for (const Optimizer::State& moment : state)
      all[i].moments.push_back({moment.name, static_cast<Index>(moment.values.size())});
    all[i].copy = [state](size_t j, float* to) { std::ranges::copy(state[j].values, to); };
  }
  return all;
}

TEST(TrainOptimizer, StepsFollowPyTorchsFormulas) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(&c - cases().data());
    // A packed weight of more than one block of rows, and a vector.
    for (const auto& [in, out] : {std::array<Index, 2>{1, 1}, {7, 13}, {600, 19}}) {
      Linear layer({.in_features = in, .out_features = out});
      fillRandomly(layer, 3);
      ParameterGradients gradients(layer);
      Optimizer optimizer(c.kind);
      addAll(optimizer, c.options, gradients);
      Reference weight{.kind = c.kind, .options = c.options, .weight = toDouble(read(layer, "weight"))},
          bias{.kind = c.kind, .options = c.options, .weight = toDouble(read(layer, "bias"))};
      for (uint64_t n = 0; n < 10; ++n) {
        gradients.zero();
        const RowMajorMatrix dw = randomMatrix(out, in, 10 + n), db = randomMatrix(out, 1, 30 + n);
        setGradient(gradients, 0, dw);
        setGradient(gradients, 1, db);
        EXPECT_TRUE(optimizer.step());
        weight.step(toDouble(dw));
        bias.step(toDouble(db));
      }
      expectNear(read(layer, "weight"), weight.weight.cast<float>());
      expectNear(read(layer, "bias"), bias.weight.cast<float>());
      EXPECT_EQ(optimizer.steps(0), 10);
    }
  }
}

TEST(TrainOptimizer, GroupsHaveTheirOwnOptions) {
  Linear layer({.in_features = 3, .out_features = 2});
  fillRandomly(layer, 3);
  const RowMajorMatrix weight = read(layer, "weight"), bias = read(layer, "bias");
  ParameterGradients gradients(layer);
  Optimizer optimizer("SGD");
  optimizer.addParameter(optimizer.addGroup({.lr = 1}), gradients, 0);
  optimizer.addParameter(optimizer.addGroup({.lr = 2}), gradients, 1);
  setGradient(gradients, 0, RowMajorMatrix::Ones(2, 3));
  setGradient(gradients, 1, RowMajorMatrix::Ones(2, 1));
  EXPECT_TRUE(optimizer.step());
  expectNear(read(layer, "weight"), weight.array() - 1);
  expectNear(read(layer, "bias"), bias.array() - 2);
  optimizer.group(1).lr = 0;
  EXPECT_TRUE(optimizer.step());
  expectNear(read(layer, "weight"), weight.array() - 2);
  expectNear(read(layer, "bias"), bias.array() - 2);
}

TEST(TrainOptimizer, AStepWithoutMomentumLeavesTheBuffer) {
  Linear layer({.in_features = 3, .out_features = 2});
  fillRandomly(layer, 3);
  ParameterGradients gradients(layer);
  Optimizer optimizer("SGD");
  addAll(optimizer, {.lr = 1, .momentum = 0.5}, gradients);
  setGradient(gradients, 0, RowMajorMatrix::Ones(2, 3));
  EXPECT_TRUE(optimizer.step());
  const RowMajorMatrix weight = read(layer, "weight");
  const auto buffer = optimizer.state(0).at(0).values;
  optimizer.group(0).momentum = 0;
  EXPECT_TRUE(optimizer.step());
  expectNear(read(layer, "weight"), weight.array() - 1);
  optimizer.group(0).momentum = 0.5;
  EXPECT_EQ(optimizer.state(0).at(0).values, buffer);
}

TEST(TrainOptimizer, ParametersWithoutGradientsStay) {
  Linear layer({.in_features = 3, .out_features = 2});
  fillRandomly(layer, 3);
  const RowMajorMatrix weight = read(layer, "weight"), bias = read(layer, "bias");
  ParameterGradients gradients(layer);
  Optimizer optimizer("AdamW");
  addAll(optimizer, {.lr = 0.1, .weight_decay = 0.1}, gradients);
  setGradient(gradients, 1, RowMajorMatrix::Ones(2, 1));
  gradients.setRequiresGradient(1, false);  // frozen after its gradient was computed
  EXPECT_TRUE(optimizer.step());
  expectSame(read(layer, "weight"), weight);
  expectSame(read(layer, "bias"), bias);
  EXPECT_EQ(optimizer.steps(0), 0);
  EXPECT_TRUE(optimizer.state(0).empty());
}

TEST(TrainOptimizer, ChangesNothingIfAGradientIsNotFinite) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (const bool in_rows : {false, true}) {
      Linear layer({.in_features = 3, .out_features = 2});
      Embedding table(4, 3);
      fillRandomly(layer, 3);
      fillRandomly(table, 4);
      ParameterGradients gradients(layer), rows(table);
      Optimizer optimizer("AdamW");
      addAll(optimizer, {.lr = 0.1, .weight_decay = 0.1}, gradients);
      addAll(optimizer, {.lr = 0.1, .weight_decay = 0.1}, rows);
      setGradient(gradients, 0, RowMajorMatrix::Ones(2, 3));
      setGradient(gradients, 1, RowMajorMatrix::Ones(2, 1));
      rows.row({0, 0, 4}, 2)[0] = 1;
      EXPECT_TRUE(optimizer.step());
      const RowMajorMatrix weight = read(layer, "weight"), values = read(table, "weight");
      const std::vector<float> moment = optimizer.state(0)[0].values;
      if (in_rows) {
        rows.row({0, 0, 4}, 1)[2] = bad;
      } else {
        gradients.entry(1).dense.data()[1] = bad;
      }
      EXPECT_FALSE(optimizer.step());
      expectSame(read(layer, "weight"), weight);
      expectSame(read(table, "weight"), values);
      EXPECT_EQ(optimizer.state(0)[0].values, moment);
      EXPECT_EQ(optimizer.steps(0), 1);
    }
  }
}

/// The rows that the following tests look up in a step. Later steps look up new rows.
std::vector<Index> rowsOf(uint64_t step) {
  return step % 3 == 0 ? std::vector<Index>{4, 1} : std::vector<Index>{Index(step), 4};
}

TEST(TrainOptimizer, TablesByRowsEqualDenseTablesBitForBit) {
  const Index rows = 30, width = 13;
  for (const Case& c : cases()) {
    SCOPED_TRACE(&c - cases().data());
    Embedding by_rows(rows, width), dense(rows, width);
    fillRandomly(by_rows, 3);
    fillRandomly(dense, 3);
    ParameterGradients sparse_gradients(by_rows), dense_gradients(dense);
    Optimizer sparse(c.kind), full(c.kind);
    addAll(sparse, c.options, sparse_gradients);
    addAll(full, c.options, dense_gradients);
    for (uint64_t n = 0; n < 10; ++n) {
      sparse_gradients.zero();
      dense_gradients.zero();
      RowMajorMatrix gradient = RowMajorMatrix::Zero(rows, width);
      for (const Index row : rowsOf(n)) {
        gradient.row(row) = randomMatrix(1, width, 100 * n + uint64_t(row));
        view(sparse_gradients.row({0, 0, rows}, row), 1, width).row(0) = gradient.row(row);
      }
      setGradient(dense_gradients, 0, gradient);
      ASSERT_FALSE(dense_gradients.entry(0).by_rows);
      EXPECT_TRUE(sparse.step());
      EXPECT_TRUE(full.step());
      expectSame(read(by_rows, "weight"), read(dense, "weight"));
    }
    const auto a = sparse.state(0), b = full.state(0);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].name, b[i].name);
      EXPECT_EQ(a[i].values, b[i].values);
    }
  }
}

TEST(TrainOptimizer, ARestoredRunEqualsAnUninterruptedOne) {
  const Index rows = 30, width = 13;
  for (const Case& c : cases()) {
    SCOPED_TRACE(&c - cases().data());
    const auto step = [&](Module& module, ParameterGradients& gradients, Optimizer& optimizer, uint64_t n) {
      gradients.zero();
      for (size_t i = 0; i < gradients.parameters().size(); ++i) {
        const Parameter& p = gradients.parameters()[i];
        if (dynamic_cast<Embedding*>(&module)) {
          for (const Index row : rowsOf(n)) {
            view(gradients.row({i, 0, rows}, row), 1, width).row(0) =
                randomMatrix(1, width, 100 * n + uint64_t(row)).row(0);
          }
        } else {
          setGradient(gradients, i, randomMatrix(p.shape[0], p.rowSize(), 100 * n + i));
        }
      }
      EXPECT_TRUE(optimizer.step());
    };
    // `used`: the optimizer that is restored has moments of its own.
    const auto check = [&](Module& whole, Module& interrupted, Module& resumed, bool used) {
      for (Module* module : {&whole, &interrupted}) fillRandomly(*module, 3);
      ParameterGradients of_whole(whole), of_interrupted(interrupted), of_resumed(resumed);
      Optimizer first(c.kind), second(c.kind), third(c.kind);
      addAll(first, c.options, of_whole);
      addAll(second, c.options, of_interrupted);
      addAll(third, c.options, of_resumed);
      for (uint64_t n = 0; n < 8; ++n) step(whole, of_whole, first, n);
      for (uint64_t n = 0; n < 4; ++n) step(interrupted, of_interrupted, second, n);
      for (uint64_t n = 5; used && n < 7; ++n) step(resumed, of_resumed, third, n);
      const std::vector<Parameter> from = interrupted.parameters(), to = resumed.parameters();
      for (size_t i = 0; i < from.size(); ++i) {
        RowMajorMatrix values(from[i].shape[0], from[i].rowSize());
        from[i].read(0, values.rows(), values.data());
        to[i].write(0, values.rows(), values.data());
      }
      third.restore(savedOf(second, from.size()));
      for (uint64_t n = 4; n < 8; ++n) step(resumed, of_resumed, third, n);
      for (const Parameter& p : from) expectSame(read(resumed, p.name), read(whole, p.name));
    };
    Linear a({.in_features = width, .out_features = 9}), b({.in_features = width, .out_features = 9}),
        d({.in_features = width, .out_features = 9});
    Embedding x(rows, width), y(rows, width), z(rows, width);
    for (const bool used : {false, true}) {
      check(a, b, d, used);
      check(x, y, z, used);
    }
  }
}

TEST(TrainOptimizer, AdafactorUpdatesAParameterWithoutAxesAsAVectorOfOneElement) {
  FreeParameter scalar({}, {}), vector({1}, {});
  for (const double threshold : {1.0, 0.25}) {
    for (Module* module : {static_cast<Module*>(&scalar), static_cast<Module*>(&vector)}) {
      const Parameter value = module->parameters()[0];
      const float start = 0.5f;
      value.write(0, 1, &start);
      ParameterGradients gradients(*module);
      Optimizer optimizer("Adafactor");
      const GroupOptions options{.lr = 0.01, .weight_decay = 0.1, .clip_threshold = threshold};
      addAll(optimizer, options, gradients);
      double w = 0.5, v = 0;
      for (int n = 1; n <= 5; ++n) {
        gradients.zero();
        const auto g = static_cast<float>(n) - 2.5f;
        gradients.add(0, 0, 1, &g);
        ASSERT_TRUE(optimizer.step());
        const double square = static_cast<double>(g * g), b = std::pow(n, options.beta2_decay);
        v += b * (square - v);
        const double u = static_cast<double>(g) / std::sqrt(std::max(v, 1e-14));
        const double rate = std::max(1e-3, std::abs(w)) * std::min(0.01, 1 / std::sqrt(n));
        w = w * (1 - 0.01 * 0.1) - rate * u / std::max(1.0, std::abs(u) / threshold);
      }
      float got;
      value.read(0, 1, &got);
      EXPECT_NEAR(got, w, 1e-6);
      ASSERT_EQ(optimizer.state(0).size(), 1U);
      EXPECT_EQ(optimizer.state(0)[0].shape, value.shape);
      EXPECT_NEAR(optimizer.state(0)[0].values[0], v, 1e-5);
    }
  }
}

TEST(TrainOptimizer, StepsSkipParametersWithoutElements) {
  for (const char* kind : {"SGD", "AdamW", "RMSprop", "Adafactor"}) {
    for (const Shape& shape : {Shape{0}, Shape{0, 3}, Shape{3, 0}, Shape{2, 0, 3}}) {
      FreeParameter empty(shape, {});
      Inference in;
      EXPECT_EQ(empty.forward(in.e).rows(), shape[0]);
      ParameterGradients gradients(empty);
      Optimizer optimizer(kind);
      addAll(optimizer, {.lr = 0.01}, gradients);
      gradients.add(0, 0, shape[0], nullptr);
      EXPECT_TRUE(optimizer.step());
      for (const Optimizer::State& state : optimizer.state(0)) {
        for (const float value : state.values) EXPECT_EQ(value, 0) << kind << shape.toString();
      }
    }
  }
}

TEST(TrainOptimizer, BadArgumentsAreNamed) {
  Optimizer optimizer("AdamW");
  const auto invalid = [](const char* start, const auto& call) {
    expectError(ErrorCode::kInvalidArgument, start, call);
  };
  invalid("lr:", [&] { optimizer.addGroup({.lr = -1}); });
  invalid("lr:", [&] { optimizer.addGroup({.lr = std::nan("")}); });
  invalid("weightDecay:", [&] { optimizer.addGroup({.weight_decay = -1}); });
  invalid("momentum:", [&] { optimizer.addGroup({.momentum = -1}); });
  invalid("betas[0]:", [&] { optimizer.addGroup({.beta1 = 1}); });
  invalid("betas[1]:", [&] { optimizer.addGroup({.beta2 = -0.1}); });
  invalid("eps:", [&] { optimizer.addGroup({.eps = -1}); });
  invalid("momentum:", [&] { optimizer.addGroup({.nesterov = true}); });
  for (const double threshold : {0.0, -1.0, std::nan("")})
    invalid("clipThreshold: expected a number > 0", [&] { optimizer.addGroup({.clip_threshold = threshold}); });
  Linear layer({.in_features = 3, .out_features = 2});
  ParameterGradients gradients(layer);
  invalid("group:", [&] { optimizer.addParameter(0, gradients, 0); });
  const Index group = optimizer.addGroup({});
  optimizer.addParameter(group, gradients, 0);
  invalid("params:", [&] { optimizer.addParameter(group, gradients, 0); });

  setGradient(gradients, 0, RowMajorMatrix::Ones(2, 3));
  EXPECT_TRUE(optimizer.step());
  const std::vector<float> original = optimizer.state(0)[1].values;
  const auto restore = [&](const auto& change) {
    std::vector<Optimizer::Saved> saved = savedOf(optimizer, 1);
    saved[0].copy = [](size_t, float* to) { *to = 7; };
    change(saved);
    optimizer.restore(saved);
  };
  invalid("weight:", [&] { restore([](auto& saved) { saved[0].steps = -1; }); });
  invalid("weight:", [&] { restore([](auto& saved) { saved[0].moments.pop_back(); }); });
  invalid("weight:", [&] { restore([](auto& saved) { saved[0].moments[0].name = "momentum_buffer"; }); });
  const auto mismatch = [&](const char* start, const auto& change) {
    expectError(ErrorCode::kShapeMismatch, start, [&] { restore(change); });
  };
  mismatch("weight exp_avg_sq:", [](auto& saved) { --saved[0].moments[1].size; });
  mismatch("states:", [](auto& saved) { saved.push_back(saved[0]); });
  EXPECT_EQ(optimizer.state(0)[1].values, original);
  EXPECT_EQ(optimizer.steps(0), 1);
}

TEST(TrainOptimizer, CountsWritesOfParameters) {
  class Counted : public Module {
   public:
    uint64_t writes = 0;

   private:
    std::vector<Parameter> ownParameters() override {
      Parameter own = plainParameter("weight", {2, 3}, values_.data(), ParameterKind::kWeight, {});
      own.writes = &writes;
      return {own};
    }
    std::vector<float> values_ = std::vector<float>(6);
  };
  Counted module;
  ParameterGradients gradients(module);
  Optimizer optimizer("SGD");
  addAll(optimizer, {.lr = 1}, gradients);
  EXPECT_TRUE(optimizer.step());
  EXPECT_EQ(module.writes, 0);
  setGradient(gradients, 0, RowMajorMatrix::Ones(2, 3));
  EXPECT_TRUE(optimizer.step());
  EXPECT_EQ(module.writes, 1);
  expectSame(read(module, "weight"), RowMajorMatrix::Constant(2, 3, -1));
}

}  // namespace
}  // namespace heed::test
