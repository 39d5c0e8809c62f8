/// Optimizers: which elements a step updates, and where their moments are stored. The formulas are in
/// train/ops/update.cpp.
#include "heed/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "train/ops/update.h"

namespace heed::train {
namespace {

void requireNotNegative(const char* argument, double got) {
  if (!(got >= 0 && std::isfinite(got)))
    throwInvalid(ErrorCode::kInvalidArgument, argument, "a finite number >= 0", numberText(got));
}

void requireBeta(const char* argument, double got) {
  if (!(got >= 0 && got < 1))
    throwInvalid(ErrorCode::kInvalidArgument, argument, "a number in [0, 1)", numberText(got));
}

/// Rows per block: a multiple of the 8 rows of a panel, and few enough for the cache.
Index blockRows(Index width) {
  constexpr Index kFloats = 4096;
  return std::max<Index>(kFloats / std::max<Index>(width, 1) / 8 * 8, 8);
}

/// Calls f(first row, number of rows) for each block of rows.
template <class F>
void forEachBlock(const Parameter& parameter, const F& f) {
  const Index rows = parameter.rows(), step = blockRows(parameter.rowSize());
  for (Index row = 0; row < rows; row += step) f(row, std::min(step, rows - row));
}

/// Copies row k of `sparse` to row order[k] of `dense`.
void spread(const std::vector<float>& sparse, const std::vector<Index>& order, Index width, std::vector<float>& dense) {
  for (size_t k = 0; k < order.size(); ++k)
    std::copy_n(sparse.data() + static_cast<Index>(k) * width, width, dense.data() + order[k] * width);
}

}  // namespace

/// Copies of a block of rows: parameters are stored in several formats, and every format is read and written by rows.
struct Optimizer::Scratch {
  std::vector<float> values, gradient;
  std::vector<double> sums;  // UpdateRule::scratch

