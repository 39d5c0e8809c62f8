#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/train/parameter_gradients.h"

namespace heed::train {

struct UpdateRule;
/// The maximum number of moments of a rule.
inline constexpr size_t kMoments = 3;
/// Updates `count` elements in one step: parameter w, gradient g, moments m[0], m[1], ... A moment that the rule does
/// not have is null.
using UpdateStep = std::function<void(Index count, const float* g, float* const* m, float* w)>;

/// A moment of a parameter.
struct Moment {
  const char* name;  ///< as in PyTorch's state dict, such as "exp_avg"
  Shape shape;
};

/// Options of one parameter group, as in torch.optim.
struct GroupOptions {
  double lr = 1e-3;
  double weight_decay = 0;
  double momentum = 0;  ///< SGD
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  ///< Adam, AdamW; RMSprop has eps, too
  bool amsgrad = false;
  double alpha = 0.99;  ///< RMSprop
  bool centered = false;
  double beta2_decay = -0.8, gradient_eps = 1.1920929e-7, parameter_eps = 1e-3, clip_threshold = 1;  ///< Adafactor
};

/// torch.optim.SGD, Adam, AdamW (Loshchilov, Hutter 2017, arXiv:1711.05101), RMSprop and Adafactor (Shazeer, Stern
/// 2018, arXiv:1804.04235). Elements are computed in fp32, bias corrections and factors in double precision, in
/// PyTorch's order.
class Optimizer {
 public:
  /// `kind`: the name of the class in torch.optim. Throws kInvalidArgument for other names.
  explicit Optimizer(std::string_view kind);

  /// Adds a group; returns its index. Throws kInvalidArgument for options outside PyTorch's ranges.
  Index addGroup(const GroupOptions& options);
  GroupOptions& group(Index i) { return groups_[static_cast<size_t>(i)]; }
  /// Adds a parameter to a group. `gradients` must outlive the optimizer. Throws kInvalidArgument for a parameter that
  /// was added before.
  void addParameter(Index group, ParameterGradients& gradients, size_t parameter);

  /// Updates all parameters that require a gradient and have one. Returns false, with all parameters unchanged, if a
  /// gradient is not finite. Throws kOutOfMemory, with all parameters unchanged.
  bool step();

  /// A moment of a parameter, for checkpoints. Rows of a table without moments are zeros. state() is empty before the
  /// first step.
  struct State {
    std::string name;
    Shape shape;
    std::vector<float> values;
  };
  int64_t steps(Index parameter) const { return slots_[static_cast<size_t>(parameter)].steps; }
  std::vector<State> state(Index parameter) const;

  /// A saved state of a parameter. It does not hold the values, so that they are copied only once, to their
  /// destination.
  struct Saved {
    struct SavedMoment {
      std::string name;
      Index size;
    };
    int64_t steps;
    std::vector<SavedMoment> moments;
    std::function<void(size_t moment, float* to)> copy;  ///< copies the values of a moment; must not throw
  };
  /// Restores the states of all parameters, in the order in which they were added. Dense moments are overwritten in
  /// place, so that restoring needs no more memory than stepping. Throws kShapeMismatch, kInvalidArgument or
  /// kOutOfMemory; the states are then unchanged.
  void restore(std::span<const Saved> states);

 private:
  /// A parameter and its moments. A table with a sparse gradient stores moments only for rows that have had a gradient:
  /// the moments of all other rows are zero and would not change them.
  struct Slot {
    Index group = 0;
    ParameterGradients* gradients = nullptr;
    size_t parameter = 0;
    int64_t steps = 0;
    bool by_rows = false;
    std::vector<Index> order;              // by_rows: the rows that have moments
    std::vector<Index> places;             // by_rows: for each row of the table its index in `order`, or -1
    std::vector<float> moments[kMoments];  // of all rows or, by_rows, of those in `order`

    const Parameter& value() const { return gradients->parameters()[parameter]; }
    ParameterGradients::Entry& gradient() const { return gradients->entry(parameter); }
  };
  struct Scratch;
  struct MomentsAt;

  const GroupOptions& optionsOf(const Slot& slot) const { return groups_[static_cast<size_t>(slot.group)]; }
  std::vector<Moment> momentsOf(const Slot& slot) const;
  void requireFits(const Slot& slot, const Saved& saved) const;
  Slot restored(const Slot& slot, const Saved& saved) const;
  static void makeDense(Slot& slot);
  static void makeSparse(Slot& slot);
  void makeRoom(Slot& slot) const;
  static void updateDense(Slot& slot, Scratch& scratch, const UpdateStep& update);
  static void updateRows(Slot& slot, Scratch& scratch, const UpdateStep& update);
  /// The factor on the parameter in a step with decoupled weight decay; 1: none.
  float decayOf(const Slot& slot) const;
  /// The update of the slot's next step.
  UpdateStep nextStep(const Slot& slot) const;
  void update(Slot& slot, Scratch& scratch, const UpdateStep& formula) const;
  void updateWhole(Slot& slot, Scratch& scratch) const;

  const UpdateRule& rule_;
  std::vector<GroupOptions> groups_;
  std::vector<Slot> slots_;
};

}  // namespace heed::train
