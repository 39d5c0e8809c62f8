#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heed/tensor.h"

namespace heed {

class Dropout;

/// The role of a parameter.
enum class ParameterKind {
  kWeight,
  kBias,
  kBuffer,  ///< saved but not trained, such as batch norm's moving averages
};

/// How a parameter is initialized.
struct InitialValue {
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  float value = 0;  ///< the constant, the bound of uniform draws from [-value, value), or the standard deviation

  static InitialValue constant(float value) { return {Kind::kConstant, value}; }
  static InitialValue uniform(float bound) { return {Kind::kUniform, bound}; }
  static InitialValue normal() { return {Kind::kNormal, 1}; }
  /// Xavier-uniform for a weight (out, in): bound sqrt(6 / (in + out)) (Glorot, Bengio 2010).
  static InitialValue xavier(Index out, Index in);
  /// As in torch.nn.Linear, for weight and bias: uniform with bound 1 / sqrt(in).
  static InitialValue linear(Index in);
};

/// A format of rows of integers with one scale per row: signed bytes, value = scale * integer; the same for rows that
/// are rotated without signs (kHadamardInt8, in folders of earlier builds) or with signs (kRotatedInt8), see
/// gemm/rotation.h; 2 to 4 bits per weight, see core/coded_rows.h (kInt4) and core/trellis.h.
enum class RowCode { kNone, kInt8, kHadamardInt8, kRotatedInt8, kInt4, kTrellis2, kTrellis3, kTrellis4 };

/// Consecutive rows in such a format. Each row can be decoded by itself.
struct CodedRows {
  RowCode code;
  Index width;
  const uint8_t* bytes;
  const float* scales;                   ///< one per row
  const float* column_scales = nullptr;  ///< (width) for kTrellis3 and kTrellis4

  /// Writes the values of one row.
  void decode(Index row, float* out) const;
  /// The same rows without the first `row`.
  CodedRows from(Index row) const;
};

/// The rows of a matrix in some format, such as packed or quantized weights. Reading and writing allocate nothing, so
/// that a parameter is never left half-written.
class RowStorage {
 public:
  virtual ~RowStorage() = default;
  /// Stores rows [first, first + count), row-major in fp32.
  virtual void write(Index first, Index count, const float* rows) = 0;
  /// Stores the first `count` coded rows. Formats that cannot store these decode each of them to `row`, scratch of
  /// `width` floats, and write it as fp32.
  virtual void writeCoded(Index first, Index count, const CodedRows& rows, float* row);
  /// Copies rows out: exact in fp32, otherwise the values that the format represents.
  virtual void read(Index first, Index count, float* rows) const = 0;
};

/// A named parameter of a module. Reads and writes take a range of rows (along the first axis), so that files can be
/// streamed, q, k and v can be written into their thirds of `in_proj_weight`, and weights can be packed or quantized
/// row by row.
struct Parameter {
  /// Consecutive rows of the parameter, in one of two forms.
  struct Part {
    Index rows;
    float* plain;                   ///< row-major in fp32; null with a storage, and possibly without elements
    RowStorage* storage = nullptr;  ///< in another format, or null
    Index first = 0;                ///< the part's first row among the rows there

    /// The address of the values. Parts of several parameters may share them.
    const void* key() const { return plain ? static_cast<const void*>(plain) : storage; }
  };

  std::string name;  ///< as in PyTorch, e.g. "self_attn.in_proj_weight"
  Shape shape;
  ParameterKind kind = ParameterKind::kWeight;
  InitialValue initial;
  std::vector<Part> parts;
  /// The number of writes to parameters of the module that owns this one; null: not counted. Set by
  /// Module::parameters().
  uint64_t* writes = nullptr;

  /// The number of rows, the extent of the first axis; 1 without axes.
  Index rows() const { return shape.rank() == 0 ? 1 : shape[0]; }
  /// The number of elements in a row; 1 for vectors.
  Index rowSize() const;
  /// Copies rows [first, first + count) to `out`.
  void read(Index first, Index count, float* out) const;
  /// Sets rows [first, first + count).
  void write(Index first, Index count, const float* in) const;
  /// Whether the parameter is a matrix in a RowStorage.
  bool hasStorage() const { return parts.front().storage != nullptr; }
  /// As RowStorage::writeCoded(). Requires rows of rowSize() columns.
  void writeCoded(Index first, Index count, const CodedRows& in, float* row) const;