  void fit(const UpdateRule& rule, const Parameter& parameter) {
    if (rule.scratch) sums.resize(std::max(sums.size(), rule.scratch(parameter.shape)));
    const Index rows = std::min(blockRows(parameter.rowSize()), parameter.rows());
    const auto size = static_cast<size_t>(rows * parameter.rowSize());
    if (values.size() >= size && gradient.size() >= size) return;
    allocate("optimizer", Shape{rows, parameter.rowSize()}, values);
    allocate("optimizer", Shape{rows, parameter.rowSize()}, gradient);
  }
};

Index Optimizer::addGroup(const GroupOptions& options) {
  requireNotNegative("lr", options.lr);
  requireNotNegative("weightDecay", options.weight_decay);
  requireNotNegative("momentum", options.momentum);
  requireNotNegative("eps", options.eps);
  requireBeta("betas[0]", options.beta1);
  requireBeta("betas[1]", options.beta2);
  requireNotNegative("alpha", options.alpha);
  requireNotNegative("eps[0]", options.gradient_eps);
  requireNotNegative("eps[1]", options.parameter_eps);
  if (!(options.beta2_decay <= 0))
    throwInvalid(ErrorCode::kInvalidArgument, "beta2Decay", "a number <= 0", numberText(options.beta2_decay));
  // PyTorch refuses thresholds below 1; Keras has them.
  if (!(options.clip_threshold > 0))
    throwInvalid(ErrorCode::kInvalidArgument, "clipThreshold", "a number > 0", numberText(options.clip_threshold));
  if (options.nesterov && options.momentum == 0)
    throwInvalid(ErrorCode::kInvalidArgument, "momentum", "a number > 0 with nesterov", "0");
  groups_.push_back(options);
  return static_cast<Index>(groups_.size()) - 1;
}

void Optimizer::addParameter(Index group, ParameterGradients& gradients, size_t parameter) {
  requireRange("group", group, 0, static_cast<Index>(groups_.size()) - 1);
  for (const Slot& slot : slots_) {
    if (slot.gradients == &gradients && slot.parameter == parameter) {
      throwInvalid(ErrorCode::kInvalidArgument, "params", "each parameter in one group",
                   gradients.parameters()[parameter].name + " twice");
    }
  }
  Slot slot;
  slot.group = group;
  slot.gradients = &gradients;
  slot.parameter = parameter;
  slots_.push_back(std::move(slot));
}

Optimizer::Optimizer(std::string_view kind) : rule_(updateRule(kind)) {}

std::vector<Moment> Optimizer::momentsOf(const Slot& slot) const {
  return rule_.moments(optionsOf(slot), slot.value().shape);
}

void Optimizer::makeDense(Slot& slot) {
  const Parameter& parameter = slot.value();
  const Index width = parameter.rowSize();
  const auto dense = [&](const std::vector<float>& sparse) {
    std::vector<float> all;
    if (sparse.empty()) return all;
    allocate(parameter.name.c_str(), parameter.shape, all);
    spread(sparse, slot.order, width, all);
    return all;
  };
  std::vector<float> all[kMoments];
  for (size_t k = 0; k < kMoments; ++k) all[k] = dense(slot.moments[k]);
  for (size_t k = 0; k < kMoments; ++k) slot.moments[k] = std::move(all[k]);
  slot.by_rows = false;
  slot.order = {};
  slot.places = {};
}

/// Drops the rows whose moments are all zeros, if at least half of the rows are such.
void Optimizer::makeSparse(Slot& slot) {
  const Index width = slot.value().rowSize(), rows = slot.value().rows();
  const auto is_zero = [&](const std::vector<float>& moments, Index row) {
    if (moments.empty()) return true;
    const float* begin = moments.data() + row * width;
    return std::all_of(begin, begin + width, [](float x) { return x == 0; });
  };
  std::vector<Index> order;
  for (Index row = 0; row < rows; ++row) {
    if (!std::ranges::all_of(slot.moments, [&](const auto& moments) { return is_zero(moments, row); }))
      order.push_back(row);
  }
  if (static_cast<Index>(order.size()) > rows / 2) return;
  slot.places.assign(static_cast<size_t>(rows), -1);
  for (size_t k = 0; k < order.size(); ++k) slot.places[static_cast<size_t>(order[k])] = static_cast<Index>(k);
  for (std::vector<float>& moments : slot.moments) {
    if (moments.empty()) continue;
    std::vector<float> sparse(order.size() * static_cast<size_t>(width));
    for (size_t k = 0; k < order.size(); ++k)
      std::copy_n(moments.data() + order[k] * width, width, sparse.data() + static_cast<Index>(k) * width);
    moments = std::move(sparse);
  }
  slot.order = std::move(order);
  slot.by_rows = true;
}

/// Allocates the moments of all rows that the step will update.
void Optimizer::makeRoom(Slot& slot) const {
  const Parameter& parameter = slot.value();
  const ParameterGradients::Entry& gradient = slot.gradient();
  const std::vector<Moment> moments = momentsOf(slot);
  if (rule_.whole) {
    for (size_t k = 0; k < moments.size(); ++k) allocate(parameter.name.c_str(), moments[k].shape, slot.moments[k]);
    return;
  }
  // With L2 regularization every row of a table has a gradient, because the weights are added to it.
  const bool by_rows = gradient.by_rows && (rule_.decouples_decay || optionsOf(slot).weight_decay == 0);
  if (slot.by_rows && !by_rows) makeDense(slot);
  if (by_rows && slot.moments[0].empty()) slot.by_rows = true;
  auto size = static_cast<size_t>(parameter.rows());
  if (slot.by_rows) {
    allocating(parameter.name.c_str(), {parameter.rows()}, sizeof(Index) * static_cast<double>(size), [&] {
      slot.places.resize(size, -1);
      for (const Index row : gradient.rows.order) {
        Index& place = slot.places[static_cast<size_t>(row)];
        if (place >= 0) continue;
        slot.order.push_back(row);
        place = static_cast<Index>(slot.order.size()) - 1;
      }
    });
    size = slot.order.size();
  }
  const Shape shape{static_cast<Index>(size), parameter.rowSize()};
  for (size_t k = 0; k < moments.size(); ++k) allocate(parameter.name.c_str(), shape, slot.moments[k]);
}

/// The moments from an element on.
struct Optimizer::MomentsAt {
  float* at[kMoments];

