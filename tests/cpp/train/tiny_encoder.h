#pragma once

#include <map>

#include "architectures.h"
#include "gradients.h"
#include "heed/train/encoder_model.h"

/// A batch for encoders with tinyConfig(), and their gradients by name.
namespace heed::test {

inline TokenBatch batch() {
  return {.ids = {1, 2, 3, 4, 2, 6, 22, 0, 5},
          .token_types = {0, 1, 1, 0, 0, 0, 1, 1, 1},
          .positions = {},
          .sequences = Sequences::ofLengths({3, 1, 5})};
}

/// All parameters under their own names.
inline std::vector<train::NamedRows> ownNames(EncoderModel& model) {
  std::vector<train::NamedRows> names;
  for (const Parameter& p : model.parameters()) names.push_back({p.name, names.size(), 0, p.shape[0]});
  return names;
}

inline std::map<std::string, RowMajorMatrix> allGradients(const train::ParameterGradients& gradients) {
  std::map<std::string, RowMajorMatrix> all;
  for (const Parameter& p : gradients.parameters()) all[p.name] = gradientOf(gradients, p.name);
  return all;
}

inline void expectSameGradients(const std::map<std::string, RowMajorMatrix>& got,
                                const std::map<std::string, RowMajorMatrix>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, gradient] : expected) {
    SCOPED_TRACE(name);
    expectSame(got.at(name), gradient);
  }
}

}  // namespace heed::test
