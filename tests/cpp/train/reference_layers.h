#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "dropout_row.h"
#include "gradients.h"
#include "heed/decoder.h"
#include "heed/train/recording_evaluator.h"
#include "ops/reference.h"

/// The layers in double precision, composed of the formulas of ops/reference.h, and the check of their gradients.
namespace heed::test {

/// Parameters and inputs by name.
using Values = std::map<std::string, DoubleMatrix>;

/// Looks up the parameters of one module in those of the module that contains it.
struct Scope {
  const Values& values;
  std::string prefix;

  Scope in(const std::string& child) const { return {values, prefix + child + "."}; }
  bool has(const std::string& name) const { return values.count(prefix + name) > 0; }
  const DoubleMatrix& operator[](const std::string& name) const { return values.at(prefix + name); }
};

inline DoubleMatrix linear(const Scope& p, const DoubleMatrix& x) {
  const DoubleMatrix& w = p["weight"];
  return reference::linear(
      x, w, p.has("bias") ? reference::RowVector(p["bias"].transpose()) : reference::RowVector::Zero(w.rows()));
}

inline DoubleMatrix layerNorm(const Scope& p, const DoubleMatrix& x, float eps) {
  return reference::layerNorm(
      x, p["weight"].transpose(),
      p.has("bias") ? reference::RowVector(p["bias"].transpose()) : reference::RowVector::Zero(x.cols()),
      static_cast<double>(eps));
}

inline DoubleMatrix activate(const DoubleMatrix& x, Activation activation) {
  switch (activation) {
    case Activation::kIdentity:
      return x;
    case Activation::kRelu:
      return x.unaryExpr(&reference::relu);
    case Activation::kGelu:
      return x.unaryExpr(&reference::gelu);
    case Activation::kGeluTanh:
      return x.unaryExpr(&reference::geluTanh);
    case Activation::kTanh:
      return x.unaryExpr(&reference::tanh);
    case Activation::kSigmoid:
      return x.unaryExpr(&reference::sigmoid);
    case Activation::kSilu:
      return x.unaryExpr(&reference::silu);
    case Activation::kQuickGelu:
      return x.unaryExpr(&reference::quickGelu);
    case Activation::kGelu10:
      return x.unaryExpr(&reference::gelu10);
    case Activation::kRelu6:
      return x.unaryExpr(&reference::relu6);
    case Activation::kRelu2:
      return x.unaryExpr(&reference::relu2);
    case Activation::kLeakyRelu:
      return x.unaryExpr(&reference::leakyRelu);
    case Activation::kHardswish:
      return x.unaryExpr(&reference::hardswish);
    case Activation::kMish:
      return x.unaryExpr(&reference::mish);
    case Activation::kLaplace:
      return x.unaryExpr(&reference::laplace);
  }
  throw std::out_of_range("activation");
}

/// A dropout whose draws are known, or none.
using Draws = std::optional<DropoutKey>;

inline DoubleMatrix dropout(const DoubleMatrix& x, const Draws& key, float p, Index sequence = 0, Index head = 0) {
  if (!key) return x;
  DoubleMatrix kept(x.rows(), x.cols());
  for (Index i = 0; i < x.rows(); ++i) {
    DropoutRow draws(*key, sequence, head, i);
    for (Index j = 0; j < x.cols(); ++j) kept(i, j) = draws.drops(j, p) ? 0 : 1;
  }
  return reference::dropout(x, kept, static_cast<double>(p));
}

/// The key of the call after the next one. Also advances the layer by one call, so that the next call will use this
/// key.
inline Draws nextDraws(Dropout& layer) {
  if (!layer.active()) return {};
  const DropoutKey key = layer.nextKey();
  return DropoutKey{key.seed, key.step + 1};
}

struct AttentionCase {
  bool causal = false;
  Index rotary_dim = 0;      // of each head, base 10000; 0: none
  DoubleMatrix head_mask{};  // (1, H), or empty
  Draws draws{};
};

inline DoubleMatrix multiHeadAttention(const Scope& p, const MultiHeadAttentionOptions& o, const DoubleMatrix& query,
                                       const DoubleMatrix& key, const DoubleMatrix& value, const Sequences& queries,
                                       const Sequences& keys, const AttentionCase& call = {}) {
  const Index heads = o.num_heads, dk = o.key_dim, dv = o.value_dim;
  const auto projected = [&](const DoubleMatrix& x, Index which, const char* name) -> DoubleMatrix {
    const Index width = heads * (which == 2 ? dv : dk);
    const DoubleMatrix w =
        p.has("in_proj_weight") ? DoubleMatrix(p["in_proj_weight"].middleRows(which * width, width)) : p[name];
    reference::RowVector b = reference::RowVector::Zero(width);
    if (p.has("in_proj_bias")) b = p["in_proj_bias"].middleRows(which * heads * dk, width).transpose();
    const Activation activations[] = {o.query_activation, o.key_activation, o.value_activation};
    return activate(reference::linear(x, w, b), activations[which]);
  };
  DoubleMatrix q = projected(query, 0, "q_proj_weight"), k = projected(key, 1, "k_proj_weight"),
               v = projected(value, 2, "v_proj_weight"), joined(query.rows(), heads * dv);
  for (Index n = 0; n < queries.count(); ++n) {
    const Index l = queries.length(n), s = keys.length(n);
    for (Index h = 0; h < heads; ++h) {
      auto qh = q.block(queries.begin(n), h * dk, l, dk), kh = k.block(keys.begin(n), h * dk, s, dk);
      for (auto* x : {&qh, &kh}) {
        if (call.rotary_dim)
          x->leftCols(call.rotary_dim) = reference::rotary(x->leftCols(call.rotary_dim), 0, 10000).eval();
      }
      const DoubleMatrix vh = v.block(keys.begin(n), h * dv, s, dv);
      const DoubleMatrix weights = reference::attention(qh, kh, vh, 1 / std::sqrt(static_cast<double>(dk)),
                                                        reference::causalAndWindow(l, s, call.causal, -1, 0))
                                       .weights;
      joined.block(queries.begin(n), h * dv, l, dv) =
          (call.head_mask.size() ? call.head_mask(0, h) : 1) * dropout(weights, call.draws, o.dropout, n, h) * vh;
    }
  }
  return linear(p.in("out_proj"), joined);
}

inline DoubleMatrix feedForward(const Scope& p, const FeedForwardOptions& o, const DoubleMatrix& x,
                                const Draws& draws = {}) {
  DoubleMatrix hidden = linear(p.in("linear1"), x);
  if (o.gated) {
    hidden = activate(hidden.leftCols(o.feed_forward_dim), o.activation)
                 .cwiseProduct(DoubleMatrix(hidden.rightCols(o.feed_forward_dim)))
                 .eval();
  } else {
    hidden = activate(hidden, o.activation);
  }
  return linear(p.in("linear2"), dropout(hidden, draws, o.dropout));
}

/// Residual connections and norms around blocks, post- or pre-norm.
class Blocks {
 public:
  Blocks(const Scope& p, const EncoderLayerOptions& o) : p_(p), o_(o) {}

