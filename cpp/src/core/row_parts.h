#pragma once

#include <algorithm>

#include "heed/context.h"

namespace heed {

/// Divides `rows` rows of `width` values into parts and calls f(begin, end) for each. There is one part per thread, or
/// fewer if waking a thread would take longer than its part.
template <class F>
void forRowParts(Index rows, Index width, Context& context, const F& f) {
  constexpr Index kLeastValues = 1 << 13;
  const Index parts = std::clamp<Index>(rows * width / kLeastValues, 1, context.executor.threads());
  context.executor.run(parts, context,
                       [&](Index i, Context&) { f(evenPart(rows, parts, i), evenPart(rows, parts, i + 1)); });
}

/// Rows [begin, end) of a matrix.
template <class View>
View rowsOf(View all, Index begin, Index end) {
  return view(all.data() + begin * all.outerStride(), end - begin, all.cols(), all.outerStride());
}

/// Rows [begin, end) of the columns of head h. Empty ranges have the address of `all`, because their own address could
/// be out of bounds.
template <class View>
View headRows(View all, Index begin, Index end, Index h, Index width) {
  const Index offset = begin < end ? begin * all.outerStride() + h * width : 0;
  return view(all.data() + offset, end - begin, width, all.outerStride());
}

}  // namespace heed
