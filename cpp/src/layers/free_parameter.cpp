#include "heed/free_parameter.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"

namespace heed {

FreeParameter::FreeParameter(Shape shape, InitialValue initial) : shape_(std::move(shape)), initial_(initial) {
  allocate("Parameter", shape_, values_);
}

Value FreeParameter::forward(Evaluator& e) const {
  const Index rows = shape_.rank() == 0 ? 1 : shape_[0];
  auto* indices = e.context().arena.take<Index>(rows);
  std::iota(indices, indices + rows, Index{0});
  const TableRows table{.storage = nullptr, .plain = values_.data(), .rows = {indices, static_cast<size_t>(rows)}};
  return e.lookUp({&table, 1}, static_cast<Index>(values_.size()) / std::max<Index>(rows, 1));
}

std::vector<Parameter> FreeParameter::ownParameters() {
  return {plainParameter("", shape_, values_.data(), ParameterKind::kWeight, initial_)};
}

}  // namespace heed
