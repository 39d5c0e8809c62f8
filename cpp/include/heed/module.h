#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// One named weight of a module. It is read and written by ranges of rows (the first axis), so that a loader can stream
/// it, write q, k and v into their thirds of `in_proj_weight`, and a packed or int8 store can convert row by row.
struct Parameter {
  std::string name;  ///< PyTorch's, e.g. "self_attn.in_proj_weight"
  Shape shape;
  /// Copies rows [first, first + count) out, row-major fp32.
  std::function<void(Index first, Index count, float* out)> read;
  /// Copies rows [first, first + count) in.
  std::function<void(Index first, Index count, const float* in)> write;
  /// Copies rows in that are stored as int8 with one scale per row (value = scales[row] * in[row, :]). Empty where the
  /// store has no int8 form.
  std::function<void(Index first, Index count, const signed char* in, const float* scales)> writeInt8;
};

/// How a module stores and multiplies by its matrices. Everything else is fp32 in both.
enum class Precision {
  kFloat32,
  kInt8,  ///< weights int8 per output row, activations quantized per row at run time
};

/// Something that owns parameters, as torch.nn.Module.
class Module {
 public:
  virtual ~Module() = default;

  /// Every parameter of this module and its children, in PyTorch's order, names joined by dots. Handles stay valid as
  /// long as the module.
  std::vector<Parameter> parameters();
  /// Number of scalars in all parameters.
  Index parameterCount();
  /// Training mode: dropout draws. Modules start in evaluation mode (as a page wants it; PyTorch starts in training
  /// mode).
  virtual void setTraining(bool training) { training_ = training; }
  bool training() const { return training_; }
  /// Starts the draws of its dropout anew; modules that draw nothing ignore it.
  virtual void seed(uint64_t) {}

  /// Appends this module's parameters, each name prefixed by `prefix` ("" or "layers.0.").
  virtual void collect(const std::string& prefix, std::vector<Parameter>& out) = 0;

 private:
  bool training_ = false;
};

/// A parameter that is a plain row-major array; vectors have shape {size}, and a "row" of theirs is one element.
Parameter plainParameter(std::string name, Shape shape, float* data);

}  // namespace heed
