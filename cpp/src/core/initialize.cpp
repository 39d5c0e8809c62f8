#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/elementary.h"
#include "heed/module.h"
#include "heed/random.h"

namespace heed {
namespace {

float normal(Generator& generator) {
  // Box-Muller (1958); 1 - u lies in (0, 1], so the logarithm is finite.
  const double radius = std::sqrt(-2 * elementary::log(1 - generator.uniform()));
  return static_cast<float>(radius * elementary::cos(2 * std::numbers::pi * generator.uniform()));
}

float draw(const InitialValue& initial, Generator& generator) {
  switch (initial.kind) {
    case InitialValue::Kind::kConstant:
      return initial.value;
    case InitialValue::Kind::kUniform:
      return (2 * generator.uniform() - 1) * initial.value;
    case InitialValue::Kind::kNormal:
      return normal(generator) * initial.value;
  }
  return 0;
}

}  // namespace

void initialize(Module& module, uint64_t seed, Initialization initialization) {
  Generator generator(seed);
  const std::vector<Parameter> parameters = module.parameters();
  Index widest = 0;
  for (const Parameter& parameter : parameters) widest = std::max(widest, parameter.rowSize());
  // Row by row, so that the extra memory does not grow with the parameter; allocated before the first change.
  std::vector<float> row(static_cast<size_t>(widest));
  for (const Parameter& parameter : parameters) {
    const bool is_matrix = parameter.shape.rank() > 1;
    const InitialValue initial = is_matrix && initialization == Initialization::kXavier
                                     ? InitialValue::xavier(parameter.shape[0], parameter.shape[1])
                                     : parameter.initial;
    for (Index i = 0; i < parameter.rows(); ++i) {
      for (Index k = 0; k < parameter.rowSize(); ++k) row[static_cast<size_t>(k)] = draw(initial, generator);
      parameter.write(i, 1, row.data());
    }
  }
}

}  // namespace heed
