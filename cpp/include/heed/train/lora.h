#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heed/dropout.h"
#include "heed/linear.h"
#include "heed/train/graph.h"

namespace heed::train {

class TrainableEncoder;

struct LoraOptions {
  Index rank;
  float alpha;
  float dropout = 0;  ///< on the input of A
};

/// A linear module to adapt: its name and its weight.
struct LoraTarget {
  std::string name;
  Parameter weight;  ///< (out, in)
};

/// LoRA adapters of linear layers (Hu et al. 2021, arXiv:2106.09685): y = x W^T + b + (alpha / rank) (x A^T) B^T with A
/// (rank, in) and B (out, rank) for each target. Parameters: `<name>.lora_A.weight`, `<name>.lora_B.weight`. As in
/// PEFT, A is initialized Kaiming-uniform with a = sqrt(5), that is, uniform with bound 1 / sqrt(in), and B with zeros,
/// so that new adapters do not change results.
class Lora final : public Module {
 public:
  /// Decorates the linear layers of `encoder` that hold the targets' weights, until merge() or detach(), or until this
  /// object or the encoder is destroyed. Throws kInvalidArgument.
  Lora(TrainableEncoder& encoder, const std::vector<LoraTarget>& targets, const LoraOptions& options);
  ~Lora() override;

  /// Adds (alpha / rank) B A to each weight and detaches the adapters. Results stay the same up to rounding.
  void merge();
  void detach();
  /// Whether the layer with the weight at `key` has an adapter that requires a gradient.
  bool trains(const Graph& graph, const void* key) const;

 private:
  struct Update;
  class LowRankLinear;
  std::vector<Child> children() override;
  std::vector<Parameter> ownParameters() override;

  TrainableEncoder* encoder_;  // null when detached
  float scale_;
  std::vector<std::unique_ptr<Update>> updates_;
  std::vector<std::unique_ptr<LowRankLinear>> layers_;
};

}  // namespace heed::train
