/// y_t = x_t + e_i or [x_t, e_i], where i is the position of row t in its sequence and e_i is row i of the table. dx_t
/// is dy_t or its first columns; de_i is the sum of dy_t or its last columns over the rows t with position i.
#include "heed/positional_encoding.h"
#include "heed/train/ops.h"
#include "ops/vectors.h"
#include "train/ops/sums.h"

namespace heed::train {

Variable positionalEncoding(Graph& graph, const PositionalEncoding& layer, const Variable& x,
                            const Sequences& sequences) {
  Matrix y(x.rows(), layer.outputWidth(x.cols()));
  layer.forward(x.value(), sequences, y.view());
  const bool concatenates = layer.options().mode == PositionalEncodingOptions::Mode::kConcat;
  // Sinusoids are not parameters, so their table never requires a gradient.
  return graph.record(std::move(y), {x}, graph.requiresGradient(layer.table()),
                      [&layer, node = x.node(), sequences, concatenates](Matrix& dy, Backward& pass) {
                        const Index width = layer.options().embed_dim, first = dy.cols() - width;
                        pass.addToParameter(layer.table(), [&](MatrixView de, Index) {
                          RowSum sum(width);
                          for (Index i = 0, longest = sequences.maxLength(); i < longest; ++i) {
                            for (Index n = 0; n < sequences.count(); ++n) {
                              if (i < sequences.length(n))
                                sum.add(dy.data() + (sequences.begin(n) + i) * dy.cols() + first);
                            }
                            sum.addTo(de.data() + i * width);
                          }
                        });
                        if (!concatenates) return pass.give(node, std::move(dy));
                        pass.addValue(node, dy.values().leftCols(first));
                      });
}

}  // namespace heed::train