  MomentsAt(std::vector<float> (&moments)[kMoments], Index element) {
    for (size_t k = 0; k < kMoments; ++k) at[k] = moments[k].empty() ? nullptr : moments[k].data() + element;
  }
};

/// Calls update(count, gradient, moments, values) for all rows, block by block.
void Optimizer::updateDense(Slot& slot, Scratch& scratch, const UpdateStep& update) {
  const Parameter& parameter = slot.value();
  const ParameterGradients::Entry& gradient = slot.gradient();
  const Index width = parameter.rowSize();
  forEachBlock(parameter, [&](Index row, Index count) {
    const float* g = scratch.gradient.data();
    if (gradient.dense.data()) {
      g = gradient.dense.data() + row * width;
    } else {
      slot.gradients->read(slot.parameter, row, count, scratch.gradient.data());
    }
    parameter.read(row, count, scratch.values.data());
    update(count * width, g, MomentsAt(slot.moments, row * width).at, scratch.values.data());
    parameter.write(row, count, scratch.values.data());
  });
}

/// Calls update() for each row of a table that has ever had a gradient.
void Optimizer::updateRows(Slot& slot, Scratch& scratch, const UpdateStep& update) {
  const Parameter& parameter = slot.value();
  const ParameterGradients::Rows& gradient = slot.gradient().rows;
  const Index width = parameter.rowSize();
  std::fill_n(scratch.gradient.data(), width, 0.0f);
  for (size_t k = 0; k < slot.order.size(); ++k) {
    const Index row = slot.order[k];
    const float* found = gradient.find(row, width);
    const float* g = found ? found : scratch.gradient.data();
    parameter.read(row, 1, scratch.values.data());
    update(width, g, MomentsAt(slot.moments, static_cast<Index>(k) * width).at, scratch.values.data());
    parameter.write(row, 1, scratch.values.data());
  }
}

float Optimizer::decayOf(const Slot& slot) const {
  const GroupOptions& options = optionsOf(slot);
  return rule_.decouples_decay ? static_cast<float>(1 - options.lr * options.weight_decay) : 1;
}

UpdateStep Optimizer::nextStep(const Slot& slot) const {
  if (!rule_.step) return nullptr;
  // For by_rows slots, update() applies the decay.
  return rule_.step(optionsOf(slot), slot.steps + 1, slot.by_rows ? 1 : decayOf(slot));
}

void Optimizer::updateWhole(Slot& slot, Scratch& scratch) const {
  const Parameter& parameter = slot.value();
  const Index width = parameter.rowSize();
  rule_.whole(optionsOf(slot), slot.steps + 1,
              {.shape = parameter.shape,
               .rows = parameter.rows(),
               .width = width,
               .block = blockRows(width),
               .gradient = [&](Index row, Index count) -> const float* {
                 slot.gradients->read(slot.parameter, row, count, scratch.gradient.data());
                 return scratch.gradient.data();
               },
               .read =
                   [&](Index row, Index count) {
                     parameter.read(row, count, scratch.values.data());
                     return scratch.values.data();
                   },
               .write = [&](Index row, Index count) { parameter.write(row, count, scratch.values.data()); },
               .moments = slot.moments,
               .scratch = scratch.sums.data()});
}

void Optimizer::update(Slot& slot, Scratch& scratch, const UpdateStep& formula) const {
  if (rule_.whole) return updateWhole(slot, scratch);
  const float decay = decayOf(slot);
  if (slot.by_rows && decay != 1) {
    // Every row of a table decays, including those that have never had a gradient.
    const Parameter& parameter = slot.value();
    forEachBlock(parameter, [&](Index row, Index count) {
      parameter.read(row, count, scratch.values.data());
      scaleBy(decay, count * parameter.rowSize(), scratch.values.data());
      parameter.write(row, count, scratch.values.data());
    });
  }
  if (slot.by_rows) {
    updateRows(slot, scratch, formula);
  } else {
    updateDense(slot, scratch, formula);
  }
}

bool Optimizer::step() {
  std::vector<Slot*> updated;
  for (Slot& slot : slots_) {
    if (!slot.gradients->requiresGradient(slot.parameter) || !slot.gradients->hasGradient(slot.parameter)) continue;
    slot.gradients->requireWhole(slot.parameter);
    const ParameterGradients::Entry& gradient = slot.gradient();
    if (gradient.dense.data() && !allFinite(gradient.dense.size(), gradient.dense.data())) return false;
    if (!allFinite(static_cast<Index>(gradient.rows.values.size()), gradient.rows.values.data())) return false;
    updated.push_back(&slot);
  }
  // Allocates all memory before the first change.
  Scratch scratch;
  std::vector<UpdateStep> formulas;
  for (Slot* slot : updated) {
    scratch.fit(rule_, slot->value());
    makeRoom(*slot);
    formulas.push_back(nextStep(*slot));
  }
  for (size_t i = 0; i < updated.size(); ++i) {
    update(*updated[i], scratch, formulas[i]);
    ++updated[i]->steps;
  }
  return true;
}

std::vector<Optimizer::State> Optimizer::state(Index parameter) const {
  const Slot& slot = slots_[static_cast<size_t>(parameter)];
  const Index width = slot.value().rowSize();
  std::vector<State> all;
  for (const auto& [name, shape] : momentsOf(slot)) {
    const std::vector<float>& moments = slot.moments[all.size()];
    if (moments.empty()) break;
    State state{name, shape, {}};
    if (slot.by_rows) {
      allocate(name, shape, state.values);
      spread(moments, slot.order, width, state.values);
    } else {
      state.values = moments;
    }
    all.push_back(std::move(state));
  }
  return all;
}

void Optimizer::requireFits(const Slot& slot, const Saved& saved) const {
  const Parameter& parameter = slot.value();
  const std::vector<Moment> expected = momentsOf(slot);
  const auto& [steps, moments, copy] = saved;
  if (steps < 0)
    throwInvalid(ErrorCode::kInvalidArgument, parameter.name, "at least 0", std::to_string(steps) + " steps");
  if (!moments.empty() && moments.size() != expected.size()) {
    throwInvalid(ErrorCode::kInvalidArgument, parameter.name, std::to_string(expected.size()) + " moments",
                 std::to_string(moments.size()));
  }
  for (size_t i = 0; i < moments.size(); ++i) {
    const auto& [name, shape] = expected[i];
    if (moments[i].name != name)
      throwInvalid(ErrorCode::kInvalidArgument, parameter.name, "the moment '" + std::string(name) + "'",
                   "'" + moments[i].name + "'");
    requireShape(parameter.name + " " + name, Shape{moments[i].size}, Shape{shape.size()});
  }
}

/// A copy of the slot with the saved state, in new memory.
Optimizer::Slot Optimizer::restored(const Slot& slot, const Saved& saved) const {
  Slot made;
  made.group = slot.group;
  made.gradients = slot.gradients;
  made.parameter = slot.parameter;
  made.steps = saved.steps;
  const std::vector<Moment> moments = momentsOf(slot);
  for (size_t i = 0; i < saved.moments.size(); ++i) {
    allocate(slot.value().name.c_str(), moments[i].shape, made.moments[i]);
    saved.copy(i, made.moments[i].data());
  }
  // Tables keep only the rows that have had a gradient.
  if (rule_.step && !saved.moments.empty() && slot.value().shape.rank() > 1) makeSparse(made);
  return made;
}

void Optimizer::restore(std::span<const Saved> states) {
  requireShape("states", {static_cast<Index>(states.size())}, {static_cast<Index>(slots_.size())});
  for (size_t i = 0; i < states.size(); ++i) requireFits(slots_[i], states[i]);
  const auto is_in_place = [&](size_t i) {
    const Slot& slot = slots_[i];
    return !slot.by_rows && !slot.moments[0].empty() && !states[i].moments.empty();
  };
  // Allocates all memory before the first change.
  std::vector<Slot> made(states.size());
  for (size_t i = 0; i < states.size(); ++i)
    if (!is_in_place(i)) made[i] = restored(slots_[i], states[i]);
  for (size_t i = 0; i < states.size(); ++i) {
    Slot& slot = slots_[i];
    if (!is_in_place(i)) {
      slot = std::move(made[i]);
      continue;
    }
    slot.steps = states[i].steps;
    for (size_t k = 0; k < states[i].moments.size(); ++k) states[i].copy(k, slot.moments[k].data());
  }
}

}  // namespace heed::train
