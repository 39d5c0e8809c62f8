#include "heed/module.h"

#include <algorithm>
#include <cmath>

#include "heed/random.h"

namespace heed {

InitialValue InitialValue::xavier(Index out, Index in) {
  return uniform(std::sqrt(6 / (static_cast<float>(in) + static_cast<float>(out))));
}

InitialValue InitialValue::linear(Index in) { return uniform(1 / std::sqrt(static_cast<float>(in))); }

namespace {

/// For each part that overlaps [first, first + count), calls f(part, first row among the values' rows, number of rows,
/// number of rows of the range before the part).
template <class F>
void forEachPart(const std::vector<Parameter::Part>& parts, Index first, Index count, const F& f) {
  Index begin = 0;
  for (const Parameter::Part& part : parts) {
    const Index end = begin + part.rows;
    const Index low = std::max(first, begin), high = std::min(first + count, end);
    if (low < high) f(part, part.first + low - begin, high - low, low - first);
    begin = end;
  }
}

}  // namespace

void Parameter::read(Index first, Index count, float* out) const {
  const Index row = rowSize();
  forEachPart(parts, first, count, [&](const Part& part, Index low, Index rows, Index before) {
    if (part.storage) return part.storage->read(low, rows, out + before * row);
    std::copy_n(part.plain + low * row, rows * row, out + before * row);
  });
}

void Parameter::write(Index first, Index count, const float* in) const {
  const Index row = rowSize();
  forEachPart(parts, first, count, [&](const Part& part, Index low, Index rows, Index before) {
    if (part.storage) return part.storage->write(low, rows, in + before * row);
    std::copy_n(in + before * row, rows * row, part.plain + low * row);
  });
  countWrite();
}

void Parameter::writeCoded(Index first, Index count, const CodedRows& in, float* row) const {
  forEachPart(parts, first, count, [&](const Part& part, Index low, Index rows, Index before) {
    const CodedRows own = in.from(before);
    if (part.storage) return part.storage->writeCoded(low, rows, own, row);
    for (Index r = 0; r < rows; ++r) own.decode(r, part.plain + (low + r) * own.width);
  });
  countWrite();
}

Index Parameter::rowSize() const { return shape.rank() > 1 ? shape.size() / std::max<Index>(shape[0], 1) : 1; }

void Module::collect(const std::string& prefix, std::vector<Parameter>& out) {
  for (Parameter& own : ownParameters()) {
    own.name = prefix + own.name;
    // Parameters that another module shares, such as those of a model that is trained, keep the count of their owner.
    if (!own.writes) own.writes = &writes_;
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

uint64_t Module::writes() {
  uint64_t count = 0;
  for (const Module* module : modules()) count += module->writes_;
  return count;
}

int64_t Module::parameterCount() {
  int64_t count = 0;
  for (const Parameter& p : parameters()) count += p.shape.size();
  return count;
}

void Module::collectModules(std::vector<Module*>& out) {
  out.push_back(this);
  for (const Child& child : children()) child.module->collectModules(out);
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> all;
  collectModules(all);
  return all;
}

void Module::setTraining(std::span<Module* const> modules, bool training) {
  for (Module* module : modules) module->training_ = training;
}

void Module::collectSeeds(uint64_t seed, std::vector<std::pair<Module*, uint64_t>>& out) {
  out.emplace_back(this, seed);
  Generator streams(seed);  // one seed per child, so that two children do not drop the same entries
  for (const Child& child : children()) child.module->collectSeeds(streams.fork(), out);
}

void Module::seed(uint64_t seed) {
  std::vector<std::pair<Module*, uint64_t>> all;
  collectSeeds(seed, all);
  for (const auto& [module, own] : all) module->seedOwn(own);
}

std::vector<Dropout*> Module::dropouts() {
  std::vector<Dropout*> all;
  for (const Child& child : children()) {
    const std::vector<Dropout*> inner = child.module->dropouts();
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

Parameter plainParameter(std::string name, Shape shape, float* data, ParameterKind kind, InitialValue initial) {
  const Index rows = shape.rank() == 0 ? 1 : shape[0];
  return {std::move(name), std::move(shape), kind, initial, {{rows, data}}};
}

}  // namespace heed
