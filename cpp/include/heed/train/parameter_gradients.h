#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/module.h"
#include "heed/train/variable.h"

namespace heed::train {

/// The gradients of the parameters of one module and its children. An object must not outlive its module.
///
/// A part of a parameter (Parameter::Part) is identified by its key, the address of its values: the PackedWeight of a
/// Linear, or the floats of a bias. Several parameters may share the rows at one address. Gradients are row-major,
/// regardless of the format of the values.
class ParameterGradients {
 public:
  explicit ParameterGradients(Module& module);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  bool requiresGradient(size_t parameter) const { return entries_[parameter].required; }
  /// Buffers never require gradients; setting it for one is ignored.
  void setRequiresGradient(size_t parameter, bool required);
  /// Whether the parameter required a gradient when the node with this Node::order was recorded.
  bool requiredGradientAt(size_t parameter, uint64_t order) const;
  /// Discards the history behind requiredGradientAt(). Call it only when no existing node will be differentiated.
  void forgetRequirements();
  /// Whether any backward pass has reached the parameter since the gradient was last dropped.
  bool hasGradient(size_t parameter) const { return entries_[parameter].present; }
  /// Copies rows [first, first + count) of the gradient; rows without one are zeros.
  void read(size_t parameter, Index first, Index count, float* out) const;
  /// Adds rows to the gradient, as a backward pass does; for gradients computed elsewhere.
  void add(size_t parameter, Index first, Index count, const float* rows);
  /// Multiplies a gradient by `factor`, for clipping.
  void scale(size_t parameter, float factor);
  /// The sum of squares of a gradient, in double; not finite if any element is not. A gradient that is not required or
  /// not present counts as zeros.
  double sumOfSquares(size_t parameter) const;
  /// Drops one gradient, or all of them: they become zeros and are not present.
  void zero(size_t parameter);
  void zero();

  /// Call this before backward pass number `pass`, which is not 0, adds to a gradient.
  void reach(size_t parameter, uint64_t pass);
  /// Call this when pass number `pass` has ended early. Gradients that were not present before the pass are dropped.
  /// The others may contain parts of it, and requireWhole() rejects them until they are dropped.
  void abandon(uint64_t pass);
  /// Throws kInvalidArgument if the gradient may contain parts of a pass that ended early.
  void requireWhole(size_t parameter) const;

  /// The sparse gradient of a table: only rows that were looked up have a gradient.
  struct Rows {
    std::vector<Index> slots;   ///< for each row of the table, its slot (row in `values`), or -1; initially empty
    std::vector<Index> order;   ///< slot -> row of the table
    std::vector<float> values;  ///< (slots, row size)

    /// The gradient of a row of the table; null if it has none.
    const float* find(Index row, Index row_size) const {
      const Index slot = slots.empty() ? -1 : slots[static_cast<size_t>(row)];
      return slot < 0 ? nullptr : values.data() + slot * row_size;
    }
  };
  /// A parameter's gradient: dense, or sparse if it comes from embedding look-ups only.
  struct Entry {
    bool required = true;
    std::vector<uint64_t> changes;  // when `required` changed, numbered like Node::order
    bool present = false;
    bool by_rows = false;      // sparse: stored in `rows`
    uint64_t pass = 0;         // the last backward pass that added to it
    bool was_present = false;  // `present` before that pass
    bool is_partial = false;   // may contain parts of a pass that ended early
    Matrix dense;              // (rows, row size), empty until the first backward pass
    Rows rows;
  };
  Entry& entry(size_t parameter) { return entries_[parameter]; }

  /// A part of a parameter: rows [first_row, first_row + rows) are stored at the address `key`, starting at row
  /// `storage_row`.
  struct Location {
    size_t parameter;
    Index first_row;
    Index rows;
    Index storage_row = 0;
    const void* key = nullptr;
  };
  /// The parts stored at an address; empty if none of this module's parameters is stored there.
  std::span<const Location> find(const void* key) const;

  /// The dense gradient of a part, for adding to it; initially zeros.
  MatrixView dense(const Location& part);
  /// The gradient of one row of a table, for adding to it; initially zeros.
  float* row(const Location& table, Index row);

 private:
  std::vector<Parameter> parameters_;
  std::vector<Entry> entries_;
  std::vector<Location> locations_;  // sorted by address
};

}  // namespace heed::train
