#pragma once

#include <memory>
#include <span>
#include <vector>

#include "heed/encoder_model.h"

namespace heed {

/// Accumulates X^T X (K, K) of the inputs X (T, K) of linear layers, over all forward passes of a model. Quantization
/// with error feedback needs them (Frantar et al. 2022, "GPTQ", arXiv:2210.17323). The layers keep a pointer to this
/// object, which must not outlive the model.
class InputGrams {
 public:
  /// `weights`: the layers' weights among the model's parameters. The parts of one parameter have the same input.
  /// Throws kInvalidArgument for other parameters, and kOutOfMemory.
  InputGrams(EncoderModel& model, std::span<const Parameter> weights);
  ~InputGrams();
  InputGrams(const InputGrams&) = delete;
  InputGrams& operator=(const InputGrams&) = delete;

  Index count() const { return static_cast<Index>(recorders_.size()); }
  /// (K, K) of the i-th of the weights.
  std::span<const float> gram(Index i) const;

 private:
  class Recorder;
  std::vector<std::unique_ptr<Recorder>> recorders_;
};

}  // namespace heed
