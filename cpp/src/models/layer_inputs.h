#pragma once

#include <memory>
#include <vector>

#include "heed/encoder_model.h"
#include "heed/linear.h"
#include "heed/norm.h"

namespace heed {

/// The third block of each layer of EmbeddingGemma 2. Every layer i has its own gate, a signal LN(W_i u) that is
/// computed from the embeddings u: y = f_i (x + LN_i(W''_i (phi(W'_i x) * LN(W_i u)))).
///
/// Notation: T rows of all sequences, E width, P width of the signals, L layers. Parameters: proj.weight (L P, E), the
/// W_i one below another; norm.*; those of Block in layers.<i>.input.*.
class EncoderModel::LayerInputs : public Module {
 public:
  explicit LayerInputs(const EncoderModelConfig& config);

  /// The output of layer i; x and `embeddings` (T, E). Consumes x.
  Value forward(Evaluator& e, Index i, const Value& x, const Value& embeddings) const;

  /// W', W'', LN_i and f_i. Parameters: gate_proj.weight (P, E), out_proj.weight (E, P), norm.*, factor (1), which is
  /// not trained.
  class Block : public Module {
   public:
    explicit Block(const EncoderModelConfig& config);

   private:
    friend class LayerInputs;
    std::vector<Child> children() override { return {{"gate_proj", &gate_}, {"out_proj", &out_}, {"norm", &norm_}}; }
    std::vector<Parameter> ownParameters() override;

    Linear gate_, out_;
    LayerNorm norm_;
    float factor_ = 1;
  };

  Block& block(Index i) { return *blocks_[static_cast<size_t>(i)]; }
  /// All matrices, those of the signals first.
  std::vector<Linear*> linears();

 private:
  std::vector<Child> children() override { return {{"norm", &norm_}}; }
  std::vector<Parameter> ownParameters() override;

  std::vector<std::unique_ptr<Linear>> signals_;
  LayerNorm norm_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace heed
