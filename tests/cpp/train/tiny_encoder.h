#pragma once

#include <map>

#include "gradients.h"
#include "heed/train/encoder_model.h"

/// A tiny encoder, a batch for it, and its gradients by name.
namespace heed::test {

inline EncoderModelConfig tinyConfig() {
  EncoderModelConfig config{};
  config.vocab_size = 23;
  config.layer.embed_dim = 12;
  config.num_layers = 3;
  config.layer.num_heads = 3;
  config.layer.feed_forward_dim = 10;
  config.max_positions = 9;
  config.type_vocab_size = 2;
  return config;
}

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
