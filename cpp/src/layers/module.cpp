#include "heed/module.h"

#include <algorithm>

namespace heed {

std::vector<Parameter> Module::parameters() {
  std::vector<Parameter> all;
  collect("", all);
  return all;
}

Index Module::parameterCount() {
  Index count = 0;
  for (const Parameter& p : parameters()) count += p.shape.size();
  return count;
}

Parameter plainParameter(std::string name, Shape shape, float* data) {
  const Index row = shape.rank() > 1 ? shape.size() / std::max<Index>(shape[0], 1) : 1;
  return {
      .name = std::move(name),
      .shape = std::move(shape),
      .read = [data, row](Index first, Index count, float* out) { std::copy_n(data + first * row, count * row, out); },
      .write = [data, row](Index first, Index count,
                           const float* in) { std::copy_n(in, count * row, data + first * row); },
      .writeInt8 = {}};
}

}  // namespace heed