  template <class Block>
  DoubleMatrix operator()(const char* norm, const DoubleMatrix& x, const Draws& draws, const Block& block) const {
    const auto normed = [&](const DoubleMatrix& y) {
      return p_.has(std::string(norm) + ".weight") ? layerNorm(p_.in(norm), y, o_.norm.eps) : y;
    };
    if (o_.norm_first) return x + dropout(block(normed(x)), draws, o_.dropout);
    return normed(x + dropout(block(x), draws, o_.dropout));
  }

 private:
  const Scope& p_;
  const EncoderLayerOptions& o_;
};

/// The draws of all dropouts of a layer's next call.
struct LayerDraws {
  Draws hidden{}, block1{}, block2{}, block3{};
};

inline DoubleMatrix encoderLayer(const Scope& p, EncoderLayer& layer, const DoubleMatrix& x, const Sequences& sequences,
                                 const AttentionCase& call = {}, const LayerDraws& draws = {}) {
  const Blocks block(p, layer.options());
  const DoubleMatrix attended = block("norm1", x, draws.block1, [&](const DoubleMatrix& in) {
    return multiHeadAttention(p.in("self_attn"), layer.selfAttention().options(), in, in, in, sequences, sequences,
                              call);
  });
  return block("norm2", attended, draws.block2,
               [&](const DoubleMatrix& in) { return feedForward(p, layer.feedForward().options(), in, draws.hidden); });
}

/// `calls` has the options of each layer.
inline DoubleMatrix encoder(const Scope& p, Encoder& layers, const DoubleMatrix& x, const Sequences& sequences,
                            const std::vector<AttentionCase>& calls) {
  DoubleMatrix y = x;
  for (Index i = 0; i < layers.numLayers(); ++i)
    y = encoderLayer(p.in("layers." + std::to_string(i)), layers.layer(i), y, sequences, calls[static_cast<size_t>(i)]);
  return layers.finalNorm() ? layerNorm(p.in("norm"), y, layers.finalNorm()->options().eps) : y;
}

inline DoubleMatrix decoderLayer(const Scope& p, DecoderLayer& layer, const DoubleMatrix& target,
                                 const DoubleMatrix& memory, const Sequences& targets, const Sequences& memories,
                                 const AttentionCase& self = {}, const AttentionCase& cross = {},
                                 const LayerDraws& draws = {}) {
  const Blocks block(p, layer.options());
  const DoubleMatrix attended = block("norm1", target, draws.block1, [&](const DoubleMatrix& in) {
    return multiHeadAttention(p.in("self_attn"), layer.selfAttention().options(), in, in, in, targets, targets, self);
  });
  const DoubleMatrix crossed = block("norm2", attended, draws.block2, [&](const DoubleMatrix& in) {
    return multiHeadAttention(p.in("multihead_attn"), layer.crossAttention().options(), in, memory, memory, targets,
                              memories, cross);
  });
  return block("norm3", crossed, draws.block3,
               [&](const DoubleMatrix& in) { return feedForward(p, layer.feedForward().options(), in, draws.hidden); });
}

inline DoubleMatrix decoder(const Scope& p, Decoder& layers, const DoubleMatrix& target, const DoubleMatrix& memory,
                            const Sequences& targets, const Sequences& memories, const AttentionCase& self) {
  DoubleMatrix y = target;
  for (Index i = 0; i < layers.numLayers(); ++i)
    y = decoderLayer(p.in("layers." + std::to_string(i)), layers.layer(i), y, memory, targets, memories, self);
  return layers.finalNorm() ? layerNorm(p.in("norm"), y, layers.finalNorm()->options().eps) : y;
}

/// One forward pass of a module in training. Inputs are named leaves, which expectGradients() checks like parameters.
class Recording {
 public:
  explicit Recording(Module& module) : graph(context), module_(module), gradients_(module) { graph.add(gradients_); }

