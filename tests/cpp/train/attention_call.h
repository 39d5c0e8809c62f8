#pragma once

#include <cmath>

#include "dropout_row.h"
#include "gradients.h"
#include "heed/attention.h"
#include "heed/train/recording_evaluator.h"
#include "ops/reference.h"

/// One call of attention in training and by its formula, and the comparison of their gradients.
namespace heed::test {

using train::Backward;
using train::Graph;
using train::RecordingEvaluator;
using train::Variable;

/// The inputs of attention that can have a gradient.
template <class Values>
struct Inputs {
  Values query, key, value;
  Values mask, key_mask;  // additive: (N, L) rows of S entries each, (N, S); empty: none
  Values bias, head_mask;
  Values position_key = {}, position_query = {};  // (C, H Dk)
};

struct Call {
  Sequences queries, keys;
  Index heads;
  std::shared_ptr<const std::vector<uint8_t>> allowed;  // (N, H, L, S), or null
  bool causal = false;
  std::optional<Index> window = {};
  float dropout = 0;
  DropoutKey dropout_key{17, 3};
  Index first_sequence = 0;
  Index key_heads = 0;                                  // 0: heads
  std::shared_ptr<const std::vector<Index>> rows = {};  // of positions, or null

  Index keyHeads() const { return key_heads == 0 ? heads : key_heads; }
  Index longest() const { return queries.maxLength(); }
  Index width() const { return keys.maxLength(); }
};

/// The formula in double precision, head by head and sequence by sequence.
inline DoubleMatrix reference(const Call& call, const Inputs<DoubleMatrix>& in) {
  const Index heads = call.heads, dk = in.query.cols() / heads, dv = in.value.cols() / call.keyHeads();
  const double scale = 1 / std::sqrt(double(dk));
  DoubleMatrix output(in.query.rows(), heads * dv);
  for (Index n = 0; n < call.queries.count(); ++n) {
    const Index l = call.queries.length(n), s = call.keys.length(n);
    for (Index h = 0; h < heads; ++h) {
      const Index key_head = h * call.keyHeads() / heads;
      const DoubleMatrix q = in.query.block(call.queries.begin(n), h * dk, l, dk),
                         k = in.key.block(call.keys.begin(n), key_head * dk, s, dk),
                         v = in.value.block(call.keys.begin(n), key_head * dv, s, dv);
      DoubleMatrix added = reference::causalAndWindow(l, s, call.causal, call.window.value_or(-1), 0);
      DoubleMatrix kept = DoubleMatrix::Ones(l, s);
      for (Index i = 0; i < l; ++i) {
        DropoutRow draws(call.dropout_key, call.first_sequence + n, h, i);
        for (Index j = 0; j < s; ++j) {
          const auto at = static_cast<size_t>(((n * heads + h) * call.longest() + i) * call.width() + j);
          if (call.allowed && !(*call.allowed)[at]) added(i, j) = reference::kForbidden;
          if (in.mask.size()) added(i, j) += in.mask(n * call.longest() + i, j);
          if (in.key_mask.size()) added(i, j) += in.key_mask(n, j);
          const Index most = in.bias.cols() / 2;
          if (in.bias.size()) added(i, j) += in.bias(h, most + std::clamp(j - i, -most, most));
          if (call.rows) {
            const Index far = static_cast<Index>(call.rows->size()) / 2;
            const Index r = (*call.rows)[static_cast<size_t>(far + std::clamp(i - j, -far, far))];
            added(i, j) += scale * (q.row(i).dot(in.position_key.row(r).segment(h * dk, dk)) +
                                    k.row(j).dot(in.position_query.row(r).segment(h * dk, dk)));
          }
          if (call.dropout > 0) kept(i, j) = draws.drops(j, call.dropout) ? 0 : 1 / (1 - double(call.dropout));
        }
      }
      const DoubleMatrix weights = reference::attention(q, k, v, scale, added).weights;
      const double factor = in.head_mask.size() ? in.head_mask(in.head_mask.rows() > 1 ? n : 0, h) : 1;
      output.block(call.queries.begin(n), h * dv, l, dv) = factor * weights.cwiseProduct(kept) * v;
    }
  }
  return output;
}

/// The same call in training.
struct Recorded {
  Recorded(Graph& graph, const Call& call, const Inputs<RowMajorMatrix>& in, float* weights = nullptr) {
    const auto variable = [&](const RowMajorMatrix& m) { return m.size() ? leaf(graph, m) : Variable(); };
    leaves = {variable(in.query),     variable(in.key),          variable(in.value),
              variable(in.mask),      variable(in.key_mask),     variable(in.bias),
              variable(in.head_mask), variable(in.position_key), variable(in.position_query)};
    RecordingEvaluator e(graph);
    AttentionOptions options;
    options.key_heads = call.key_heads;
    DisentangledPositions positions;
    if (call.rows) {
      positions = {.key = e.value(leaves.position_key),
                   .query = e.value(leaves.position_query),
                   .max_distance = static_cast<Index>(call.rows->size()) / 2,
                   .rows = call.rows->data()};
      options.positions = &positions;
    }
    options.causal = call.causal;
    options.window = call.window;
    options.dropout = call.dropout;
    options.dropout_key = call.dropout_key;
    options.bias = e.value(leaves.bias);
    options.head_mask = e.value(leaves.head_mask);
    const Index n = call.queries.count(), l = call.longest(), s = call.width();
    std::vector<MaskTensor> masks;
    if (call.allowed) masks.push_back({"mask", Mask::Kind::kBoolean, call.allowed->data(), {n, call.heads, l, s}});
    const auto added = [&](const char* name, const Variable& mask, const Shape& shape, bool per_key) {
      if (!mask) return;
      const Value value = e.value(mask);
      masks.push_back({name, Mask::Kind::kAdditive, value.data(), shape, per_key, value});
    };
    added("mask", leaves.mask, {n, 1, l, s}, false);
    added("keyMask", leaves.key_mask, {n, s}, true);
    options.masks = masks;
    graph.context().random.first_sequence = call.first_sequence;
    const Value result =
        e.attention({e.value(leaves.query), e.value(leaves.key), e.value(leaves.value), call.queries, call.keys},
                    call.heads, options, weights);
    output = e.variable(result);
  }

