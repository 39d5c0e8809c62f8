#include "heed/train/losses.h"

#include <emscripten/bind.h>

#include <algorithm>
#include <iterator>

#include "core/check.h"
#include "graph.h"

/// Losses, which are variables without axes.
namespace heed::bindings {
namespace {

namespace losses = train::losses;

/// Implements the arguments of a loss: handles of variables, and options.
class BoundArguments final : public losses::Arguments {
 public:
  explicit BoundArguments(const val& given) : given_(given) {}

  const Shape& shape(const char* name) const override { return readHandle(given_[name])->shape(); }
  Variable variable(const char* name) const override { return readVariable(given_[name]); }
  Variable variableLike(const char* name, const char* other) const override {
    requireSame(name, shape(name), shape(other));
    return variable(name);
  }
  Shape leading(const char* name, const char* expected) const override {
    const Shape& whole = shape(name);
    if (whole.rank() < 1) throwShapeMismatch(name, expected, whole);
    return axes(whole, 0, whole.rank() - 1);
  }
  std::vector<int32_t> indices(const char* name, const Shape& expected) const override {
    requireSame(name, readShape(given_[name]["shape"]), expected);
    return readIndices(name, given_[name]);
  }
  std::vector<int32_t> indices(const char* name) const override {
    const val given = given_[name];
    return given.isNull() ? std::vector<int32_t>() : readIndices(name, given);
  }
  std::vector<float> numbers(const char* name, const Shape& expected) const override {
    const Input read = readTensor(given_[name]);
    requireSame(name, read.shape, expected);
    return {read.data, read.data + read.shape.size()};
  }
  std::vector<float> factors(const char* name) const override {
    const auto read = readOptionalTensor(given_[name]);
    if (!read) return {};
    if (read->shape.rank() != 1) throwShapeMismatch(name, "[C]", read->shape);
    return {read->data, read->data + read->shape.size()};
  }
  losses::Factors entryFactors(const char* name, const Shape& whole) const override {
    const auto read = readOptionalTensor(given_[name]);
    if (!read) return {};
    const Index rank = read->shape.rank();
    bool fits = rank <= whole.rank();
    for (Index axis = 0; fits && axis < rank; ++axis) fits = read->shape[axis] == 1 || read->shape[axis] == whole[axis];
    if (!fits) throwShapeMismatch(name, whole.toString() + ", or its first axes", read->shape);
    // The factor of an entry: extents of 1 and the axes that the factors lack do not move in their data.
    losses::Factors factors{std::vector<float>(static_cast<size_t>(whole.size()))};
    for (Index i = 0; i < whole.size(); ++i) {
      Index rest = i, at = 0, stride = 1;
      for (Index axis = whole.rank() - 1; axis >= 0; --axis) {
        const Index position = rest % whole[axis];
        rest /= whole[axis];
        if (axis >= rank) continue;
        if (read->shape[axis] > 1) at += position * stride;
        stride *= read->shape[axis];
      }
      factors.values[static_cast<size_t>(i)] = read->data[at];
    }
    return factors;
  }
  float number(const char* name) const override { return readFloat(given_, name); }
  Index index(const char* name) const override { return static_cast<Index>(given_[name].as<double>()); }
  bool flag(const char* name) const override { return readBool(given_, name); }

 private:
  const val& given_;
};

/// Records the loss with that name. `arguments`: an object of its arguments.
BoundVariable* recordLoss(BoundGraph& graph, const std::string& name, const val& arguments) {
  return guarded([&] {
    const auto loss = std::ranges::find(losses::kLosses, name, &losses::NamedLoss::name);
    if (loss == std::end(losses::kLosses))
      throw Error(ErrorCode::kInvalidArgument, "loss: expected the name of a loss, got '" + name + "'");
    return made(Shape{}, loss->record(graph.graph(), BoundArguments(arguments)));
  });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_train_losses) {
  emscripten::function("recordLoss", &recordLoss, emscripten::allow_raw_pointers());
}

}  // namespace heed::bindings
