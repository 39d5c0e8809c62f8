#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// What a parameter is to its module.
enum class ParameterKind {
  kWeight,
  kBias,
  kBuffer,  ///< kept and saved, but not trained: batch norm's moving averages
};

/// How a parameter starts, as in the constructors of PyTorch's modules.
struct InitialValue {
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  float value = 0;  ///< the constant; the bound of a uniform draw from [-value, value); the deviation of a normal one

  static InitialValue constant(float value) { return {Kind::kConstant, value}; }
  static InitialValue uniform(float bound) { return {Kind::kUniform, bound}; }
  static InitialValue normal() { return {Kind::kNormal, 1}; }
  /// Xavier-uniform for a weight (out, in): bound sqrt(6 / (in + out)) (Glorot, Bengio 2010).
  static InitialValue xavier(Index out, Index in);
  /// torch.nn.Linear's, for weight and bias: bound 1 / sqrt(in).
  static InitialValue linear(Index in);
};

/// One named weight of a module. It is read and written by ranges of rows (the first axis), so that a loader can stream
/// it, write q, k and v into their thirds of `in_proj_weight`, and a packed or int8 weight can convert row by row.
struct Parameter {
  std::string name;  ///< PyTorch's, e.g. "self_attn.in_proj_weight"
  Shape shape;
  ParameterKind kind = ParameterKind::kWeight;
  InitialValue initial;
  /// Copies rows [first, first + count) out, row-major fp32.
  std::function<void(Index first, Index count, float* out)> read;
  /// Copies rows [first, first + count) in.
  std::function<void(Index first, Index count, const float* in)> write;
  /// Copies rows in that are stored as int8 with one scale per row (value = scales[row] * in[row, :]). Empty for
  /// parameters that have no int8 form.
  std::function<void(Index first, Index count, const signed char* in, const float* scales)> writeInt8;

  /// Elements of one row; 1 for a vector.
  Index rowSize() const;
};

/// How a module stores and multiplies by its matrices. Everything else is fp32 in both.
enum class Precision {
  kFloat32,
  kInt8,  ///< weights int8 per output row, activations quantized per row at run time
};

/// Something that owns parameters, as torch.nn.Module: it lists its own parameters and its children, and everything
/// that concerns all parameters or all modules walks that list.
class Module {
 public:
  virtual ~Module() = default;

  /// Every parameter of this module and its children, names joined by dots ("layers.0.norm1.weight"). Handles stay
  /// valid as long as the module.
  std::vector<Parameter> parameters();
  /// Number of scalars in all parameters, buffers included.
  int64_t parameterCount();
  /// Training mode: dropout draws. Modules start in evaluation mode; torch.nn.Module starts in training mode.
  void setTraining(bool training);
  bool training() const { return training_; }
  /// Starts the draws of all dropout in this module and its children anew. Modules with several of them call it in their
  /// constructor, so that no two start alike.
  void seed(uint64_t seed);

 protected:
  /// A module inside this one; an empty name adds nothing to the names of its parameters.
  struct Child {
    std::string name;
    Module* module;
  };
  virtual std::vector<Child> children() { return {}; }
  /// This module's parameters without its children's.
  virtual std::vector<Parameter> ownParameters() { return {}; }
  /// Starts this module's own draws anew; modules that draw nothing ignore it.
  virtual void seedOwn(uint64_t) {}

 private:
  void collect(const std::string& prefix, std::vector<Parameter>& out);
  bool training_ = false;
};

/// A parameter that is a plain row-major array; vectors have shape {size}, and a "row" of theirs is one element.
Parameter plainParameter(std::string name, Shape shape, float* data, ParameterKind kind, InitialValue initial);

}  // namespace heed
