#pragma once

#include <vector>

#include "heed/evaluator.h"
#include "heed/module.h"

namespace heed {

/// A parameter that belongs to no layer (torch.nn.Parameter). Its name is empty: that of the module is its own.
class FreeParameter final : public Module {
 public:
  FreeParameter(Shape shape, InitialValue initial);
  /// The value, one row of the parameter per row; vectors have one column.
  Value forward(Evaluator& e) const;
  const Shape& shape() const { return shape_; }

 private:
  std::vector<Parameter> ownParameters() override;

  Shape shape_;
  InitialValue initial_;
  std::vector<float> values_;
};

}  // namespace heed