 private:
  void countWrite() const {
    if (writes) ++*writes;
  }
};

/// How a module stores its matrices and multiplies by them. Everything else is fp32.
enum class Precision {
  kFloat32,
  kInt8,  ///< weights quantized per output row, activations quantized per row at run time
};

/// The base class of all layers and models, like torch.nn.Module. A subclass lists its own parameters and its children;
/// functions on all parameters or all modules walk this tree.
class Module {
 public:
  virtual ~Module() = default;

  /// This module and all modules inside it.
  std::vector<Module*> modules();
  /// All parameters of this module and its children, with names joined by dots ("layers.0.norm1.weight"). They stay
  /// valid as long as the module exists.
  std::vector<Parameter> parameters();
  /// The number of writes to parameters of this module and its children. Values derived from them are up to date while
  /// it is unchanged.
  uint64_t writes();
  /// The number of scalars in all parameters, including buffers.
  int64_t parameterCount();
  /// Switches training mode, in which dropout is active. Unlike torch.nn.Module, modules start in evaluation mode.
  void setTraining(bool training) { setTraining(modules(), training); }
  static void setTraining(std::span<Module* const> modules, bool training);
  bool training() const { return training_; }
  /// Seeds the dropout of this module and all its children, each with a different stream. Modules with several dropout
  /// layers call it in their constructor.
  void seed(uint64_t seed);
  /// All dropouts in this module, in the order of its children; for checkpoints.
  virtual std::vector<Dropout*> dropouts();

 protected:
  /// A module inside this one. With an empty name, the names of its parameters get no prefix.
  struct Child {
    std::string name;
    Module* module;
  };
  virtual std::vector<Child> children() { return {}; }
  /// The children of a stack: "layers.0", "layers.1", ... and "norm", if there is a norm.
  template <class Layers, class Norm>
  static std::vector<Child> stackChildren(const Layers& layers, Norm& norm) {
    std::vector<Child> all;
    all.reserve(layers.size() + 1);
    for (const auto& layer : layers) all.push_back({"layers." + std::to_string(all.size()), layer.get()});
    if (norm) all.push_back({"norm", &*norm});
    return all;
  }
  /// The parameters of this module, without those of its children.
  virtual std::vector<Parameter> ownParameters() { return {}; }
  /// The number of writes to the parameters of this module without its children.
  uint64_t ownWrites() const { return writes_; }
  /// Seeds the random draws of this module without its children.
  virtual void seedOwn(uint64_t) {}

 private:
  void collect(const std::string& prefix, std::vector<Parameter>& out);
  void collectModules(std::vector<Module*>& out);
  void collectSeeds(uint64_t seed, std::vector<std::pair<Module*, uint64_t>>& out);
  bool training_ = false;
  uint64_t writes_ = 0;  // not atomic: only one thread writes weights, while no other thread reads them
};

/// A parameter stored as a plain row-major array. Vectors have the shape {size} and rows of one element.
Parameter plainParameter(std::string name, Shape shape, float* data, ParameterKind kind, InitialValue initial);

/// How matrices are initialized.
enum class Initialization {
  kByLayer,  ///< as in the constructors of PyTorch's layers
  kXavier,   ///< all matrices Xavier-uniform, as in torch.nn.Transformer
};

/// Initializes every parameter of `module` like PyTorch's module of the same name, with draws seeded by `seed`:
///
///   Linear                weight and bias uniform in +-1 / sqrt(in)
///   MultiHeadAttention    projections Xavier-uniform, in_proj_weight as one matrix; biases 0; out_proj.weight as
///                         in Linear
///   LayerNorm, BatchNorm  weight 1, bias 0, running mean 0 and variance 1
///   learned positions     normal with standard deviation 1, as in torch.nn.Embedding
void initialize(Module& module, uint64_t seed, Initialization initialization = Initialization::kByLayer);

}  // namespace heed
