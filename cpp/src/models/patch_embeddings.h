#pragma once

#include <optional>

#include "heed/encoder_model.h"
#include "heed/linear.h"
#include "heed/norm.h"

namespace heed {

/// LN([class + p_0; registers; W patch_i + b + p_i]): converts each image to the input rows of the first layer. A patch
/// is a square of P x P pixels; the product with W is a convolution with stride P.
///
/// Notation: E width, P side of a patch, G rows of the position table (the first one for the class token, if there is
/// one), R register tokens, L rows of an image. Parameters: class.weight (1, E), registers.weight (R, E), patch.weight
/// (E, 3, P, P) as in torch.nn.Conv2d, patch.bias (E), position.weight (G, E), norm.*.
class EncoderModel::PatchEmbeddings : public Module {
 public:
  explicit PatchEmbeddings(const EncoderModelConfig& config);

  /// Returns (N L, E) for N images. Throws kShapeMismatch if the number of positions differs from that of the patches.
  /// Only for inference: the result is a copy, whose gradient is not recorded.
  Value forward(Evaluator& e, const ImageInput& image) const;
  Index rows(Index height, Index width) const;

 private:
  /// Returns (L, E) for one image with these pixels.
  Value embed(Evaluator& e, const ImageInput& image, const float* pixels) const;
  std::vector<Child> children() override;
  std::vector<Parameter> ownParameters() override;

  Index width_, side_;            // E, P
  std::vector<float> class_;      // (E), or empty
  std::vector<float> registers_;  // (R, E)
  std::vector<float> position_;   // (G, E), or empty
  Linear patch_;
  std::optional<LayerNorm> norm_;
};

}  // namespace heed
