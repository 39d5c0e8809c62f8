#include "heed/dropout.h"

#include "core/check.h"
#include "heed/evaluator.h"

namespace heed {

Dropout::Dropout(const DropoutOptions& options) : options_(options) { requireRate("p", options.p); }

Value Dropout::forward(Evaluator& e, const Value& x, Index first_column) {
  return active() ? e.dropout(x, options_, nextKey(), first_column) : x;
}

}  // namespace heed
