#include "heed/train/parameter_gradients.h"

#include <algorithm>
#include <functional>

#include "core/check.h"
#include "heed/train/variable.h"
#include "train/ops/update.h"

namespace heed::train {

ParameterGradients::ParameterGradients(Module& module)
    : parameters_(module.parameters()), entries_(parameters_.size()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    entries_[i].required = parameters_[i].kind != ParameterKind::kBuffer;
    Index first = 0;
    for (const Parameter::Part& part : parameters_[i].parts) {
      locations_.push_back({i, first, part.rows, part.first, part.key()});
      first += part.rows;
    }
  }
  std::sort(locations_.begin(), locations_.end(), [](const Location& a, const Location& b) {
    return a.key == b.key ? a.storage_row < b.storage_row : std::less<>()(a.key, b.key);
  });
}

void ParameterGradients::setRequiresGradient(size_t parameter, bool required) {
  Entry& entry = entries_[parameter];
  if (parameters_[parameter].kind == ParameterKind::kBuffer || entry.required == required) return;
  entry.changes.push_back(Node::nextOrder());
  entry.required = required;
}

bool ParameterGradients::requiredGradientAt(size_t parameter, uint64_t order) const {
  const Entry& entry = entries_[parameter];
  const auto later = std::ranges::count_if(entry.changes, [order](uint64_t change) { return change > order; });
  return entry.required == (later % 2 == 0);
}

void ParameterGradients::forgetRequirements() {
  for (Entry& entry : entries_) entry.changes.clear();
}

std::span<const ParameterGradients::Location> ParameterGradients::find(const void* key) const {
  const auto first =
      std::lower_bound(locations_.begin(), locations_.end(), key,
                       [](const Location& location, const void* k) { return std::less<>()(location.key, k); });
  auto last = first;
  while (last != locations_.end() && last->key == key) ++last;
  return {first, last};
}

MatrixView ParameterGradients::dense(const Location& part) {
  const Parameter& parameter = parameters_[part.parameter];
  Entry& entry = entries_[part.parameter];
  if (!entry.dense.data()) {
    entry.dense = Matrix(parameter.rows(), parameter.rowSize());
    entry.dense.view().setZero();
    // The table had a sparse gradient and is now used as a whole: copy the gradients of its rows.
    for (size_t slot = 0; slot < entry.rows.order.size(); ++slot) {
      const Index width = parameter.rowSize();
      std::copy_n(entry.rows.values.data() + static_cast<Index>(slot) * width, width,
                  entry.dense.data() + entry.rows.order[slot] * width);
    }
    entry.rows = {};
    entry.by_rows = false;
  }
  entry.present = true;
  return heed::view(entry.dense.data() + part.first_row * parameter.rowSize(), part.rows, parameter.rowSize());
}

float* ParameterGradients::row(const Location& table, Index row) {
  Entry& entry = entries_[table.parameter];
  const Index width = parameters_[table.parameter].rowSize();
  if (entry.dense.data()) {
    entry.present = true;
    return entry.dense.data() + (table.first_row + row) * width;
  }
  Rows& rows = entry.rows;
  const Index place = table.first_row + row;
  if (rows.slots.empty()) rows.slots.resize(static_cast<size_t>(parameters_[table.parameter].rows()), -1);
  Index& slot = rows.slots[static_cast<size_t>(place)];
  if (slot < 0) {
    rows.values.resize((rows.order.size() + 1) * static_cast<size_t>(width));
    rows.order.push_back(place);
    slot = static_cast<Index>(rows.order.size()) - 1;
  }
  entry.present = entry.by_rows = true;
  return rows.values.data() + slot * width;
}

void ParameterGradients::read(size_t parameter, Index first, Index count, float* out) const {
  requireWhole(parameter);
  const Entry& entry = entries_[parameter];
  const Index width = parameters_[parameter].rowSize();
  if (entry.dense.data()) {
    std::copy_n(entry.dense.data() + first * width, count * width, out);
    return;
  }
  std::fill_n(out, count * width, 0.0f);
  if (!entry.by_rows) return;
  for (Index row = first; row < first + count; ++row) {
    if (const float* values = entry.rows.find(row, width)) std::copy_n(values, width, out + (row - first) * width);
  }
}

void ParameterGradients::add(size_t parameter, Index first, Index count, const float* rows) {
  const Index width = parameters_[parameter].rowSize();
  if (entries_[parameter].by_rows) {
    const auto for_each_row = [&](const auto& f) {
      for (Index r = 0; r < count; ++r) {
        const ConstMatrixView from = heed::view(rows + r * width, 1, width);
        if (!(from.array() == 0).all()) f(row({parameter, 0, 0}, first + r), from);
      }
    };
    // Allocates all rows before it adds to any of them.
    for_each_row([](float*, const ConstMatrixView&) {});
    for_each_row([width](float* to, const ConstMatrixView& from) { heed::view(to, 1, width) += from; });
    entries_[parameter].present = true;
    return;
  }
  dense({parameter, first, count}) += heed::view(rows, count, width);
}

void ParameterGradients::scale(size_t parameter, float factor) {
  Entry& entry = entries_[parameter];
  if (entry.dense.data()) scaleBy(factor, entry.dense.rows() * entry.dense.cols(), entry.dense.data());
  scaleBy(factor, static_cast<Index>(entry.rows.values.size()), entry.rows.values.data());
}

double ParameterGradients::sumOfSquares(size_t parameter) const {
  const Entry& entry = entries_[parameter];
  if (!entry.required || !entry.present) return 0;
  requireWhole(parameter);
  double sum = 0;
  if (entry.dense.data()) sum += squaresOf(entry.dense.rows() * entry.dense.cols(), entry.dense.data());
  return sum + squaresOf(static_cast<Index>(entry.rows.values.size()), entry.rows.values.data());
}

void ParameterGradients::zero(size_t parameter) {
  Entry& entry = entries_[parameter];
  entry.present = entry.is_partial = false;
  entry.dense = Matrix();
  // The order of rows determines how sums over them are rounded. It must not depend on earlier steps, because a resumed
  // run would then differ.
  entry.rows.slots.clear();
  entry.rows.order.clear();
  entry.rows.values.clear();
}

void ParameterGradients::zero() {
  for (size_t i = 0; i < entries_.size(); ++i) zero(i);
}

void ParameterGradients::reach(size_t parameter, uint64_t pass) {
  Entry& entry = entries_[parameter];
  if (entry.pass == pass) return;
  entry.pass = pass;
  entry.was_present = entry.present;
}

void ParameterGradients::abandon(uint64_t pass) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (entry.pass != pass) continue;
    if (entry.was_present)
      entry.is_partial = true;
    else
      zero(i);
  }
}

void ParameterGradients::requireWhole(size_t parameter) const {
  if (!entries_[parameter].is_partial) return;
  throw Error(ErrorCode::kInvalidArgument,
              parameters_[parameter].name +
                  ": a backward pass has failed, so the gradient is incomplete. Call zeroGrad() and "
                  "run the passes again");
}

}  // namespace heed::train
