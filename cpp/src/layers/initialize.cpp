#include "heed/initialize.h"

#include <cmath>
#include <numbers>

#include "elementary.h"
#include "heed/random.h"

namespace heed {

namespace {

bool endsWith(const std::string& name, std::string_view end) { return std::string_view(name).ends_with(end); }

/// Rows at a time, so that the room needed does not grow with the parameter.
template <class Draw>
void fill(const Parameter& parameter, const Draw& draw) {
  const Index rows = parameter.shape[0];
  if (rows == 0) return;
  std::vector<float> row(static_cast<size_t>(parameter.shape.size() / rows));
  for (Index i = 0; i < rows; ++i) {
    for (float& value : row) value = draw();
    parameter.write(i, 1, row.data());
  }
}

float normal(Generator& generator) {
  // Box, Muller 1958; 1 - u lies in (0, 1], so the logarithm is finite.
  const double radius = std::sqrt(-2 * elementary::log(1 - generator.uniform()));
  return static_cast<float>(radius * elementary::cos(2 * std::numbers::pi * generator.uniform()));
}

}  // namespace

void initialize(Module& module, uint64_t seed, Initialization initialization) {
  Generator generator(seed);
  float linear_bound = 0;  // of the Linear whose weight came last; its bias follows
  for (const Parameter& parameter : module.parameters()) {
    const std::string& name = parameter.name;
    const auto uniform = [&](float bound) {
      fill(parameter, [&] { return bound == 0 ? 0 : (2 * generator.uniform() - 1) * bound; });
    };
    const auto constant = [&](float value) { fill(parameter, [&] { return value; }); };
    if (parameter.shape.rank() > 1 && initialization == Initialization::kEmbedding) {
      fill(parameter, [&] { return normal(generator); });
    } else if (parameter.shape.rank() > 1) {
      const float out = static_cast<float>(parameter.shape[0]);
      const float in = static_cast<float>(parameter.shape[1]);
      const float xavier = std::sqrt(6 / (in + out));
      linear_bound = 1 / std::sqrt(in);
      uniform(initialization == Initialization::kXavier || endsWith(name, "proj_weight") ? xavier : linear_bound);
    } else if (endsWith(name, "in_proj_bias") || endsWith(name, "out_proj.bias") || endsWith(name, "running_mean")) {
      constant(0);
    } else if (endsWith(name, "weight") || endsWith(name, "running_var")) {
      constant(1);
      linear_bound = 0;  // a norm's bias follows
    } else {
      uniform(linear_bound);
    }
  }
}

}  // namespace heed