  const train::Variable& input(const std::string& name, const RowMajorMatrix& value) {
    return inputs_[name] = leaf(graph, value);
  }
  /// The value of a new input.
  Value operator()(const std::string& name, const RowMajorMatrix& value) { return e.value(input(name, value)); }

  /// Expects `output` to equal `forward` of the parameters and inputs, and its gradients to equal central differences.
  /// Every parameter must have a gradient that is not 0.
  void expectGradients(const Value& output, const std::function<DoubleMatrix(const Values&)>& forward) {
    expectGradients(e.variable(output), forward);
  }
  void expectGradients(const train::Variable& output, const std::function<DoubleMatrix(const Values&)>& forward) {
    const RowMajorMatrix cotangent = randomMatrix(output.rows(), output.cols(), 99);
    Values values;
    for (const Parameter& p : module_.parameters()) values[p.name] = read(module_, p.name).cast<double>();
    for (const auto& [name, variable] : inputs_) values[name] = variable.value().cast<double>();
    expectNear(output.value(), forward(values).cast<float>());
    train::Backward::run(graph, output, window(cotangent));
    for (const auto& [name, value] : Values(values)) {
      SCOPED_TRACE(name);
      const auto moved = [&, &key = name](const DoubleMatrix& m) {
        values[key] = m;
        return forward(values);
      };
      const DoubleMatrix expected = numericalGradient(moved, value, cotangent.cast<double>());
      values[name] = value;
      const auto found = inputs_.find(name);
      const RowMajorMatrix got = found == inputs_.end() ? gradientOf(gradients_, name) : gradientOf(found->second);
      expectNear(got, expected.cast<float>());
      EXPECT_TRUE((got.array() != 0).any());
    }
  }

  Context context;
  train::Graph graph;
  train::RecordingEvaluator e{graph};

 private:
  Module& module_;
  train::ParameterGradients gradients_;
  std::map<std::string, train::Variable> inputs_;
};

}  // namespace heed::test
