#include "heed/module.h"

#include <algorithm>
#include <cmath>

#include "heed/random.h"

namespace heed {

InitialValue InitialValue::xavier(Index out, Index in) {
  return uniform(std::sqrt(6 / (static_cast<float>(in) + static_cast<float>(out))));
}

InitialValue InitialValue::linear(Index in) { return uniform(1 / std::sqrt(static_cast<float>(in))); }

Index Parameter::rowSize() const { return shape.rank() > 1 ? shape.size() / std::max<Index>(shape[0], 1) : 1; }

void Module::collect(const std::string& prefix, std::vector<Parameter>& out) {
  for (Parameter& own : ownParameters()) {
    own.name = prefix + own.name;
    out.push_back(std::move(own));
  }
  for (const Child& child : children())
    child.module->collect(child.name.empty() ? prefix : prefix + child.name + ".", out);
}

std::vector<Parameter> Module::parameters() {
  std::vector<Parameter> all;
  collect("", all);
  return all;
}

int64_t Module::parameterCount() {
  int64_t count = 0;
  for (const Parameter& p : parameters()) count += p.shape.size();
  return count;
}

void Module::setTraining(bool training) {
  training_ = training;
  for (const Child& child : children()) child.module->setTraining(training);
}

void Module::seed(uint64_t seed) {
  seedOwn(seed);
  Generator streams(seed);  // one seed per child, so that two children do not drop the same entries
  for (const Child& child : children()) child.module->seed(streams.fork());
}

Parameter plainParameter(std::string name, Shape shape, float* data, ParameterKind kind, InitialValue initial) {
  Parameter p;
  p.name = std::move(name);
  p.shape = std::move(shape);
  p.kind = kind;
  p.initial = initial;
  const Index row = p.rowSize();
  p.read = [data, row](Index first, Index count, float* out) { std::copy_n(data + first * row, count * row, out); };
  p.write = [data, row](Index first, Index count, const float* in) {
    std::copy_n(in, count * row, data + first * row);
  };
  return p;
}

}  // namespace heed
