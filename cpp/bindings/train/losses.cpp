#include "heed/train/losses.h"

#include <emscripten/bind.h>

#include <algorithm>
#include <iterator>

#include "core/check.h"
#include "graph.h"

/// Losses, which are variables without axes. Each loss has a function that reads its arguments.
namespace heed::bindings {
namespace {

namespace losses = train::losses;
using train::Graph;

/// Arguments by name: handles of variables, and options.
class Arguments {
 public:
  explicit Arguments(const val& given) : given_(given) {}

  const Shape& shape(const char* name) const { return readHandle(given_[name])->shape(); }
  Variable variable(const char* name) const { return readVariable(given_[name]); }
  /// A variable that must have the shape of the variable `other`.
  Variable variableLike(const char* name, const char* other) const {
    requireSame(name, shape(name), shape(other));
    return variable(name);
  }
  /// The axes of a variable without the last one. `expected`: the required shape, for errors.
  Shape leading(const char* name, const char* expected) const {
    const Shape& whole = shape(name);
    if (whole.rank() < 1) refuseShape(name, expected, whole);
    return axes(whole, 0, whole.rank() - 1);
  }
  /// Indices { data: Int32Array, shape }, which must have this shape.
  std::vector<int32_t> indices(const char* name, const Shape& expected) const {
    requireSame(name, readShape(given_[name]["shape"]), expected);
    return readIndices(name, given_[name]);
  }
  /// The values of a tensor, which must have this shape.
  std::vector<float> numbers(const char* name, const Shape& expected) const {
    const Input read = readTensor(given_[name]);
    requireSame(name, read.shape, expected);
    return {read.data, read.data + read.shape.size()};
  }
  /// The values of a vector [C]; empty if it is null.
  std::vector<float> factors(const char* name) const {
    const auto read = readOptionalTensor(given_[name]);
    if (!read) return {};
    if (read->shape.rank() != 1) refuseShape(name, "[C]", read->shape);
    return {read->data, read->data + read->shape.size()};
  }
  val operator[](const char* name) const { return given_[name]; }
  float number(const char* name) const { return readFloat(given_, name); }
  bool flag(const char* name) const { return readBool(given_, name); }

 private:
  const val& given_;
};

Variable crossEntropyOf(Graph& graph, const Arguments& given) {
  const Shape shape = given.leading("logits", "[..., C]");
  return losses::crossEntropy(graph, given.variable("logits"), given.indices("labels", shape),
                              {.ignore_index = static_cast<Index>(given["ignoreIndex"].as<double>()),
                               .label_smoothing = given.number("labelSmoothing"),
                               .weight = given.factors("weight")});
}

Variable mseOf(Graph& graph, const Arguments& given) {
  return losses::mse(graph, given.variable("input"), given.variableLike("target", "input"));
}

Variable bceWithLogitsOf(Graph& graph, const Arguments& given) {
  return losses::bceWithLogits(graph, given.variable("logits"), given.variableLike("target", "logits"),
                               {.weight = given.factors("weight"), .pos_weight = given.factors("posWeight")});
}

Variable poissonOf(Graph& graph, const Arguments& given) {
  return losses::poisson(graph, given.variable("input"), given.variableLike("target", "input"),
                         {.log_input = given.flag("logInput"), .full = given.flag("full"), .eps = given.number("eps")});
}

Variable cosineEmbeddingOf(Graph& graph, const Arguments& given) {
  const Variable b = given.variableLike("b", "a");
  const Shape shape = given.leading("a", "[..., E]");
  return losses::cosineEmbedding(graph, given.variable("a"), b, given.numbers("labels", shape), given.number("margin"));
}

Variable tripletOf(Graph& graph, const Arguments& given) {
  return losses::triplet(graph, given.variable("anchor"), given.variableLike("positive", "anchor"),
                         given.variableLike("negative", "anchor"), given.number("margin"));
}

Variable infoNCEOf(Graph& graph, const Arguments& given) {
  for (const char* name : {"a", "b"}) {
    if (given.shape(name).rank() != 2) refuseShape(name, "[N, E]", given.shape(name));
  }
  const val groups = given["groups"];
  return losses::infoNCE(graph, given.variable("a"), given.variable("b"), given.number("scale"),
                         groups.isNull() ? std::vector<int32_t>() : readIndices("groups", groups));
}

Variable supervisedContrastiveOf(Graph& graph, const Arguments& given) {
  const Shape shape = given.leading("x", "[..., E]");
  return losses::supervisedContrastive(graph, given.variable("x"), given.indices("labels", shape),
                                       given.number("scale"));
}

Variable cosentOf(Graph& graph, const Arguments& given) {
  const Variable b = given.variableLike("b", "a");
  const Shape shape = given.leading("a", "[..., E]");
  return losses::coSENT(graph, given.variable("a"), b, given.numbers("labels", shape), given.number("scale"));
}

struct NamedLoss {
  const char* name;
  Variable (*record)(Graph& graph, const Arguments& given);
};
constexpr NamedLoss kLosses[] = {
    {"crossEntropy", crossEntropyOf},
    {"mse", mseOf},
    {"bceWithLogits", bceWithLogitsOf},
    {"poisson", poissonOf},
    {"cosineEmbedding", cosineEmbeddingOf},
    {"triplet", tripletOf},
    {"infoNCE", infoNCEOf},
    {"supervisedContrastive", supervisedContrastiveOf},
    {"coSENT", cosentOf},
};

/// Records the loss with that name. `arguments`: an object of its arguments.
BoundVariable* recordLoss(BoundGraph& graph, const std::string& name, const val& arguments) {
  return guarded([&] {
    const auto loss = std::ranges::find(kLosses, name, &NamedLoss::name);
    if (loss == std::end(kLosses)) throw Error(ErrorCode::kInvalidArgument, "loss: expected a known name, got " + name);
    return made(Shape{}, loss->record(graph.graph(), Arguments(arguments)));
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_losses) {
  emscripten::function("recordLoss", &recordLoss, emscripten::allow_raw_pointers());
}

}  // namespace heed::bindings