  Inputs<Variable> leaves;
  Variable output;
};

inline Inputs<RowMajorMatrix> randomInputs(const Call& call, Index dk, Index dv) {
  Inputs<RowMajorMatrix> in;
  in.query = 2 * randomMatrix(call.queries.totalRows(), call.heads * dk, 1);
  in.key = 2 * randomMatrix(call.keys.totalRows(), call.keyHeads() * dk, 2);
  in.value = randomMatrix(call.keys.totalRows(), call.keyHeads() * dv, 3);
  return in;
}

inline Inputs<DoubleMatrix> inDouble(const Inputs<RowMajorMatrix>& in) {
  const auto wide = [](const RowMajorMatrix& m) -> DoubleMatrix { return m.cast<double>(); };
  return {wide(in.query), wide(in.key),       wide(in.value),        wide(in.mask),          wide(in.key_mask),
          wide(in.bias),  wide(in.head_mask), wide(in.position_key), wide(in.position_query)};
}

/// Compares the output with the formula and all gradients with central differences.
inline void expectAttentionGradients(const Call& call, const Inputs<RowMajorMatrix>& in) {
  Context context;
  Graph graph(context);
  const Recorded recorded(graph, call, in);
  const RowMajorMatrix cotangent = randomMatrix(recorded.output.rows(), recorded.output.cols(), 9);
  Backward::run(graph, recorded.output, window(cotangent));
  const Inputs<DoubleMatrix> wide = inDouble(in);
  expectNear(recorded.output.value(), reference(call, wide).cast<float>());
  for (const auto& [name, member, values] :
       {std::tuple{"query", &Inputs<Variable>::query, &Inputs<DoubleMatrix>::query},
        {"key", &Inputs<Variable>::key, &Inputs<DoubleMatrix>::key},
        {"value", &Inputs<Variable>::value, &Inputs<DoubleMatrix>::value},
        {"mask", &Inputs<Variable>::mask, &Inputs<DoubleMatrix>::mask},
        {"keyMask", &Inputs<Variable>::key_mask, &Inputs<DoubleMatrix>::key_mask},
        {"bias", &Inputs<Variable>::bias, &Inputs<DoubleMatrix>::bias},
        {"headMask", &Inputs<Variable>::head_mask, &Inputs<DoubleMatrix>::head_mask},
        {"positions.key", &Inputs<Variable>::position_key, &Inputs<DoubleMatrix>::position_key},
        {"positions.query", &Inputs<Variable>::position_query, &Inputs<DoubleMatrix>::position_query}}) {
    SCOPED_TRACE(name);
    if (!(recorded.leaves.*member)) continue;
    const auto forward = [&, input = values](const DoubleMatrix& moved) {
      Inputs<DoubleMatrix> changed = wide;
      changed.*input = moved;
      return reference(call, changed);
    };
    expectNear(gradientOf(recorded.leaves.*member),
               numericalGradient(forward, wide.*values, cotangent.cast<double>()).cast<float>());
  }
}

}  // namespace heed::test
