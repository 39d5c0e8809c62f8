#include "heed/feed_forward.h"

#include "core/check.h"
#include "heed/evaluator.h"

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

Value FeedForward::forward(Evaluator& e, const Value& x, const Value* residual) {
  Value hidden = linear1_.forward(e, x);
  if (options_.gated) hidden = e.gate(hidden, options_.activation, options_.gate_second);
  hidden = e.at(Site::kHidden, hidden);
  return linear2_.forward(e, dropout_.forward(e, hidden), residual, true);
}

}  // namespace heed
