#include "heed/feed_forward.h"

#include "core/check.h"
#include "core/row_parts.h"

namespace heed {
namespace {

FeedForwardOptions checked(const FeedForwardOptions& options) {
  requireAtLeast("embedDim", options.embed_dim, 1);
  requireAtLeast("feedForwardDim", options.feed_forward_dim, 1);
  requireRoom("linear1.weight", {options.gated ? 2 : 1, options.feed_forward_dim, options.embed_dim});
  requireRate("dropout", options.dropout);
  return options;
}

}  // namespace

FeedForward::FeedForward(const FeedForwardOptions& options)
    : options_(checked(options)),
      linear1_({.in_features = options.embed_dim,
                .out_features = (options.gated ? 2 : 1) * options.feed_forward_dim,
                .bias = options.bias && options.linear1_bias,
                .activation = options.gated ? Activation::kIdentity : options.activation,
                .precision = options.precision}),
      linear2_({.in_features = options.feed_forward_dim,
                .out_features = options.embed_dim,
                .bias = options.bias,
                .precision = options.precision}),
      dropout_({.p = options.dropout}) {}

void FeedForward::forward(ConstMatrixView x, MatrixView output, Context& context, const ConstMatrixView* residual) {
  const Arena::Scope scope(context.arena);
  const Index width = options_.feed_forward_dim;
  MatrixView hidden = context.arena.matrix(x.rows(), linear1_.options().out_features);
  linear1_.forward(x, hidden, context);
  MatrixView inner = view(hidden.data(), x.rows(), width, hidden.outerStride());
  if (options_.gated) {
    forRowParts(x.rows(), width, context, [&](Index begin, Index end) {
      MatrixView left = rowsOf(inner, begin, end);
      MatrixView right = view(left.data() + width, left.rows(), width, left.outerStride());
      activate(options_.gate_second ? right : left, options_.activation);
      left.array() *= right.array();
    });
  }
  dropout_.forward(readOnly(inner), inner, context);
  linear2_.forward(readOnly(inner), output, context, residual);
}

}  // namespace heed
